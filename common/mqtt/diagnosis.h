/* Why TLS with a broker does not come about: found out by a connection of our own, since Paho 1.3.12 says no more than that it failed.
 *
 * A broker that does not accept a client's certificate says why in a TLS alert, which Paho drops. With TLS 1.3 that alert comes when the
 * client believes itself connected already. So after an attempt that failed without a word, this goes through the same steps by itself:
 * own files, connection, handshake, and a moment of waiting for an alert. It says nothing else on the connection. Nothing secret is in its
 * texts: names of files, names in certificates, dates.
 *
 * Blocking; for the link's thread, or any other that may wait.
 */
#ifndef COMMON_MQTT_DIAGNOSIS_H
#define COMMON_MQTT_DIAGNOSIS_H

#include <netdb.h>
#include <stddef.h>

struct diagnosis {
	const char *label;                          /* host and port, for texts */
	const char *host;                           /* as configured: the broker's certificate has to be for it */
	const struct addrinfo *address;             /* where to connect, port included */
	const char *ca_file, *cert_file, *key_file; /* as in struct mqtt_config */
};

/* One line, to be freed; NULL if TLS works. Takes at most DIAGNOSIS_MS for each of connection, handshake and alert. */
enum { DIAGNOSIS_MS = 3000 };
char *diagnosis_run(const struct diagnosis *d);

/* The common name in the first certificate of a PEM file, to be freed; NULL if there is none. *days: until it ends, by this machine's clock;
 * below 0 if it has ended, INT_MAX if there is none. */
char *diagnosis_certificate(const char *cert_file, int *days);

#endif
