/* Traces 15, 16 and 18: reports that are needed again, conditions that are trimmed, results that come before their document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tests/sim/trace.h"

/* ---- 15: a settled report is needed again ---- */

static void restore_status(world *w, cJSON *status)
{
	object *o = w->jobs[0].object;

	o->track->unchecked = true;
	cJSON_DeleteItemFromObjectCaseSensitive(o->json, "status");
	json_put(o->json, "status", status);
	object_changed(w, o);
	track_status(w, o);
}

void trace_15a(world *w)
{
	cloud *a = &w->clouds[0];
	cJSON *status;
	int64_t touched;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(1));
	status = cJSON_Duplicate(json_member(w->jobs[0].object->json, "status"), 1);
	file_append(w, &w->files[0], 1);
	a->stalled_until = 0;
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	world_run(w, SECONDS(1));
	EXPECT(w, record_row(script_record(w, 0), 1, STAGE_TRAIN, REPORT_READY)->settled);
	touched = script_folder(w, 1)->touched;
	cloud_crash(w, a, -1);
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->pod != NULL)
			pod_gone(w, o->pod);
	}
	restore_status(w, status);
	track_round(script_track(w), 1)->creates[0] = 0;
	cloud_start(w, a);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 1)->touched == touched && script_folder(w, 1)->range.to == 1);
	script_track(w)->unchecked = false;
	script_round(w, 1);
	trace_end(w);
}

/* The patch is slow, and the leader dies before it is done. */
void trace_15b(world *w)
{
	cloud *a = &w->clouds[0];

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	w->k.api_ms = SECONDS(5);
	file_append(w, &w->files[0], 1);
	world_run(w, SECONDS(3));
	EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_WAITING));
	EXPECT(w, a->patches > 0 && script_state_says(w, "\"phase\":\"Waiting\""));
	a->api_down_until = w->now + SECONDS(8); /* it never is */
	cloud_crash(w, a, -1);
	world_run(w, SECONDS(9));
	EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_WAITING));
	EXPECT(w, !record_row(script_record(w, 0), 1, STAGE_TRAIN, REPORT_READY)->settled);
	w->k.api_ms = 5;
	cloud_start(w, a);
	script_round(w, 1);
	trace_end(w);
}

