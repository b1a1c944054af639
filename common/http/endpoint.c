/* Addresses and urls: see endpoint.h. What passes here is joined with a path and given to workers, so nothing odd may be in it. */
#include "common/http/endpoint.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_MAX = 253, PORT_DIGITS = 5, PORT_MAX = 65535 };

bool endpoint_host_valid(const char *host)
{
	struct in6_addr address;

	return host && (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1);
}

bool endpoint_host_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Behind what can be a host; NULL if there is none. */
static const char *skip_host(const char *p)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;
	size_t n;

	if (*p == '[') {
		n = strcspn(p + 1, "]");
		if (n >= sizeof text || p[1 + n] != ']')
			return NULL;
		memcpy(text, p + 1, n);
		text[n] = 0;
		return inet_pton(AF_INET6, text, &address) == 1 ? p + n + 2 : NULL;
	}
	for (n = 0; isalnum((unsigned char)p[n]) || (p[n] && strchr(".-_", p[n])); n++)
		;
	return n > 0 && n <= HOST_MAX && isalnum((unsigned char)*p) ? p + n : NULL;
}

static const char *skip_port(const char *p)
{
	size_t n = strspn(p, "0123456789");
	long port = n > 0 && n <= PORT_DIGITS ? strtol(p, NULL, 10) : 0;

	return port > 0 && port <= PORT_MAX ? p + n : NULL;
}

bool endpoint_url_valid(const char *url)
{
	const char *p = NULL;

	if (url && strncmp(url, "http://", 7) == 0)
		p = skip_host(url + 7);
	else if (url && strncmp(url, "https://", 8) == 0)
		p = skip_host(url + 8);
	if (p && *p == ':')
		p = skip_port(p + 1);
	if (!p || (*p && *p != '/'))
		return false;
	for (; *p; p++)
		if (*p <= ' ' || *p >= 0x7f || strchr("?#\"<>\\^`{|}", *p))
			return false;
	return true;
}
