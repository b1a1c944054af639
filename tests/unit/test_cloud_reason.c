/* Why a job stands still, on its own object: on the last condition if that has not ended, in the summary always, and gone when it is over. */
#include "tests/unit/cloud_harness.h"

static const char *summary(const harness *h)
{
	return harness__text(harness_object(h, OBJECT_JOB, "j"), "status", "reason");
}

static cJSON *take_away(harness *h, enum object_kind kind, const char *name)
{
	cJSON *object = cJSON_Duplicate(harness_object(h, kind, name), 1);
	harness_remove(h, kind, name);
	if (h->c != NULL)
		harness_run(h);
	return object;
}

static void pass(harness *h, int64_t ms)
{
	harness_advance(h, ms);
	harness_run(h);
}

/* A job that cannot begin has a condition for it, though not at once: its objects may come a moment later. */
static void test_not_begun(void **state)
{
	(void)state;
	for (int soon = 0; soon < 2; soon++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		cJSON *model_is = take_away(h, OBJECT_MODEL, "serve");
		harness_start(h);
		harness_run(h);
		pass(h, 999);
		assert_int_equal(h->patches, 0);
		if (!soon) {
			pass(h, 1);
			harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
			assert_string_equal(harness_last(h, "j", "reason"), "MissingModel");
			assert_string_equal(harness_last(h, "j", "message"), "there is no Model serve in namespace default");
			assert_string_equal(summary(h), "MissingModel");
			assert_int_equal(h->creates, 0);
			desired *d = harness_desired(h, "edge-1", "j");
			assert_null(d);
			pass(h, 3600 * 1000);
			assert_int_equal(h->patches, 1);
		}
		harness_put(h, OBJECT_MODEL, model_is);
		harness_run(h);
		assert_int_equal(h->creates, 1); /* it goes on before that is told */
		pass(h, 1000);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
		assert_string_equal(harness_last(h, "j", "reason"), "");
		assert_string_equal(harness_last(h, "j", "message"), "");
		assert_string_equal(summary(h), "");
		assert_int_equal(h->patches, soon ? 1 : 2);
		assert_int_equal(harness_conditions(h, "j"), 1);
		device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
		device_run(h, &dev);
		harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
		harness_free(h);
	}
}

/* In the middle of a round; and what the condition said before is said again. */
static void test_comes_and_goes(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	pass(h, 60 * 1000);
	char *before = mem_strdup(harness_last(h, "j", "message"));
	assert_string_equal(before, "round 1 ended with Deploy/Completed");
	int patches = h->patches;
	for (int i = 0; i < 3; i++) {
		cJSON *set = take_away(h, OBJECT_DATASET, "d");
		pass(h, 1000);
		pass(h, 10000);
		assert_string_equal(harness_last(h, "j", "reason"), "MissingDataset");
		assert_string_equal(summary(h), "MissingDataset");
		harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
		harness_put(h, OBJECT_DATASET, set);
		harness_run(h);
		pass(h, 1000);
		pass(h, 10000);
		assert_string_equal(harness_last(h, "j", "reason"), "");
		assert_string_equal(harness_last(h, "j", "message"), before);
		assert_string_equal(summary(h), "");
	}
	assert_int_equal(h->patches, patches + 6);
	free(before);
	/* Many times in a second: nothing is written; for longer, one write in ten seconds. */
	patches = h->patches;
	for (int i = 0; i < 20; i++) {
		cJSON *set = take_away(h, OBJECT_DATASET, "d");
		pass(h, 500);
		harness_put(h, OBJECT_DATASET, set);
		pass(h, 500);
	}
	assert_int_equal(h->patches, patches);
	for (int i = 0; i < 20; i++) {
		cJSON *set = take_away(h, OBJECT_DATASET, "d");
		pass(h, 1500);
		harness_put(h, OBJECT_DATASET, set);
		pass(h, 1500);
	}
	assert_in_range(h->patches - patches, 1, 7);
	harness_free(h);
}

