/* Whole rounds, through the public API alone: the good one, every other end, and the same with the process ending, a conflict, a lost answer
 * or a refused write at each single action. */
#include "tests/unit/cloud_harness.h"

enum { QUARTER_MS = 15 * 60 * 1000 };

static harness *world(void)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	return h;
}

static char *uid_of(const harness *h)
{
	const cJSON *metadata = json_member(harness_object(h, OBJECT_JOB, "j"), "metadata");
	return mem_strdup(json_member(metadata, "uid")->valuestring);
}

static void test_first_sight(void **state)
{
	(void)state;
	harness *h = world();
	assert_true(harness_run(h));
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	assert_non_null(json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), "startTime"));
	desired *d = harness_desired(h, "edge-1", "j");
	assert_non_null(d);
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY);
	assert_true(d->has_base);
	assert_string_equal(d->base.url, "/models/initial.ckpt");
	assert_string_equal(d->output_dir, "/out");
	assert_string_equal(d->dataset.url, "/data/d.txt");
	assert_false(d->has_trained);
	desired_free(d);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 1);
	assert_int_equal(inv->n_datasets, 1);
	inventory_free(inv);
	job_state *s = harness_state(h, "j");
	assert_true(s->has_waiting);
	assert_string_equal(s->waiting_trigger, "num_of_samples > 5");
	job_state_free(s);
	assert_int_equal(h->patches, 1);
	assert_int_equal(h->creates, 1);
	harness_free(h);
}

static void test_round(void **state)
{
	(void)state;
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->deployed_round, 1);
	assert_true(d->has_deployed_sha256);
	assert_int_equal(d->trained_round, 1);
	assert_int_equal(d->cursor.sample, 10);
	assert_string_equal(d->base.url, "/out/train/1/ckpt");
	desired_free(d);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	cloud_counters n;
	controller_counters(h->c, &n);
	assert_int_equal(n.rounds_completed, 1);
	assert_int_equal(n.deployments, 1);
	assert_int_equal(n.reports_accepted, 6);
	assert_int_equal(n.nodes, 0);
	harness_free(h);
}

static void test_not_better(void **state)
{
	(void)state;
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.25, .last_round = 1};
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_string_equal(harness_last(h, "j", "message"), "round 1 ended with Deploy/Completed, NotBetter");
	desired *d = harness_desired(h, "edge-1", "j");
	assert_false(d->has_deployed);
	assert_string_equal(d->base.url, "/models/initial.ckpt"); /* it was worse, and nothing is deployed */
	assert_int_equal(d->cursor.sample, 10);
	desired_free(d);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	harness_free(h);
}

static void to_train_ready(harness *h, int64_t round, int64_t from)
{
	harness_run(h);
	harness_expect(h, "j", round, STAGE_TRAIN, PHASE_WAITING);
	harness_report(h, "j", round, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .from = from, .to = from + 10});
	harness_run(h);
	harness_expect(h, "j", round, STAGE_TRAIN, PHASE_STARTING);
}

/* Failures in a row wait longer and longer; the samples' cursor stays. */
static void test_backoff(void **state)
{
	(void)state;
	static const int64_t waits[] = {10, 20, 40, 80, 160, 320, 360, 360};
	harness *h = world();
	for (int64_t round = 1; round <= 8; round++) {
		to_train_ready(h, round, 0);
		harness_work_phase(h, "j", WORKER_TRAIN, round, "Failed");
		harness_run(h);
		harness_expect(h, "j", round, STAGE_TRAIN, PHASE_FAILED);
		assert_string_equal(harness_last(h, "j", "reason"), "WorkerFailed");
		harness_advance(h, waits[round - 1] * 1000 - 1);
		harness_run(h);
		harness_expect(h, "j", round, STAGE_TRAIN, PHASE_FAILED);
		assert_int_equal(controller_wake(h->c), h->now.mono_ms + 1);
		harness_advance(h, 1);
		harness_run(h);
		harness_expect(h, "j", round + 1, STAGE_TRAIN, PHASE_WAITING);
		desired *d = harness_desired(h, "edge-1", "j");
		assert_false(d->has_cursor);
		desired_free(d);
	}
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 9};
	device_run(h, &dev);
	cJSON *member = harness_member(h, "j");
	assert_int_equal(json_member(member, "failures")->valueint, 0);
	cJSON_Delete(member);
	harness_free(h);
}

