/* Pods: what they are made of, when they are made, and when they have to go. */
#include "tests/unit/cloud_harness.h"

static harness *world(void)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	return h;
}

static const char *reason(const harness *h)
{
	static char text[65];
	job_state *s = harness_state(h, "j");
	snprintf(text, sizeof text, "%s", s->reason);
	job_state_free(s);
	return text;
}

static void ready(harness *h, int64_t round)
{
	harness_report(h, "j", round, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .from = 10 * (round - 1), .to = 10 * round});
	harness_run(h);
}

static void completed(harness *h, int64_t round, enum stage stage)
{
	harness_report(h, "j", round, stage, REPORT_COMPLETED,
		&(says){.node = "edge-1", .from = 10 * (round - 1), .to = 10 * round, .metric = 0.9, .metric_old = 0.5});
	harness_run(h);
}

static cJSON *pod_object(const harness *h, enum worker_kind kind, int64_t round)
{
	char *name = harness_pod_name(h, "j", kind, round);
	cJSON *pod = harness_object(h, OBJECT_POD, name);
	free(name);
	assert_non_null(pod);
	return pod;
}

static const char *env(const cJSON *pod, const char *name)
{
	const cJSON *list = json_member(cJSON_GetArrayItem(json_member(json_member(pod, "spec"), "containers"), 0), "env"), *entry;
	const char *value = NULL;
	int times = 0;
	cJSON_ArrayForEach(entry, list) {
		if (strcmp(json_member(entry, "name")->valuestring, name) == 0) {
			value = json_member(entry, "value") != NULL ? json_member(entry, "value")->valuestring : "(from)";
			times++;
		}
	}
	assert_true(times <= 1);
	return value != NULL ? value : "(none)";
}

/* ---- contents ---- */

static void test_train_pod(void **state)
{
	(void)state;
	char worker[WORKER_NAME_SIZE];
	harness *h = world();
	ready(h, 1);
	const cJSON *pod = pod_object(h, WORKER_TRAIN, 1), *metadata = json_member(pod, "metadata"), *spec = json_member(pod, "spec");
	const cJSON *labels = json_member(metadata, "labels"), *owner = cJSON_GetArrayItem(json_member(metadata, "ownerReferences"), 0);
	const char *uid = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring;
	worker_name(WORKER_TRAIN, uid, 1, worker);
	assert_string_equal(json_member(labels, "incrementallearningjob.sedna.io/name")->valuestring, "j");
	assert_string_equal(json_member(labels, "incrementallearningjob.sedna.io/uid")->valuestring, uid);
	assert_string_equal(json_member(labels, "incrementallearningjob.sedna.io/worker-type")->valuestring, "train");
	assert_string_equal(json_member(owner, "kind")->valuestring, "IncrementalLearningJob");
	assert_string_equal(json_member(owner, "uid")->valuestring, uid);
	assert_true(cJSON_IsTrue(json_member(owner, "controller")));
	assert_true(cJSON_IsTrue(json_member(spec, "hostNetwork")));
	assert_string_equal(json_member(spec, "restartPolicy")->valuestring, "OnFailure");
	assert_string_equal(json_member(spec, "nodeName")->valuestring, "edge-1");
	assert_string_equal(env(pod, "NAMESPACE"), "default");
	assert_string_equal(env(pod, "JOB_NAME"), "j");
	assert_string_equal(env(pod, "WORKER_NAME"), worker);
	assert_string_equal(env(pod, "LC_SERVER"), "http://localhost:9100");
	assert_string_equal(env(pod, "DATA_PATH_PREFIX"), "");
	assert_string_equal(env(pod, "BASE_MODEL_URL"), "/models/initial.ckpt");
	assert_string_equal(env(pod, "MODEL_URL"), "/out/train/1");
	assert_string_equal(env(pod, "TRAIN_DATASET_URL"), "/out/data/train/1/data.txt");
	assert_string_equal(env(pod, "ORIGINAL_DATASET_URL"), "/data/d.txt");
	assert_string_equal(env(pod, "OWN"), "1");
	harness_free(h);
}

