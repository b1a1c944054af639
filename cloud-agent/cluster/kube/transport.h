/* HTTP requests to one API server: libcurl's multi interface on the loop.
 *
 * Connections are kept and shared (HTTP/2 where the server speaks it); TLS is always verified. Who we are is asked of `identity` at each
 * request, so that a token which is replaced is used at once. After a time-out the connections that were open are not used again: one that is
 * silently dead would only time out again.
 *
 * Callbacks are called from the loop, never from inside a call of this interface; `done` comes once for each request that is not cancelled.
 * In callbacks everything may be called. Loop thread.
 */
#ifndef CLUSTER_KUBE_TRANSPORT_H
#define CLUSTER_KUBE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/error.h"

/* What a request is sent with; NULL: none. PEM texts. Valid until the next call of `identity`. */
typedef struct transport_identity {
	const char *token;
	const char *ca_file, *ca; /* one or none: then the system's */
	const char *certificate_file, *certificate, *key_file, *key;
} transport_identity;

typedef struct transport_config {
	const char *server; /* "https://host:port" or "https://host/prefix", without a slash at its end */
	const char *agent;  /* User-Agent */
	/* 0, or the error of every request that would be sent now. */
	int (*identity)(void *ctx, transport_identity *out, error *err);
	void *identity_ctx;
	int64_t connect_ms;
	size_t answer_max; /* bytes of an answer that is gathered */
} transport_config;

typedef struct transport_answer {
	int code;               /* 0: there is a status; OFFLINE, TIMEOUT, DENIED (TLS, identity), LIMIT (answer too long) */
	const char *text;       /* of the error; "" */
	int status;             /* HTTP; 0: none came. Also with TIMEOUT, if it came before */
	int64_t retry_after_ms; /* 0: not said */
	const char *body;       /* gathered, ends in NUL; with `chunk`: only of a status that is not 2xx */
	size_t len;
} transport_answer;

typedef struct transport_request {
	const char *method; /* "GET", … */
	const char *path;   /* "/api/v1/…?…" */
	const char *accept; /* NULL: application/json */
	const char *content_type;
	const char *body; /* NULL: none */
	bool secret;      /* the answer is overwritten when it is given up */
	int64_t total_ms; /* at most so long in all; 0: no limit */
	int64_t idle_ms;  /* ends with TIMEOUT when nothing comes for so long; 0: no limit */
	void *ctx;
	void (*chunk)(void *ctx, const char *data, size_t len); /* NULL: the answer is gathered */
	void (*done)(void *ctx, const transport_answer *answer);
} transport_request;

typedef struct transport transport;
typedef struct transport_call transport_call;

transport *transport_new(uv_loop_t *loop, const transport_config *config); /* copies */
/* Cancels all; lets go of the loop, which has to run once more before transport_free. */
void transport_close(transport *t);
void transport_free(transport *t);

/* Copies what the request points to. The call is valid until its `done` has returned or it was cancelled. */
transport_call *transport_begin(transport *t, const transport_request *request);
void transport_cancel(transport_call *call); /* no callback follows; also from inside its own */

/* Retry-After: seconds or an HTTP date; 0 if it is neither. At most an hour. */
int64_t transport_retry_after(const char *value, int64_t unix_ms);

#endif
