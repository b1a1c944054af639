/* Children, ports and folders for tests: see child.h. */
#include "tests/integration/child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { PORT_WAIT_MS = 10000 };

/* In the child: nothing of the test's survives the test. */
static void become_child(pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

pid_t child_start(const char *const *argv, const char *log)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	become_child(parent);
	if (log) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
	}
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, "cannot start %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

pid_t child_fork(int (*run)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	become_child(parent);
	_exit(run(arg));
}

int child_end(pid_t pid, int signal)
{
	int status = 0;

	if (signal) {
		kill(pid, signal);
		kill(pid, SIGCONT); /* one that was stopped hears nothing else */
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail_msg("waitpid: %s", strerror(errno));
	return status;
}

static int loopback_socket(uint16_t port, struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	return fd;
}

/* Reserves the port by a name that ends with this process. */
static bool port_reserve(uint16_t port)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ilmare-test-port-%u", port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0)
		return true;
	close(fd);
	return false;
}

static bool port_is_free(uint16_t port)
{
	struct sockaddr_in address;
	int fd = loopback_socket(port, &address);
	bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;

	close(fd);
	return is_free;
}

/* Not of those that the system gives to whoever asks for any: what is free here stays free. */
enum { PORT_FIRST = 12000, PORT_END = 30000 };

uint16_t port_free(void)
{
	static int last; /* the search goes on there, and begins at another place in each process */

	if (last == 0)
		last = getpid() * 97;
	for (int i = 0; i < PORT_END - PORT_FIRST; i++) {
		uint16_t port = (uint16_t)(PORT_FIRST + ++last % (PORT_END - PORT_FIRST));

		if (port_reserve(port) && port_is_free(port))
			return port;
	}
	fail_msg("no port from %d to %d is free", PORT_FIRST, PORT_END - 1);
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True if who listens hangs up on nonsense. That it listens would not do: mosquitto does so before it can be told anything, so a SIGHUP ends
 * it, and a SIGTERM may be forgotten. */
static bool hangs_up(int fd)
{
	static const char nonsense[16];
	struct timeval limit = {.tv_sec = PORT_WAIT_MS / 1000};
	char answer[64];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL) < 0)
		return true;
	while ((n = recv(fd, answer, sizeof answer, 0)) > 0)
		;
	return n == 0 || errno == ECONNRESET;
}

int port_wait(uint16_t port, pid_t child)
{
	int64_t deadline = now_ms() + PORT_WAIT_MS;
	siginfo_t info;

	while (now_ms() < deadline) {
		struct sockaddr_in address;
		int fd = loopback_socket(port, &address);
		bool answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && hangs_up(fd);

		close(fd);
		if (answers)
			return 0;
		info.si_pid = 0;
		if (child > 0 && waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
			return -1;
		poll(NULL, 0, 5); /* between two looks */
	}
	return -1;
}

char *folder_new(void)
{
	const char *tmp = getenv("TMPDIR");
	char *path = mem_printf("%s/ilmare-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	assert_non_null(mkdtemp(path));
	return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void folder_remove(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *folder_file(const char *folder, const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", folder, name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return path;
}
