/* ilmare-worker: looks after one worker of the local backend, and outlives the agent that started it.
 *
 * Started by ilmare-cloud with the worker's folder as its argument and the files of contract.h open; not meant to be run by hand. It leads
 * a session of its own, so that what ends the agent leaves it alone, and runs the worker as spec.json says until the worker is over. It never starts
 * a worker that has a status already (save for restart policy Always), so a worker is run by one supervisor in all.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "cloud-agent/cluster/local/supervisor/job.h"
#include "cloud-agent/cluster/local/supervisor/run.h"
#include "common/mem.h"
#include "common/version.h"

static const char help[] =
	"ilmare-worker: looks after one worker of ilmare-cloud, which starts it; it is not meant to be run by hand.\n\n"
	"Usage: ilmare-worker FOLDER | --help | --version\n\n"
	"FOLDER, an absolute path, has the worker's spec.json; its files are open already when ilmare-cloud starts this.\n";

static int usage(void)
{
	fputs(help, stderr);
	return 2;
}

static bool is_question(const char *arg, const char *flag, const char *letter)
{
	return strcmp(arg, flag) == 0 || strcmp(arg, letter) == 0;
}

/* Only what the contract names goes on: not a socket of the agent's, nor its locks. */
static int files_take(void)
{
	for (int fd = WORKER_FD_LOCK; fd < WORKER_FDS; fd++) {
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
			return -1;
	}
	fcntl(WORKER_FD_WAKE, F_SETFL, O_NONBLOCK);
	fcntl(WORKER_FD_CONTROL, F_SETFL, O_NONBLOCK);
	if (close_range(WORKER_FDS, ~0U, 0) != 0) {
		long most = sysconf(_SC_OPEN_MAX);
		for (int fd = WORKER_FDS; fd < (most > 0 && most < 65536 ? (int)most : 65536); fd++)
			close(fd);
	}
	return 0;
}

/* Nothing of the agent's is held on to: whoever reads its output sees the end of it when the agent ends. */
static int detach(void)
{
	setsid(); /* fails where the agent has seen to it already */
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return -1;
	if (null > 2)
		close(null);
	return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void signals_block(void)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
}

static void write_pid(void)
{
	FILE *f = fopen(WORKER_PID, "we");
	if (f == NULL)
		return;
	fprintf(f, "%ld\n", (long)getpid());
	fclose(f);
}

int main(int argc, char **argv)
{
	if (argc == 2 && is_question(argv[1], "--version", "-V"))
		return puts("ilmare-worker " ILMARE_VERSION) < 0;
	if (argc == 2 && is_question(argv[1], "--help", "-h"))
		return fputs(help, stdout) < 0;
	if (argc < 2 || argv[1][0] != '/')
		return usage();
	if (files_take() != 0)
		return usage();
	mem_init();
	if (chdir(argv[1]) != 0) {
		fprintf(stderr, "ilmare-worker: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	error err = {0};
	job j;
	if (job_read(WORKER_SPEC, &j, &err) != 0) {
		fprintf(stderr, "ilmare-worker: %s: %s\n", argv[1], err.text);
		return 1;
	}
	signals_block();
	int code = detach();
	/* A status that cannot be looked at may be there. */
	if (code == 0 && (j.policy == RESTART_ALWAYS || (access(WORKER_STATUS, F_OK) != 0 && errno == ENOENT))) {
		write_pid();
		run_job(&j);
	}
	job_fini(&j);
	return code == 0 ? 0 : 1;
}