static void test_other_pods(void **state)
{
	(void)state;
	harness *h = world();
	const cJSON *pod = pod_object(h, WORKER_INFERENCE, 0);
	assert_string_equal(env(pod, "MODEL_URL"), "/models/serve.pb");
	assert_string_equal(env(pod, "HEM_NAME"), "IBT");
	assert_string_equal(env(pod, "HEM_PARAMETERS"), "[{\"key\":\"t\",\"value\":\"0.9\"}]");
	assert_string_equal(env(pod, "HARD_SAMPLE_ALGORITHM"), "IBT");
	assert_null(json_member(json_member(pod, "spec"), "restartPolicy"));
	ready(h, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	completed(h, 1, STAGE_TRAIN);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	pod = pod_object(h, WORKER_EVAL, 1);
	assert_string_equal(env(pod, "MODEL_URLS"), "/out/train/1/serve.pb;/models/serve.pb");
	assert_string_equal(env(pod, "TEST_DATASET_URL"), "/out/data/eval/1/data.txt");
	harness_free(h);
}

/* With a cluster: paths below the mount, credentials from the secret, the template's own variables give way to ours. */
static void test_mounted(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.workers_in_place = false;
	harness_add_world(h, "edge-1");
	cJSON *spec = harness_spec(h, "j");
	json_put_string(spec, "credentialName", "secret");
	cJSON *container =
		cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(spec, "trainSpec"), "template"),
												   "spec"),
							   "containers"),
			0);
	cJSON *own = cJSON_CreateObject();
	json_put_string(own, "name", "MODEL_URL");
	json_put_string(own, "value", "mine");
	cJSON_AddItemToArray(cJSON_GetObjectItem(container, "env"), own);
	harness_start(h);
	harness_run(h);
	assert_string_equal(reason(h), "MissingSecret");
	assert_int_equal(h->creates, 0);
	cJSON *secret = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(secret, "metadata"), "name", "secret");
	harness_put(h, OBJECT_SECRET, secret);
	harness_run(h);
	assert_int_equal(h->creates, 1);
	ready(h, 1);
	const cJSON *pod = pod_object(h, WORKER_TRAIN, 1);
	assert_string_equal(env(pod, "DATA_PATH_PREFIX"), "/home/data");
	assert_string_equal(env(pod, "MODEL_URL"), "/home/data/out/train/1");
	assert_string_equal(env(pod, "ACCESS_KEY_ID"), "(from)");
	assert_string_equal(env(pod, "S3_ENDPOINT_URL"), "(none)"); /* the Secret does not say */
	harness_free(h);
}

