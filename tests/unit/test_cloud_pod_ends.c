/* How a worker's pod ends, by itself or by a limit, and that a folder has one writer. */
#include "tests/unit/cloud_harness.h"

/* ---- ends ---- */

static void set_containers(harness *h, int64_t round, const char *statuses)
{
	cJSON *pod = harness_pod(h, WORKER_TRAIN, round), *tree = NULL;
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, round);
	assert_int_equal(json_parse(statuses, strlen(statuses), 10000, &tree, NULL), 0);
	cJSON *status = cJSON_GetObjectItemCaseSensitive(pod, "status");
	cJSON_DeleteItemFromObjectCaseSensitive(status, "containerStatuses");
	json_put(status, "containerStatuses", tree);
	harness_touch(h, OBJECT_POD, name);
	free(name);
}

static void test_worker_failed(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	set_containers(h, 1, "[{\"state\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\",\"message\":\"last words\"}}}]");
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Failed");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "WorkerFailed");
	assert_string_equal(harness_last(h, "j", "message"), "exit code 137, OOMKilled: last words");
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 1)); /* it stays, as proof */
	harness_free(h);
}

static void test_keeps_failing(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	set_containers(h, 1, "[{\"restartCount\":2,\"lastState\":{\"terminated\":{\"exitCode\":1}}}]");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	char *uid = mem_strdup(json_member(json_member(harness_pod(h, WORKER_TRAIN, 1), "metadata"), "uid")->valuestring);
	set_containers(h, 1, "[{\"restartCount\":3,\"lastState\":{\"terminated\":{\"exitCode\":1}}}]");
	harness_run(h);
	assert_string_equal(h->last_delete_uid, uid);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "WorkerKeepsFailing");
	assert_string_equal(harness_last(h, "j", "message"), "exit code 1");
	free(uid);
	harness_free(h);
}

/* Running is shown of a worker that has run for a while; one that is done before costs one write. */
static void test_running_is_held(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.running_hold_ms = 2000;
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	int patches = h->patches;
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_advance(h, 1999);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
	assert_int_equal(h->patches, patches + 1);
	harness_say(h, 1, STAGE_EVAL, REPORT_READY);
	harness_work_phase(h, "j", WORKER_EVAL, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_STARTING);
	harness_advance(h, 2000);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_RUNNING);
	harness_free(h);
}

static harness *held_world(void)
{
	harness *h = harness_new();
	h->cfg.starting_hold_ms = 10000;
	h->cfg.running_hold_ms = 2000;
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	assert_int_equal(h->creates, 2); /* one that serves, one that trains */
	return h;
}

/* A worker that starts soon is shown as Starting and Running in one write; one that is done before, in none. */
static void test_starting_is_held(void **state)
{
	(void)state;
	harness *h = held_world();
	int patches = h->patches;
	harness_advance(h, 9999);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_advance(h, 1999);
	harness_run(h);
	assert_int_equal(h->patches, patches);
	harness_advance(h, 1);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	assert_int_equal(h->patches, patches + 1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	patches = h->patches;
	harness_say(h, 1, STAGE_EVAL, REPORT_READY);
	harness_work_phase(h, "j", WORKER_EVAL, 1, "Running");
	harness_run(h);
	harness_work_phase(h, "j", WORKER_EVAL, 1, "Succeeded");
	harness_run(h);
	harness_say(h, 1, STAGE_EVAL, REPORT_COMPLETED);
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_WAITING);
	assert_int_equal(h->patches, patches + 2);
	assert_int_equal(h->creates, 3);
	harness_free(h);
}

/* What waits for longer, fails, or meets with trouble is not held. */
static void test_starting_is_told(void **state)
{
	(void)state;
	static const struct {
		const char *phase, *statuses;
		int64_t after_ms;
		enum phase expected;
	} rows[] = {
		{"Pending", NULL, 10000, PHASE_STARTING},
		{"Pending", "[{\"restartCount\":0,\"state\":{\"waiting\":{\"reason\":\"ImagePullBackOff\"}}}]", 0, PHASE_STARTING},
		{"Running", "[{\"restartCount\":1}]", 0, PHASE_STARTING},
		{"Succeeded", NULL, 2000, PHASE_STARTING},
		{"Failed", NULL, 0, PHASE_FAILED},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		harness *h = held_world();
		if (rows[i].statuses != NULL)
			set_containers(h, 1, rows[i].statuses);
		harness_work_phase(h, "j", WORKER_TRAIN, 1, rows[i].phase);
		harness_run(h);
		if (rows[i].after_ms > 0) {
			harness_advance(h, rows[i].after_ms - 1);
			harness_run(h);
			harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
			harness_advance(h, 1);
			harness_run(h);
		}
		harness_expect(h, "j", 1, STAGE_TRAIN, rows[i].expected);
		assert_int_equal(h->creates, 2);
		harness_free(h);
	}
}

