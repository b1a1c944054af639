/* The HTTP endpoint that workers report to, with /healthz, /readyz and /metrics.
 *
 *     POST /sedna/workers/{worker}/info   a worker's post; answered when the core says so, that is after the commit
 *     GET  /healthz                       200 while the loop turns
 *     GET  /readyz                        200, or 503 with the reason
 *     GET  /metrics                       Prometheus text
 *
 * libmicrohttpd without threads of its own: its epoll descriptor is watched by the loop, so everything happens on the loop thread and nothing
 * locks. A connection whose post waits for its commit is suspended.
 *
 * Bounds: connections (over it the one that has been busy longest with sending its request is closed, so slow clients cannot lock others
 * out), total time of a request (408), body (413), time until an answer (503: the worker tries again). Any content type is read as JSON.
 */
#ifndef WORKER_API_SERVER_H
#define WORKER_API_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/error.h"
#include "proto/worker.h"

typedef struct worker_api worker_api;

typedef struct worker_api_config {
	const char *host;     /* numeric address, "127.0.0.1" by default */
	int port;             /* 0: any free one */
	const char *observe_host;
	int observe_port;     /* /healthz, /readyz and /metrics there and not on `port`; -1: on `port` too; 0: any free one */
	int listen_fd;        /* a listening socket that the service manager holds, used in place of host and port; -1: none */
	int64_t body_max;     /* bytes: 1 MiB */
	int connections;      /* 64 */
	int64_t request_ms;   /* 10 s to send a request */
	int64_t answer_ms;    /* 30 s until a post is answered with 503 if the core could not yet make it durable */
} worker_api_config;

typedef struct worker_api_events {
	void *ctx;
	/* A well-formed post (taken). worker_api_reply(id) follows, now or later. */
	void (*post)(void *ctx, uint64_t id, worker_post *post);
	/* The connection is gone, or was answered with 503 because time was up: no reply is needed any more. */
	void (*gone)(void *ctx, uint64_t id);
	bool (*ready)(void *ctx, const char **why); /* false: *why is a literal or lives until the next call */
	void (*metrics)(void *ctx, buf *out);
} worker_api_events;

/* Errors: EXISTS (address in use), DENIED, INVALID (address), IO. */
int worker_api_start(uv_loop_t *loop, const worker_api_config *config, const worker_api_events *events, worker_api **out, error *err);
/* Once for each id; ignored if it is gone. */
void worker_api_reply(worker_api *api, uint64_t id, int status, const char *message);
int worker_api_port(const worker_api *api);
int worker_api_observe_port(const worker_api *api);
/* Close all; api is freed on the loop thread after its handles are closed. */
void worker_api_stop(worker_api *api);

#endif