/* The wall clock may jump: the back-off is neither longer than it is nor over before the process has seen it, unless it is. */
static void test_backoff_and_clock(void **state)
{
	(void)state;
	harness *h = world();
	to_train_ready(h, 1, 0);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Failed");
	harness_run(h);
	h->now.unix_ms -= INT64_C(86400000);
	harness_restart(h);
	harness_run(h);
	assert_int_equal(controller_wake(h->c), h->now.mono_ms + 10000);
	h->now.unix_ms += INT64_C(86400000) + 4000;
	harness_restart(h);
	harness_run(h);
	assert_int_equal(controller_wake(h->c), h->now.mono_ms + 6000);
	h->now.unix_ms += INT64_C(86400000);
	harness_restart(h);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

static void check_end(harness *h, const char *uid, const char *what, int at)
{
	position p = harness_position(h, "j");
	if (p.round != 3 || p.stage != STAGE_TRAIN || p.phase != PHASE_WAITING)
		fail_msg("%s at action %d: ends at round %d %s/%s", what, at, (int)p.round, stage_name(p.stage), phase_name(p.phase));
	for (int64_t round = 1; round <= 2; round++) {
		if (harness_created(h, uid, "j", WORKER_TRAIN, round) != 1 || harness_created(h, uid, "j", WORKER_EVAL, round) != 1)
			fail_msg("%s at action %d: a worker's pod was made more than once", what, at);
	}
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.round, 3);
	assert_int_equal(d->cursor.sample, 20);
	assert_int_equal(d->deployed_round, 2);
	desired_free(d);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 2));
	const cJSON *pod;
	int inference = 0;
	cJSON_ArrayForEach(pod, h->objects[OBJECT_POD]) {
		inference += strstr(pod->string, "-inference-") != NULL;
	}
	assert_int_equal(inference, 1);
}

/* Two rounds; before action `at` something happens. False: there are fewer actions. */
static bool two_rounds(int at, void (*happens)(harness *), const char *what)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 2};
	char *uid = uid_of(h);
	harness_start(h);
	h->budget = at;
	bool happened = false;
	for (int i = 0; i < 2000 && !happened && harness_position(h, "j").round < 3; i++) {
		if (harness_run(h)) {
			if (!device_pass(h, &dev))
				harness_wake(h, QUARTER_MS);
			continue;
		}
		h->budget = -1;
		happened = true;
		happens(h);
	}
	h->budget = -1;
	device_run(h, &dev);
	check_end(h, uid, what, at);
	free(uid);
	harness_free(h);
	return happened;
}

static void at_each_action(void (*happens)(harness *), const char *what)
{
	int at = 0;
	while (two_rounds(at, happens, what))
		at++;
	assert_true(at > 50);
}

static void conflict(harness *h)
{
	/* Somebody else changes the object while our patch is on its way. */
	h->refuse_patch = ERROR_CONFLICT;
	harness_run(h);
	if (harness_object(h, OBJECT_JOB, "j") != NULL)
		harness_touch(h, OBJECT_JOB, "j");
}

static void answer_lost(harness *h)
{
	h->lose_answer = true;
}

static void refused(harness *h)
{
	h->refuse_patch = h->refuse_create = h->refuse_delete = ERROR_IO;
}

static void test_restart_anywhere(void **state)
{
	(void)state;
	at_each_action(harness_restart, "restart");
}

static void test_conflict_anywhere(void **state)
{
	(void)state;
	at_each_action(conflict, "conflict");
}

static void test_lost_answer_anywhere(void **state)
{
	(void)state;
	at_each_action(answer_lost, "lost answer");
}

static void test_refusal_anywhere(void **state)
{
	(void)state;
	at_each_action(refused, "refusal");
}

/* ---- many rounds ---- */

static void test_many_rounds(void **state)
{
	(void)state;
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 60};
	size_t largest = 0;
	for (int64_t round = 1; round <= 60; round++) {
		dev.last_round = round;
		dev.metric = round % 3 == 0 ? 0.25 : 0.9;
		device_run(h, &dev);
		char *text = json_print(harness_object(h, OBJECT_JOB, "j"));
		size_t len = strlen(text);
		largest = len > largest ? len : largest;
		free(text);
		assert_true(harness_conditions(h, "j") <= 14);
		assert_true(cJSON_GetArraySize(h->objects[OBJECT_POD]) <= 5); /* two rounds of workers, one that serves */
	}
	assert_true(largest < 16 * 1024);
	harness_free(h);
}

/* Nothing to do: no action, and the core asks for nothing but its slow timer. */
static void test_quiet(void **state)
{
	(void)state;
	harness *h = world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	int64_t wake = controller_wake(h->c);
	assert_true(wake >= h->now.mono_ms + 48 * 60 * 1000 && wake <= h->now.mono_ms + 72 * 60 * 1000);
	int published = h->published, patches = h->patches;
	harness_advance(h, 40 * 60 * 1000);
	harness_run(h);
	assert_int_equal(h->published, published);
	assert_int_equal(h->patches, patches);
	harness_free(h);
}

/* ---- hot update ---- */

