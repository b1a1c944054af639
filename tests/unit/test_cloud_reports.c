/* Rule 3: the whole table, for each report at each position, from each node; and what the cluster holds after one was applied. */
#include "tests/unit/cloud_harness.h"

#include "cloud-agent/core/core.h"

/* ---- the table, pure ---- */

static enum verdict judge(position at, enum stage stage, enum report_what what, int64_t round, const char *node_name, const char *reason,
	bool hot, enum phase *to)
{
	job_view v = {.started = true, .pos = at, .m = {.has_cursor = true, .cursor = {.sample = 20}}};
	judge_nodes nodes = {.dataset = "D", .worker = "T", .deploy = "P"};
	report r = {.node = node_name, .what = what, .reason = reason, .position = {.round = round, .stage = stage}};
	const char *why = NULL;
	if (stage == STAGE_TRAIN && what == REPORT_READY) {
		r.has_range = true;
		r.range = (sample_range){.from = 20, .to = 30, .end = {.sample = 30}};
	}
	enum verdict verdict = report_judge(&v, hot, &nodes, &r, to, &why);
	assert_non_null(why);
	return verdict;
}

/* What the table in docs/protocol.md says, written down a second time. NULL: ignored. */
static const char *accepts_from(enum stage stage, enum phase phase, enum report_what what, const char *reason, bool hot)
{
	bool not_better = reason != NULL && strcmp(reason, "NotBetter") == 0;
	if (phase_ended(phase))
		return NULL;
	if (stage == STAGE_DEPLOY) {
		if (what == REPORT_FAILED)
			return "P";
		if (phase == PHASE_WAITING)
			return what == REPORT_READY || (what == REPORT_COMPLETED && not_better) ? "P" : NULL;
		if (phase == PHASE_READY)
			return what == REPORT_WRITTEN || (what == REPORT_COMPLETED && hot && !not_better) ? "P" : NULL;
		return phase == PHASE_RUNNING && what == REPORT_COMPLETED && !not_better ? "P" : NULL;
	}
	if (phase == PHASE_WAITING)
		return what == REPORT_READY || what == REPORT_FAILED ? "D" : NULL;
	return what == REPORT_COMPLETED || what == REPORT_FAILED ? "T" : NULL;
}

static void check(position at, enum stage stage, enum report_what what, const char *reason, bool hot)
{
	static const char *const nodes[] = {"D", "T", "P", "X"};
	enum phase to = PHASE_WAITING;
	for (int n = 0; n < 4; n++) {
		for (int64_t round = 1; round <= 3; round++) {
			const char *wanted = round == at.round && stage == at.stage ? accepts_from(stage, at.phase, what, reason, hot) : NULL;
			bool accept = wanted != NULL && strcmp(wanted, nodes[n]) == 0;
			char text[48];
			position_format(at, text);
			if ((judge(at, stage, what, round, nodes[n], reason, hot, &to) == VERDICT_ACCEPT) != accept)
				fail_msg("at %s: %s/%s of round %d from %s, reason %s, hot %d: not %s", text, stage_word(stage), report_what_word(what),
					(int)round, nodes[n], reason, hot, accept ? "accepted" : "ignored");
			if (!accept)
				continue;
			position after = {.round = round, .stage = stage, .phase = to};
			assert_true(position_compare(after, at) > 0); /* only forward */
			if (what == REPORT_WRITTEN)
				assert_int_equal(to, hot ? PHASE_RUNNING : PHASE_STARTING);
		}
	}
}

