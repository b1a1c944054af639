/* /healthz, /readyz and /metrics, the same for both agents: on a server of their own, or as paths of another one. Loop thread only. */
#ifndef COMMON_HTTP_OBSERVE_H
#define COMMON_HTTP_OBSERVE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/http/server.h"

typedef struct http_observe {
	void *ctx;
	bool (*ready)(void *ctx, const char **why); /* false: *why lives until the next call */
	void (*metrics)(void *ctx, buf *out);       /* Prometheus text */
	http_server **server;                       /* http_observe_start sets it */
} http_observe;

bool http_observe_path(const char *path);
/* For http_events.begin: 0, or why a request for one of these paths is refused. */
int http_observe_begin(const http_request *r, const char **message);
/* Answers a request for one of these paths. */
void http_observe_answer(const http_observe *o, http_server *s, const http_request *r);

/* A server that serves these paths alone. `o` and `out` must outlive it. */
int http_observe_start(uv_loop_t *loop, const char *host, int port, http_observe *o, http_server **out, error *err);

#endif
