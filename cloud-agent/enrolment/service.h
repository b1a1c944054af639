/* The enrolment endpoint: POST /enrolment/v1/node over TLS, answered with a certificate or a reason. It does what the judge says and asks the API
 * server what the judge wants to know; every replica of the agent serves it, whoever leads.
 *
 * Bounds: requests at a time, and a second in all and of each address (429; crowd.h), the body (413), connections and times (common/http/server.h). In the log: each
 * certificate, and each refusal with the name that was claimed and the client's address; no token, no key. Loop thread.
 */
#ifndef ENROLMENT_SERVICE_H
#define ENROLMENT_SERVICE_H

#include <stdint.h>
#include <uv.h>

#include "cloud-agent/cluster/cluster.h"
#include "common/error.h"

enum { ENROLMENT_UNDER_WAY_MAX = 64 };

/* As in options.h. */
typedef struct enrolment_options {
	int64_t port; /* -1: none */
	char *host, *cert_file, *key_file;
	char *authority_cert, *authority_key;
	char *account, *prefix; /* "namespace:name"; NULL: none */
	char *denied, *reserved;
	int64_t lifetime_ms;
} enrolment_options;

typedef struct enrolment_counters {
	int64_t issued, refused;
} enrolment_counters;

typedef struct enrolment enrolment;

/* `asked` is one of Kubernetes, already started. The options have been checked, and must outlive it. Errors: what is wrong with the files, or with
 * the address. */
int enrolment_start(uv_loop_t *loop, const enrolment_options *options, cluster *asked, enrolment **out, error *err);
/* Before the cluster is stopped. What is under way gets no answer but 503; frees itself once its handles are closed. NULL is fine. */
void enrolment_stop(enrolment *e);
void enrolment_count(const enrolment *e, enrolment_counters *out); /* e NULL: zeros */
int enrolment_port(const enrolment *e);

#endif