/* Used samples are a prefix (rule 5): a round begins at the cursor, once there is one. */
static void test_range_begins_at_the_cursor(void **state)
{
	(void)state;
	job_view v = {.started = true, .pos = {.round = 3, .stage = STAGE_TRAIN, .phase = PHASE_WAITING}};
	judge_nodes nodes = {.dataset = "D"};
	report r = {.node = "D", .what = REPORT_READY, .position = {.round = 3, .stage = STAGE_TRAIN}, .has_range = true};
	enum phase to;
	const char *why;
	for (int known = 0; known < 2; known++) {
		v.m.has_cursor = known == 1;
		v.m.cursor = (cursor){.sample = 20};
		for (int64_t from = 19; from <= 21; from++) {
			r.range = (sample_range){.from = from, .to = 30, .end = {.sample = 30}};
			assert_int_equal(report_judge(&v, false, &nodes, &r, &to, &why), known == 1 && from != 20 ? VERDICT_IGNORE : VERDICT_ACCEPT);
		}
	}
}

/* Such a report is answered with the document, which tells the cursor. */
static void test_range_that_begins_elsewhere(void **state)
{
	(void)state;
	harness *h = harness_world();
	device d = {.node = "edge-1", .job = "j", .metric = 0.9, .samples = 20, .last_round = 1};
	device_run(h, &d);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	cloud_counters before, after;
	controller_counters(h->c, &before);
	stamp stamp_before = harness_stamp(h, DESIRED_OF_J);
	harness_report(h, "j", 2, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .from = 5, .to = 12});
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	controller_counters(h->c, &after);
	assert_int_equal(after.reports_ignored, before.reports_ignored + 1);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), stamp_before) > 0);
	harness_free(h);
}

static void test_table(void **state)
{
	(void)state;
	static const char *const reasons[] = {NULL, "NotBetter", "Other"};
	for (int at_stage = STAGE_TRAIN; at_stage <= STAGE_DEPLOY; at_stage++) {
		for (int phase = PHASE_WAITING; phase <= PHASE_FAILED; phase++) {
			position at = {.round = 2, .stage = (enum stage)at_stage, .phase = (enum phase)phase};
			for (int stage = STAGE_TRAIN; stage <= STAGE_DEPLOY; stage++) {
				for (int what = REPORT_READY; what <= REPORT_WRITTEN; what++) {
					if (what == REPORT_WRITTEN && stage != STAGE_DEPLOY)
						continue;
					for (int k = 0; k < 6; k++)
						check(at, (enum stage)stage, (enum report_what)what, reasons[k % 3], k >= 3);
				}
			}
		}
	}
}

static void test_unknown_nodes(void **state)
{
	(void)state;
	job_view v = {.started = true, .pos = {.round = 1, .stage = STAGE_TRAIN, .phase = PHASE_READY}};
	judge_nodes nodes = {.dataset = "D"};
	report r = {.node = "T", .what = REPORT_COMPLETED, .position = {.round = 1, .stage = STAGE_TRAIN}};
	const char *why;
	enum phase to;
	assert_int_equal(report_judge(&v, false, &nodes, &r, &to, &why), VERDICT_IGNORE);
	/* Before there is a pod, the dataset node may say that its files are not there after all. */
	r.what = REPORT_FAILED;
	r.node = "D";
	assert_int_equal(report_judge(&v, false, &nodes, &r, &to, &why), VERDICT_ACCEPT);
	nodes.worker = "T";
	assert_int_equal(report_judge(&v, false, &nodes, &r, &to, &why), VERDICT_IGNORE);
	v.started = false;
	r.node = "T";
	assert_int_equal(report_judge(&v, false, &nodes, &r, &to, &why), VERDICT_IGNORE);
}

/* ---- in the cluster ---- */

static cloud_counters counters(const harness *h)
{
	cloud_counters n;
	controller_counters(h->c, &n);
	return n;
}

static stamp desired_stamp(const harness *h)
{
	desired *d = harness_desired(h, "edge-1", "j");
	stamp s = d->stamp;
	desired_free(d);
	return s;
}

