/* Sockets and time: the daemons on the loop, connections and their deadlines. What a request means is in request.c. */
#include "common/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http/server_internal.h"
#include "common/log.h"
#include "common/mem.h"

/* A request's time is up: what the client gets to read if it reads at all. */
static const char timeout_response[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\n"
									   "Content-Length: 67\r\n\r\n"
									   "{\"Status\":408,\"Message\":\"the request was not complete in due time\"}\n";

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static void run(http_server *s);
static void server_end(http_server *s);
static void on_timer(uv_timer_t *handle);

static void schedule(http_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int64_t now = (int64_t)uv_now(s->loop), wait = INT64_MAX;

	if (MHD_get_timeout(s->mhd, &ms) == MHD_YES)
		wait = (int64_t)ms;
	for (const connection *c = s->connections; c; c = c->next)
		if (c->deadline - now < wait)
			wait = c->deadline > now ? c->deadline - now : 0;
	if (s->retired && s->retire_by - now < wait)
		wait = s->retire_by > now ? s->retire_by - now : 0;
	if (wait == INT64_MAX)
		uv_timer_stop(&s->timer);
	else
		uv_timer_start(&s->timer, on_timer, (uint64_t)wait, 0);
}

/* What is said to who is late is no part of TLS. */
static void close_connection(const http_server *s, connection *c, bool say)
{
	if (say && !s->tls)
		(void)send(c->fd, timeout_response, sizeof timeout_response - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(c->fd, SHUT_RDWR); /* MHD sees the end and frees it */
	c->deadline = INT64_MAX;
}

/* Is there somebody to be told that time is up? Not where an answer is on its way, and not where none is awaited: between two requests. */
static bool awaits_answer(const connection *c)
{
	return c->request ? c->request->status == 0 : !c->served;
}

/* Connections whose time is up. */
static void expire(http_server *s)
{
	int64_t now = (int64_t)uv_now(s->loop);

	for (connection *c = s->connections; c; c = c->next) {
		if (c->deadline > now)
			continue;
		if (c->request && c->request->suspended)
			request__give_up(c->request);
		else
			close_connection(s, c, awaits_answer(c));
	}
}

static bool is_over(const http_server *s)
{
	return s->retired && (s->n_connections == 0 || s->retire_by <= (int64_t)uv_now(s->loop));
}

static void run(http_server *s)
{
	if (s->running) {
		s->again = true;
		return;
	}
	s->running = true;
	do {
		s->again = false;
		MHD_run(s->mhd);
	} while (s->again);
	s->running = false;
	if (is_over(s))
		server_end(s);
	else if (!s->stopping)
		schedule(s);
}

void server__run(http_server *s)
{
	run(s);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	(void)status;
	(void)events;
	run(handle->data);
}

static void on_timer(uv_timer_t *handle)
{
	http_server *s = handle->data;

	expire(s);
	run(s);
}

static uint64_t address_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {0};
	socklen_t len = sizeof a;
	uint64_t network = 0;

	if (getpeername(fd, &a.any, &len) != 0)
		return 0;
	if (a.any.sa_family == AF_INET)
		return a.v4.sin_addr.s_addr;
	if (a.any.sa_family != AF_INET6)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)) {
		memcpy(&network, a.v6.sin6_addr.s6_addr + 12, 4);
		return network;
	}
	memcpy(&network, a.v6.sin6_addr.s6_addr, sizeof network);
	return network;
}

static int count_from(const http_server *s, uint64_t from)
{
	int n = 0;

	for (const connection *c = s->connections; c; c = c->next)
		n += c->from == from;
	return n;
}

/* Who gives way to one more: of the address that has most connections the one that has been busy longest. NULL: all wait for their answers. */
static connection *find_victim(const http_server *s)
{
	connection *found = NULL;
	int most = 0;

	for (connection *each = s->connections->next; each; each = each->next) {
		int n;

		if ((each->request && each->request->suspended) || each->deadline == INT64_MAX)
			continue;
		n = count_from(s, each->from);
		if (!found || n > most || (n == most && each->deadline < found->deadline)) {
			found = each;
			most = n;
		}
	}
	return found;
}

static void connection_started(http_server *s, struct MHD_Connection *mhd, void **socket_context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	connection *c = mem_alloc(sizeof *c), *victim;

	c->fd = info ? info->connect_fd : -1;
	c->from = address_of(c->fd);
	c->deadline = (int64_t)uv_now(s->loop) + s->config.request_ms;
	c->next = s->connections;
	s->connections = c;
	*socket_context = c;
	if (++s->n_connections <= s->config.connections)
		return;
	victim = find_victim(s);
	if (victim)
		close_connection(s, victim, awaits_answer(victim));
	else
		c->over = true; /* all others wait for their commits: this one is answered 503 */
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	http_server *s = cls;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		connection_started(s, mhd, socket_context);
		return;
	}
	for (connection **p = &s->connections; *p; p = &(*p)->next) {
		if (*p != *socket_context)
			continue;
		connection *c = *p;

		*p = c->next;
		s->n_connections--;
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
	log_debug("http", "libmicrohttpd", L_STR("text", text));
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
		return error_set(err, ERROR_EXISTS, "cannot listen on %s port %d: it is in use", host, port);
	return error_errno(err, failed, "cannot listen on %s port %d", host, port);
}

