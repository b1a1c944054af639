/* Broker addresses: see broker_url.h. */
#include "common/mqtt/broker_url.h"

#include <ctype.h>
#include <string.h>

static const struct scheme {
	const char *prefix;
	bool tls;
} schemes[] = {{"tcp://", false}, {"mqtt://", false}, {"ssl://", true}, {"mqtts://", true}};

static int parse_port(const char *text, uint16_t *out)
{
	uint32_t port = 0;

	for (const char *p = text; *p; p++) {
		if (!isdigit((unsigned char)*p) || p - text >= 5)
			return ERROR_INVALID;
		port = port * 10 + (uint32_t)(*p - '0');
	}
	if (port < 1 || port > UINT16_MAX)
		return ERROR_INVALID;
	*out = (uint16_t)port;
	return 0;
}

/* Names, IPv4 and IPv6 (with a zone), nothing else: the host ends up in a url again. */
static bool host_is_sane(const char *host)
{
	if (!*host)
		return false;
	for (const char *p = host; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-_:%", *p))
			return false;
	return true;
}

static bool host_is_loopback(const char *host)
{
	if (!strcasecmp(host, "localhost") || !strcmp(host, "::1"))
		return true;
	/* A name may begin with "127." too: only digits and dots are an address. */
	return !strncmp(host, "127.", 4) && strspn(host, "0123456789.") == strlen(host);
}

int broker_url_parse(const char *text, struct broker_url *out, error *err)
{
	const struct scheme *scheme = NULL;
	const char *host, *end, *port = "";
	size_t len;

	memset(out, 0, sizeof *out);
	if (strchr(text, '@')) /* first, so that no text below repeats a password */
		return error_set(err, ERROR_INVALID, "broker: user name and password do not belong into the url; they have keys of their own");
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes && !scheme; i++)
		if (!strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)))
			scheme = &schemes[i];
	if (!scheme)
		return error_set(err, ERROR_INVALID, "broker \"%s\": must begin with mqtt://, mqtts://, tcp:// or ssl://", text);
	host = text + strlen(scheme->prefix);
	if (*host == '[') {
		host++;
		end = strchr(host, ']');
		if (!end || (end[1] && end[1] != ':'))
			return error_set(err, ERROR_INVALID, "broker \"%s\": an IPv6 address is written [address]:port", text);
		port = end[1] ? end + 2 : NULL;
	} else {
		end = host + strcspn(host, ":");
		port = *end ? end + 1 : NULL;
	}
	len = (size_t)(end - host);
	if (len >= sizeof out->host)
		return error_set(err, ERROR_INVALID, "broker: the host name is longer than %zu characters", sizeof out->host - 1);
	memcpy(out->host, host, len);
	out->tls = scheme->tls;
	out->port = scheme->tls ? 8883 : 1883;
	if (port && parse_port(port, &out->port))
		return error_set(err, ERROR_INVALID, "broker \"%s\": the port must be a number from 1 to 65535, and the last part", text);
	if (!host_is_sane(out->host))
		return error_set(err, ERROR_INVALID, "broker \"%s\": not a host name or address", text);
	out->loopback = host_is_loopback(out->host);
	return 0;
}

int broker_url_check(const char *text, bool insecure, error *err)
{
	struct broker_url url;
	int rc = broker_url_parse(text, &url, err);

	if (rc == 0 && !url.tls && !url.loopback && !insecure)
		rc = error_set(err, ERROR_DENIED,
			"broker \"%s\": without TLS, and not on this machine: anyone on the way could read and change everything; use "
			"mqtts://, or set mqtt.insecure: true if the network is yours",
			text);
	return rc;
}
