/* Addresses and urls as operators write them, checked before anything is started. Pure; resolves nothing. */
#ifndef COMMON_HTTP_ENDPOINT_H
#define COMMON_HTTP_ENDPOINT_H

#include <stdbool.h>

/* What a server can listen on: a numeric IPv4 or IPv6 address. NULL is none. */
bool endpoint_host_valid(const char *host);
/* Of those, one that only this machine reaches: 127.0.0.0/8 and ::1. */
bool endpoint_host_loopback(const char *host);
/* http:// or https://, a host (a name, or an address, that of IPv6 in brackets), perhaps a port and a path; no user name, query or fragment. */
bool endpoint_url_valid(const char *url);

#endif
