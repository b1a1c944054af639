/* Why a job stands still: what the state topic says of nodes, datasets and workers, and that it says so once. */
#include "tests/unit/cloud_harness.h"

static void expect(const harness *h, const char *reason, const char *message)
{
	job_state *s = harness_state(h, "j");
	if (strcmp(s->reason, reason) != 0 || strcmp(s->message, message) != 0)
		fail_msg("the state says %s: %s, not %s: %s", s->reason, s->message, reason, message);
	job_state_free(s);
}

static void test_node_that_never_came(void **state)
{
	(void)state;
	harness *h = harness_world();
	expect(h, "", ""); /* what is retained may not have arrived yet */
	int published = h->published;
	assert_true(harness_wake(h, 10 * 1000));
	expect(h, "NodeOffline", "node edge-1 has not been seen");
	assert_int_equal(h->published, published + 1);
	assert_false(harness_wake(h, 30 * 60 * 1000)); /* said once */
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	expect(h, "", "");
	presence gone = {.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .version = "1", .session = "s1"};
	char *will = presence_encode(&gone);
	harness_foreign(h, "ilmare/v1/presence/edge-1", will);
	harness_run(h);
	expect(h, "NodeOffline", "node edge-1 is not connected");
	free(will);
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	expect(h, "", "");
	/* While a worker runs it is nobody's turn; the deploy node is awaited later on. */
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_foreign(h, "ilmare/v1/presence/edge-1", "");
	harness_run(h);
	expect(h, "", "");
	harness_free(h);
}

static void tell(harness *h, const char *node, const char *problem)
{
	const cJSON *object = harness_object(h, OBJECT_DATASET, "d");
	dataset_status s = {.ts = "2026-11-30T00:00:00Z", .node = node, .samples = 5, .size = 50, .error = problem};
	s.dataset = (dataset_ref){.ns = "default", .name = "d", .uid = harness__text(object, "metadata", "uid")};
	char *payload = dataset_status_encode(&s), *where = mem_printf("ilmare/v1/ns/default/dataset/d/node/%s/status", node);
	harness_deliver(h, where, payload, true);
	harness_run(h);
	free(where);
	free(payload);
}

static void test_problem_of_the_device(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	tell(h, "edge-1", "dataset file /d.txt: No such file or directory");
	expect(h, "DatasetProblem", "dataset file /d.txt: No such file or directory");
	tell(h, "edge-2", "of another node");
	expect(h, "DatasetProblem", "dataset file /d.txt: No such file or directory");
	int published = h->published;
	tell(h, "edge-1", "dataset file /d.txt: No such file or directory");
	assert_int_equal(h->published, published);
	tell(h, "edge-1", NULL);
	expect(h, "", "");
	harness_free(h);
}

/* How a kubelet tells of a container that failed `n` times. */
static void restarted(harness *h, enum worker_kind kind, int64_t round, int n, bool waits)
{
	cJSON *pod = harness_pod(h, kind, round);
	char *text = mem_printf("{\"phase\":\"Running\",\"containerStatuses\":[{\"restartCount\":%d,\"state\":{\"%s\":{\"reason\":\"%s\"}},"
							"\"lastState\":{\"terminated\":{\"exitCode\":1,\"message\":\"no such file\"}}}]}",
		n, waits ? "waiting" : "running", waits ? "CrashLoopBackOff" : "");
	cJSON_ReplaceItemInObjectCaseSensitive(pod, "status", cJSON_Parse(text));
	free(text);
	char *name = harness_pod_name(h, "j", kind, round);
	harness_touch(h, OBJECT_POD, name);
	free(name);
	harness_run(h);
}

static void test_worker_that_keeps_ending(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	restarted(h, WORKER_INFERENCE, 0, 1, true);
	expect(h, "WorkerRestarting", "inference worker restarted 1 time; last: exit code 1: no such file");
	int published = h->published;
	restarted(h, WORKER_INFERENCE, 0, 1, false); /* it runs, for the moment: no news */
	assert_int_equal(h->published, published);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	restarted(h, WORKER_TRAIN, 1, 2, true);
	expect(h, "WorkerRestarting", "train worker restarted 2 times; last: exit code 1: no such file");
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	expect(h, "WorkerRestarting", "inference worker restarted 1 time; last: exit code 1: no such file");
	harness_advance(h, 11 * 60 * 1000); /* it has run since */
	harness_run(h);
	expect(h, "", "");
	harness_restart(h); /* that it restarted long ago is no news to a new agent */
	harness_run(h);
	expect(h, "", "");
	harness_free(h);
}

/* The pod that is to serve waits for its image: said once, whatever the kubelet says next. */
static void test_serving_pod_that_does_not_start(void **state)
{
	(void)state;
	static const char *const said[] = {"ErrImagePull", "ImagePullBackOff", "ErrImagePull"};
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0), *message = mem_printf("pod %s, which is to serve, does not start", name);
	int published = h->published;
	for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
		char *text = mem_printf("[{\"state\":{\"waiting\":{\"reason\":\"%s\",\"message\":\"try %zu\"}}}]", said[i], i);
		cJSON *status = cJSON_GetObjectItem(harness_object(h, OBJECT_POD, name), "status"), *list = cJSON_Parse(text);
		cJSON_DeleteItemFromObject(status, "containerStatuses");
		json_put(status, "containerStatuses", list);
		harness_pod_phase(h, name, "Pending");
		harness_run(h);
		expect(h, "ImagePull", message);
		free(text);
	}
	assert_int_equal(h->published, published + 1);
	harness_pod_phase(h, name, "Running");
	harness_run(h);
	expect(h, "", "");
	free(message);
	free(name);
	harness_free(h);
}

/* Why the last round deployed nothing stays visible in the next one; and the timer is part of what is waited for. */
static void test_end_of_the_last_round(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *timer = cJSON_CreateObject();
	json_put_string(timer, "start", "3:00");
	json_put_string(timer, "end", "04:00");
	json_put((cJSON *)json_member(json_member(harness_spec(h, "j"), "trainSpec"), "trigger"), "timer", timer);
	harness_touch(h, OBJECT_JOB, "j");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_say(h, 1, STAGE_EVAL, REPORT_READY);
	harness_say(h, 1, STAGE_EVAL, REPORT_COMPLETED);
	harness_work_phase(h, "j", WORKER_EVAL, 1, "Succeeded");
	harness_report(h, "j", 1, STAGE_DEPLOY, REPORT_COMPLETED,
		&(says){.node = "edge-1", .reason = "NotBetter", .message = "deploy trigger: new model: metric 'fit' is missing"});
	harness_run(h);
	job_state *s = harness_state(h, "j");
	assert_int_equal(s->position.round, 2);
	assert_string_equal(s->ended_reason, "NotBetter");
	assert_string_equal(s->ended_message, "deploy trigger: new model: metric 'fit' is missing");
	assert_string_equal(s->message, "round 1 ended with Deploy/Completed, NotBetter: deploy trigger: new model: metric 'fit' is missing");
	if (strstr(s->waiting_trigger, "num_of_samples ") != s->waiting_trigger ||
		strstr(s->waiting_trigger, ", between 03:00 and 04:00") == NULL)
		fail_msg("'%s'", s->waiting_trigger);
	job_state_free(s);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node_that_never_came),
		cmocka_unit_test(test_problem_of_the_device),
		cmocka_unit_test(test_worker_that_keeps_ending),
		cmocka_unit_test(test_serving_pod_that_does_not_start),
		cmocka_unit_test(test_end_of_the_last_round),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
