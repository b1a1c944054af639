/* A proxy that can be frozen: see proxy.h. One thread, one poll over all pairs. */
#include "tests/integration/proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"
#include "tests/integration/child.h"

enum { PAIRS_MAX = 64 };

struct proxy {
	pid_t pid;
	uint16_t port, target;
	int listener;
	char *url;
};

static int write_all(int fd, const char *data, ssize_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, (size_t)len, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		data += n;
		len -= n;
	}
	return 0;
}

static int target_connect(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

/* fds[0] listens; 1 and 2, 3 and 4, … are pairs. */
static void add_pair(struct pollfd *fds, nfds_t *n, uint16_t target)
{
	int client = accept(fds[0].fd, NULL, NULL), server;

	if (client < 0)
		return;
	if (*n + 2 > 1 + 2 * PAIRS_MAX || (server = target_connect(target)) < 0) {
		close(client);
		return;
	}
	fds[(*n)++] = (struct pollfd){.fd = client, .events = POLLIN};
	fds[(*n)++] = (struct pollfd){.fd = server, .events = POLLIN};
}

static void drop_pair(struct pollfd *fds, nfds_t *n, nfds_t first)
{
	close(fds[first].fd);
	close(fds[first + 1].fd);
	fds[first] = fds[*n - 2];
	fds[first + 1] = fds[*n - 1];
	*n -= 2;
}

static int relay(void *arg)
{
	const proxy *p = arg;
	struct pollfd fds[1 + 2 * PAIRS_MAX] = {{.fd = p->listener, .events = POLLIN}};
	nfds_t n = 1;
	char data[16384];

	for (;;) {
		poll(fds, n, -1);
		for (nfds_t i = 1; i < n; i++) {
			nfds_t first = i - (i - 1) % 2, other = i == first ? i + 1 : first;
			ssize_t len;

			if (!(fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
				continue;
			len = recv(fds[i].fd, data, sizeof data, 0);
			if (len <= 0 || write_all(fds[other].fd, data, len)) {
				drop_pair(fds, &n, first);
				i = first - 1;
			}
		}
		if (fds[0].revents & POLLIN)
			add_pair(fds, &n, p->target);
	}
	return 0;
}

proxy *proxy_new(uint16_t target)
{
	proxy *p = mem_alloc(sizeof *p);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof address;

	p->target = target;
	p->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(p->listener, 16), 0);
	assert_int_equal(getsockname(p->listener, (struct sockaddr *)&address, &len), 0);
	p->port = ntohs(address.sin_port);
	p->url = mem_printf("tcp://127.0.0.1:%u", p->port);
	p->pid = child_fork(relay, p);
	close(p->listener);
	return p;
}

void proxy_freeze(proxy *p)
{
	siginfo_t info;

	kill(p->pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)p->pid, &info, WSTOPPED), 0);
}

void proxy_thaw(proxy *p)
{
	kill(p->pid, SIGCONT);
}

void proxy_free(proxy *p)
{
	if (!p)
		return;
	child_end(p->pid, SIGKILL);
	free(p->url);
	free(p);
}

uint16_t proxy_port(const proxy *p)
{
	return p->port;
}

const char *proxy_url(const proxy *p)
{
	return p->url;
}