/* What the annotations of the Secret say, and what goes to the worker. */
static void test_credentials_in_place(void **state)
{
	static const struct {
		const char *endpoint, *use_https, *url;
	} rows[] = {
		{"minio:9000", NULL, "https://minio:9000"},
		{"minio:9000", "1", "https://minio:9000"},
		{"minio:9000", "0", "http://minio:9000"},
		{"http://minio:9000", NULL, "https://minio:9000"},
		{NULL, "0", "(none)"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		json_put_string(harness_spec(h, "j"), "credentialName", "s3");
		cJSON *secret = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(secret, "metadata");
		json_put_string(metadata, "name", "s3");
		cJSON *annotations = cJSON_AddObjectToObject(metadata, "annotations");
		json_put_string(annotations, "s3-endpoint", rows[i].endpoint);
		json_put_string(annotations, "s3-usehttps", rows[i].use_https);
		harness_start(h);
		harness_put(h, OBJECT_SECRET, secret);
		harness_run(h);
		ready(h, 1);
		const enum worker_kind kinds[] = {WORKER_INFERENCE, WORKER_TRAIN};
		for (int k = 0; k < 2; k++) {
			const cJSON *pod = pod_object(h, kinds[k], k);
			assert_string_equal(env(pod, "S3_ENDPOINT_URL"), rows[i].url);
			assert_string_equal(env(pod, "ACCESS_KEY_ID"), "(from)");
			assert_string_equal(env(pod, "SECRET_ACCESS_KEY"), "(from)");
		}
		harness_free(h);
	}
}

static void test_long_name(void **state)
{
	(void)state;
	harness *h = world();
	char name[201];
	memset(name, 'n', 200);
	for (int i = 0; i < 2; i++) {
		name[199] = (char)('a' + i);
		name[200] = '\0';
		harness_put(h, OBJECT_JOB, harness_job(name, "edge-1", i == 0 ? "/out-a" : "/out-b"));
	}
	harness_run(h);
	const cJSON *pod;
	int n = 0;
	cJSON_ArrayForEach(pod, h->objects[OBJECT_POD]) {
		const cJSON *metadata = json_member(pod, "metadata");
		assert_true(strlen(json_member(metadata, "name")->valuestring) <= 63);
		assert_true(strlen(json_member(json_member(metadata, "labels"), "incrementallearningjob.sedna.io/name")->valuestring) <= 63);
		n++;
	}
	assert_int_equal(n, 3);
	harness_free(h);
}

/* ---- made once ---- */

/* It goes before the answer to the create comes, and so before the patch to Starting. */
static void test_vanished(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	h->refuse_create = ERROR_IO;
	ready(h, 1);
	harness_advance(h, 3000);
	do
		assert_true(controller_next(h->c, h->now, &action));
	while (action.kind == CLOUD_PUBLISH);
	assert_int_equal(action.kind, CLOUD_CREATE_POD);
	cJSON *pod = cJSON_Duplicate(action.create.pod, 1);
	char *name = mem_strdup(action.create.name);
	json_put_string(cJSON_GetObjectItem(pod, "metadata"), "uid", "short-lived");
	controller_object(h->c, OBJECT_POD, "default", name, cJSON_Duplicate(pod, 1), h->now);
	controller_object(h->c, OBJECT_POD, "default", name, NULL, h->now);
	controller_done(h->c, action.id, 0, NULL, pod, 0, h->now);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	cJSON *own = harness_member(h, "j");
	assert_string_equal(json_member(own, "podUID")->valuestring, "short-lived");
	assert_string_equal(json_member(own, "node")->valuestring, "edge-1");
	cJSON_Delete(own);
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	desired_free(d);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_FAILED, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	free(name);
	harness_free(h);
}

/* A pod of that name which is not ours is never taken for ours. */
static void test_name_taken(void **state)
{
	(void)state;
	harness *h = world();
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	cJSON *other = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(other, "metadata"), "name", name);
	harness_put(h, OBJECT_POD, other);
	ready(h, 1);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	assert_string_equal(reason(h), "PodNameTaken");
	harness_remove(h, OBJECT_POD, name);
	assert_true(harness_wake(h, 3 * 60 * 1000));
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	free(name);
	harness_free(h);
}

/* At Starting and Running a pod that is gone has ended and is not made again; the agent of its node says how it went. */
static void test_missing_pod(void **state)
{
	(void)state;
	harness *h = world();
	harness_birth(h, "edge-1", "s1");
	ready(h, 1);
	int made = h->creates;
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	assert_string_equal(reason(h), "WaitingForResult");
	presence gone = {.node = "edge-1", .online = false, .version = "1", .session = "s1"};
	char *will = presence_encode(&gone);
	harness_foreign(h, "ilmare/v1/presence/edge-1", will);
	harness_run(h);
	assert_string_equal(reason(h), "WaitingForNode");
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->creates, made);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	desired_free(d);
	completed(h, 1, STAGE_TRAIN);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
	free(will);
	free(name);
	harness_free(h);
}

static void test_silent_node(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.node_silence_ms = 3600 * 1000;
	harness_add_world(h, "edge-1");
	harness_start(h);
	presence gone = {.node = "edge-1", .online = false, .version = "1", .session = "s1"};
	char *will = presence_encode(&gone);
	harness_run(h);
	ready(h, 1);
	harness_foreign(h, "ilmare/v1/presence/edge-1", will);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	harness_advance(h, 3600 * 1000 - 1);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_advance(h, 1);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "ResultsMissing");
	free(will);
	harness_free(h);
}

