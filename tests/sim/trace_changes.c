/* Traces beyond the eighteen: specs that change, and clusters that are put back, as random runs found them. */
#include <string.h>

#include "tests/sim/trace.h"

/* ---- a spec that changes ---- */

/* The device looks for its place in one dataset when the job is given another one: the answer is about the old one. */
void trace_spec_dataset(world *w)
{
	job_setup *j = &w->jobs[0];

	setup_script(w, 1);
	w->n_files = 2;
	file_init(w, &w->files[1], &w->devices[0], "/data/1.txt", FORMAT_TXT);
	dataset_create(w, 1);
	file_append(w, &w->files[0], 5);
	file_append(w, &w->files[1], 20);
	script_start(w);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	w->k.file_ms = SECONDS(20); /* each look takes long */
	script_finish(w, 1);
	world_run(w, SECONDS(65)); /* the folder is looked at; now the place is being found */
	job_read_other(w, j, 1);
	job_edit(w, j);
	script_round(w, 2);
	EXPECT(w, script_folder(w, 2)->file == 1 && script_folder(w, 2)->range.from == 5 && script_folder(w, 2)->range.to == 25);
	trace_end(w);
}

/* Dataset and output folder change in the middle of a round: they are the next round's. */
void trace_spec_folder(world *w)
{
	job_setup *j = &w->jobs[0];
	track *t;

	setup_script(w, 1);
	w->n_files = 2;
	file_init(w, &w->files[1], &w->devices[0], "/data/1.txt", FORMAT_CSV);
	dataset_create(w, 1);
	file_append(w, &w->files[0], 5);
	file_append(w, &w->files[1], 20);
	script_start(w);
	t = script_track(w);
	script_until(w, 1, STAGE_TRAIN, PHASE_RUNNING);
	strcpy(j->output_dir, "/out/elsewhere");
	job_read_other(w, j, 1);
	job_edit(w, j);
	world_run(w, SECONDS(2));
	script_finish(w, 1);
	EXPECT(w, t->failed == 0 && strcmp(track_round(t, 1)->dir, "/out/job-a") == 0 && track_round(t, 1)->n_ids == 5);
	script_round(w, 2);
	EXPECT(w, t->failed == 0 && strcmp(track_round(t, 2)->dir, j->output_dir) == 0 && track_round(t, 2)->file == 1);
	EXPECT(w, track_round(t, 2)->from == 5 && track_round(t, 2)->n_ids == 20);
	trace_end(w);
}

/* A trigger that holds only by day waits for the morning, and one whose hours are taken away does not. */
static void waits_for_the_morning(world *w, bool hours_taken)
{
	job_setup *j = &w->jobs[0];

	setup_script(w, 1);
	j->timer = true;
	j->check_s = 20;
	file_append(w, &w->files[0], 5);
	script_start(w);
	world_run(w, HOURS(5)); /* it was about one in the night */
	EXPECT(w, script_is(w, 1, STAGE_TRAIN, PHASE_WAITING));
	if (hours_taken) {
		j->timer = false;
		job_edit(w, j);
		world_run(w, SECONDS(5));
		EXPECT(w, script_track(w)->pos.phase > PHASE_WAITING);
	}
	script_round(w, 1);
	trace_end(w);
}

void trace_spec_hours(world *w)
{
	waits_for_the_morning(w, false);
}

void trace_spec_hours_taken(world *w)
{
	waits_for_the_morning(w, true);
}

/* A leader begins while the spec is invalid, so it does not know what belongs on the job's topics, and leaves them; then the job goes. */
static void blocked_at_start(world *w, bool moved)
{
	job_setup *j = &w->jobs[0];
	cloud *a = &w->clouds[0];
	char *where;

	script_begin(w, 3, 1);
	script_round(w, 1);
	world_run(w, SECONDS(2));
	cloud_crash(w, a, -1);
	j->broken = true;
	job_edit(w, j);
	cloud_start(w, a);
	world_run(w, SECONDS(10));
	where = script_topic(w, TOPIC_DESIRED, 1);
	EXPECT(w, broker_retained(w, where) != NULL);
	if (moved) {
		j->broken = false;
		j->train_node = j->eval_node = &w->devices[2];
		job_edit(w, j);
	} else {
		job_delete(w, j);
	}
	world_run(w, SECONDS(10));
	EXPECT(w, broker_retained(w, where) == NULL);
	trace_end(w);
}

