/* What server.c and request.c share. Loop thread only. */
#ifndef WORKER_API_SERVER_INTERNAL_H
#define WORKER_API_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "edge-agent/worker-api/server.h"

typedef struct http_daemon http_daemon;
typedef struct http_connection http_connection;
typedef struct request request;

/* One request, from its first header to the end of its answer. */
struct request {
	request *next;
	http_daemon *daemon;
	http_connection *connection;
	struct MHD_Connection *mhd;
	uint64_t id; /* of a post; 0: none */
	char worker[WORKER_NAME_SIZE * 4];
	buf body;
	bool suspended; /* waits for its commit */
	int status;     /* of the answer, 0: not known yet */
	char *message;
};

struct http_connection {
	http_connection *next;
	int fd;
	int64_t deadline; /* of the present request or answer, by uv_now; INT64_MAX: none */
	bool over;        /* above the bound: answered 503 */
	request *request;
};

struct http_daemon {
	worker_api *api;
	struct MHD_Daemon *mhd;
	uv_poll_t poll;
	uv_timer_t timer;
	uv_timer_cb on_timer;
	int port;
	bool workers, observe; /* which paths it serves */
	bool running, again;   /* MHD_run is on the stack; another one is wanted */
	http_connection *connections;
	int n_connections;
};

struct worker_api {
	uv_loop_t *loop;
	worker_api_config config;
	worker_api_events events;
	http_daemon workers, observe;
	request *requests;
	uint64_t last_id;
	int open_handles;
	bool stopping;
};

void server__run(http_daemon *d);

enum MHD_Result request__handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                const char *data, size_t *size, void **context);
void request__completed(void *cls, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code);
/* The answer of a suspended request: it goes on. */
void request__answer(request *r, int status, const char *message);
/* Its answer took too long. */
void request__give_up(request *r);

#endif
