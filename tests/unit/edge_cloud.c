/* The small cloud: see edge_cloud.h. Every third round's model is worse than the one before. */
#include "tests/unit/edge_cloud.h"

#include <cjson/cJSON.h>

void cloud_init(cloud *c, bench *b)
{
	*c = (cloud){.b = b, .present = {.round = 1}};
	snprintf(c->deployed, sizeof(c->deployed), "/models/initial.pb");
	snprintf(b->in_place, sizeof(b->in_place), "/models/initial.pb");
}

static void send_document(cloud *c)
{
	desired d = bench_desired(U1, c->present.round, c->present.stage, c->present.phase);
	cJSON *better = cJSON_Parse("{\"acc\":[0.9,0.8]}"), *worse = cJSON_Parse("{\"acc\":[0.8,0.7]}");
	bool is_worse = c->present.round % 3 == 0;
	model results[2] = {{.format = "pb", .metrics = is_worse ? worse : better}, {.format = "pb", .url = "/models/old.pb"}};
	char url[64];
	deploy_copy copy;

	results[1].metrics = is_worse ? better : worse;
	snprintf(url, sizeof(url), "/out/train/%lld/new.pb", (long long)c->present.round);
	results[0].url = url;
	copy = (deploy_copy){{.format = "pb", .url = url}, {.format = "pb", .url = "/models/deploy.pb"}};
	d.copies = &copy;
	d.eval_results = results;
	d.n_eval_results = 2;
	d.train.threshold = 2;
	d.worker_ended = c->worker_ended;
	d.has_cursor = d.has_trained = c->has_cursor;
	d.trained_round = 1;
	d.trained_models = &d.base;
	d.n_trained_models = 1;
	d.cursor = c->cursor;
	bench_send_at(c->b, &d, bench_stamp(c->b));
	cJSON_Delete(better);
	cJSON_Delete(worse);
}

static void move(cloud *c, enum stage stage, enum phase phase)
{
	position to = {.round = c->present.round, .stage = stage, .phase = phase};

	assert_true(position_compare(to, c->present) > 0);
	c->present = to;
	c->dirty = true;
	if (phase == PHASE_WAITING || phase_ended(phase))
		c->worker_ended = false;
}

static void next_round(cloud *c)
{
	c->present = (position){.round = c->present.round + 1};
	c->worker_ended = c->pod_runs = false;
	c->dirty = true;
	assert_true(c->present.round < CLOUD_ROUNDS);
}

static void completed(cloud *c, const report *rep)
{
	sample_range range = rep->has_range ? rep->range : c->ready;

	switch (c->present.stage) {
	case STAGE_TRAIN:
		c->has_cursor = true;
		c->cursor = range.end;
		c->trained[c->present.round] = range;
		move(c, STAGE_EVAL, PHASE_WAITING);
		break;
	case STAGE_EVAL:
		move(c, STAGE_DEPLOY, PHASE_WAITING);
		break;
	case STAGE_DEPLOY:
		c->refused++;
		next_round(c);
		break;
	}
}

static void pod_begin(cloud *c)
{
	/* Rule "order and names": what exists already is success. */
	if (c->pods[c->present.round][c->present.stage] == 0) {
		c->pods[c->present.round][c->present.stage]++;
		c->pod_runs = true;
		c->pod = c->present;
		c->post = 0;
	}
	c->present.phase = PHASE_RUNNING;
}

/* The table of rule 3. */
static void apply(cloud *c, const report *rep)
{
	enum phase phase = c->present.phase;
	bool waiting = phase == PHASE_WAITING, deploy = c->present.stage == STAGE_DEPLOY;
	bool not_better = rep->reason != NULL && strcmp(rep->reason, "NotBetter") == 0;

	if (rep->position.round != c->present.round || rep->position.stage != c->present.stage || phase_ended(phase)) {
		c->dirty = true; /* ignored, and answered */
	} else if (rep->what == REPORT_READY && waiting) {
		if (c->present.stage == STAGE_TRAIN)
			c->ready = rep->range;
		move(c, c->present.stage, PHASE_READY);
		if (!deploy)
			pod_begin(c);
	} else if (rep->what == REPORT_COMPLETED && (deploy ? waiting && not_better : !waiting)) {
		completed(c, rep);
	} else if (rep->what == REPORT_WRITTEN && phase == PHASE_READY) {
		snprintf(c->deployed, sizeof(c->deployed), "/out/train/%lld/new.pb", (long long)c->present.round);
		next_round(c);
	} else if (rep->what == REPORT_FAILED) {
		c->failures++;
		next_round(c);
	} else {
		c->dirty = true;
	}
}

