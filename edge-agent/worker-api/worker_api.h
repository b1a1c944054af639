/* The HTTP endpoint that workers report to, with /healthz, /readyz and /metrics on the same port or one of their own.
 *
 *     POST /sedna/workers/{worker}/info   a worker's post; answered when the core says so, that is after the commit
 *     POST /{token}/sedna/workers/…       the same, if there is a token: workers append their path to LC_SERVER, so those that know nothing of
 *                                         tokens can have one
 *
 * Any content type is read as JSON. Loop thread only.
 */
#ifndef WORKER_API_WORKER_API_H
#define WORKER_API_WORKER_API_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/error.h"
#include "common/http/observe.h"
#include "common/http/server.h"
#include "proto/worker.h"

typedef struct worker_api worker_api;

/* Characters that a url needs no escapes for, long enough not to be guessed. */
#define WORKER_TOKEN_RULE "16 to 256 letters, digits, '-' and '_'"
bool worker_token_valid(const char *token);

typedef struct worker_api_config {
	http_config http;  /* of the workers' port */
	const char *token; /* NULL: none is needed */
	const char *observe_host;
	int observe_port; /* -1: the workers' port serves /healthz, /readyz and /metrics too; 0: any free one */
} worker_api_config;

typedef struct worker_api_events {
	http_observe observe; /* its ctx is the ctx of all */
	/* A well-formed post (taken). worker_api_reply(id) follows, from inside or later. */
	void (*post)(void *ctx, uint64_t id, worker_post *post);
	/* The client is gone, or was told 503 because time was up: no reply is needed any more. */
	void (*gone)(void *ctx, uint64_t id);
} worker_api_events;

/* Errors as http_server_start. */
int worker_api_start(uv_loop_t *loop, const worker_api_config *config, const worker_api_events *events, worker_api **out, error *err);
/* Once for each id; ignored if it is gone. */
void worker_api_reply(worker_api *api, uint64_t id, int status, const char *message);
int worker_api_port(const worker_api *api);
int worker_api_observe_port(const worker_api *api);
/* Close both ports. NULL is fine. */
void worker_api_stop(worker_api *api);
/* After the loop has closed its handles. NULL is fine. */
void worker_api_free(worker_api *api);

#endif
