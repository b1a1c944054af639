/* A supervisor's life: one loop over three states.
 *
 *   RUNNING  --ended, to be run again-->  WAITING  --back-off over-->  RUNNING
 *   RUNNING, WAITING  --ended for good, or on request-->  ENDED
 *
 * What is run is first each fetcher in turn, then the worker. A fetcher that fails is run again by the worker's restart policy, but for one
 * thing: one that ended well is not, whatever the policy. What all of them fetched is marked as fetched, and a later supervisor of this worker
 * (restart policy Always, after the machine went down) needs no network. It is removed once no run of the worker can come that reads it.
 *
 * Every state is recorded before it is acted on: "running" before the process is started, so that a worker that has run is known to have;
 * the others as soon as they are so. A record that cannot be written (a full disk) is tried again until it can: an end that nobody learns of
 * would be a lost round. Nothing of the worker is alive in WAITING and ENDED.
 */
#include "cloud-agent/cluster/local/supervisor/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "cloud-agent/cluster/local/supervisor/output.h"
#include "cloud-agent/cluster/local/supervisor/process.h"
#include "cloud-agent/cluster/local/supervisor/record.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"

enum { RETRY_MIN_MS = 1000, RETRY_MAX_MS = 60000 };
#define NEVER INT64_MAX

typedef struct life {
	const job *job;
	record rec;
	output out;
	int signals; /* signalfd: SIGCHLD, SIGTERM, SIGINT */
	pid_t pid;   /* 0: no process */
	size_t step; /* the fetcher whose turn it is; n_fetchers: it is the worker's */
	int64_t started_ms, kill_at, start_at, backoff_ms;
	bool stop; /* was asked for */
} life;

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void wake_agent(void)
{
	/* A full pipe has been noticed long ago, or nobody is there to notice. */
	ssize_t n = write(WORKER_FD_WAKE, "s", 1);
	(void)n;
}

/* Signals and commands that came in; sets `stop`. */
static void take_requests(life *l)
{
	struct signalfd_siginfo info;
	char request;
	while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo != SIGCHLD)
			l->stop = true;
	}
	while (read(WORKER_FD_CONTROL, &request, 1) == 1) {
		if (request == CONTROL_END)
			l->stop = true;
	}
}

/* Until it is written, or, in a state that may be given up, until a request to stop comes. */
static int record_insist(life *l, bool give_up)
{
	int64_t pause = RETRY_MIN_MS;
	for (;;) {
		if (record_write(&l->rec, NULL) == 0) {
			wake_agent();
			return 0;
		}
		struct pollfd fds[] = {{.fd = l->signals, .events = POLLIN}, {.fd = WORKER_FD_CONTROL, .events = POLLIN}};
		bool stopped_before = l->stop;
		poll(fds, 2, (int)pause);
		take_requests(l);
		if (l->stop && (give_up || stopped_before))
			return -1;
		pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
	}
}

static void record_end(life *l, const ending *end, const char *reason, const char *message)
{
	record *r = &l->rec;
	r->has_last = true;
	r->last_code = end->code;
	r->last_signal = end->signal;
	r->last_reason = reason;
	free(r->last_message);
	r->last_message = mem_strdup(message);
	memcpy(r->last_started, r->started, sizeof r->started);
	record_stamp(r->last_finished);
}

static bool fetching(const life *l)
{
	return l->step < l->job->n_fetchers;
}

static const command *current(const life *l)
{
	return fetching(l) ? &l->job->fetchers[l->step] : &l->job->worker;
}

/* The worker, or a fetcher that failed, is over, by itself or not: what now? */
static void after_end(life *l, bool failed)
{
	const job *j = l->job;
	bool again = (j->policy == RESTART_ALWAYS && (failed || !fetching(l))) || (j->policy == RESTART_ON_FAILURE && failed);
	l->kill_at = NEVER;
	if (l->stop || !again) {
		l->rec.state = WORKER_ENDED;
		l->rec.stopped = l->stop;
		return;
	}
	if (now_ms() - l->started_ms >= j->backoff_reset_ms)
		l->backoff_ms = 0;
	l->backoff_ms = l->backoff_ms == 0 ? j->backoff_min_ms : l->backoff_ms * 2;
	if (l->backoff_ms > j->backoff_max_ms)
		l->backoff_ms = j->backoff_max_ms;
	l->rec.state = WORKER_WAITING;
	l->rec.backoff_ms = l->backoff_ms;
	l->start_at = now_ms() + l->backoff_ms;
}

