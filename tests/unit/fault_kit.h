/* Making the n-th system call that changes the disk fail, or be the last thing that a process does. A test links with WRAP for the calls that it
 * defines here by FAULT_… macros; the count begins with fault_arm.
 */
#ifndef TESTS_UNIT_FAULT_KIT_H
#define TESTS_UNIT_FAULT_KIT_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum fault_kind { FAULT_NONE, FAULT_ERROR, FAULT_KILL };

static enum fault_kind fault_armed;
static int fault_left, fault_errno;

static inline void fault_arm(enum fault_kind kind, int n, int errnum)
{
	fault_armed = kind;
	fault_left = n;
	fault_errno = errnum;
}

/* True if the armed fault has happened; disarms. */
static inline bool fault_happened(void)
{
	bool happened = fault_armed != FAULT_NONE && fault_left <= 0;
	fault_armed = FAULT_NONE;
	return happened;
}

/* At the beginning of a wrapped call. `undoes`: a call that cleans up, which only a kill interrupts. */
static inline bool fault_here(bool undoes)
{
	if (fault_armed == FAULT_NONE || (undoes && fault_armed == FAULT_ERROR) || --fault_left != 0)
		return false;
	if (fault_armed == FAULT_KILL)
		raise(SIGKILL);
	errno = fault_errno;
	return true;
}

/* Run `f` in a process of its own that is killed at its n-th call. False if it ended by itself before. */
static inline bool fault_kill_at(int n, void (*f)(void *), void *arg)
{
	pid_t pid = fork();
	int status = 0;
	if (pid == 0) {
		fault_arm(FAULT_KILL, n, 0);
		f(arg);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		return false;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Each defines the wrapper of one call: FAULT_CALL(result type, name, undoes, (parameters), (arguments)) */
#define FAULT_CALL(type, name, undoes, parameters, arguments)                                                                              \
	type __real_##name parameters;                                                                                                         \
	type __wrap_##name parameters;                                                                                                         \
	type __wrap_##name parameters                                                                                                          \
	{                                                                                                                                      \
		return fault_here(undoes) ? (type)-1 : __real_##name arguments;                                                                    \
	}

/* fsync is counted, but costs nothing: a killed process loses nothing that it has written, only a machine would, and these tests make many
 * hundreds of files. */
#define FAULT_FSYNC                                                                                                                        \
	int __wrap_fsync(int fd);                                                                                                              \
	int __wrap_fsync(int fd)                                                                                                               \
	{                                                                                                                                      \
		(void)fd;                                                                                                                          \
		return fault_here(false) ? -1 : 0;                                                                                                 \
	}

#endif
