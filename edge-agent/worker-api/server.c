/* Sockets and time: the daemons on the loop, connections and their deadlines. What a request means is in request.c. */
#include "edge-agent/worker-api/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/worker-api/server_internal.h"

/* A request's time is up: what the client gets to read if it reads at all. */
static const char timeout_response[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\n"
									   "Content-Length: 67\r\n\r\n"
									   "{\"Status\":408,\"Message\":\"the request was not complete in due time\"}\n";

static void run(http_daemon *d);

static void schedule(http_daemon *d)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int64_t now = (int64_t)uv_now(d->api->loop), wait = INT64_MAX;

	if (MHD_get_timeout(d->mhd, &ms) == MHD_YES)
		wait = (int64_t)ms;
	for (const http_connection *c = d->connections; c; c = c->next)
		if (c->deadline - now < wait)
			wait = c->deadline > now ? c->deadline - now : 0;
	if (wait == INT64_MAX)
		uv_timer_stop(&d->timer);
	else
		uv_timer_start(&d->timer, d->on_timer, (uint64_t)wait, 0);
}

static void close_connection(http_connection *c, bool say)
{
	if (say)
		(void)send(c->fd, timeout_response, sizeof timeout_response - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(c->fd, SHUT_RDWR); /* MHD sees the end and frees it */
	c->deadline = INT64_MAX;
}

/* Connections whose time is up. One that has not sent a byte of a request has nothing to be told. */
static void expire(http_daemon *d)
{
	int64_t now = (int64_t)uv_now(d->api->loop);

	for (http_connection *c = d->connections; c; c = c->next) {
		if (c->deadline > now)
			continue;
		if (c->request && c->request->suspended)
			request__give_up(c->request);
		else
			close_connection(c, true);
	}
}

static void run(http_daemon *d)
{
	if (d->running) {
		d->again = true;
		return;
	}
	d->running = true;
	do {
		d->again = false;
		MHD_run(d->mhd);
	} while (d->again);
	d->running = false;
	schedule(d);
}

void server__run(http_daemon *d)
{
	run(d);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	(void)status;
	(void)events;
	run(handle->data);
}

static void on_timer(uv_timer_t *handle)
{
	http_daemon *d = handle->data;

	expire(d);
	run(d);
}

static void connection_started(http_daemon *d, struct MHD_Connection *connection, void **socket_context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	http_connection *c = mem_alloc(sizeof *c), *oldest = NULL;

	c->fd = info ? info->connect_fd : -1;
	c->deadline = (int64_t)uv_now(d->api->loop) + d->api->config.request_ms;
	c->next = d->connections;
	d->connections = c;
	*socket_context = c;
	if (++d->n_connections <= d->api->config.connections)
		return;
	for (http_connection *each = c->next; each; each = each->next)
		if (!(each->request && each->request->suspended) && each->deadline != INT64_MAX && (!oldest || each->deadline < oldest->deadline))
			oldest = each;
	if (oldest)
		close_connection(oldest, true);
	else
		c->over = true; /* all others wait for their commits: this one is answered 503 */
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	http_daemon *d = cls;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		connection_started(d, connection, socket_context);
		return;
	}
	for (http_connection **p = &d->connections; *p; p = &(*p)->next) {
		if (*p != *socket_context)
			continue;
		http_connection *c = *p;

		*p = c->next;
		d->n_connections--;
		free(c);
		break;
	}
	*socket_context = NULL;
}

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void on_log(void *cls, const char *fmt, va_list ap)
{
	char text[256];

	(void)cls;
	vsnprintf(text, sizeof text, fmt, ap);
	text[strcspn(text, "\n")] = 0;
	log_debug("worker-api", "libmicrohttpd", L_STR("text", text));
}