/* A pod that goes while nothing but the cluster knows of it has ended all the same: no second one is made. */
static void test_held_and_gone(void **state)
{
	(void)state;
	harness *h = held_world();
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_int_equal(h->creates, 2);
	free(name);
	harness_free(h);
}

static void start_times_out(const char *statuses, const char *conditions, const char *expected)
{
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	if (statuses != NULL)
		set_containers(h, 1, statuses);
	if (conditions != NULL) {
		cJSON *tree = NULL;
		assert_int_equal(json_parse(conditions, strlen(conditions), 10000, &tree, NULL), 0);
		json_put(cJSON_GetObjectItemCaseSensitive(harness_pod(h, WORKER_TRAIN, 1), "status"), "conditions", tree);
		char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
		harness_touch(h, OBJECT_POD, name);
		free(name);
	}
	harness_run(h);
	harness_advance(h, 600 * 1000 - 1);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_int_equal(controller_wake(h->c), h->now.mono_ms + 1);
	harness_advance(h, 1);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), expected);
	harness_free(h);
}

static void test_start_timeout(void **state)
{
	(void)state;
	start_times_out(NULL, NULL, "StartTimeout");
	start_times_out("[{\"state\":{\"waiting\":{\"reason\":\"ImagePullBackOff\",\"message\":\"no such image\"}}}]", NULL, "ImagePull");
	start_times_out(NULL, "[{\"type\":\"PodScheduled\",\"status\":\"False\",\"message\":\"0/3 nodes\"}]", "Unschedulable");
}

/* The same template would be refused again: the round fails with the server's words, and the next one tries. */
static void test_refused_template(void **state)
{
	(void)state;
	harness *h = harness_world();
	h->refuse_create = ERROR_INVALID;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "PodRefused");
	harness_free(h);
}

/* Not while the node cannot be reached: nobody could start it. */
static void test_clock_stops(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.nodes_listed = true;
	harness_put(h, OBJECT_NODE, harness_node("edge-1", "True"));
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_put(h, OBJECT_NODE, harness_node("edge-1", "Unknown"));
	harness_run(h);
	harness_advance(h, INT64_C(3600000));
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_string_equal(harness_reason(h, "j"), "NodeUnreachable");
	harness_put(h, OBJECT_NODE, harness_node("edge-1", "True"));
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_advance(h, 600 * 1000);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	harness_free(h);
}

static void test_pod_lost(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Unknown");
	harness_run(h);
	harness_advance(h, 600 * 1000);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "PodLost");
	harness_free(h);
}

/* ---- one writer ---- */

static void test_reported_but_running(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_READY);
	assert_false(harness_has_pod(h, "j", WORKER_EVAL, 1));
	assert_string_equal(harness_reason(h, "j"), "WaitingForWorker");
	char *uid = mem_strdup(json_member(json_member(harness_pod(h, WORKER_TRAIN, 1), "metadata"), "uid")->valuestring);
	harness_advance(h, 300 * 1000 - 1);
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_advance(h, 1);
	harness_run(h);
	assert_string_equal(h->last_delete_uid, uid);
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	assert_true(harness_has_pod(h, "j", WORKER_EVAL, 1));
	free(uid);
	harness_free(h);
}

