/* See notify.h. A datagram has room where it goes to or waits for a moment: a manager that reads nothing must not keep the loop from its work,
 * so the wait is bounded.
 */
#include "common/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/text.h"

enum { SEND_WAIT_MS = 500, STATUS_MAX = 600 };

struct notify {
	struct sockaddr_un address;
	socklen_t address_len;
	int fd; /* -1: nobody listens */
	uint64_t alive_ms;
	uv_timer_t timer;
	bool failing; /* said once, until it gets through again */
	char status[STATUS_MAX];
};

static void send_text(notify *n, const char *text)
{
	ssize_t sent;

	if (n->fd < 0)
		return;
	do
		sent = sendto(n->fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&n->address, n->address_len);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && !n->failing)
		log_warn("notify", "the service manager is not reached", L_STR("error", strerror(errno)));
	n->failing = sent < 0;
}

static bool parse_address(const char *name, struct sockaddr_un *out, socklen_t *len)
{
	size_t n = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof out->sun_path)
		return false;
	memset(out, 0, sizeof *out);
	out->sun_family = AF_UNIX;
	memcpy(out->sun_path, name, n);
	/* An abstract name has no end of its own: its length says where it ends. */
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] == '/' ? 1 : 0));
	if (name[0] == '@')
		out->sun_path[0] = '\0';
	return true;
}

static void open_socket(notify *n, const char *name)
{
	struct timeval wait = {.tv_usec = SEND_WAIT_MS * 1000};

	if (!parse_address(name, &n->address, &n->address_len)) {
		log_warn("notify", "NOTIFY_SOCKET is no address of a service manager; it is told nothing", L_STR("address", name));
		return;
	}
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (n->fd < 0)
		log_warn("notify", "no socket to the service manager; it is told nothing", L_STR("error", strerror(errno)));
	else
		setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

/* A number above 0, else 0. */
static uint64_t number_of(const char *text)
{
	char *end;
	unsigned long long value;

	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	return errno != 0 || *end ? 0 : value;
}

/* The manager's time may be for another process: that of a shell that started us, say. */
static uint64_t alive_interval(void)
{
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t us = number_of(getenv("WATCHDOG_USEC"));

	if (us == 0 || (pid && number_of(pid) != (uint64_t)getpid()))
		return 0;
	return us / 2000 > 0 ? us / 2000 : 1;
}

notify *notify_new(uv_loop_t *loop)
{
	notify *n = mem_alloc(sizeof *n);
	const char *name = getenv("NOTIFY_SOCKET");

	n->fd = -1;
	if (name)
		open_socket(n, name);
	if (n->fd >= 0)
		n->alive_ms = alive_interval();
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (n->alive_ms > 0) {
		uv_timer_init(loop, &n->timer);
		n->timer.data = n;
		uv_unref((uv_handle_t *)&n->timer);
	}
	return n;
}

static void on_timer(uv_timer_t *timer)
{
	send_text(timer->data, "WATCHDOG=1");
}

void notify_ready(notify *n)
{
	send_text(n, "READY=1");
	if (n->alive_ms > 0)
		uv_timer_start(&n->timer, on_timer, n->alive_ms, n->alive_ms);
}

void notify_status(notify *n, const char *text)
{
	char status[sizeof n->status], line[sizeof status + sizeof "STATUS="];

	/* One that is not UTF-8 would not be taken. */
	text_copy(status, sizeof status, text);
	if (strcmp(n->status, status) == 0)
		return;
	memcpy(n->status, status, sizeof status);
	snprintf(line, sizeof line, "STATUS=%s", status);
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';
	send_text(n, line);
}

void notify_stopping(notify *n)
{
	send_text(n, "STOPPING=1");
}

static void on_closed(uv_handle_t *timer)
{
	free(timer->data);
}

void notify_free(notify *n)
{
	if (!n)
		return;
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	if (n->alive_ms > 0)
		uv_close((uv_handle_t *)&n->timer, on_closed);
	else
		free(n);
}
