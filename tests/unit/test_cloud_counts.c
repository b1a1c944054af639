/* What inference workers count, in the status of their job. */
#include "tests/unit/cloud_harness.h"

static int say(harness *h, const char *node, const char *uid, int inferences, int hard)
{
	error err;
	char *topic_text = mem_printf("ilmare/v1/ns/default/job/j/node/%s/infer/stats", node);
	char *payload = mem_printf("{\"v\":1,\"ts\":\"2026-01-01T00:00:00Z\",\"job\":{\"namespace\":\"default\",\"name\":\"j\",\"uid\":\"%s\"},"
							   "\"node\":\"%s\",\"worker\":\"inferworker-x\",\"inferences\":%d,\"hardExamples\":%d}",
		uid, node, inferences, hard);
	int code = controller_message(h->c, topic_text, payload, strlen(payload), false, h->now, &err);
	free(payload);
	free(topic_text);
	harness_run(h);
	return code;
}

static const char *uid_of_j(const harness *h)
{
	return json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring;
}

static int counted(const harness *h, const char *name)
{
	const cJSON *number = json_member(json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), "inference"), name);
	return cJSON_IsNumber(number) ? number->valueint : -1;
}

static void test_counts_reach_the_status_now_and_then(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *uid = mem_strdup(uid_of_j(h));
	assert_int_equal(counted(h, "inferences"), -1);
	assert_int_equal(say(h, "edge-1", uid, 100, 3), 0);
	assert_int_equal(counted(h, "inferences"), 100);
	assert_int_equal(counted(h, "hardExamples"), 3);
	int patches = h->patches;
	for (int i = 1; i < 600; i += 30) {
		harness_advance(h, 30 * 1000);
		say(h, "edge-1", uid, 100 + i, 3 + i / 100);
		if (i < 570)
			assert_int_equal(h->patches, patches);
	}
	assert_int_equal(h->patches, patches + 1);
	assert_int_equal(counted(h, "inferences"), 671);
	/* The same once more is no news, and what is counted anew by another worker is. */
	harness_advance(h, 3600 * 1000);
	say(h, "edge-1", uid, 671, 8);
	assert_int_equal(h->patches, patches + 1);
	say(h, "edge-1", uid, 2, 0);
	assert_int_equal(counted(h, "inferences"), 2);
	cloud_counters counters;
	controller_counters(h->c, &counters);
	assert_int_equal(counters.inferences, 2);
	/* Where the job stands is untouched, and its steps are not held up. */
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_int_equal(counted(h, "inferences"), 2);
	free(uid);
	harness_free(h);
}

static void test_counts_of_others(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *uid = mem_strdup(uid_of_j(h));
	say(h, "edge-2", uid, 1, 1); /* has no part in the job */
	say(h, "edge-1", "another-uid", 1, 1);
	assert_int_equal(counted(h, "inferences"), -1);
	error err;
	const char *lie = "{\"v\":1,\"ts\":\"2026-01-01T00:00:00Z\",\"job\":{\"namespace\":\"default\",\"name\":\"j\",\"uid\":\"u\"},"
					  "\"node\":\"edge-2\",\"worker\":\"w\",\"inferences\":1,\"hardExamples\":1}";
	assert_int_equal(controller_message(h->c, "ilmare/v1/ns/default/job/j/node/edge-1/infer/stats", lie, strlen(lie), false, h->now, &err),
		ERROR_INVALID);
	free(uid);
	harness_free(h);
}

static void test_a_write_that_fails(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *uid = mem_strdup(uid_of_j(h));
	h->refuse_patch = ERROR_TIMEOUT;
	say(h, "edge-1", uid, 5, 1);
	assert_int_equal(counted(h, "inferences"), -1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY); /* nothing waits for it */
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_advance(h, 2000);
	harness_run(h);
	assert_int_equal(counted(h, "inferences"), 5);
	free(uid);
	harness_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_reach_the_status_now_and_then),
		cmocka_unit_test(test_counts_of_others),
		cmocka_unit_test(test_a_write_that_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
