/* Traces 1 to 5: which samples count as used, and whose word it is. */
#include "tests/sim/trace.h"

/* ---- 1: ResultsMissing overtakes a durable result ---- */

void trace_1a(world *w)
{
	device *d = &w->devices[0];
	hold *late;
	pod *p;

	script_begin(w, 1, 1);
	p = script_pod(w, WORKER_TRAIN, 1);
	late = broker_hold(w, d->link, NULL, "/train/completed", "");
	worker_write(w, p);
	script_post(w, p);
	pod_end(w, p, true);
	world_run(w, MINUTES(30));
	EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_RUNNING));
	EXPECT(w, script_state_says(w, "WaitingForResult"));
	EXPECT(w, late->n > 0);
	broker_release(w, late);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	EXPECT(w, script_track(w)->cursor.sample == 1 && script_track(w)->failed == 0);
	trace_end(w);
}

void trace_1b(world *w)
{
	device *d = &w->devices[0];
	track *t;
	pod *p;

	setup_script(w, 1);
	w->clouds[0].config.node_silence_ms = MINUTES(5);
	file_append(w, &w->files[0], 1);
	script_start(w);
	t = script_track(w);
	p = script_pod(w, WORKER_TRAIN, 1);
	client_network(w, d->link, false);
	worker_write(w, p);
	script_post(w, p);
	pod_end(w, p, true);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, !track_round(t, 1)->trained);
	client_network(w, d->link, true);
	script_round(w, 2);
	EXPECT(w, !track_round(t, 1)->trained && track_round(t, 2)->trained && track_round(t, 2)->n_ids == 1);
	trace_end(w);
}

/* ---- 2: an early eval failure is read as a failed training ---- */

static void early_eval_failure(world *w, size_t devices)
{
	hold *unseen;

	script_begin(w, devices, 1);
	script_pod(w, WORKER_TRAIN, 1);
	unseen = broker_hold(w, NULL, w->devices[0].link, "/job/default/job-a", "\"position\":{\"round\":1");
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	script_condition(w, PHASE_FAILED, "Script");
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	world_run(w, MINUTES(5));
	EXPECT(w, script_is(w, 2, STAGE_TRAIN, PHASE_WAITING));
	EXPECT(w, script_folder(w, 2) == NULL);
	broker_lose(w, unseen);
	file_append(w, &w->files[0], 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 2)->range.from == 1 && script_folder(w, 2)->range.to == 2);
	trace_end(w);
}

void trace_2a(world *w)
{
	early_eval_failure(w, 2);
}

void trace_2b(world *w)
{
	early_eval_failure(w, 1);
}

/* ---- 3: the store is lost, the round is allocated again ---- */

static void store_lost(world *w, bool late)
{
	device *d = &w->devices[0];
	hold *h;
	int64_t touched;

	setup_script(w, 1);
	file_append(w, &w->files[0], 1);
	h = broker_hold(w, d->link, NULL, "/train/ready", "");
	script_start(w);
	script_wait_folder(w, 1, 1);
	touched = script_folder(w, 1)->touched;
	world_run(w, SECONDS(1));
	file_append(w, &w->files[0], 1);
	device_lose_store(w, d);
	if (late) {
		world_run(w, SECONDS(20));
		EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_WAITING));
	}
	broker_release(w, h);
	script_round(w, 1);
	EXPECT(w, script_folder(w, 1)->touched == touched && script_folder(w, 1)->range.to == 1);
	EXPECT(w, script_track(w)->cursor.sample == 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 2)->range.from == 1 && script_folder(w, 2)->range.to == 2);
	trace_end(w);
}

void trace_3a(world *w)
{
	store_lost(w, false);
}

void trace_3b(world *w)
{
	store_lost(w, true);
}

/* ---- 4: the store is restored, under a running pod ---- */

static void restored_under_pod(world *w)
{
	device *d = &w->devices[0];
	int64_t touched;

	script_pod(w, WORKER_TRAIN, 1);
	touched = script_folder(w, 1)->touched;
	file_append(w, &w->files[0], 1);
	client_network(w, d->link, false);
	device_restore(w, d);
	world_run(w, MINUTES(2));
	EXPECT(w, script_folder(w, 1) != NULL && script_folder(w, 1)->touched == touched);
	client_network(w, d->link, true);
	world_run(w, SECONDS(5));
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	EXPECT(w, script_track(w)->cursor.sample == 1);
	EXPECT(w, script_folder(w, 1)->touched == touched);
	script_finish(w, 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 2)->range.from == 1);
	trace_end(w);
}

void trace_4a(world *w)
{
	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) != NULL);
	device_backup(w, &w->devices[0]);
	file_append(w, &w->files[0], 1);
	restored_under_pod(w);
}

void trace_4b(world *w)
{
	script_begin(w, 1, 1);
	while ((script_record(w, 0) == NULL || !script_record(w, 0)->has_alloc) && world_step(w, MINUTES(5)))
		;
	EXPECT(w, script_record(w, 0)->has_alloc && !script_record(w, 0)->alloc.written && script_folder(w, 1) == NULL);
	device_backup(w, &w->devices[0]);
	restored_under_pod(w);
}

void trace_4c(world *w)
{
	int64_t touched;

	script_begin(w, 1, 1);
	script_pod(w, WORKER_TRAIN, 1);
	device_backup(w, &w->devices[0]);
	touched = script_folder(w, 1)->touched;
	script_finish(w, 1);
	file_append(w, &w->files[0], 1);
	script_round(w, 2);
	EXPECT(w, script_is(w, 3, STAGE_TRAIN, PHASE_WAITING));
	device_restore(w, &w->devices[0]);
	world_run(w, MINUTES(5));
	EXPECT(w, script_folder(w, 1)->touched == touched && script_folder(w, 3) == NULL);
	file_append(w, &w->files[0], 1);
	script_until(w, 3, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 3)->range.from == 2);
	trace_end(w);
}

/* ---- 5: re-imaged, an old report meets a new folder ---- */

static void old_report(world *w, bool lost_again)
{
	device *d = &w->devices[0];
	hold *h;

	setup_script(w, 1);
	file_append(w, &w->files[0], 1);
	h = broker_hold(w, d->link, NULL, "/train/ready", "\"to\":1");
	script_start(w);
	script_wait_folder(w, 1, 1);
	world_run(w, SECONDS(1));
	EXPECT(w, h->n > 0);
	file_append(w, &w->files[0], 1);
	client_network(w, w->clouds[0].link, false); /* the new ready does not get there first */
	device_reimage(w, d, true);
	client_network(w, w->clouds[0].link, true);
	script_wait_folder(w, 1, 2);
	broker_release(w, h);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	script_pod(w, WORKER_TRAIN, 1);
	if (lost_again)
		device_lose_store(w, d);
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	EXPECT(w, script_track(w)->cursor.sample == 2);
	script_finish(w, 1);
	world_run(w, MINUTES(2));
	EXPECT(w, script_is(w, 2, STAGE_TRAIN, PHASE_WAITING));
	file_append(w, &w->files[0], 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_READY);
	EXPECT(w, script_folder(w, 2)->range.from == 2);
	trace_end(w);
}

void trace_5a(world *w)
{
	old_report(w, false);
}

void trace_5b(world *w)
{
	old_report(w, true);
}
