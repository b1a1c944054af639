/* See cancel.h. A pipe that nobody reads from wakes everybody. */
#include "transfer/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void *read_to_end(void *arg)
{
	const int *fd = arg;
	char ignored[256];
	for (;;) {
		struct pollfd wait = {.fd = *fd, .events = POLLIN};
		ssize_t n = read(*fd, ignored, sizeof ignored);
		if (n < 0 && errno == EAGAIN)
			(void)poll(&wait, 1, -1);
		else if (n == 0 || (n < 0 && errno != EINTR))
			break;
	}
	cancel_now();
	return NULL;
}

static void watch(int fd)
{
	static int watched;
	pthread_t thread;
	watched = fd;
	int errnum = pthread_create(&thread, NULL, read_to_end, &watched);
	if (errnum != 0) {
		(void)fprintf(stderr, "ilmare-transfer: no thread: %s\n", strerror(errnum));
		exit(1);
	}
	pthread_detach(thread);
}

void cancel_install(int until_end)
{
	struct sigaction action = {.sa_handler = on_signal};
	/* Looked at before something else gets this number. */
	bool closed = until_end >= 0 && fcntl(until_end, F_GETFD) < 0;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		perror("ilmare-transfer: no pipe");
		exit(1);
	}
	sigemptyset(&action.sa_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	if (closed)
		cancel_now();
	else if (until_end >= 0)
		watch(until_end);
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