/* A condition that has ended keeps its own reason; the summary says what is in the way. A cluster that has no summary is not asked for one. */
static void test_ended(void **state)
{
	(void)state;
	for (int pruned = 0; pruned < 2; pruned++) {
		harness *h = harness_world();
		harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
		harness_work_phase(h, "j", WORKER_TRAIN, 1, "Failed");
		harness_run(h);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
		assert_string_equal(summary(h), "WorkerFailed");
		if (pruned) {
			cJSON *status = cJSON_GetObjectItem(harness_object(h, OBJECT_JOB, "j"), "status");
			cJSON_DeleteItemFromObject(status, "reason");
			cJSON_DeleteItemFromObject(status, "phase");
			harness_touch(h, OBJECT_JOB, "j");
		}
		int patches = h->patches;
		cJSON *set = take_away(h, OBJECT_DATASET, "d");
		pass(h, 1000);
		pass(h, 60 * 1000);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
		assert_string_equal(harness_last(h, "j", "reason"), "WorkerFailed");
		assert_string_equal(summary(h), pruned ? "" : "MissingDataset");
		assert_int_equal(h->patches - patches, pruned ? 0 : 1);
		harness_put(h, OBJECT_DATASET, set);
		harness_run(h);
		harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
		assert_string_equal(summary(h), "");
		assert_string_equal(harness_last(h, "j", "message"), "round 1 ended with Train/Failed, WorkerFailed");
		harness_free(h);
	}
}

/* A serving pod that the cluster refuses: tried again later and later, and the reason stays all the while. */
static void test_refused(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	h->refuse_create = ERROR_INVALID;
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	int tried = 0, patches = h->patches;
	for (int i = 0; i < 200; i++) {
		h->refuse_create = ERROR_INVALID;
		pass(h, 1000);
		tried += h->refuse_create == 0;
		if (i > 0)
			assert_string_equal(harness_last(h, "j", "reason"), "PodRefused");
	}
	assert_string_equal(harness_last(h, "j", "message"), "the pod that is to serve cannot be created: invalid");
	assert_string_equal(summary(h), "PodRefused");
	assert_in_range(tried, 4, 9);
	assert_int_equal(h->patches - patches, 1);
	h->refuse_create = 0;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY); /* which holds up nothing */
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_string_equal(harness_last(h, "j", "reason"), "");
	assert_string_equal(harness_reason(h, "j"), "PodRefused");
	pass(h, 1000);
	pass(h, 10000);
	assert_string_equal(harness_last(h, "j", "reason"), "PodRefused");
	for (int i = 0; i < 300 && !harness_has_pod(h, "j", WORKER_INFERENCE, 0); i++)
		pass(h, 1000);
	pass(h, 1000);
	pass(h, 1000);
	assert_string_equal(harness_last(h, "j", "reason"), "");
	assert_string_equal(harness_reason(h, "j"), "");
	free(name);
	harness_free(h);
}

/* The reason goes with the next condition, and is not left on the one before. */
static void test_goes_on(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *set = take_away(h, OBJECT_DATASET, "d");
	pass(h, 1000);
	assert_string_equal(harness_last(h, "j", "reason"), "MissingDataset");
	harness_put(h, OBJECT_DATASET, set);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	const cJSON *list = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), "conditions"), *condition;
	cJSON_ArrayForEach(condition, list) {
		assert_null(json_member(condition, "reason"));
		assert_null(json_member(condition, "message"));
	}
	harness_free(h);
}

/* It is for people alone: refused, it is tried again later and later, and in between the job goes on. */
static void test_not_written(void **state)
{
	(void)state;
	static const int codes[] = {ERROR_TIMEOUT, ERROR_DENIED, ERROR_LIMIT, ERROR_CONFLICT};
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		harness *h = harness_world();
		cJSON *set = take_away(h, OBJECT_DATASET, "d");
		int tried = 0;
		for (int s = 0; s < 600; s++) {
			h->refuse_patch = codes[i];
			pass(h, 1000);
			tried += h->refuse_patch == 0;
		}
		assert_in_range(tried, 3, 12);
		assert_string_equal(harness_last(h, "j", "reason"), "");
		h->refuse_patch = 0;
		harness_put(h, OBJECT_DATASET, set);
		harness_touch(h, OBJECT_JOB, "j");
		harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
		harness_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_begun),
		cmocka_unit_test(test_comes_and_goes),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_not_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