/* What does not match changes nothing, is counted, and is answered with the document, at most once in a second. */
static void test_ignored_and_answered(void **state)
{
	(void)state;
	harness *h = harness_world();
	int patches = h->patches;
	stamp before = desired_stamp(h);
	harness_report(h, "j", 7, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 5});
	harness_run(h);
	assert_true(stamp_compare(desired_stamp(h), before) > 0);
	before = desired_stamp(h);
	for (int i = 0; i < 10; i++) {
		harness_report(h, "j", 7, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 5});
		harness_run(h);
	}
	assert_int_equal(stamp_compare(desired_stamp(h), before), 0);
	harness_advance(h, 1000);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .uid = "another", .to = 5});
	harness_run(h);
	assert_true(stamp_compare(desired_stamp(h), before) > 0);
	assert_int_equal(h->patches, patches);
	assert_int_equal(counters(h).reports_ignored, 12);
	assert_int_equal(counters(h).reports_accepted, 0);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

/* Another node's word, or one under a topic that is not its own, leads to nothing. */
static void test_foreign_node(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-2", .to = 5});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	error err = {0};
	const char *payload =
		"{\"v\":1,\"ts\":\"2026-11-30T00:00:00Z\",\"job\":{\"namespace\":\"default\",\"name\":\"j\",\"uid\":\"u\"},\"node\":\"edge-1\","
		"\"position\":{\"round\":1,\"stage\":\"Train\",\"phase\":\"Failed\"},\"store\":\"s\",\"seq\":1,\"reason\":\"R\"}";
	assert_int_equal(controller_message(h->c, "ilmare/v1/ns/default/job/j/node/edge-2/train/failed", payload, strlen(payload), false,
						 h->now, &err),
		ERROR_INVALID);
	assert_int_equal(controller_message(h->c, "ilmare/v1/ns/default/job/k/node/edge-1/train/failed", payload, strlen(payload), false,
						 h->now, &err),
		ERROR_INVALID);
	assert_int_equal(controller_message(h->c, "ilmare/v1/nonsense", payload, strlen(payload), false, h->now, &err), ERROR_INVALID);
	assert_int_equal(controller_message(h->c, "ilmare/v1/ns/default/job/j/node/edge-1/train/ready", "{", 1, false, h->now, &err),
		ERROR_INVALID);
	assert_int_equal(counters(h).messages_refused, 4);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

/* A report of a job that is not there: the node gets a new inventory, which removes it. */
static void test_unknown_job(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	inventory *before = harness_inventory(h, "edge-1");
	harness_report(h, "gone", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .uid = "u", .to = 5});
	harness_run(h);
	inventory *after = harness_inventory(h, "edge-1");
	assert_true(stamp_compare(after->stamp, before->stamp) > 0);
	assert_int_equal(after->n_jobs, 1);
	inventory_free(before);
	inventory_free(after);
	harness_free(h);
}

static cJSON *data_of(const harness *h)
{
	cJSON *tree = NULL;
	const char *text = harness_last(h, "j", "data");
	assert_int_equal(json_parse(text, strlen(text), 100000, &tree, NULL), 0);
	return tree;
}

static void test_ready_recorded(void **state)
{
	(void)state;
	harness *h = harness_world();
	h->refuse_create = ERROR_IO; /* stay at Ready */
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .from = 0, .to = 7});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	cJSON *data = data_of(h);
	const cJSON *input = json_member(data, "input");
	assert_string_equal(json_member(input, "dataURL")->valuestring, "/out/data/train/1/data.txt");
	assert_string_equal(json_member(input, "outputDir")->valuestring, "/out/train/1");
	assert_null(json_member(json_member(data, "ilmare"), "cursor")); /* used only when trained */
	assert_string_equal(json_member(json_member(data, "ilmare"), "dataset")->valuestring, "d");
	cJSON_Delete(data);
	job_state *s = harness_state(h, "j");
	assert_string_equal(s->reason, "ClusterFailure");
	job_state_free(s);
	harness_free(h);
}

static int64_t cursor_of(const harness *h)
{
	cJSON *own = harness_member(h, "j");
	const cJSON *sample = json_member(json_member(own, "cursor"), "sample");
	int64_t value = sample != NULL ? (int64_t)sample->valuedouble : -1;
	cJSON_Delete(own);
	return value;
}

