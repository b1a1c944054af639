/* ilmare-sim: runs seeds and traces, each in a process of its own.
 *
 * A seed that breaks a guarantee is run once more, with its last events kept, and its replay command is printed. Everything goes to stdout;
 * the last line counts what passed and what failed, and the exit status says the same.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/sim/pool.h"
#include "tests/sim/trace.h"

enum { JOBS_MAX = 64, LIMIT_S = 60 };

typedef struct options {
	int64_t from, to, rounds, long_rounds;
	int jobs;
	bool seeds, verbose, traces, list, first; /* first: no more after the first failure */
	const char *trace;
} options;

typedef struct task {
	pid_t pid;
	int64_t seed;
	const trace *trace;
} task;

static int64_t passed, failed;

static void quiet_log(void)
{
	log_init("sim", LOG_ERROR);
	log_set_level((enum log_level) - 1);
}

static void run_trace(const trace *t, bool verbose)
{
	world *w = mem_alloc(sizeof(*w));

	world_init(w, 1, verbose);
	w->ring = verbose ? NULL : mem_alloc(64 * sizeof(*w->ring));
	t->run(w);
}

static pid_t start(const options *o, int64_t seed, const trace *t, bool verbose)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	alarm(LIMIT_S);
	if (t != NULL)
		run_trace(t, verbose);
	else
		sim_random((uint64_t)seed, o->rounds, verbose);
	fflush(stdout);
	_exit(0);
}

static void tell_status(int status)
{
	if (WIFSIGNALED(status))
		printf("ended by signal %d (%s)%s\n", WTERMSIG(status), strsignal(WTERMSIG(status)),
			WTERMSIG(status) == SIGALRM ? ": it took too long" : "");
	else if (WEXITSTATUS(status) != 1)
		printf("ended with status %d\n", WEXITSTATUS(status));
}

static void tell_failure(const options *o, const task *t, int status)
{
	tell_status(status);
	if (t->trace != NULL) {
		printf("replay: ilmare-sim --trace %s --verbose\n", t->trace->name);
		return;
	}
	if (!o->verbose) {
		setenv("ILMARE_SIM_RING", "1", 1);
		printf("---- seed %lld once more, its last events:\n", (long long)t->seed);
		waitpid(start(o, t->seed, NULL, false), &status, 0);
		unsetenv("ILMARE_SIM_RING");
	}
	printf("replay: ilmare-sim --seed %lld --rounds %lld --verbose\n", (long long)t->seed, (long long)o->rounds);
}

static void reap(const options *o, task *running, int *n)
{
	int status;
	pid_t pid = wait(&status);

	for (int i = 0; i < *n; i++) {
		task t = running[i];

		if (t.pid != pid)
			continue;
		running[i] = running[--*n];
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			passed++;
			return;
		}
		failed++;
		tell_failure(o, &t, status);
		return;
	}
}

static void run_all(const options *o)
{
	task running[JOBS_MAX];
	int n = 0;

	for (size_t i = 0; i < n_traces && !(o->first && failed > 0); i++) {
		if (!o->traces || (o->trace != NULL && strcmp(o->trace, traces[i].name) != 0))
			continue;
		if (n == o->jobs)
			reap(o, running, &n);
		running[n] = (task){.trace = &traces[i]};
		running[n].pid = start(o, 0, &traces[i], o->verbose);
		n++;
	}
	for (int64_t seed = o->from; o->seeds && seed <= o->to && !(o->first && failed > 0); seed++) {
		if (n == o->jobs)
			reap(o, running, &n);
		running[n] = (task){.seed = seed};
		running[n].pid = start(o, seed, NULL, o->verbose);
		n++;
	}
	while (n > 0)
		reap(o, running, &n);
}

static int run_long(const options *o)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		sim_long(o->long_rounds);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status == 0)
		return 0;
	tell_status(status);
	printf("replay: ilmare-sim --long %lld\n", (long long)o->long_rounds);
	return 1;
}

static int usage(void)
{
	puts("ilmare-sim --seeds FROM-TO [--rounds N] [--jobs N]   random runs\n"
		 "ilmare-sim --seed N [--rounds N] [--verbose]         one of them, with all that happens\n"
		 "ilmare-sim --traces | --trace NAME [--verbose]       scripted runs; --list names them\n"
		 "ilmare-sim --long ROUNDS                             one job for so many rounds\n"
		 "--first: stop at the first failure");
	return 2;
}

static bool parse(int argc, char **argv, options *o)
{
	static const struct option names[] = {{"seeds", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'n'},
		{"rounds", required_argument, NULL, 'r'}, {"jobs", required_argument, NULL, 'j'}, {"verbose", no_argument, NULL, 'v'},
		{"traces", no_argument, NULL, 'T'}, {"trace", required_argument, NULL, 't'}, {"list", no_argument, NULL, 'l'},
		{"first", no_argument, NULL, 'f'}, {"long", required_argument, NULL, 'L'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		char *rest = optarg;

		if (c == 's' || c == 'n') {
			o->seeds = true;
			o->from = o->to = strtoll(optarg, &rest, 10);
			if (c == 's' && *rest == '-')
				o->to = strtoll(rest + 1, NULL, 10);
		} else if (c == 'r') {
			o->rounds = strtoll(optarg, NULL, 10);
		} else if (c == 'j') {
			o->jobs = atoi(optarg);
		} else if (c == 'v') {
			o->verbose = true;
		} else if (c == 'T' || c == 't') {
			o->traces = true;
			o->trace = c == 't' ? optarg : o->trace;
		} else if (c == 'f') {
			o->first = true;
		} else if (c == 'l') {
			o->list = true;
		} else if (c == 'L') {
			o->long_rounds = strtoll(optarg, NULL, 10);
		} else {
			return false;
		}
	}
	if (o->jobs < 1 || o->jobs > JOBS_MAX)
		o->jobs = 1;
	if (o->rounds < 1)
		o->rounds = 1;
	return optind == argc && (o->seeds || o->traces || o->list || o->long_rounds > 0);
}

int main(int argc, char **argv)
{
	options o = {.rounds = 20, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN)};

	mem_init();
	pool_init();
	quiet_log();
	if (!parse(argc, argv, &o))
		return usage();
	if (o.list) {
		for (size_t i = 0; i < n_traces; i++)
			puts(traces[i].name);
		return 0;
	}
	if (o.long_rounds > 0)
		return run_long(&o);
	if (o.verbose)
		setvbuf(stdout, NULL, _IOLBF, 0); /* a crash loses no line */
	run_all(&o);
	printf("%lld passed, %lld failed\n", (long long)passed, (long long)failed);
	return failed == 0 ? 0 : 1;
}