/* A bound, listening socket, or a negative error code. */
static int listen_on(const char *host, int port, error *err)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
	int fd, on = 1, failed;

	if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
		return error_set(err, ERROR_INVALID, "cannot listen on \"%s\": not a numeric address", host);
	fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(err, errno, "cannot make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, is_v4 ? sizeof v4 : sizeof v6) == 0 && listen(fd, 128) == 0)
		return fd;
	failed = errno;
	close(fd);
	if (failed == EADDRINUSE)
		return error_set(err, ERROR_EXISTS, "cannot listen on %s port %d: it is in use (another ilmare-edge, or Sedna's local controller?)", host,
		                 port);
	return error_errno(err, failed, "cannot listen on %s port %d", host, port);
}

static int socket_port(int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof a;

	if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

static int daemon_start(http_daemon *d, worker_api *api, int fd, error *err)
{
	const union MHD_DaemonInfo *info;
	/* Above our own bound, so that we decide who is closed. */
	unsigned limit = (unsigned)api->config.connections + 16;

	d->api = api;
	d->on_timer = on_timer;
	d->mhd = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, request__handle, d,
	                          MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
	                          MHD_OPTION_NOTIFY_CONNECTION, on_connection, d, MHD_OPTION_NOTIFY_COMPLETED, request__completed, d,
	                          MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(16 * 1024), MHD_OPTION_END);
	info = d->mhd ? MHD_get_daemon_info(d->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		if (d->mhd)
			MHD_stop_daemon(d->mhd);
		else
			close(fd);
		d->mhd = NULL;
		return error_set(err, ERROR_IO, "cannot start the HTTP server");
	}
	d->port = socket_port(fd);
	uv_poll_init(api->loop, &d->poll, info->epoll_fd);
	uv_timer_init(api->loop, &d->timer);
	d->poll.data = d->timer.data = d;
	uv_poll_start(&d->poll, UV_READABLE, on_poll);
	return 0;
}

int worker_api_start(uv_loop_t *loop, const worker_api_config *config, const worker_api_events *events, worker_api **out, error *err)
{
	worker_api *api = mem_alloc(sizeof *api);
	bool apart = config->observe_port >= 0;
	int fd = config->listen_fd, code = 0;

	api->loop = loop;
	api->config = *config;
	api->events = *events;
	api->workers.workers = true;
	api->workers.observe = !apart;
	api->observe.observe = true;
	if (fd < 0)
		code = fd = listen_on(config->host, config->port, err);
	if (fd >= 0)
		code = daemon_start(&api->workers, api, fd, err);
	if (code >= 0 && apart) {
		code = fd = listen_on(config->observe_host ? config->observe_host : config->host, config->observe_port, err);
		if (fd >= 0)
			code = daemon_start(&api->observe, api, fd, err);
	}
	if (code < 0) {
		worker_api_stop(api);
		return code;
	}
	*out = api;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	http_daemon *d = handle->data;
	worker_api *api = d->api;

	if (--api->open_handles == 0)
		free(api);
}

static void daemon_stop(http_daemon *d)
{
	if (!d->mhd)
		return;
	uv_poll_stop(&d->poll);
	/* MHD wants no suspended connection when it stops. */
	for (request *r = d->api->requests; r; r = r->next)
		if (r->daemon == d && r->suspended)
			request__answer(r, 503, "the agent is stopping; try again");
	MHD_run(d->mhd);
	MHD_stop_daemon(d->mhd);
	d->mhd = NULL;
	d->api->open_handles += 2;
	uv_close((uv_handle_t *)&d->poll, on_closed);
	uv_close((uv_handle_t *)&d->timer, on_closed);
}

void worker_api_stop(worker_api *api)
{
	if (!api)
		return;
	api->stopping = true;
	api->open_handles = 1; /* ours, so that the closings of one daemon do not free it */
	daemon_stop(&api->workers);
	daemon_stop(&api->observe);
	if (--api->open_handles == 0)
		free(api);
}

int worker_api_port(const worker_api *api)
{
	return api->workers.port;
}

int worker_api_observe_port(const worker_api *api)
{
	return api->observe.mhd ? api->observe.port : api->workers.port;
}
