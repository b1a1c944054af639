/* What a deployment makes of a Model's status: once, with what the evaluation said, whatever fails in between, and never twice. */
#include "tests/unit/cloud_harness.h"

static const cJSON *status_of(const harness *h, const char *name)
{
	return json_member(harness_object(h, OBJECT_MODEL, name), "status");
}

static const char *updated(const harness *h, const char *name)
{
	return harness__text(harness_object(h, OBJECT_MODEL, name), "status", "updateTime");
}

static const char *since(const harness *h)
{
	static char text[64];
	cJSON *own = harness_member(h, "j");
	snprintf(text, sizeof text, "%s", harness__text(own, "deployed", "since"));
	cJSON_Delete(own);
	return text;
}

static int writes(const harness *h, const char *name)
{
	return atoi(harness__text(harness_object(h, OBJECT_MODEL, name), "metadata", "resourceVersion"));
}

static void check_metric(const harness *h, const char *name, int i, const char *key, const char *value)
{
	const cJSON *metric = cJSON_GetArrayItem(json_member(status_of(h, name), "metrics"), i);
	assert_non_null(metric);
	assert_string_equal(json_member(metric, "key")->valuestring, key);
	assert_string_equal(json_member(metric, "value")->valuestring, value);
}

static void test_deployed(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_string_equal(updated(h, "serve"), since(h));
	check_metric(h, "serve", 0, "acc", "0.9");
	assert_null(status_of(h, "initial"));
	/* A round whose model is not better leaves it as it is; so does a restart. */
	int before = writes(h, "serve");
	dev.metric = 0.1;
	dev.last_round = 2;
	device_run(h, &dev);
	harness_restart(h);
	device_run(h, &dev);
	harness_expect(h, "j", 3, STAGE_TRAIN, PHASE_WAITING);
	assert_int_equal(writes(h, "serve"), before);
	/* The next one that is. */
	dev.metric = 0.95;
	dev.last_round = 3;
	device_run(h, &dev);
	assert_string_equal(updated(h, "serve"), since(h));
	check_metric(h, "serve", 0, "acc", "0.95");
	/* Short rounds: a write in ten seconds, of the last of them. */
	before = writes(h, "serve");
	for (int64_t round = 4; round <= 8; round++) {
		harness_advance(h, 1000);
		dev.metric += 0.001;
		dev.last_round = round;
		device_until(h, &dev, STAGE_DEPLOY, PHASE_STARTING);
		device_until(h, &dev, STAGE_TRAIN, PHASE_WAITING);
		assert_int_equal(writes(h, "serve"), before);
	}
	harness_advance(h, 5 * 1000);
	harness_run(h);
	assert_string_equal(updated(h, "serve"), since(h));
	check_metric(h, "serve", 0, "acc", "0.955");
	harness_free(h);
}

/* The Model to compare with is replaced too: it has the same news. The metric of the trigger is first. */
static void test_compared(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *object = cJSON_Duplicate(harness_object(h, OBJECT_MODEL, "serve"), 1), *metadata = cJSON_GetObjectItem(object, "metadata");
	cJSON_ReplaceItemInObject(metadata, "name", cJSON_CreateString("compare"));
	cJSON_DeleteItemFromObject(metadata, "uid");
	cJSON_ReplaceItemInObject(cJSON_GetObjectItem(object, "spec"), "url", cJSON_CreateString("/models/compare.pb"));
	harness_put(h, OBJECT_MODEL, object);
	cJSON *eval = cJSON_CreateObject();
	json_put_string(eval, "name", "compare");
	cJSON_AddItemToObject(cJSON_GetObjectItem(harness_spec(h, "j"), "evalSpec"), "initialEvalModel", eval);
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	assert_string_equal(updated(h, "serve"), since(h));
	assert_string_equal(updated(h, "compare"), since(h));
	check_metric(h, "compare", 0, "acc", "0.9");
	/* Another one, named later, was never replaced. */
	cJSON_ReplaceItemInObject(eval, "name", cJSON_CreateString("initial"));
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_null(status_of(h, "initial"));
	harness_free(h);
}

