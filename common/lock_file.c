/* See lock_file.h. */
#include "common/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 200, PID_ROOM = 32 }; /* a second */

/* 0, or -1 with errno; `holder` gets the text of who has it. */
static int take(int file, char holder[PID_ROOM])
{
	const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
	for (int tries = 0; flock(file, LOCK_EX | LOCK_NB) != 0; tries++) {
		if (errno != EWOULDBLOCK)
			return -1;
		ssize_t n = pread(file, holder, PID_ROOM - 1, 0);
		holder[n > 0 ? n : 0] = '\0';
		holder[strcspn(holder, "\n")] = '\0';
		pid_t pid = (pid_t)strtol(holder, NULL, 10);
		bool died = pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
		if (!died || tries == TRIES) {
			errno = EWOULDBLOCK;
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

int lock_file_take(const char *path, const char *what, int *fd, error *err)
{
	char pid[PID_ROOM] = "";
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	*fd = -1;
	if (file < 0)
		return error_errno(err, errno, "cannot open %s", path);
	if (take(file, pid) != 0) {
		int code = errno == EWOULDBLOCK ?
			error_set(err, ERROR_EXISTS, "%s is in use by another agent (process %s)", what, pid[0] != '\0' ? pid : "?") :
			error_errno(err, errno, "cannot lock %s", path);
		close(file);
		return code;
	}
	snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
	/* Without it the lock holds all the same. */
	if (ftruncate(file, 0) != 0 || pwrite(file, pid, strlen(pid), 0) < 0)
		pid[0] = '\0';
	*fd = file;
	return 0;
}