static void hear(cloud *c, const said *m)
{
	topic t;
	report *rep;
	error err;

	if (topic_parse(TOPIC_ROOT, m->topic, &t, &err) != 0)
		fail_msg("%s", err.text);
	if (t.kind == TOPIC_PRESENCE) {
		bench_inventory(c->b, NULL, U1, NULL);
		c->answers++;
		c->dirty = true;
	}
	if (t.kind != TOPIC_REPORT)
		return;
	if (report_decode(m->payload, strlen(m->payload), t.stage, t.what, &rep, &err) != 0)
		fail_msg("%s", err.text);
	apply(c, rep);
	report_free(rep);
}

static void worker_step(cloud *c)
{
	char name[WORKER_NAME_SIZE];
	bool train = c->pod.stage == STAGE_TRAIN;

	if (!c->pod_runs)
		return;
	if (c->post != 0 && c->b->replies[c->post] != 0) {
		/* Answered: the container ends with success. */
		c->pod_runs = false;
		c->worker_ended = c->pod.round == c->present.round && c->pod.stage == c->present.stage;
		c->dirty = true;
		return;
	}
	bench_worker(train ? WORKER_TRAIN : WORKER_EVAL, U1, c->pod.round, name);
	c->post = bench_post(c->b, train ? POST_TRAIN : POST_EVAL, POST_COMPLETED, name);
}

void cloud_step(cloud *c)
{
	while (c->heard < c->b->n_out) {
		if (c->deaf)
			c->heard = c->b->n_out;
		else
			hear(c, &c->b->out[c->heard++]);
	}
	worker_step(c);
	if (c->dirty && !c->deaf) {
		c->dirty = false;
		send_document(c);
	}
	bench_turn(c->b);
}

void cloud_run(cloud *c, int64_t round)
{
	bench *b = c->b;
	int64_t end = b->now.mono_ms + 86400 * 1000;

	for (;;) {
		bool there = c->present.round >= round && c->present.stage == STAGE_TRAIN;
		edge_counters seen;

		if (b->samples < c->cursor.sample + 2 && c->present.round < round)
			bench_append(b, 1);
		cloud_step(c);
		edge_agent_counters(b->agent, &seen);
		if (there && seen.unsettled == 0 && c->heard == b->n_out && !c->dirty && !c->pod_runs)
			return;
		if (b->now.mono_ms > end)
			fail_msg("stuck at %lld/%s/%s", (long long)c->present.round, stage_name(c->present.stage), phase_name(c->present.phase));
		bench_sleep(b, 1000);
	}
}

void cloud_check(const cloud *c)
{
	const bench *b = c->b;
	int64_t next = 0;

	for (int64_t round = 1; round < c->present.round; round++) {
		const sample_range *range = &c->trained[round];
		const folder *f = bench_folder(b, round);

		assert_true(c->pods[round][STAGE_TRAIN] <= 1 && c->pods[round][STAGE_EVAL] <= 1);
		if (range->to == 0)
			continue;
		/* Each sample in exactly one folder of a round that completed training. */
		assert_int_equal(range->from, next);
		assert_true(range->to > range->from);
		assert_non_null(f);
		assert_int_equal(f->manifest.range.from, range->from);
		assert_int_equal(f->manifest.range.to, range->to);
		next = range->to;
	}
	for (size_t i = 0; i < b->n_folders; i++)
		assert_false(b->folders[i].moved_aside);
	assert_true(next <= b->samples);
	assert_string_equal(c->deployed, b->in_place);
}