static cJSON *node_object(const char *name, const char *is_ready)
{
	char *text =
		mem_printf("{\"metadata\":{\"name\":\"%s\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}", name, is_ready);
	cJSON *tree = NULL;
	assert_int_equal(json_parse(text, strlen(text), 10000, &tree, NULL), 0);
	free(text);
	return tree;
}

static void test_node_left(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.nodes_listed = true;
	harness_put(h, OBJECT_NODE, node_object("edge-1", "True"));
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	ready(h, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_remove(h, OBJECT_NODE, "edge-1");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "ResultsMissing");
	harness_free(h);
}

/* Somebody makes a pod of that name: it is not the one that was recorded, which has ended. */
static void test_another_uid(void **state)
{
	(void)state;
	harness *h = world();
	ready(h, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	cJSON *copy = cJSON_Duplicate(harness_object(h, OBJECT_POD, name), 1);
	cJSON_DeleteItemFromObject(cJSON_GetObjectItem(copy, "metadata"), "uid");
	harness_remove(h, OBJECT_POD, name);
	harness_put(h, OBJECT_POD, copy);
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	desired_free(d);
	assert_null(harness_object(h, OBJECT_POD, name));
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	free(name);
	harness_free(h);
}

/* ---- ends ---- */

static void set_containers(harness *h, int64_t round, const char *statuses)
{
	cJSON *pod = pod_object(h, WORKER_TRAIN, round), *tree = NULL;
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
	harness *h = world();
	ready(h, 1);
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
	harness *h = world();
	ready(h, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	set_containers(h, 1, "[{\"restartCount\":2,\"lastState\":{\"terminated\":{\"exitCode\":1}}}]");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	char *uid = mem_strdup(json_member(json_member(pod_object(h, WORKER_TRAIN, 1), "metadata"), "uid")->valuestring);
	set_containers(h, 1, "[{\"restartCount\":3,\"lastState\":{\"terminated\":{\"exitCode\":1}}}]");
	harness_run(h);
	assert_string_equal(h->last_delete_uid, uid);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "WorkerKeepsFailing");
	assert_string_equal(harness_last(h, "j", "message"), "exit code 1");
	free(uid);
	harness_free(h);
}

static void start_times_out(const char *statuses, const char *conditions, const char *expected)
{
	harness *h = world();
	ready(h, 1);
	if (statuses != NULL)
		set_containers(h, 1, statuses);
	if (conditions != NULL) {
		cJSON *tree = NULL;
		assert_int_equal(json_parse(conditions, strlen(conditions), 10000, &tree, NULL), 0);
		json_put(cJSON_GetObjectItemCaseSensitive(pod_object(h, WORKER_TRAIN, 1), "status"), "conditions", tree);
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

/* Not while the node cannot be reached: nobody could start it. */
static void test_clock_stops(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.nodes_listed = true;
	harness_put(h, OBJECT_NODE, node_object("edge-1", "True"));
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	ready(h, 1);
	harness_put(h, OBJECT_NODE, node_object("edge-1", "Unknown"));
	harness_run(h);
	harness_advance(h, INT64_C(3600000));
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_string_equal(reason(h), "NodeUnreachable");
	harness_put(h, OBJECT_NODE, node_object("edge-1", "True"));
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
	harness *h = world();
	ready(h, 1);
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
	harness *h = world();
	ready(h, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	completed(h, 1, STAGE_TRAIN);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_READY);
	assert_false(harness_has_pod(h, "j", WORKER_EVAL, 1));
	assert_string_equal(reason(h), "WaitingForWorker");
	char *uid = mem_strdup(json_member(json_member(pod_object(h, WORKER_TRAIN, 1), "metadata"), "uid")->valuestring);
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
	harness *h = world();
	ready(h, 1);
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
	harness *h = world();
	ready(h, 1);
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
	harness *h = world();
	harness_put(h, OBJECT_JOB, harness_job("k", "edge-1", "/out/"));
	harness_run(h);
	assert_int_equal(harness_conditions(h, "k"), 0);
	job_state *s = harness_state(h, "k");
	assert_string_equal(s->reason, "OutputDirInUse");
	job_state_free(s);
	assert_null(harness_desired(h, "edge-1", "k"));
	assert_string_equal(reason(h), "");
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
	harness *h = world();
	harness_put(h, OBJECT_JOB, harness_job("k", "edge-1", "/other"));
	harness_run(h);
	harness_report(h, "k", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_work_phase(h, "k", WORKER_TRAIN, 1, "Running");
	cJSON *spec = harness_spec(h, "j");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "outputDir");
	json_put_string(spec, "outputDir", "/other");
	harness_touch(h, OBJECT_JOB, "j");
	ready(h, 1);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	assert_string_equal(reason(h), "OutputDirInUse");
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_work_phase(h, "k", WORKER_TRAIN, 1, "Succeeded");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	harness_free(h);
}

/* ---- nodes ---- */

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
	ready(h, 1);
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
	ready(h, 1);
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
	assert_string_equal(reason(h), "LocalPathOnOtherNode");
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
	ready(h, 1);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_FAILED);
	assert_string_equal(harness_last(h, "j", "reason"), "PodLost");
	free(name);
	harness_free(h);
}

/* ---- what has to go ---- */

static void add_pod(harness *h, const char *name, const char *kind, const char *owner_uid)
{
	char *text =
		mem_printf("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"incrementallearningjob.sedna.io/worker-type\":\"%s\"},"
				   "\"ownerReferences\":[{\"kind\":\"IncrementalLearningJob\",\"name\":\"j\",\"uid\":\"%s\",\"controller\":true}]},"
				   "\"spec\":{},\"status\":{\"phase\":\"Running\"}}",
			name, kind, owner_uid);
	cJSON *tree = NULL;
	assert_int_equal(json_parse(text, strlen(text), 10000, &tree, NULL), 0);
	harness_put(h, OBJECT_POD, tree);
	free(text);
}

static void test_retention(void **state)
{
	(void)state;
	harness *h = world();
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
	add_pod(h, "strange", "train", uid);
	harness_run(h);
	assert_null(harness_object(h, OBJECT_POD, "strange"));
	harness_free(h);
}

static void test_orphans(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	add_pod(h, "orphan", "inference", "uid-of-nobody");
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
	harness *h = world();
	h->refuse_delete = ERROR_IO;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_int_equal(cJSON_GetArraySize(h->objects[OBJECT_POD]), 1);
	h->hang_deletes = true;
	assert_true(harness_wake(h, 2 * 60 * 1000));
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
	harness *h = world();
	cJSON *metadata = cJSON_GetObjectItemCaseSensitive(harness_object(h, OBJECT_JOB, "j"), "metadata");
	json_put_string(metadata, "deletionTimestamp", "2026-11-30T00:00:00Z");
	harness_touch(h, OBJECT_JOB, "j");
	int made = h->creates, patched = h->patches;
	ready(h, 1);
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	assert_int_equal(h->creates, made);
	assert_int_equal(h->patches, patched);
	assert_non_null(harness_retained(h, "ilmare/v1/ns/default/job/j/state"));
	free(name);
	harness_free(h);
}

/* ---- the pod that serves ---- */

static void test_inference_ends(void **state)
{
	(void)state;
	harness *h = world();
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
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	for (int i = 0; i < 200; i++) {
		harness_run(h);
		position p = harness_position(h, "j");
		if (p.stage == STAGE_DEPLOY && p.phase == PHASE_STARTING)
			break;
		device_pass(h, &dev);
	}
	harness_expect(h, "j", 1, STAGE_DEPLOY, PHASE_STARTING);
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	harness_advance(h, 600 * 1000);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_string_equal(harness_last(h, "j", "message"), "round 1 ended with Deploy/Completed, InferenceNotRunning");
	cJSON *own = harness_member(h, "j");
	assert_int_equal(json_member(json_member(own, "deployed"), "round")->valueint, 1); /* in place, and named */
	cJSON_Delete(own);
	harness_free(h);
}

/* The old pod takes its time to go: it is asked once, then once more after the limit, and the new one is made when it is gone. */
static void test_inference_terminating(void **state)
{
	(void)state;
	harness *h = world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	char *old = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	h->hang_deletes = true;
	for (int i = 0; i < 200; i++) {
		harness_run(h);
		position p = harness_position(h, "j");
		if (p.stage == STAGE_DEPLOY && p.phase == PHASE_STARTING)
			break;
		device_pass(h, &dev);
	}
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
	harness *h = world();
	const char *uid = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring;
	char *name = harness_pod_name(h, "j", WORKER_INFERENCE, 0);
	json_put_bool(cJSON_GetObjectItem(cJSON_GetObjectItem(harness_spec(h, "j"), "deploySpec"), "model"), "hotUpdateEnabled", true);
	harness_remove(h, OBJECT_POD, name);
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	add_pod(h, "strange", "inference", uid);
	harness_run(h);
	assert_null(harness_object(h, OBJECT_POD, "strange"));
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	free(name);
	harness_free(h);
}

/* ---- errors of the cluster ---- */

/* What was newer is here already when the conflict is told: no waiting. */
static void test_conflict_met(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	assert_true(controller_next(h->c, h->now, &action));
	uint64_t id = action.id;
	harness_touch(h, OBJECT_JOB, "j");
	controller_done(h->c, id, ERROR_CONFLICT, NULL, NULL, 0, h->now);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

static void test_cluster_errors(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	h->refuse_create = ERROR_DENIED;
	ready(h, 1);
	assert_string_equal(reason(h), "ClusterDenied");
	assert_true(controller_wake(h->c) <= h->now.mono_ms + 1200);
	harness_wake(h, 2000);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_string_equal(reason(h), "");
	/* Retry-After counts */
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS);
	controller_done(h->c, action.id, ERROR_OFFLINE, "429", NULL, 30000, h->now);
	harness_run(h);
	assert_int_equal(controller_wake(h->c), h->now.mono_ms + 30000);
	harness_wake(h, 30000);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_train_pod),
		cmocka_unit_test(test_other_pods),
		cmocka_unit_test(test_mounted),
		cmocka_unit_test(test_credentials_in_place),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_vanished),
		cmocka_unit_test(test_name_taken),
		cmocka_unit_test(test_missing_pod),
		cmocka_unit_test(test_silent_node),
		cmocka_unit_test(test_node_left),
		cmocka_unit_test(test_another_uid),
		cmocka_unit_test(test_worker_failed),
		cmocka_unit_test(test_keeps_failing),
		cmocka_unit_test(test_start_timeout),
		cmocka_unit_test(test_clock_stops),
		cmocka_unit_test(test_pod_lost),
		cmocka_unit_test(test_reported_but_running),
		cmocka_unit_test(test_next_round_waits),
		cmocka_unit_test(test_earlier_job),
		cmocka_unit_test(test_output_dir_in_use),
		cmocka_unit_test(test_folders_of_nodes),
		cmocka_unit_test(test_folder_still_written),
		cmocka_unit_test(test_deploy_node),
		cmocka_unit_test(test_lost_unbound),
		cmocka_unit_test(test_node_recorded),
		cmocka_unit_test(test_local_path_elsewhere),
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_orphan_again),
		cmocka_unit_test(test_deleting),
		cmocka_unit_test(test_inference_ends),
		cmocka_unit_test(test_inference_not_running),
		cmocka_unit_test(test_inference_terminating),
		cmocka_unit_test(test_strange_inference),
		cmocka_unit_test(test_conflict_met),
		cmocka_unit_test(test_cluster_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
