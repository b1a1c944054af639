/* An HTTP client for tests of servers that run on the same loop: bytes out, bytes in, the loop turns meanwhile. */
#ifndef TESTS_UNIT_HTTP_CLIENT_H
#define TESTS_UNIT_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <uv.h>

#include "tests/unit/unit.h"

enum { CLIENT_PATIENCE_MS = 5000 };

typedef struct http_client {
	uv_loop_t *loop;
	int fd;
	buf in; /* what has come and was not taken */
	bool closed;
} http_client;

/* From 127.0.0.N. */
static inline void client_open_from(http_client *c, uv_loop_t *loop, int port, unsigned n)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl((INADDR_LOOPBACK & ~255u) | n)}};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};

	*c = (http_client){.loop = loop, .fd = socket(AF_INET, SOCK_STREAM, 0)};
	assert_true(c->fd >= 0);
	assert_int_equal(bind(c->fd, (struct sockaddr *)&own, sizeof own), 0);
	assert_int_equal(connect(c->fd, (struct sockaddr *)&a, sizeof a), 0);
}

static inline void client_open(http_client *c, uv_loop_t *loop, int port)
{
	client_open_from(c, loop, port, 1);
}

static inline void client_close(http_client *c)
{
	close(c->fd);
	buf_fini(&c->in);
}

/* One turn of the loop, and what has come. */
static inline void client_turn(http_client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	char part[4096];
	ssize_t n;

	uv_run(c->loop, UV_RUN_NOWAIT);
	if (c->closed || poll(&p, 1, 1) <= 0)
		return;
	n = recv(c->fd, part, sizeof part, MSG_DONTWAIT);
	if (n > 0)
		buf_add(&c->in, part, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		c->closed = true;
}

static inline void client_send(http_client *c, const char *data, size_t len)
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	while (len > 0 && uv_hrtime() / 1000000 < end) {
		ssize_t n = send(c->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN) {
			client_turn(c);
			return; /* the server has had enough; what it said is still to be read */
		}
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
		client_turn(c);
	}
}

static inline void client_puts(http_client *c, const char *text)
{
	client_send(c, text, strlen(text));
}

/* Length of the whole answer at the beginning of c->in, or 0. */
static inline size_t client_answer_length(http_client *c, bool head)
{
	const char *text = buf_text(&c->in), *end = strstr(text, "\r\n\r\n");
	size_t length = 0;

	if (!end)
		return 0;
	for (const char *line = text; line < end; line = strstr(line, "\r\n") + 2)
		if (!head && strncasecmp(line, "Content-Length:", 15) == 0)
			length = (size_t)strtoul(line + 15, NULL, 10);
	length += (size_t)(end + 4 - text);
	return c->in.len >= length ? length : 0;
}

/* The next answer: its status, and its body in *body (if not NULL). 0: closed without one. */
static inline int client_answer_of(http_client *c, buf *body, bool head)
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;
	size_t len;
	int status = 0;

	while ((len = client_answer_length(c, head)) == 0 && !c->closed && uv_hrtime() / 1000000 < end)
		client_turn(c);
	if (len == 0 && !c->closed)
		fail_msg("no answer in time");
	if (len == 0)
		return 0;
	assert_int_equal(sscanf(buf_text(&c->in), "HTTP/1.%*d %d", &status), 1);
	if (body) {
		const char *from = strstr(buf_text(&c->in), "\r\n\r\n") + 4;

		buf_fini(body);
		buf_add(body, from, len - (size_t)(from - buf_text(&c->in)));
	}
	unit_drop(&c->in, len);
	return status;
}

static inline int client_answer(http_client *c, buf *body)
{
	return client_answer_of(c, body, false);
}

static inline void client_wait_closed(http_client *c)
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	while (!c->closed && uv_hrtime() / 1000000 < end)
		client_turn(c);
	assert_true(c->closed);
}

#endif