/* The cursor is what the dataset node read from the manifest (rule 8), else what the accepted `ready` said. */
static void test_cursor(void **state)
{
	(void)state;
	for (int with_range = 0; with_range < 2; with_range++) {
		harness *h = harness_world();
		harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 7});
		harness_run(h);
		harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &(says){.node = "edge-1", .to = 9, .no_range = with_range == 0});
		harness_run(h);
		harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
		assert_int_equal(cursor_of(h), with_range ? 9 : 7);
		desired *d = harness_desired(h, "edge-1", "j");
		assert_int_equal(d->cursor.sample, with_range ? 9 : 7);
		assert_int_equal(d->n_eval_models, 2);
		assert_string_equal(d->eval_models[0].url, "/out/train/1/serve.pb");
		assert_string_equal(d->eval_models[1].url, "/models/serve.pb");
		desired_free(d);
		harness_free(h);
	}
}

/* While a patch is under way a report waits, and is judged by what is true afterwards; of equal ones the newest. */
static void test_while_patching(void **state)
{
	(void)state;
	harness *h = harness_world();
	cloud_action action;
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 7});
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS);
	uint64_t id = action.id;
	for (int i = 0; i < 3; i++)
		harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 7});
	assert_false(controller_next(h->c, h->now, &action)); /* one write at a time */
	controller_done(h->c, id, ERROR_CONFLICT, NULL, NULL, 0, h->now);
	assert_false(controller_next(h->c, h->now, &action)); /* look again when it is newer */
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_int_equal(counters(h).reports_accepted, 1);
	assert_int_equal(counters(h).conflicts, 1);
	harness_free(h);
}

/* More than fit: the newest stay, nothing breaks. */
static void test_bounded(void **state)
{
	(void)state;
	harness *h = harness_world();
	cloud_action action;
	char name[32];
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 7});
	assert_true(controller_next(h->c, h->now, &action));
	uint64_t id = action.id;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof name, "edge-%d", i + 10);
		harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = name, .to = 7});
	}
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 7});
	controller_done(h->c, id, ERROR_IO, "x", NULL, 0, h->now);
	harness_advance(h, 5000);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

/* `written` names the deployed model, whatever becomes of the pod. */
static void test_written(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	for (int i = 0; i < 200 && harness_position(h, "j").stage != STAGE_DEPLOY; i++) {
		harness_run(h);
		device_pass(h, &dev);
	}
	harness_run(h);
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_READY);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->n_copies, 1);
	assert_string_equal(d->copies[0].from.url, "/out/train/1/serve.pb");
	assert_string_equal(d->copies[0].to.url, "/models/serve.pb");
	assert_int_equal(d->n_eval_results, 2);
	assert_false(d->has_deployed);
	desired_free(d);
	stamp before = desired_stamp(h);
	h->refuse_delete = ERROR_IO;
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_WRITTEN, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_STARTING);
	assert_true(stamp_compare(desired_stamp(h), before) > 0); /* it settles the report */
	cJSON *own = harness_member(h, "j");
	const cJSON *deployed = json_member(own, "deployed");
	assert_int_equal(json_member(deployed, "round")->valueint, 1);
	assert_string_equal(json_member(deployed, "url")->valuestring, "/models/serve.pb");
	assert_string_equal(json_member(deployed, "sha256")->valuestring, "0101010101010101010101010101010101010101010101010101010101010101");
	cJSON_Delete(own);
	job_state *s = harness_state(h, "j");
	assert_true(s->has_deployed);
	job_state_free(s);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_range_begins_at_the_cursor),
		cmocka_unit_test(test_range_that_begins_elsewhere),
		cmocka_unit_test(test_unknown_nodes),
		cmocka_unit_test(test_ignored_and_answered),
		cmocka_unit_test(test_foreign_node),
		cmocka_unit_test(test_unknown_job),
		cmocka_unit_test(test_ready_recorded),
		cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_while_patching),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
