/* The pod that serves: made again when it ends, replaced by a deployment. */
#include "tests/unit/cloud_harness.h"

static void test_inference_ends(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0)); /* gone: at once */
	int made = h->creates;
	for (int i = 0; i < 3; i++) { /* ended: later and later */
		harness_pod_phase(h, name, "Failed");
		harness_run(h);
		assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
		assert_true(harness_wake(h, 60 * 1000));
		assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
		assert_int_equal(h->creates, made + i + 1);
	}
	free(name);
	harness_free(h);
}

static void test_inference_not_running(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_until(h, &dev, STAGE_DEPLOY, PHASE_STARTING);
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	harness_advance(h, 600 * 1000);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_string_equal(harness_last(h, "j", "message"),
		"round 1 ended with Deploy/Completed, InferenceNotRunning: the model is in place, but the inference pod did not run in time");
	cJSON *own = harness_member(h, "j");
	assert_int_equal(json_member(json_member(own, "deployed"), "round")->valueint, 1); /* in place, and named */
	cJSON_Delete(own);
	harness_free(h);
}

/* The old pod takes its time to go: it is asked once, then once more after the limit, and the new one is made when it is gone. */
static void test_inference_terminating(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	char *old = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	h->hang_deletes = true;
	device_until(h, &dev, STAGE_DEPLOY, PHASE_STARTING);
	harness_run(h);
	assert_int_equal(h->deletes, 1);
	harness_touch(h, OBJECT_POD, old);
	harness_run(h);
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->deletes, 2); /* it does not remember */
	harness_advance(h, 600 * 1000 - 1);
	harness_touch(h, OBJECT_POD, old);
	harness_run(h);
	assert_int_equal(h->deletes, 2);
	harness_advance(h, 1);
	harness_run(h);
	assert_int_equal(h->deletes, 3);
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	harness_remove(h, OBJECT_POD, old);
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	free(old);
	harness_free(h);
}

static void test_strange_inference(void **state)
{
	(void)state;
	harness *h = harness_world();
	const char *uid = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring;
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	json_put_bool(cJSON_GetObjectItem(cJSON_GetObjectItem(harness_spec(h, "j"), "deploySpec"), "model"), "hotUpdateEnabled", true);
	harness_remove(h, OBJECT_POD, name);
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	harness_add_pod(h, "strange", "inference", uid);
	harness_run(h);
	assert_null(harness_object(h, OBJECT_POD, "strange"));
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	free(name);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inference_ends),
		cmocka_unit_test(test_inference_not_running),
		cmocka_unit_test(test_inference_terminating),
		cmocka_unit_test(test_strange_inference),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
