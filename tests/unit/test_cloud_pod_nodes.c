/* Which node a pod runs on: recorded when it is known, and what follows from it. */
#include "tests/unit/cloud_harness.h"

static void unpin(cJSON *spec, const char *part_name)
{
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(spec, part_name), "template"),
												"spec"),
		"nodeName");
}

static harness *scheduled(const char *output_dir)
{
	harness *h = harness_new();
	h->cfg.workers_in_place = false;
	harness_add_world(h, "edge-1");
	cJSON *spec = harness_spec(h, "j");
	unpin(spec, "trainSpec");
	unpin(spec, "evalSpec");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "outputDir");
	json_put_string(spec, "outputDir", output_dir);
	harness_start(h);
	harness_run(h);
	return h;
}

static void bind_pod(harness *h, enum worker_kind kind, int64_t round, const char *node)
{
	char *name = harness_pod_name(h, "j", kind, round);
	cJSON *spec = cJSON_GetObjectItemCaseSensitive(harness_object(h, OBJECT_POD, name), "spec");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "nodeName");
	json_put_string(spec, "nodeName", node);
	harness_touch(h, OBJECT_POD, name);
	free(name);
}

/* The node is recorded as soon as it is known, and gets its document then; it drops out when the round is over. */
static void test_node_recorded(void **state)
{
	(void)state;
	harness *h = scheduled("s3://bucket/out");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_null(harness_desired(h, "cloud-1", "j"));
	bind_pod(h, WORKER_TRAIN, 1, "cloud-1");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	cJSON *own = harness_member(h, "j");
	assert_string_equal(json_member(own, "node")->valuestring, "cloud-1");
	cJSON_Delete(own);
	desired *d = harness_desired(h, "cloud-1", "j");
	assert_int_equal(d->roles, ROLE_TRAIN);
	assert_false(d->has_dataset);
	desired_free(d);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING); /* not the node that trains */
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &(says){.node = "cloud-1", .to = 99});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
	own = harness_member(h, "j");
	assert_int_equal(json_member(json_member(own, "cursor"), "sample")->valueint, 10); /* what the accepted ready said */
	cJSON_Delete(own);
	d = harness_desired(h, "cloud-1", "j");
	assert_int_equal(d->position.stage, STAGE_EVAL); /* so that it settles its report */
	desired_free(d);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_FAILED, &(says){.node = "edge-1"});
	harness_run(h);
	harness_advance(h, 10000);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_null(harness_desired(h, "cloud-1", "j"));
	harness_free(h);
}

static void test_local_path_elsewhere(void **state)
{
	(void)state;
	harness *h = scheduled("/out");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	bind_pod(h, WORKER_TRAIN, 1, "cloud-1");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "LocalPathOnOtherNode");
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_free(h);

	/* pinned elsewhere: refused before anything is made */
	h = harness_new();
	harness_add_world(h, "edge-1");
	harness_put(h, OBJECT_JOB, harness_job("j", "edge-2", "/out"));
	harness_start(h);
	harness_run(h);
	assert_string_equal(harness_reason(h, "j"), "LocalPathOnOtherNode");
	assert_int_equal(h->creates, 0);
	harness_free(h);
}

/* Where there is no inference pod and nothing pins it, eval's node deploys. */
static void test_deploy_node(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.workers_in_place = false;
	harness_add_world(h, "edge-1");
	unpin(harness_spec(h, "j"), "deploySpec");
	h->refuse_create = ERROR_IO;
	harness_start(h);
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY);
	desired_free(d);
	assert_true(harness_wake(h, 2000));
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0)); /* it is there now, and not bound yet */
	d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL);
	desired_free(d);
	bind_pod(h, WORKER_INFERENCE, 0, "edge-1");
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY);
	desired_free(d);
	harness_free(h);
}

/* Gone before anybody knew where it would run: no agent can tell, so the cloud does. */
static void test_lost_unbound(void **state)
{
	(void)state;
	harness *h = scheduled("s3://bucket/out");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "PodLost");
	free(name);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deploy_node),
		cmocka_unit_test(test_lost_unbound),
		cmocka_unit_test(test_node_recorded),
		cmocka_unit_test(test_local_path_elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
