/* Traces 9 and 10: what is in place is what the cluster names, and a folder has one writer. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tests/sim/trace.h"

static const uint64_t first_model = 1;

/* ---- 9: the model is copied before the cluster holds the decision ---- */

static void until_deploy(world *w)
{
	script_begin(w, 1, 1);
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	script_work(w, WORKER_EVAL, 1);
	script_until(w, 1, STAGE_DEPLOY, PHASE_WAITING);
}

void trace_9a(world *w)
{
	device *d = &w->devices[0];

	until_deploy(w);
	d->disk_full = true; /* the decision cannot be committed */
	world_run(w, SECONDS(20));
	EXPECT(w, script_is(w, 1, STAGE_DEPLOY, PHASE_WAITING) && script_deployed(w) == first_model);
	device_crash(w, d, -1);
	script_threshold(w, 2); /* the second look says no */
	d->disk_full = false;
	device_start(w, d);
	world_run(w, MINUTES(2));
	EXPECT(w, script_track(w)->pos.round == 2);
	EXPECT(w, script_track(w)->has_deployed == (script_deployed(w) != first_model));
	trace_end(w);
}

void trace_9b(world *w)
{
	device *d = &w->devices[0];
	hold *h;

	script_begin(w, 1, 1);
	h = broker_hold(w, NULL, d->link, "/job/default/job-a", "\"stage\":\"Deploy\",\"phase\":\"Ready\"");
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	script_work(w, WORKER_EVAL, 1);
	script_until(w, 1, STAGE_DEPLOY, PHASE_READY);
	world_run(w, SECONDS(20));
	EXPECT(w, script_deployed(w) == first_model);
	script_threshold(w, 2);
	device_lose_store(w, d);
	world_run(w, SECONDS(20));
	EXPECT(w, script_deployed(w) == first_model);
	broker_release(w, h);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_track(w)->has_deployed && script_deployed(w) != first_model);
	trace_end(w);
}

void trace_9c(world *w)
{
	device *d = &w->devices[0];
	hold *h;

	setup_script(w, 1);
	w->jobs[0].deploy_threshold = 2;
	file_append(w, &w->files[0], 1);
	script_start(w);
	script_work(w, WORKER_TRAIN, 1);
	script_until(w, 1, STAGE_EVAL, PHASE_WAITING);
	h = broker_hold(w, d->link, NULL, "/deploy/completed", "");
	script_work(w, WORKER_EVAL, 1);
	script_until(w, 1, STAGE_DEPLOY, PHASE_WAITING);
	world_run(w, SECONDS(2));
	EXPECT(w, h->n > 0);
	script_threshold(w, -1);
	device_lose_store(w, d);
	world_run(w, SECONDS(1));
	EXPECT(w, script_deployed(w) == first_model || script_track(w)->has_deployed);
	broker_release(w, h);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_track(w)->has_deployed == (script_deployed(w) != first_model));
	trace_end(w);
}

void trace_9d(world *w)
{
	until_deploy(w);
	script_until(w, 1, STAGE_DEPLOY, PHASE_READY);
	w->devices[0].lan = false; /* no kubelet: the new inference pod does not start */
	script_until(w, 1, STAGE_DEPLOY, PHASE_STARTING);
	EXPECT(w, script_track(w)->has_deployed && script_track(w)->deployed_round == 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, w->now > MINUTES(10) && script_track(w)->deployed_round == 1 && script_track(w)->failed == 0);
	trace_end(w);
}

void trace_9e(world *w)
{
	device *d = &w->devices[0];
	uint64_t second;

	until_deploy(w);
	while ((script_record(w, 0)->desired->position.phase != PHASE_READY || script_record(w, 0)->desired->position.stage != STAGE_DEPLOY) &&
		world_step(w, w->now + MINUTES(1)))
		;
	EXPECT(w, script_record(w, 0)->desired->position.phase == PHASE_READY);
	device_backup(w, d);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	file_append(w, &w->files[0], 1);
	script_round(w, 2);
	second = script_deployed(w);
	EXPECT(w, script_track(w)->deployed_round == 2);
	client_network(w, d->link, false);
	device_restore(w, d);
	world_run(w, MINUTES(5));
	EXPECT(w, script_deployed(w) == second);
	client_network(w, d->link, true);
	world_run(w, MINUTES(5));
	EXPECT(w, script_deployed(w) == second);
	trace_end(w);
}

/* The crash between the copy and its commit: the same copy again, nothing else. */
void trace_9f(world *w)
{
	device *d = &w->devices[0];
	uint64_t content;

	until_deploy(w);
	while (script_deployed(w) == first_model && world_step(w, w->now + MINUTES(5)))
		;
	content = script_deployed(w);
	device_crash(w, d, 100);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_deployed(w) == content && script_track(w)->deployed_round == 1);
	trace_end(w);
}

/* ---- 10: two writers of one folder ---- */

void trace_10a(world *w)
{
	pod *p;

	script_begin(w, 1, 1);
	p = script_pod(w, WORKER_TRAIN, 1);
	worker_write(w, p);
	script_post(w, p);
	script_until(w, 1, STAGE_EVAL, PHASE_READY);
	world_run(w, MINUTES(1));
	EXPECT(w, pod_alive(p) && pod_find(w, script_track(w)->uid, WORKER_EVAL, 1) == NULL);
	pod_container_failed(w, p);
	world_run(w, SECONDS(5));
	worker_write(w, p);
	EXPECT(w, pod_find(w, script_track(w)->uid, WORKER_EVAL, 1) == NULL);
	script_pod(w, WORKER_EVAL, 1); /* the other one was deleted, after the limit, and ended first: track_create looks */
	EXPECT(w, !pod_alive(p));
	trace_end(w);
}

void trace_10b(world *w)
{
	device *d = &w->devices[0];
	pod *p;

	script_begin(w, 1, 1);
	p = script_pod(w, WORKER_TRAIN, 1);
	d->lan = false; /* its kubelet does not hear of the deletion */
	job_delete(w, &w->jobs[0]);
	pod_delete(w, p);
	job_create(w, &w->jobs[0]);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	world_run(w, MINUTES(5));
	EXPECT(w, pod_alive(p) && script_is(w, 1, STAGE_TRAIN, PHASE_READY));
	EXPECT(w, pod_find(w, script_track(w)->uid, WORKER_TRAIN, 1) == NULL);
	EXPECT(w, script_state_says(w, "WaitingForEarlierJob"));
	d->lan = true;
	pod_flush(w, d);
	script_round(w, 1);
	trace_end(w);
}

static const cJSON *last_condition(const object *job)
{
	const cJSON *list = json_member(json_member(job->json, "status"), "conditions");

	return cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
}

void trace_10c(world *w)
{
	job_setup *second = &w->jobs[1];

	script_begin(w, 1, 0);
	job_defaults(w, second, 1);
	w->n_jobs = 2;
	memcpy(second->output_dir, w->jobs[0].output_dir, sizeof(second->output_dir));
	world_run(w, SECONDS(2));
	models_create(w, second);
	job_create(w, second);
	world_run(w, MINUTES(2));
	EXPECT(w, strcmp(json_member(last_condition(second->object), "reason")->valuestring, "OutputDirInUse") == 0);
	EXPECT(w, pod_find(w, second->object->uid, WORKER_INFERENCE, 0) == NULL);
	job_delete(w, second);
	trace_end(w);
}