void trace_spec_blocked_deleted(world *w)
{
	blocked_at_start(w, false);
}

void trace_spec_blocked_moved(world *w)
{
	blocked_at_start(w, true);
}

/* ---- a cluster that is put back ---- */

/* Round 2 comes again after round 3 has put its model in place: what was written then is not what is there now. */
void trace_back_deployed(world *w)
{
	uint64_t second;

	script_begin(w, 1, 1);
	script_round(w, 1);
	file_append(w, &w->files[0], 1);
	script_until(w, 2, STAGE_TRAIN, PHASE_READY);
	script_work(w, WORKER_TRAIN, 2);
	script_until(w, 2, STAGE_EVAL, PHASE_RUNNING);
	cluster_backup(w);
	script_finish(w, 2);
	second = script_deployed(w);
	file_append(w, &w->files[0], 1);
	script_until(w, 3, STAGE_TRAIN, PHASE_READY);
	script_work(w, WORKER_TRAIN, 3);
	script_until(w, 3, STAGE_EVAL, PHASE_WAITING);
	script_work(w, WORKER_EVAL, 3);
	script_until(w, 3, STAGE_DEPLOY, PHASE_STARTING);
	EXPECT(w, script_deployed(w) != second);
	cluster_restore(w);
	cloud_start(w, &w->clouds[0]);
	script_until(w, 3, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_track(w)->deployed_round == 2 && script_deployed(w) == second);
	trace_end(w);
}

/* The job was deleted and made again after the backup, and the new one has used the folder of its round. */
void trace_back_namesake(world *w)
{
	job_setup *j = &w->jobs[0];
	track *t;
	pod *p;

	script_begin(w, 1, 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	cluster_backup(w);
	t = script_track(w);
	job_delete(w, j);
	file_append(w, &w->files[0], 3);
	job_create(w, j);
	script_wait_folder(w, 1, 4);
	EXPECT(w, strcmp(script_folder(w, 1)->uid, t->uid) != 0);
	world_run(w, SECONDS(5));
	cluster_restore(w);
	cloud_start(w, &w->clouds[0]);
	p = script_pod(w, WORKER_TRAIN, 1);
	worker_write(w, p);
	worker_post_result(w, p, "completed");
	world_run(w, SECONDS(5));
	EXPECT(w, p->last_status == 409);
	pod_end(w, p, true);
	script_until(w, 2, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_track(w) == t && !track_round(t, 1)->trained && t->failed == 1);
	script_round(w, 2);
	EXPECT(w, track_round(t, 2)->n_ids == 4);
	trace_end(w);
}

/* The file was replaced before and is still the new one after the cluster was put back: the same numbers mean other samples in a folder that
 * was written in between. */
void trace_back_replaced(world *w)
{
	track *t;

	script_begin(w, 1, 1);
	t = script_track(w);
	script_round(w, 1);
	world_run(w, SECONDS(2));
	cluster_backup(w);
	file_append(w, &w->files[0], 2);
	script_round(w, 2);
	file_replace(w, &w->files[0], 2);
	script_round(w, 3);
	EXPECT(w, script_folder(w, 3)->range.from == 3 && script_folder(w, 3)->range.to == 5);
	world_run(w, SECONDS(2));
	cluster_restore(w);
	script_folder(w, 2)->aside = true; /* somebody made room */
	cloud_start(w, &w->clouds[0]);
	script_round(w, 2);
	EXPECT(w, track_round(t, 2)->n_ids == 2);
	file_append(w, &w->files[0], 1);
	script_round(w, 3);
	EXPECT(w, script_folder(w, 3)->range.from == 3 && script_folder(w, 3)->range.to == 4 && track_round(t, 3)->n_ids == 1);
	trace_end(w);
}

/* The agent dies between the folder of a new file's samples and its commit: it finds its own work and goes on. */
void trace_back_own_folder(world *w)
{
	device *d = &w->devices[0];

	script_begin(w, 1, 3);
	script_round(w, 1);
	world_run(w, SECONDS(2));
	file_replace(w, &w->files[0], 2);
	while (script_folder(w, 2) == NULL && world_step(w, w->now + MINUTES(1)))
		;
	EXPECT(w, script_folder(w, 2) != NULL && script_folder(w, 2)->begin.size == 0);
	device_crash(w, d, 100);
	script_round(w, 2);
	EXPECT(w, track_round(script_track(w), 2)->n_ids == 2);
	trace_end(w);
}
