/* Pods that have to go: of rounds long past, of jobs that are gone or going. */
#include "tests/unit/cloud_harness.h"

static void test_retention(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	assert_true(harness_has_pod(h, "j", WORKER_EVAL, 1));
	dev.last_round = 2;
	device_run(h, &dev);
	harness_expect(h, "j", 3, STAGE_TRAIN, PHASE_WAITING);
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	assert_false(harness_has_pod(h, "j", WORKER_EVAL, 1));
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 2));
	assert_true(harness_has_pod(h, "j", WORKER_EVAL, 2));
	const char *uid = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring;
	harness_add_pod(h, "strange", "train", uid);
	harness_run(h);
	assert_null(harness_object(h, OBJECT_POD, "strange"));
	harness_free(h);
}

static void test_orphans(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_add_pod(h, "orphan", "inference", "uid-of-nobody");
	cJSON *not_ours = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(not_ours, "metadata"), "name", "not-ours");
	harness_put(h, OBJECT_POD, not_ours);
	harness_boot(h);
	harness_feed(h, OBJECT_POD, "orphan");
	controller_lead(h->c, ++h->epoch, h->now);
	controller_link(h->c, true, h->now);
	harness_run(h);
	assert_non_null(harness_object(h, OBJECT_POD, "orphan")); /* the lists are not complete */
	assert_int_equal(h->deletes, 0);
	harness_start(h);
	harness_run(h);
	assert_null(harness_object(h, OBJECT_POD, "orphan"));
	assert_non_null(harness_object(h, OBJECT_POD, "not-ours"));
	/* the job goes: its pods follow */
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_int_equal(cJSON_GetArraySize(h->objects[OBJECT_POD]), 1);
	harness_free(h);
}

/* The cluster says no, or the pod does not go: asked again, without any event. */
static void test_orphan_again(void **state)
{
	(void)state;
	harness *h = harness_world();
	h->refuse_delete = ERROR_IO;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_int_equal(cJSON_GetArraySize(h->objects[OBJECT_POD]), 1);
	h->hang_deletes = true;
	assert_true(harness_wake(h, 1500)); /* soon */
	assert_int_equal(h->deletes, 1);
	h->hang_deletes = false;
	assert_true(harness_wake(h, 10 * 60 * 1000));
	assert_int_equal(cJSON_GetArraySize(h->objects[OBJECT_POD]), 0);
	harness_free(h);
}

/* A job that is being deleted gets nothing any more. */
static void test_deleting(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *metadata = cJSON_GetObjectItemCaseSensitive(harness_object(h, OBJECT_JOB, "j"), "metadata");
	json_put_string(metadata, "deletionTimestamp", "2026-11-30T00:00:00Z");
	harness_touch(h, OBJECT_JOB, "j");
	int made = h->creates, patched = h->patches;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	assert_int_equal(h->creates, made);
	assert_int_equal(h->patches, patched);
	assert_non_null(harness_retained(h, "ilmare/v1/ns/default/job/j/state"));
	free(name);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_orphan_again),
		cmocka_unit_test(test_deleting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
