/* Traces 12, 13 and 17: who leads, what the broker holds, and pods that are made once. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/trace.h"

/* ---- 12: the epoch starts again ---- */

static void epoch_again(world *w, bool lease_lost, int64_t clock_behind)
{
	cloud *a = &w->clouds[0];
	int64_t before;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	before = w->lease.epoch;
	cloud_crash(w, a, -1);
	if (lease_lost)
		w->lease.epoch = 0;
	a->wall_offset = -clock_behind;
	cloud_start(w, a);
	world_run(w, SECONDS(10));
	EXPECT(w, a->leading && w->lease.epoch > before);
	file_append(w, &w->files[0], 1);
	script_round(w, 1);
	EXPECT(w, script_record(w, 0)->desired->stamp.epoch > before);
	trace_end(w);
}

void trace_12a(world *w)
{
	epoch_again(w, false, 0);
}

void trace_12b(world *w)
{
	epoch_again(w, true, 0);
}

void trace_12c(world *w)
{
	epoch_again(w, true, HOURS(24));
}

void trace_12d(world *w)
{
	cloud *a = &w->clouds[0];
	const msg *m;
	char *where, *payload, *epoch;
	int64_t published;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	where = script_topic(w, TOPIC_STATE, 0);
	m = broker_retained(w, where);
	payload = strdup(m->payload);
	epoch = strstr(payload, "\"epoch\":") + 8;
	*epoch = '9'; /* 1796… becomes 9796…: of a leader with a clock that is far ahead */
	w->lease.holder = &w->clouds[1];
	w->lease.expires = w->now + HOURS(100);
	a->leading = true;
	published = a->publishes;
	script_publish(w, where, payload);
	world_run(w, SECONDS(5));
	EXPECT(w, !a->leading && a->publishes == published);
	w->lease.expires = w->now;
	cloud_crash(w, a, 100);
	free(payload);
	free(where);
	trace_end(w);
}

/* The cluster is put back with its Lease, and the clock is behind: the same epoch comes out again. */
void trace_12e(world *w)
{
	cloud *a = &w->clouds[0];
	int64_t before;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	before = w->lease.epoch;
	device_crash(w, &w->devices[0], 0); /* its birth is answered: stamps go on */
	world_run(w, SECONDS(10));
	cloud_crash(w, a, -1);
	w->lease.epoch = before - 1;
	a->wall_offset = -HOURS(24);
	cloud_start(w, a);
	world_run(w, SECONDS(10));
	EXPECT(w, a->leading && w->lease.epoch > before);
	file_append(w, &w->files[0], 1);
	script_round(w, 1);
	EXPECT(w, script_record(w, 0)->desired->stamp.epoch > before);
	trace_end(w);
}

/* ---- 13: the broker does not hold what the leader published ---- */

static void broker_behind(world *w, int kept)
{
	device *d = &w->devices[0];
	int64_t published;

	script_begin(w, 1, 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_RUNNING);
	world_run(w, SECONDS(1));
	broker_save(w);
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	client_network(w, d->link, false);
	world_run(w, SECONDS(1));
	published = w->clouds[0].publishes;
	broker_restart(w, kept);
	world_run(w, SECONDS(10));
	EXPECT(w, w->clouds[0].publishes > published + 3);
	client_network(w, d->link, true);
	script_until(w, 1, STAGE_EVAL, PHASE_READY);
	trace_end(w);
}

void trace_13a(world *w)
{
	broker_behind(w, 0);
}

void trace_13b(world *w)
{
	broker_behind(w, 1);
}

