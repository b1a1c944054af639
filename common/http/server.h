/* A small HTTP server on the loop: requests with a body of bounded size, answered now or later.
 *
 * libmicrohttpd without threads of its own: its epoll descriptor is watched by the loop, so everything happens on the loop thread and nothing
 * locks. A request that is answered later is suspended meanwhile.
 *
 * Bounds: connections (over it the one that has been busy longest with sending its request is closed, so slow clients cannot lock others
 * out), total time of a request (408), body (413), time until an answer (503).
 */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/error.h"

typedef struct http_server http_server;

typedef struct http_config {
	const char *host;   /* numeric address */
	int port;           /* 0: any free one */
	int listen_fd;      /* a listening socket that somebody else holds, used in place of host and port; -1: none */
	int64_t body_max;   /* bytes */
	int connections;    /* at a time */
	int64_t request_ms; /* to send a request */
	int64_t answer_ms;  /* until it is answered with 503 */
} http_config;

/* Loopback, any port, no body, 16 connections, 10 s, 30 s. */
void http_config_init(http_config *c);

typedef struct http_request {
	uint64_t id;               /* for http_answer */
	const char *method, *path; /* path: percent-decoded, without a query */
	const char *body;          /* NUL-terminated */
	size_t len;
} http_request;

typedef struct http_events {
	void *ctx;
	/* The headers are there, the body not yet (NULL): 0 to go on, or a status to refuse with and its message. */
	int (*begin)(void *ctx, const http_request *r, const char **message);
	/* The request is complete; its strings live until this returns. http_answer follows, from inside or later. */
	void (*request)(void *ctx, const http_request *r);
	/* No answer is needed any more: the client is gone, or was told 503 because time was up. NULL: not of interest. */
	void (*gone)(void *ctx, uint64_t id);
} http_events;

/* Errors: EXISTS (address in use), DENIED, INVALID (address), IO. */
int http_server_start(uv_loop_t *loop, const http_config *config, const http_events *events, http_server **out, error *err);
int http_server_port(const http_server *s);
/* Once for each request; ignored if it is gone. */
void http_answer(http_server *s, uint64_t id, int status, const char *type, const char *body, size_t len);
/* The two-member JSON body {"Status":…,"Message":…}. */
void http_answer_status(http_server *s, uint64_t id, int status, const char *message);
/* Close all; it frees itself once its handles are closed. NULL is fine. */
void http_server_stop(http_server *s);

#endif