/* The next round waits for the end of this round's pods, also after a failure that the edge agent told. */
static void test_next_round_waits(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_FAILED, &(says){.node = "edge-1", .reason = "X"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	harness_advance(h, 60 * 1000);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

static void test_earlier_job(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	char *old = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	char *old_inference = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	h->budget = 0; /* the old pods' deletions hang */
	harness_remove(h, OBJECT_JOB, "j");
	harness_put(h, OBJECT_JOB, harness_job("j", "edge-1", "/out"));
	h->budget = -1;
	cJSON *pods = cJSON_Duplicate(h->objects[OBJECT_POD], 1);
	int made = h->creates;
	cloud_action action;
	int deletes = 0;
	while (controller_next(h->c, h->now, &action)) {
		assert_int_not_equal(action.kind, CLOUD_CREATE_POD);
		if (action.kind == CLOUD_DELETE_POD) {
			deletes++;
			controller_done(h->c, action.id, 0, NULL, NULL, 0, h->now); /* Terminating, not gone */
		} else if (action.kind == CLOUD_PATCH_STATUS) {
			cJSON *object = harness_object(h, OBJECT_JOB, "j");
			json_put(object, "status", cJSON_Duplicate(action.patch.status, 1));
			json_put_string(cJSON_GetObjectItem(object, "metadata"), "x", "y");
			controller_done(h->c, action.id, 0, NULL, NULL, 0, h->now);
			harness_touch(h, OBJECT_JOB, "j");
		}
	}
	assert_int_equal(deletes, 2);
	assert_int_equal(h->creates, made);
	harness_remove(h, OBJECT_POD, old);
	harness_remove(h, OBJECT_POD, old_inference);
	harness_run(h);
	assert_int_equal(h->creates, made + 1); /* the new job's inference pod */
	cJSON_Delete(pods);
	free(old);
	free(old_inference);
	harness_free(h);
}

static void test_output_dir_in_use(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_put(h, OBJECT_JOB, harness_job("k", "edge-1", "/out/"));
	harness_run(h);
	assert_int_equal(harness_conditions(h, "k"), 0);
	job_state *s = harness_state(h, "k");
	assert_string_equal(s->reason, "OutputDirInUse");
	job_state_free(s);
	assert_null(harness_desired(h, "edge-1", "k"));
	assert_string_equal(harness_reason(h, "j"), "");
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_expect(h, "k", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

/* The same path on two nodes is two folders; the same prefix of a bucket is one, wherever it is used. */
static void test_folders_of_nodes(void **state)
{
	(void)state;
	for (int remote = 0; remote < 2; remote++) {
		const char *dir = remote ? "s3://bucket/out" : "/out";
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		harness_put(h, OBJECT_JOB, harness_job("j", "edge-1", dir));
		cJSON *set = cJSON_Duplicate(harness_object(h, OBJECT_DATASET, "d"), 1), *metadata = cJSON_GetObjectItem(set, "metadata");
		cJSON_DeleteItemFromObject(metadata, "name");
		cJSON_DeleteItemFromObject(metadata, "uid");
		json_put_string(metadata, "name", "e");
		cJSON_DeleteItemFromObject(cJSON_GetObjectItem(set, "spec"), "nodeName");
		json_put_string(cJSON_GetObjectItem(set, "spec"), "nodeName", "edge-2");
		harness_put(h, OBJECT_DATASET, set);
		cJSON *other = harness_job("k", "edge-2", dir);
		cJSON_DeleteItemFromObject(cJSON_GetObjectItem(cJSON_GetObjectItem(other, "spec"), "dataset"), "name");
		json_put_string(cJSON_GetObjectItem(cJSON_GetObjectItem(other, "spec"), "dataset"), "name", "e");
		harness_put(h, OBJECT_JOB, other);
		harness_start(h);
		harness_run(h);
		job_state *s = harness_state(h, "k");
		assert_string_equal(s->reason, remote ? "OutputDirInUse" : "");
		job_state_free(s);
		harness_free(h);
	}
}

/* A job moves to a folder in which another one's worker still writes. */
static void test_folder_still_written(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_put(h, OBJECT_JOB, harness_job("k", "edge-1", "/other"));
	harness_run(h);
	harness_report(h, "k", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_work_phase(h, "k", WORKER_TRAIN, 1, "Running");
	cJSON *spec = harness_spec(h, "j");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "outputDir");
	json_put_string(spec, "outputDir", "/other");
	harness_touch(h, OBJECT_JOB, "j");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	assert_string_equal(harness_reason(h, "j"), "OutputDirInUse");
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_work_phase(h, "k", WORKER_TRAIN, 1, "Succeeded");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_failed),
		cmocka_unit_test(test_keeps_failing),
		cmocka_unit_test(test_running_is_held),
		cmocka_unit_test(test_starting_is_held),
		cmocka_unit_test(test_starting_is_told),
		cmocka_unit_test(test_held_and_gone),
		cmocka_unit_test(test_start_timeout),
		cmocka_unit_test(test_refused_template),
		cmocka_unit_test(test_clock_stops),
		cmocka_unit_test(test_pod_lost),
		cmocka_unit_test(test_reported_but_running),
		cmocka_unit_test(test_next_round_waits),
		cmocka_unit_test(test_earlier_job),
		cmocka_unit_test(test_output_dir_in_use),
		cmocka_unit_test(test_folders_of_nodes),
		cmocka_unit_test(test_folder_still_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
