/* One question to the enrolment endpoint: what is sent, and whether the answer is what was asked for. */
#ifndef CERTIFICATE_REQUEST_H
#define CERTIFICATE_REQUEST_H

#include <openssl/evp.h>

#include "certificate/options.h"
#include "common/buf.h"
#include "common/error.h"

enum { ANSWER_MAX = 64 * 1024 };

typedef struct proof { /* of which node this is: a token, or a certificate with its key */
	const char *token;
	const char *certificate;
	EVP_PKEY *key;
} proof;

/* The body of a request for a certificate with this key, to be freed with file_secret_free; NULL with *err. */
char *request_body(const char *node, EVP_PKEY *key, const proof *p, error *err);
/* Sends it. 0 with an answer of status 200; DENIED: refused, with the endpoint's words; OFFLINE, TIMEOUT, LIMIT: not this time. */
int request_send(const options *o, const char *body, buf *answer, error *err);
/* The certificates of an answer, for free(): of this key, this node, for a client, and valid now by this machine's clock. NULL with *err. */
char *request_certificates(const char *answer, size_t len, const char *node, EVP_PKEY *key, error *err);

#endif