static int socket_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {.v6 = {0}};
	socklen_t len = sizeof a;

	if (getsockname(fd, &a.any, &len) != 0)
		return 0;
	return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

/* libmicrohttpd's daemon at a listening socket. */
static struct MHD_Daemon *daemon_start(http_server *s, int fd)
{
	/* Above our own bound, so that we decide who is closed. */
	unsigned limit = (unsigned)s->config.connections + 16, flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)s->config.certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)s->config.key}, {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
		{MHD_OPTION_END, 0, NULL}};

	return MHD_start_daemon(flags | (s->tls ? MHD_USE_TLS : 0), 0, NULL, NULL, request__handle, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
		request__completed, s, MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(16 * 1024),
		MHD_OPTION_ARRAY, s->tls ? tls : tls + 3, MHD_OPTION_END);
}

static int server_listen(http_server *s, int fd, error *err)
{
	const union MHD_DaemonInfo *info;

	s->tls = s->config.certificate != NULL;
	s->fd = fd;
	s->mhd = daemon_start(s, fd);
	s->config.certificate = s->config.key = NULL;
	info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		if (s->mhd)
			MHD_stop_daemon(s->mhd);
		else
			close(fd);
		s->mhd = NULL;
		return error_set(err, ERROR_IO, "cannot start the HTTP server%s", s->tls ? ": its certificate and key cannot be used" : "");
	}
	s->port = socket_port(fd);
	uv_poll_init(s->loop, &s->poll, info->epoll_fd);
	uv_timer_init(s->loop, &s->timer);
	s->poll.data = s->timer.data = s;
	uv_poll_start(&s->poll, UV_READABLE, on_poll);
	return 0;
}

void http_config_init(http_config *c)
{
	*c = (http_config){.host = "127.0.0.1", .listen_fd = -1, .connections = 16, .request_ms = 10000, .answer_ms = 30000};
}

int http_server_start(uv_loop_t *loop, const http_config *config, const http_events *events, http_server **out, error *err)
{
	http_server *s = mem_alloc(sizeof *s);
	int fd = config->listen_fd, code = 0;

	s->loop = loop;
	s->config = *config;
	s->events = *events;
	if (fd < 0)
		code = fd = listen_on(config->host, config->port, err);
	if (fd >= 0)
		code = server_listen(s, fd, err);
	if (code < 0) {
		free(s);
		return code;
	}
	*out = s;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	http_server *s = handle->data;

	if (--s->open_handles == 0)
		free(s);
}

/* MHD wants no suspended connection when it stops: neither those that wait, nor one whose request it is about to read. */
static void server_end(http_server *s)
{
	if (s->newer)
		s->newer->older = s->older;
	if (s->older)
		s->older->newer = s->newer;
	uv_poll_stop(&s->poll);
	s->stopping = true;
	s->running = true; /* what is answered now does not run it again */
	for (request *r = s->requests; r; r = r->next) {
		if (!r->suspended)
			continue;
		if (s->retired)
			request__give_up(r);
		else
			request__answer_status(r, 503, HTTP_STOPPING);
	}
	MHD_run(s->mhd);
	MHD_stop_daemon(s->mhd);
	s->open_handles = 2;
	uv_close((uv_handle_t *)&s->poll, on_closed);
	uv_close((uv_handle_t *)&s->timer, on_closed);
}

void http_server_stop(http_server *s)
{
	while (s) {
		http_server *older = s->older;

		server_end(s);
		s = older;
	}
}

int http_server_renew(http_server **s, const char *certificate, const char *key, error *err)
{
	http_server *old = *s, *made = NULL;
	http_config config = old->config;
	int code;

	config.certificate = certificate;
	config.key = key;
	config.listen_fd = fcntl(old->fd, F_DUPFD_CLOEXEC, 0);
	if (config.listen_fd < 0)
		return error_errno(err, errno, "cannot listen twice");
	code = http_server_start(old->loop, &config, &old->events, &made, err);
	if (code != 0)
		return code;
	close(MHD_quiesce_daemon(old->mhd));
	old->retired = true;
	old->retire_by = (int64_t)uv_now(old->loop) + old->config.answer_ms;
	old->newer = made;
	made->older = old;
	made->last_id = old->last_id + (UINT64_C(1) << 32); /* ids of both are told apart */
	*s = made;
	uv_timer_start(&old->timer, on_timer, 0, 0);
	return 0;
}

int http_server_port(const http_server *s)
{
	return s->port;
}
