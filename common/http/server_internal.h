/* What server.c and request.c share. Loop thread only. */
#ifndef COMMON_HTTP_SERVER_INTERNAL_H
#define COMMON_HTTP_SERVER_INTERNAL_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/http/server.h"

typedef struct connection connection;
typedef struct request request;

/* One request, from its first header to the end of its answer. */
struct request {
	request *next;
	http_server *server;
	connection *connection;
	struct MHD_Connection *mhd;
	uint64_t id;
	char *path;
	const char *method; /* MHD's, for as long as the request lives */
	buf body;
	size_t received; /* bytes of the body, kept or not */
	bool suspended;  /* handed over, not answered */
	int status;      /* of the answer; 0: not known yet */
	char *type, *answer;
	size_t answer_len;
	char peer[48]; /* numeric address */
};

struct connection {
	connection *next;
	int fd;
	uint64_t from;    /* its address, of IPv6 the first 64 bits; 0: not known */
	int64_t deadline; /* of the present request or answer, by uv_now; INT64_MAX: none */
	bool over;        /* above the bound: answered 503 */
	bool served;      /* a request was answered: it may rest between two */
	request *request;
};

struct http_server {
	uv_loop_t *loop;
	http_config config;
	http_events events;
	struct MHD_Daemon *mhd;
	uv_poll_t poll;
	uv_timer_t timer;
	int fd; /* the listening socket; the daemon's */
	int port, open_handles;
	bool tls;
	bool retired; /* another one listens: it ends with its last connection */
	int64_t retire_by;
	http_server *newer, *older; /* at the same socket; older ones are retired */
	bool running, again;        /* MHD_run is on the stack; another one is wanted */
	bool stopping;              /* no request is handed over any more */
	connection *connections;
	int n_connections;
	request *requests;
	uint64_t last_id;
};

#define HTTP_STOPPING "the agent is stopping; try again"

void server__run(http_server *s);

enum MHD_Result request__handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **context);
void request__completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code);
/* A suspended request goes on, with this answer (copied). */
void request__answer(request *r, int status, const char *type, const char *body, size_t len);
/* The same with the two-member body. */
void request__answer_status(request *r, int status, const char *message);
/* Its answer took too long. */
void request__give_up(request *r);

#endif
