/* The authority of devices: what proves a request, and the certificate that answers it.
 *
 * Two files: certificates (the first that fits the key signs; all of them are believed at renewals, so that an authority can be exchanged), and
 * the key. Of a request counts its public key alone: names, extensions and whatever else it asks for are not taken over. A certificate: CN = node,
 * for TLS clients and nothing else, a random serial number, from a little before now (clocks differ) to the end of its lifetime or of the
 * authority. Loop thread.
 */
#ifndef ENROLMENT_AUTHORITY_H
#define ENROLMENT_AUTHORITY_H

#include <openssl/x509.h>
#include <stdint.h>

#include "cloud-agent/enrolment/request.h"
#include "common/buf.h"
#include "common/digest.h"

enum { AUTHORITY_CERTIFICATES_MAX = 16, AUTHORITY_BEFORE_MS = 5 * 60 * 1000 };

typedef struct authority authority;

/* `certificates` and `key` are PEM texts; NULL with *err if they do not make an authority that can sign. */
authority *authority_new(const char *certificates, size_t certificates_len, const char *key, size_t key_len, error *err);
void authority_free(authority *a);
const char *authority_name(const authority *a); /* of the one that signs, for logs */
int64_t authority_ends_ms(const authority *a);

/* The request's key: strong enough, proven by the request's own signature, and under no other name than the node's. INVALID with what is wrong. */
int authority_request(const enrol_request *r, X509_REQ **out, char key[DIGEST_HEX_SIZE], error *err);
/* By certificate: 0, or DENIED with what is wrong: it is none of ours, out of its time, of another name, not for clients, or its key has not signed
 * this request. */
int authority_prove(const authority *a, const enrol_request *r, int64_t now_ms, error *err);

typedef struct authority_issued {
	buf pem; /* with the authorities between it and a root, if there are any */
	int64_t ends_ms;
	char serial[48]; /* hex */
} authority_issued;

/* 0, or INTERNAL; DENIED if the authority itself is out of its time. */
int authority_sign(const authority *a, X509_REQ *request, const char *node, int64_t now_ms, int64_t lifetime_ms, authority_issued *out,
	error *err);

#endif