static void deposed(world *w, bool deleted)
{
	cloud *a = &w->clouds[0], *b = &w->clouds[1];
	device *d = &w->devices[0];
	hold *h;
	char *where;

	script_begin(w, 1, 0);
	cloud_start(w, b);
	world_run(w, SECONDS(5));
	client_network(w, d->link, false);
	h = broker_hold(w, a->link, NULL, "/job/default/job-a", "");
	client_network(w, a->link, false);
	client_network(w, a->link, true);
	world_run(w, SECONDS(1));
	EXPECT(w, h->n > 0 && a->leading);
	cloud_stall(w, a, MINUTES(2));
	if (deleted)
		job_delete(w, &w->jobs[0]);
	world_run(w, SECONDS(40));
	EXPECT(w, b->leading && w->lease.holder == b);
	broker_release(w, h);
	world_run(w, SECONDS(10));
	where = script_topic(w, TOPIC_DESIRED, 0);
	EXPECT(w, (broker_retained(w, where) == NULL) == deleted);
	free(where);
	world_run(w, MINUTES(3)); /* A is awake again: the fence is watched all the time */
	EXPECT(w, !a->leading);
	client_network(w, d->link, true);
	world_run(w, SECONDS(10));
	EXPECT(w, (script_record(w, 0) == NULL) == deleted);
	if (!deleted) {
		EXPECT(w, script_record(w, 0)->desired->stamp.epoch == w->lease.epoch);
		file_append(w, &w->files[0], 1);
		script_round(w, 1);
	}
	trace_end(w);
}

void trace_13c(world *w)
{
	deposed(w, true);
}

void trace_13d(world *w)
{
	deposed(w, false);
}

/* The first thing that a new reign does is to clear what a deleted job left, and that is lost on its way. */
void trace_13e(world *w)
{
	cloud *a = &w->clouds[0];
	hold *h;
	char *where = NULL;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(5));
	cloud_resign(w, a);
	job_delete(w, &w->jobs[0]);
	world_run(w, SECONDS(5));
	h = broker_hold(w, a->link, NULL, "/job/", "");
	cloud_lead(w, a);
	world_run(w, SECONDS(5));
	EXPECT(w, h->n > 0 && a->clears > 0);
	broker_lose(w, h);
	where = script_topic(w, TOPIC_STATE, 0);
	EXPECT(w, broker_retained(w, where) != NULL);
	world_run(w, HOURS(3));
	EXPECT(w, broker_retained(w, where) == NULL);
	free(where);
	trace_end(w);
}

/* ---- 17: a missing pod is made again ---- */

void trace_17a(world *w)
{
	track *t;
	pod *p;

	script_begin(w, 1, 1);
	t = script_track(w);
	p = script_pod(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_STARTING);
	pod_gone(w, p);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, track_round(t, 1)->creates[0] == 1 && !track_round(t, 1)->trained && t->failed >= 1);
	script_round(w, 2);
	EXPECT(w, track_round(t, 2)->n_ids == 1);
	trace_end(w);
}

/* A creates the pod and stalls before it hears of it. */
static pod *stalled_after_create(world *w)
{
	cloud *a = &w->clouds[0], *b = &w->clouds[1];
	pod *p;

	script_begin(w, 1, 0);
	cloud_start(w, b);
	world_run(w, SECONDS(5));
	file_append(w, &w->files[0], 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	while ((p = pod_find(w, script_track(w)->uid, WORKER_TRAIN, 1)) == NULL && world_step(w, w->now + MINUTES(1)))
		;
	EXPECT(w, p != NULL && script_is(w, 1, STAGE_TRAIN, PHASE_READY));
	cloud_stall(w, a, MINUTES(2));
	return p;
}

void trace_17b(world *w)
{
	track *t;

	stalled_after_create(w);
	t = script_track(w);
	script_until(w, 1, STAGE_TRAIN, PHASE_STARTING);
	EXPECT(w, w->clouds[1].leading && track_round(t, 1)->creates[0] == 1);
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	world_run(w, MINUTES(4));
	EXPECT(w, track_round(t, 1)->creates[0] == 1 && !w->clouds[0].leading);
	trace_end(w);
}

void trace_17c(world *w)
{
	pod *p = stalled_after_create(w), *q;
	track *t = script_track(w);

	script_finish(w, 1);
	EXPECT(w, p->o->json != NULL); /* what has ended proves that it ran */
	file_append(w, &w->files[0], 1);
	script_round(w, 2);
	world_run(w, MINUTES(4));
	file_append(w, &w->files[0], 1);
	script_round(w, 3);
	world_run(w, SECONDS(30));
	q = pod_find(w, t->uid, WORKER_TRAIN, 2);
	EXPECT(w, p->o->json == NULL && q == NULL);
	for (int64_t r = 1; r <= 3; r++)
		EXPECT(w, track_round(t, r)->creates[0] == 1 && track_round(t, r)->creates[1] == 1);
	trace_end(w);
}
