/* The thread that talks to Paho, and its jobs: see link.h. */
#include "common/mqtt/link.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/mqtt/link_internal.h"

enum {
	STACK_BYTES = 256 * 1024 /* it needs little; this bounds what a deep call of the resolver or of OpenSSL may touch */
};

struct job {
	struct job *next;
	enum job_kind kind;
	uint32_t attempt, address;
	size_t index; /* broker or subscription */
	bool again;
	struct message *message;
};

struct link *link_new(struct settings *settings, uv_async_t *wake)
{
	struct link *l = mem_alloc(sizeof *l);

	if (uv_mutex_init(&l->lock) || uv_cond_init(&l->wake))
		abort();
	l->settings = settings;
	l->inbox = inbox_new(wake, settings->c.queue_bytes, settings->c.patience_ms);
	l->last = &l->first;
	/* All publishes of the window, all subscriptions, one probe. */
	l->n_operations = settings->c.max_inflight + settings->c.n_subscriptions + 1;
	l->operations = mem_alloc(l->n_operations * sizeof *l->operations);
	return l;
}

static void destroy(struct link *l)
{
	struct job *j;

	while ((j = l->first) != NULL) {
		l->first = j->next;
		message_free(j->message);
		free(j);
	}
	inbox_free(l->inbox);
	settings_free(l->settings);
	free(l->operations);
	free(l->diagnosis);
	uv_cond_destroy(&l->wake);
	uv_mutex_destroy(&l->lock);
	free(l);
}

static struct job *next_job(struct link *l)
{
	struct job *j;

	uv_mutex_lock(&l->lock);
	while (!l->first)
		uv_cond_wait(&l->wake, &l->lock);
	j = l->first;
	if (!(l->first = j->next))
		l->last = &l->first;
	uv_mutex_unlock(&l->lock);
	return j;
}

static void do_job(struct link *l, struct job *j)
{
	switch (j->kind) {
	case JOB_OPEN:
		l->attempt = j->attempt;
		link__paho_open(l, &l->settings->brokers[j->index], j->address);
		break;
	case JOB_SUBSCRIBE:
		link__paho_subscribe(l, j->index, j->again);
		break;
	case JOB_PUBLISH:
		link__paho_publish(l, j->message);
		break;
	case JOB_PROBE:
		link__paho_probe(l);
		break;
	case JOB_CLOSE:
		link__paho_close(l);
		uv_mutex_lock(&l->lock);
		l->closing = false;
		uv_mutex_unlock(&l->lock);
		link__tell(l, EVENT_CLOSED, 0, 0, NULL);
		break;
	case JOB_QUIT:
		break;
	}
}

static void *run(void *arg)
{
	struct link *l = arg;
	bool quit = false, abandoned;

	while (!quit) {
		struct job *j = next_job(l);

		do_job(l, j);
		quit = j->kind == JOB_QUIT;
		message_free(j->message);
		free(j);
	}
	uv_mutex_lock(&l->lock);
	abandoned = l->abandoned;
	uv_mutex_unlock(&l->lock);
	if (abandoned)
		destroy(l);
	return NULL;
}

/* Signals are for the loop's thread; the threads that Paho starts from this one inherit the mask. */
static void start_thread(struct link *l)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&l->thread, &attr, run, l);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		/* As with memory: nothing works any more on such a machine, and a restart is always safe. */
		fprintf(stderr, "mqtt: cannot start a thread: %s\n", strerror(rc));
		exit(EXIT_FAILURE);
	}
	l->started = true;
}

/* With `closing`: the close flag is raised together with the job, so that an attempt which is still resolving sees it. */
static void push(struct link *l, struct job *j, bool closing)
{
	uv_mutex_lock(&l->lock);
	*l->last = j;
	l->last = &j->next;
	l->closing |= closing;
	uv_cond_signal(&l->wake);
	uv_mutex_unlock(&l->lock);
}

static struct job *job_new(enum job_kind kind)
{
	struct job *j = mem_alloc(sizeof *j);

	j->kind = kind;
	return j;
}

void link_open(struct link *l, uint32_t attempt, size_t broker, uint32_t address)
{
	struct job *j = job_new(JOB_OPEN);

	j->attempt = attempt;
	j->index = broker;
	j->address = address;
	inbox_refuse_messages(l->inbox, false);
	if (!l->started)
		start_thread(l);
	push(l, j, false);
}

void link_subscribe(struct link *l, size_t index, bool again)
{
	struct job *j = job_new(JOB_SUBSCRIBE);

	j->index = index;
	j->again = again;
	push(l, j, false);
}

void link_publish(struct link *l, struct message *m)
{
	struct job *j = job_new(JOB_PUBLISH);

	j->message = m;
	push(l, j, false);
}

void link_probe(struct link *l)
{
	push(l, job_new(JOB_PROBE), false);
}

void link_close(struct link *l)
{
	inbox_refuse_messages(l->inbox, true);
	push(l, job_new(JOB_CLOSE), true);
}

struct event *link_events(struct link *l, uint64_t *dropped)
{
	return inbox_take(l->inbox, dropped);
}

bool link_is_resolving(const struct link *l)
{
	return atomic_load(&l->resolving);
}

bool link__is_closing(struct link *l)
{
	bool closing;

	uv_mutex_lock(&l->lock);
	closing = l->closing;
	uv_mutex_unlock(&l->lock);
	return closing;
}

void link__tell(struct link *l, enum event_kind kind, int64_t token, int reason, char *text)
{
	struct event *e = event_new(kind, l->attempt);

	e->token = token;
	e->reason = reason;
	e->text = text;
	inbox_put(l->inbox, e);
}

void link_free(struct link *l)
{
	if (!l)
		return;
	if (l->started) {
		push(l, job_new(JOB_QUIT), false);
		uv_thread_join(&l->thread);
	}
	destroy(l);
}

void link_abandon(struct link *l)
{
	if (!l->started) {
		destroy(l);
		return;
	}
	inbox_detach(l->inbox);
	uv_mutex_lock(&l->lock);
	l->abandoned = true;
	uv_mutex_unlock(&l->lock);
	pthread_detach(l->thread);
	push(l, job_new(JOB_CLOSE), true);
	push(l, job_new(JOB_QUIT), false); /* the last touch: the thread frees it */
}