/* The first patch fails in each way there is: it is written once, later. */
static void test_failures(void **state)
{
	(void)state;
	static const int codes[] = {ERROR_CONFLICT, ERROR_TIMEOUT, ERROR_DENIED, ERROR_NOT_FOUND};
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		harness *h = harness_world();
		device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
		device_until(h, &dev, STAGE_DEPLOY, PHASE_READY);
		h->budget = 0;
		harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_WRITTEN, &(says){.node = "edge-1"});
		/* Until the job's patch is there, and the one that follows from it is not. */
		do {
			h->budget = 1;
			harness_run(h);
		} while (harness_position(h, "j").phase != PHASE_STARTING);
		h->budget = -1;
		h->refuse_patch = codes[i];
		harness_run(h);
		assert_int_equal(h->refuse_patch, 0);
		assert_null(status_of(h, "serve"));
		if (codes[i] == ERROR_CONFLICT)
			harness_touch(h, OBJECT_MODEL, "serve"); /* what it was in conflict with: tried again at once */
		harness_run(h);
		assert_true((status_of(h, "serve") != NULL) == (codes[i] == ERROR_CONFLICT));
		while (status_of(h, "serve") == NULL)
			assert_true(harness_wake(h, 150 * 1000));
		assert_string_equal(updated(h, "serve"), since(h));
		check_metric(h, "serve", 0, "acc", "0.9");
		harness_free(h);
	}
}

/* A crash between the job's patch and the Model's. */
static void test_crash(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_until(h, &dev, STAGE_DEPLOY, PHASE_READY);
	h->budget = 0;
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_WRITTEN, &(says){.node = "edge-1"});
	do {
		h->budget = 1;
		harness_run(h);
	} while (harness_position(h, "j").phase != PHASE_STARTING);
	assert_null(status_of(h, "serve"));
	h->budget = -1;
	harness_restart(h);
	harness_run(h);
	assert_string_equal(updated(h, "serve"), since(h));
	check_metric(h, "serve", 0, "acc", "0.9");
	harness_free(h);
}

/* A cluster that drops the status: asked once for each deployment. */
static void test_dropped(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	int patches = h->patches;
	for (int i = 0; i < 5; i++) {
		cJSON_DeleteItemFromObject(harness_object(h, OBJECT_MODEL, "serve"), "status");
		harness_touch(h, OBJECT_MODEL, "serve");
		harness_run(h);
		harness_advance(h, 60 * 1000);
		harness_run(h);
	}
	assert_int_equal(h->patches, patches);
	harness_free(h);
}

/* Made anew, or with another file: what was deployed is not there. */
static void test_other_model(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	cJSON *object = cJSON_Duplicate(harness_object(h, OBJECT_MODEL, "serve"), 1);
	cJSON_DeleteItemFromObject(object, "status");
	cJSON_ReplaceItemInObject(cJSON_GetObjectItem(object, "spec"), "url", cJSON_CreateString("/models/other.pb"));
	harness_put(h, OBJECT_MODEL, object);
	harness_run(h);
	harness_restart(h);
	harness_run(h);
	assert_null(status_of(h, "serve"));
	harness_free(h);
}

/* The evaluation that it was deployed for has gone from the list: when, but not a wrong what. */
static void test_metrics_gone(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	char deployed[64];
	snprintf(deployed, sizeof deployed, "%s", since(h));
	dev.metric = 0.1;
	dev.last_round = 2;
	device_run(h, &dev);
	cJSON *status = cJSON_GetObjectItem(harness_object(h, OBJECT_MODEL, "serve"), "status");
	cJSON_ReplaceItemInObject(status, "updateTime", cJSON_CreateString("2000-01-01T00:00:00Z"));
	harness_restart(h);
	harness_run(h);
	assert_string_equal(updated(h, "serve"), deployed);
	assert_false(cJSON_IsArray(json_member(status_of(h, "serve"), "metrics")));
	harness_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deployed),
		cmocka_unit_test(test_compared),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_crash),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_other_model),
		cmocka_unit_test(test_metrics_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
