/* A small HTTP server on the loop: requests with a body of bounded size, answered now or later.
 *
 * libmicrohttpd without threads of its own: its epoll descriptor is watched by the loop, so everything happens on the loop thread and nothing
 * locks. A request that is answered later is suspended meanwhile.
 *
 * With a certificate it speaks TLS 1.2 or 1.3 and nothing else. The certificate is exchanged while requests are under way: a server that takes over
 * the listening socket is begun, and the one before goes on with what it has.
 *
 * Bounds: connections (over it one is closed: of the address that has most of them the one that has been busy longest with sending its
 * request, so that neither slow clients nor many of one address lock others out), total time of a request (408), body (413), time until an answer (503).
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
	bool secret;        /* bodies are overwritten when they are given up */
	/* PEM texts, for TLS; NULL: without. They have to be each other's. Not needed after the start. */
	const char *certificate, *key;
} http_config;

/* Loopback, any port, no body, 16 connections, 10 s, 30 s. */
void http_config_init(http_config *c);

typedef struct http_request {
	http_server *server;       /* that it came to */
	uint64_t id;               /* for http_answer */
	const char *method, *path; /* path: percent-decoded, without a query */
	const char *peer;          /* the client's numeric address, "" if it is not known */
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
/* Begins another server at the same socket, with another certificate; *s becomes that one. The one before takes no new connections, ends when it
 * has none left, or when the time of an answer is over, and frees itself; its requests are answered by http_answer with their own server. On
 * errors (IO: a certificate that cannot be used) *s stays as it is. */
int http_server_renew(http_server **s, const char *certificate, const char *key, error *err);
/* Once for each request; ignored if it is gone. */
void http_answer(http_server *s, uint64_t id, int status, const char *type, const char *body, size_t len);
/* The two-member JSON body {"Status":…,"Message":…}. */
void http_answer_status(http_server *s, uint64_t id, int status, const char *message);
/* Close all; it frees itself once its handles are closed. NULL is fine. */
void http_server_stop(http_server *s);

#endif
