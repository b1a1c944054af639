/* A worker's processes: see process.h for the contract.
 *
 * The worker dies with its supervisor (parent death signal), so that it does not write on where nobody looks after it.
 */
#include "cloud-agent/cluster/local/supervisor/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP_NONE, STEP_FOLDER, STEP_COMMAND };

typedef struct failure {
	int errnum, step;
} failure;

__attribute__((noreturn)) static void child_fail(int report, int step)
{
	failure f = {errno, step};
	/* If even this fails, the exit code is all that is known. */
	if (write(report, &f, sizeof f) < 0)
		_exit(126);
	_exit(127);
}

__attribute__((noreturn)) static void child_run(const command *c, const char *folder, int out_fd, int report, pid_t supervisor)
{
	sigset_t none;
	sigemptyset(&none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(126); /* it died before the line above */
	setsid();
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(out_fd, STDOUT_FILENO) < 0 || dup2(out_fd, STDERR_FILENO) < 0)
		child_fail(report, STEP_NONE);
	if (chdir(folder) != 0)
		child_fail(report, STEP_FOLDER);
	environ = c->env;
	execvp(c->argv[0], c->argv);
	child_fail(report, STEP_COMMAND);
}

int process_start(const command *c, const char *folder, int out_fd, pid_t *pid, const char **step)
{
	static const char *const steps[] = {"cannot start a process", "cannot enter the working folder", "cannot run the command"};
	int report[2];
	*step = steps[STEP_NONE];
	if (pipe2(report, O_CLOEXEC) != 0)
		return errno;
	pid_t self = getpid();
	*pid = fork();
	if (*pid == 0)
		child_run(c, folder, out_fd, report[1], self);
	int errnum = *pid < 0 ? errno : 0;
	close(report[1]);
	failure f = {0, STEP_NONE};
	ssize_t n = 0;
	while (errnum == 0 && (n = read(report[0], &f, sizeof f)) < 0 && errno == EINTR)
		;
	close(report[0]);
	if (errnum == 0 && n == (ssize_t)sizeof f) {
		while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
			;
		errnum = f.errnum;
		*step = steps[f.step];
	}
	return errnum;
}

void process_signal(pid_t pid, int signal)
{
	/* Before the child has its own session there is no such group. */
	if (kill(-pid, signal) != 0)
		kill(pid, signal);
}

/* The parent of a process by /proc/N/stat: "N (name) S parent ...", where the name may hold anything. 0 if it is gone. */
static pid_t parent_of(const char *number)
{
	char path[64], text[512];
	if (strlen(number) > 20)
		return 0;
	snprintf(path, sizeof path, "/proc/%s/stat", number);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *close_paren = strrchr(text, ')');
	if (close_paren == NULL || strlen(close_paren) < 5)
		return 0;
	return (pid_t)strtol(close_paren + 4, NULL, 10);
}

/* How many children were sent a SIGKILL. */
static size_t kill_children(void)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	size_t n = 0;
	pid_t self = getpid();
	while (proc != NULL && (entry = readdir(proc)) != NULL) {
		if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == self &&
			kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL) == 0)
			n++;
	}
	if (proc != NULL)
		closedir(proc);
	return n;
}

void process_clean(pid_t pid)
{
	kill(-pid, SIGKILL);
	for (;;) {
		size_t killed = kill_children();
		pid_t ended = waitpid(-1, NULL, killed > 0 ? 0 : WNOHANG);
		/* Each that ends may leave children, which are ours from then on. 0: one that cannot be found, since there is no /proc. */
		if (ended == 0 || (ended < 0 && errno != EINTR))
			return;
	}
}

int process_ended(pid_t pid, ending *out)
{
	siginfo_t info = {0};
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
		if (info.si_pid == pid) {
			out->code = info.si_code == CLD_EXITED ? info.si_status : 0;
			out->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
			return 1;
		}
		waitpid(info.si_pid, NULL, WNOHANG);
		info.si_pid = 0;
	}
	return 0;
}
