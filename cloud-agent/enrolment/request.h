/* What a device asks for: the body of POST /enrolment/v1/node, decoded and bounded. What it proves is for judge.h and authority.h to say.
 *
 *   {"v":1,"node":NAME,"csr":PEM,"token":TEXT}                             the first time
 *   {"v":1,"node":NAME,"csr":PEM,"certificate":PEM,"signature":BASE64}     renewal: the present certificate, and a signature over the text of
 *                                                                          `csr` by its key
 *
 * Members that are not known are passed over. Pure.
 */
#ifndef ENROLMENT_REQUEST_H
#define ENROLMENT_REQUEST_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

enum { ENROL_BODY_MAX = 16 * 1024, ENROL_PEM_MAX = 8 * 1024, ENROL_TOKEN_MIN = 16, ENROL_TOKEN_MAX = 4096, ENROL_SIGNATURE_MAX = 1024 };
/* A certificate's name has room for no more. */
enum { ENROL_NAME_MAX = 64 };

enum enrol_way { ENROL_BY_POD /* a service account's token */, ENROL_BY_TOKEN /* a one-time token */, ENROL_BY_CERTIFICATE };
const char *enrol_way_word(enum enrol_way way); /* for logs: "pod", "token", "certificate" */

typedef struct enrol_request {
	enum enrol_way way;
	const char *node, *csr;
	const char *token;       /* NULL by certificate */
	const char *certificate; /* NULL by token; then also: */
	buf signature;           /* decoded */
	cJSON *json;             /* that the texts above belong to */
} enrol_request;

/* 0, or INVALID: then there is nothing to free. *claimed (may be NULL): the name as it was given, cut to what a log takes, "" if there is none. */
int enrol_request_decode(const char *body, size_t len, enrol_request *out, char claimed[ENROL_NAME_MAX + 1], error *err);
/* Overwrites what it held. */
void enrol_request_fini(enrol_request *r);

#endif