static void start_current(life *l)
{
	const command *c = current(l);
	const char *folder = fetching(l) ? "." : l->job->folder;
	l->rec.state = WORKER_RUNNING;
	l->rec.fetch = c->name;
	record_stamp(l->rec.started);
	l->start_at = NEVER;
	if (record_insist(l, true) != 0) {
		l->rec.state = WORKER_ENDED;
		l->rec.stopped = true;
		return;
	}
	l->started_ms = now_ms();
	int out = output_begin(&l->out), errnum = EMFILE;
	const char *step = "cannot make a pipe";
	if (out >= 0)
		errnum = process_start(c, folder, out, &l->pid, &step);
	if (out >= 0)
		close(out);
	if (errnum == 0)
		return;
	l->pid = 0;
	output_end(&l->out);
	char *text = mem_printf("%s %s: %s", step, step[strlen(step) - 1] == 'r' ? folder : c->argv[0], strerror(errnum));
	output_note(&l->out, text);
	record_end(l, &(ending){.code = 127}, "StartError", text);
	free(text);
	after_end(l, true);
	record_insist(l, false);
}

/* On the disk, all of it. Where that cannot be marked it is fetched once more after a crash of the machine. */
static void mark_fetched(void)
{
	int fd = open(WORKER_DOWNLOADS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && syncfs(fd) == 0)
		file_write(WORKER_FETCHED, "", 0, 0600, NULL);
	if (fd >= 0)
		close(fd);
}

static void step_done(life *l)
{
	if (++l->step == l->job->n_fetchers)
		mark_fetched();
	free(l->rec.last_message);
	l->rec.last_message = NULL;
	l->rec.has_last = false;
	l->rec.restarts = l->job->restarts;
	l->backoff_ms = 0;
	start_current(l);
}

static void current_ended(life *l, const ending *end)
{
	process_clean(l->pid);
	l->pid = 0;
	output_end(&l->out);
	bool failed = end->code != 0 || end->signal != 0;
	buf last = {0};
	if (!failed && fetching(l) && !l->stop) {
		step_done(l);
		return;
	}
	if (failed)
		output_last(&l->out, &last);
	record_end(l, end, failed ? "Error" : "Completed", last.len > 0 ? last.data : NULL);
	buf_fini(&last);
	after_end(l, failed);
	record_insist(l, false);
}

static void stop_asked(life *l)
{
	if (l->pid != 0 && l->kill_at == NEVER) {
		process_signal(l->pid, SIGTERM);
		l->kill_at = now_ms() + l->job->grace_ms;
	} else if (l->pid == 0 && strcmp(l->rec.state, WORKER_ENDED) != 0) {
		l->start_at = NEVER;
		l->rec.state = WORKER_ENDED;
		l->rec.stopped = true;
		record_insist(l, false);
	}
}

static void wait_for_something(life *l)
{
	int64_t at = l->kill_at < l->start_at ? l->kill_at : l->start_at, now = now_ms();
	int timeout = at == NEVER ? -1 : at <= now ? 0 : at - now > 3600000 ? 3600000 : (int)(at - now);
	struct pollfd fds[] = {
		{.fd = l->signals, .events = POLLIN}, {.fd = WORKER_FD_CONTROL, .events = POLLIN}, {.fd = l->out.pipe, .events = POLLIN}};
	poll(fds, 3, timeout);
	take_requests(l);
	if (l->out.pipe >= 0 && fds[2].revents != 0 && output_take(&l->out) == 0) {
		close(l->out.pipe); /* the worker closed its output and goes on */
		l->out.pipe = -1;
	}
}

void run_job(const job *j)
{
	life l = {.job = j, .kill_at = NEVER, .start_at = NEVER, .rec = {.restarts = j->restarts}};
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	l.signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	/* Nobody would see the worker's end. Without a status the agent knows that it never ran. */
	if (l.signals < 0)
		return;
	output_init(&l.out, j->log, j->log_max);
	if (access(WORKER_FETCHED, F_OK) == 0)
		l.step = j->n_fetchers;
	start_current(&l);
	while (strcmp(l.rec.state, WORKER_ENDED) != 0) {
		wait_for_something(&l);
		ending end;
		if (l.pid != 0 && process_ended(l.pid, &end))
			current_ended(&l, &end);
		if (l.stop)
			stop_asked(&l);
		if (l.pid != 0 && l.kill_at <= now_ms()) {
			process_signal(l.pid, SIGKILL);
			l.kill_at = NEVER - 1; /* once */
		}
		if (l.pid == 0 && l.start_at <= now_ms()) {
			l.rec.restarts++;
			start_current(&l);
		}
	}
	if (j->policy != RESTART_ALWAYS && j->n_fetchers > 0)
		file_remove_tree(WORKER_DOWNLOADS, NULL);
	output_fini(&l.out);
	free(l.rec.last_message);
	close(l.signals);
}
