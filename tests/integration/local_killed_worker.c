/* Linked into a supervisor of its own: it kills itself before the n-th of the calls below, n from LAB_KILL_AT in the environment. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void step(void)
{
	static int left = -1;
	const char *text = getenv("LAB_KILL_AT");
	if (left < 0)
		left = text != NULL ? atoi(text) : 0;
	if (left > 0 && --left == 0)
		kill(getpid(), SIGKILL);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	step();
	return __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	step();
	return __real_rename(from, to);
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	step();
	return __real_write(fd, data, len);
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	step();
	pid_t pid = __real_fork();
	if (pid > 0)
		step();
	return pid;
}

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	step();
	return __real_waitpid(pid, status, options);
}