void trace_15c(world *w)
{
	device *d = &w->devices[0];
	int64_t seq;

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	device_backup(w, d);
	file_append(w, &w->files[0], 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_RUNNING);
	world_run(w, SECONDS(1));
	seq = record_row(script_record(w, 0), 1, STAGE_TRAIN, REPORT_READY)->seq;
	device_restore(w, d);
	world_run(w, SECONDS(2));
	script_work(w, WORKER_TRAIN, 1);
	EXPECT(w, record_row(script_record(w, 0), 1, STAGE_TRAIN, REPORT_COMPLETED)->seq <= seq + 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	trace_end(w);
}

/* ---- 16: trimmed conditions ---- */

static void fail_train(world *w, int64_t round)
{
	pod *p;

	script_until(w, round, STAGE_TRAIN, PHASE_READY);
	p = script_pod(w, WORKER_TRAIN, round);
	pod_end(w, p, false);
	script_until(w, round + 1, STAGE_TRAIN, PHASE_WAITING);
}

/* What a restarted cloud agent and the device are told: nothing that later rounds read may be missing. */
static void expect_known(world *w, int64_t trained, int64_t deployed, int64_t used)
{
	const desired *d;

	cloud_crash(w, &w->clouds[0], 0);
	world_run(w, SECONDS(5));
	d = script_record(w, 0)->desired;
	EXPECT(w, d->has_trained && d->trained_round == trained && d->n_trained_models == 1);
	EXPECT(w, d->has_deployed && d->deployed_round == deployed);
	EXPECT(w, d->has_cursor && d->cursor.sample == used);
}

static void trimmed(world *w, int limit)
{
	char base[64];

	setup_script(w, 1);
	w->sedna_crds = true;
	w->conditions_max = limit;
	file_append(w, &w->files[0], 1);
	script_start(w);
	script_round(w, 1); /* deployed */
	expect_known(w, 1, 1, 1);
	script_threshold(w, 2);
	for (int64_t r = 2; r <= 4; r++) { /* NotBetter */
		file_append(w, &w->files[0], 1);
		script_round(w, r);
		expect_known(w, r, 1, r);
	}
	file_append(w, &w->files[0], 1);
	for (int64_t r = 5; r <= 9; r++) {
		fail_train(w, r);
		expect_known(w, 4, 1, 4);
	}
	EXPECT(w, strstr(script_record(w, 0)->document, "\"base\":") != NULL);
	snprintf(base, sizeof(base), "/out/job-a/train/");
	EXPECT(w, strncmp(script_record(w, 0)->desired->base.url, base, strlen(base)) == 0);
	script_threshold(w, -1);
	script_round(w, 10);
	expect_known(w, 10, 10, 5);
	EXPECT(w, script_track(w)->conditions_max <= limit);
	trace_end(w);
}

void trace_16_12(world *w)
{
	trimmed(w, 12);
}

void trace_16_14(world *w)
{
	trimmed(w, 14);
}

void trace_16_20(world *w)
{
	trimmed(w, 20);
}

void trace_16_30(world *w)
{
	trimmed(w, 30);
}

/* ---- 18: the document comes after the worker's result ---- */

static hold *unknown_job(world *w)
{
	hold *h;

	setup_script(w, 2);
	w->jobs[0].pinned = false;
	file_append(w, &w->files[0], 1);
	h = broker_hold(w, NULL, w->devices[1].link, "/job/default/job-a", "");
	script_start(w);
	script_until(w, 1, STAGE_TRAIN, PHASE_RUNNING);
	return h;
}

void trace_18a(world *w)
{
	hold *h = unknown_job(w);
	device *t = &w->devices[1];

	script_work(w, WORKER_TRAIN, 1);
	EXPECT(w, t->store.n_early == 1);
	device_crash(w, t, 500);
	world_run(w, MINUTES(5));
	EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_RUNNING));
	broker_release(w, h);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	EXPECT(w, script_track(w)->failed == 0 && script_track(w)->cursor.sample == 1);
	world_run(w, SECONDS(2));
	EXPECT(w, t->store.n_early == 0);
	trace_end(w);
}

/* The document that comes shows a later round. */
void trace_18b(world *w)
{
	hold *h = unknown_job(w);
	device *t = &w->devices[1];
	pod *p = script_pod(w, WORKER_TRAIN, 1);

	worker_write(w, p);
	script_post(w, p);
	script_condition(w, PHASE_FAILED, "Script");
	world_run(w, SECONDS(5));
	broker_release(w, h);
	world_run(w, SECONDS(5));
	EXPECT(w, t->store.n_early == 0);
	p->accepted = false;
	worker_post_result(w, p, "completed");
	world_run(w, SECONDS(1));
	EXPECT(w, !p->accepted && p->last_status == 409);
	trace_end(w);
}

/* The provisional store is full. */
void trace_18c(world *w)
{
	hold *h;
	device *t;
	pod *p;

	setup_script(w, 2);
	w->jobs[0].pinned = false;
	w->devices[1].config.provisional_max = 0;
	file_append(w, &w->files[0], 1);
	h = broker_hold(w, NULL, w->devices[1].link, "/job/default/job-a", "");
	script_start(w);
	t = &w->devices[1];
	p = script_pod(w, WORKER_TRAIN, 1);
	worker_write(w, p);
	worker_post_result(w, p, "completed");
	world_run(w, SECONDS(1));
	EXPECT(w, !p->accepted && p->last_status == 503 && t->store.n_early == 0);
	broker_release(w, h);
	world_run(w, SECONDS(5));
	EXPECT(w, p->accepted); /* one of its five attempts */
	trace_end(w);
}

/* The agent is down for longer than five posts. */
void trace_18d(world *w)
{
	hold *h = unknown_job(w);
	device *t = &w->devices[1];
	pod *p = script_pod(w, WORKER_TRAIN, 1);

	device_crash(w, t, -1);
	worker_write(w, p);
	worker_post_result(w, p, "completed");
	world_run(w, SECONDS(20));
	EXPECT(w, !p->accepted);
	pod_end(w, p, true);
	device_start(w, t);
	broker_release(w, h);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	script_round(w, 2);
	EXPECT(w, track_round(script_track(w), 2)->n_ids == 1);
	trace_end(w);
}
