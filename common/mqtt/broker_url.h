/* A broker's address as users write it: tcp:// mqtt:// ssl:// mqtts://host[:port], [v6]:port for IPv6. Pure; resolves nothing. */
#ifndef COMMON_MQTT_BROKER_URL_H
#define COMMON_MQTT_BROKER_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct broker_url {
	bool tls;
	bool loopback;  /* localhost, 127.0.0.0/8 or ::1, as written: what cannot leave this machine */
	uint16_t port;  /* as given, else 1883, or 8883 with TLS */
	char host[256]; /* without brackets */
};

/* 0 or ERROR_INVALID, naming the url. A user name or a path in it is refused: the first would end up in logs, the second means nothing. */
int broker_url_parse(const char *text, struct broker_url *out, error *err);
/* The same, and ERROR_DENIED for one without TLS off this machine, unless `insecure`. */
int broker_url_check(const char *text, bool insecure, error *err);

#endif
