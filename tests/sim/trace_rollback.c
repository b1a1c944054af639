/* Rollbacks: asked for once, done once, and the model in place is the one that was recorded. */
#include <string.h>

#include "tests/sim/trace.h"

/* Three rounds that deployed; content[r] is what round r put in place. */
static void three_rounds(world *w, uint64_t content[4])
{
	setup_script(w, 1);
	w->clouds[1].enabled = true;
	content[0] = script_deployed(w);
	for (int64_t round = 1; round <= 3; round++) {
		file_append(w, &w->files[0], 1);
		if (round == 1)
			script_start(w);
		script_round(w, round);
		content[round] = script_deployed(w);
	}
	EXPECT(w, script_track(w)->deployed_round == 3 && content[1] != content[2] && content[2] != content[3]);
}

static void until_decided(world *w, int n)
{
	int64_t end = w->now + HOURS(1);

	while (script_track(w)->n_decided < n && world_step(w, end))
		;
	EXPECT(w, script_track(w)->n_decided == n);
}

static void expect_back(world *w, int64_t round, uint64_t content)
{
	script_until(w, round + 1, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_deployed(w) == content);
	EXPECT(w, script_track(w)->deployed_round == round && script_track(w)->n_back == 1);
}

void trace_rollback(world *w)
{
	uint64_t content[4];

	three_rounds(w, content);
	job_ask(w, &w->jobs[0], "1");
	expect_back(w, 4, content[1]);
	world_run(w, MINUTES(5));
	EXPECT(w, !job_asks(w->jobs[0].object));
	job_ask(w, &w->jobs[0], "9");
	until_decided(w, 2);
	EXPECT(w, script_track(w)->n_back == 1 && script_is(w, 5, STAGE_TRAIN, PHASE_WAITING));
	trace_end(w);
}

/* The agent ends after each of its writes; the other one takes over. */
void trace_rollback_crash(world *w)
{
	uint64_t content[4];
	int64_t end;

	three_rounds(w, content);
	job_ask(w, &w->jobs[0], "2");
	end = w->now + HOURS(1);
	for (int64_t rv = w->rv; job_asks(w->jobs[0].object) && world_step(w, end);) {
		if (w->rv == rv || !script_track(w)->alive)
			continue;
		rv = w->rv;
		for (size_t i = 0; i < SIM_CLOUDS; i++) {
			if (w->clouds[i].c != NULL && w->clouds[i].leading)
				cloud_crash(w, &w->clouds[i], SECONDS(20));
		}
	}
	expect_back(w, 4, content[2]);
	trace_end(w);
}

/* The annotation cannot be taken away at once; the rollback goes on meanwhile, and is not decided again. */
void trace_rollback_unclean(world *w)
{
	uint64_t content[4];
	int64_t patches;

	three_rounds(w, content);
	job_ask(w, &w->jobs[0], "2");
	until_decided(w, 1);
	patches = leader(w)->patches;
	w->k.api_fail = 1;
	while (leader(w)->patches == patches && world_step(w, w->now + MINUTES(1)))
		;
	world_run(w, 15); /* that one alone */
	EXPECT(w, job_asks(w->jobs[0].object));
	w->k.api_fail = 0;
	expect_back(w, 4, content[2]);
	EXPECT(w, script_track(w)->n_decided == 1);
	trace_end(w);
}

/* The oldest version, which this deployment would take away: the crash between the copy and its commit makes the copy again. */
void trace_rollback_copy(world *w)
{
	device *d = &w->devices[0];
	uint64_t content[4];

	three_rounds(w, content);
	job_ask(w, &w->jobs[0], "1");
	while (script_deployed(w) != content[1] && world_step(w, w->now + MINUTES(5)))
		;
	device_crash(w, d, 100);
	expect_back(w, 4, content[1]);
	EXPECT(w, script_track(w)->failed == 0);
	trace_end(w);
}

/* Samples that were taken for the round wait again; a report that comes too late changes nothing. */
void trace_rollback_samples(world *w)
{
	device *d = &w->devices[0];
	uint64_t content[4];
	hold *h;

	three_rounds(w, content);
	h = broker_hold(w, d->link, NULL, "/train/ready", "");
	file_append(w, &w->files[0], 3);
	script_wait_folder(w, 4, 6);
	job_ask(w, &w->jobs[0], "1");
	script_until(w, 4, STAGE_DEPLOY, PHASE_READY);
	broker_release(w, h);
	expect_back(w, 4, content[1]);
	EXPECT(w, script_track(w)->cursor.sample == 3);
	script_round(w, 5);
	EXPECT(w, script_folder(w, 5) != NULL && script_folder(w, 5)->range.from == 3 && script_track(w)->cursor.sample == 6);
	trace_end(w);
}

/* What is not what was deployed is not put in place; nor is what is not there. */
static void spoiled(world *w, uint64_t now)
{
	job_setup *j = &w->jobs[0];
	uint64_t content[4];
	char url[192];

	three_rounds(w, content);
	version_url(url, sizeof(url), j->output_dir, 2, script_track(w)->uid);
	EXPECT(w, model_get(disk_of(w, j->deploy_node, url), url) == content[2]);
	model_put(disk_of(w, j->deploy_node, url), url, now);
	job_ask(w, j, "2");
	script_until(w, 5, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_deployed(w) == content[3]);
	EXPECT(w, script_track(w)->deployed_round == 3 && script_track(w)->failed == 1 && script_track(w)->n_back == 1);
	trace_end(w);
}

void trace_rollback_spoiled(world *w)
{
	spoiled(w, 4711);
}

void trace_rollback_missing(world *w)
{
	spoiled(w, 0);
}

/* The cluster is put back to before the decision, and the same round goes another way: `written` of the rollback is not of that. */
void trace_rollback_undone(world *w)
{
	device *d = &w->devices[0];
	uint64_t content[4];
	hold *h;

	three_rounds(w, content);
	file_append(w, &w->files[0], 1);
	script_until(w, 4, STAGE_TRAIN, PHASE_READY);
	script_work(w, WORKER_TRAIN, 4);
	script_until(w, 4, STAGE_EVAL, PHASE_WAITING);
	h = broker_hold(w, d->link, NULL, "/deploy/ready", "");
	script_work(w, WORKER_EVAL, 4);
	script_until(w, 4, STAGE_DEPLOY, PHASE_WAITING);
	world_run(w, SECONDS(2));
	EXPECT(w, h->n > 0);
	cluster_backup(w);
	job_ask(w, &w->jobs[0], "1");
	while (script_deployed(w) != content[1] && world_step(w, w->now + MINUTES(5)))
		;
	world_run(w, SECONDS(5));
	EXPECT(w, cluster_restore(w));
	broker_lose(w, h);
	cloud_start(w, &w->clouds[0]);
	script_until(w, 5, STAGE_TRAIN, PHASE_WAITING);
	EXPECT(w, script_track(w)->deployed_round == 4 && script_deployed(w) != content[1] && script_deployed(w) != content[3]);
	EXPECT(w, !script_track(w)->rounds[3].back);
	trace_end(w);
}