static void hot_world(harness *h)
{
	harness_run(h);
	cJSON *spec = harness_spec(h, "j");
	cJSON *model_ref = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(spec, "deploySpec"), "model");
	json_put_bool(model_ref, "hotUpdateEnabled", true);
	json_put_int(model_ref, "pollPeriodSeconds", 90);
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	harness_remove(h, OBJECT_POD, name); /* to be made again, with hot update */
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	free(name);
}

/* Up to Deploy/Running of round 1. */
static void hot_written(harness *h)
{
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	for (int i = 0; i < 100 && harness_position(h, "j").phase != PHASE_READY; i++) {
		harness_run(h);
		if (harness_position(h, "j").stage == STAGE_DEPLOY && harness_position(h, "j").phase == PHASE_READY)
			break;
		device_pass(h, &dev);
		harness_run(h);
	}
	for (int i = 0; i < 100; i++) {
		harness_run(h);
		position p = harness_position(h, "j");
		if (p.stage == STAGE_DEPLOY && p.phase == PHASE_RUNNING)
			return;
		device_pass(h, &dev);
	}
	fail_msg("never Deploy/Running");
}

static void test_hot_loaded(void **state)
{
	(void)state;
	harness *h = world();
	hot_world(h);
	hot_written(h);
	int made = h->creates;
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_COMPLETED, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_int_equal(h->creates, made);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0)); /* it stays, whatever it is named after */
	/* gone: made again, named after the model that it serves now */
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	free(name);
	harness_free(h);
}

static void test_hot_not_confirmed(void **state)
{
	(void)state;
	harness *h = world();
	hot_world(h);
	hot_written(h);
	harness_advance(h, 900 * 1000 - 1); /* ten polls of 90 s */
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_RUNNING);
	harness_advance(h, 1);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_string_equal(harness_last(h, "j", "message"),
		"round 1 ended with Deploy/Completed, NotConfirmed: the model is in place, but the worker did not say that it has loaded it");
	harness_free(h);
}

static void test_hot_load_failed(void **state)
{
	(void)state;
	harness *h = world();
	hot_world(h);
	hot_written(h);
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_FAILED, &(says){.node = "edge-1", .reason = "LoadFailed"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "LoadFailed");
	cJSON *member = harness_member(h, "j");
	assert_int_equal(json_member(json_member(member, "deployed"), "round")->valueint, 1); /* it is the one in place */
	cJSON_Delete(member);
	harness_free(h);
}

/* A pod that was made without hot update cannot load the model by itself: it is replaced, whatever the spec says by now. */
static void test_hot_switched_on(void **state)
{
	(void)state;
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	harness_run(h);
	json_put_bool(cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(harness_spec(h, "j"), "deploySpec"), "model"),
		"hotUpdateEnabled", true);
	harness_touch(h, OBJECT_JOB, "j");
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	harness_free(h);
}

static const char *summary(const harness *h, const char *member)
{
	static char out[80];
	const cJSON *value = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), member);
	if (cJSON_IsNumber(value))
		(void)snprintf(out, sizeof out, "%d", value->valueint);
	else
		(void)snprintf(out, sizeof out, "%s", cJSON_IsString(value) ? value->valuestring : "");
	return out;
}

/* What a table shows of a job. */
static void test_summary(void **state)
{
	(void)state;
	harness *h = harness_world();
	device d = {.node = "edge-1", .job = "j", .metric = 0.9, .samples = 10, .last_round = 1};
	assert_string_equal(summary(h, "round"), "1");
	assert_string_equal(summary(h, "stage"), "Train");
	assert_string_equal(summary(h, "phase"), "Waiting");
	assert_string_equal(summary(h, "lastMetric"), "");
	device_run(h, &d);
	assert_string_equal(summary(h, "round"), "2");
	assert_string_equal(summary(h, "deployedRound"), "1");
	assert_non_null(strstr(summary(h, "lastMetric"), " 0.9 (0.5)"));
	/* A reason goes with its condition. */
	harness_say(h, 2, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 2, "Failed");
	harness_run(h);
	assert_string_equal(summary(h, "phase"), "Failed");
	assert_string_equal(summary(h, "reason"), "WorkerFailed");
	harness_advance(h, 3600 * 1000);
	harness_run(h);
	assert_string_equal(summary(h, "phase"), "Waiting");
	assert_string_not_equal(summary(h, "reason"), "WorkerFailed");
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_first_sight),
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_not_better),
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_backoff_and_clock),
		cmocka_unit_test(test_restart_anywhere),
		cmocka_unit_test(test_conflict_anywhere),
		cmocka_unit_test(test_lost_answer_anywhere),
		cmocka_unit_test(test_refusal_anywhere),
		cmocka_unit_test(test_many_rounds),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_hot_loaded),
		cmocka_unit_test(test_hot_not_confirmed),
		cmocka_unit_test(test_hot_load_failed),
		cmocka_unit_test(test_hot_switched_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
