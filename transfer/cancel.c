/* See cancel.h. A pipe that nobody reads from wakes everybody. */
#include "transfer/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int ends[2] = {-1, -1};
static atomic_bool told;

void cancel_now(void)
{
	int saved = errno;
	if (!atomic_exchange(&told, true) && write(ends[1], "x", 1) < 0)
		errno = saved; /* a pipe takes one byte */
	errno = saved;
}

static void on_signal(int number)
{
	(void)number;
	cancel_now();
}

void cancel_install(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		perror("ilmare-transfer: no pipe");
		exit(1);
	}
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

bool cancelled(void)
{
	return atomic_load(&told);
}

int cancel_fd(void)
{
	return ends[0];
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool cancel_sleep(int64_t ms)
{
	struct pollfd fd = {.fd = ends[0], .events = POLLIN};
	int64_t end = now_ms() + ms;
	for (int64_t left = ms; left > 0 && !cancelled(); left = end - now_ms())
		(void)poll(&fd, 1, left > 60000 ? 60000 : (int)left);
	return !cancelled();
}
