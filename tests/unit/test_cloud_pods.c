/* Pods: what they are made of, and that each is made once. */
#include "tests/unit/cloud_harness.h"

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
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	const cJSON *pod = harness_pod(h, WORKER_TRAIN, 1), *metadata = json_member(pod, "metadata"), *spec = json_member(pod, "spec");
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
	harness *h = harness_world();
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0);
	assert_string_equal(env(pod, "MODEL_URL"), "/models/serve.pb");
	assert_string_equal(env(pod, "HEM_NAME"), "IBT");
	assert_string_equal(env(pod, "HEM_PARAMETERS"), "[{\"key\":\"t\",\"value\":\"0.9\"}]");
	assert_string_equal(env(pod, "HARD_SAMPLE_ALGORITHM"), "IBT");
	assert_null(json_member(json_member(pod, "spec"), "restartPolicy"));
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	pod = harness_pod(h, WORKER_EVAL, 1);
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
	assert_string_equal(harness_reason(h, "j"), "MissingSecret");
	assert_int_equal(h->creates, 0);
	cJSON *secret = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(secret, "metadata"), "name", "secret");
	harness_put(h, OBJECT_SECRET, secret);
	harness_run(h);
	assert_int_equal(h->creates, 1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	const cJSON *pod = harness_pod(h, WORKER_TRAIN, 1);
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
		harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
		const enum worker_kind kinds[] = {WORKER_INFERENCE, WORKER_TRAIN};
		for (int k = 0; k < 2; k++) {
			const cJSON *pod = harness_pod(h, kinds[k], k);
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
	harness *h = harness_world();
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
	harness *h = harness_world();
	h->refuse_create = ERROR_IO;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
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
	harness *h = harness_world();
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	cJSON *other = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(other, "metadata"), "name", name);
	harness_put(h, OBJECT_POD, other);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	assert_string_equal(harness_reason(h, "j"), "PodNameTaken");
	harness_wake(h, 1000); /* the reason is told */
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
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	int made = h->creates;
	char *name = harness_pod_name(h, "j", WORKER_TRAIN, 1);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	harness_remove(h, OBJECT_POD, name);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	assert_string_equal(harness_reason(h, "j"), "WaitingForResult");
	presence gone = {.node = "edge-1", .online = false, .version = "1", .session = "s1"};
	char *will = presence_encode(&gone);
	harness_foreign(h, "ilmare/v1/presence/edge-1", will);
	harness_run(h);
	assert_string_equal(harness_reason(h, "j"), "WaitingForNode");
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->creates, made);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	desired_free(d);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
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
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
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

static void test_node_left(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.nodes_listed = true;
	harness_put(h, OBJECT_NODE, harness_node("edge-1", "True"));
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
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
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
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

/* ---- errors of the cluster ---- */

/* What was newer is here already when the conflict is told: no waiting. */
static void test_conflict_met(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	assert_true(controller_next(h->c, h->now, &action));
	uint64_t id = action.id;
	harness_touch(h, OBJECT_JOB, "j");
	controller_done(h->c, id, ERROR_CONFLICT, NULL, NULL, 0, h->now);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

/* Something newer never comes: the same is tried again soon, and then later and later. */
static void test_conflict_with_nothing(void **state)
{
	(void)state;
	harness *h = harness_world();
	int patches = h->patches;
	h->refuse_patch = ERROR_CONFLICT;
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	assert_int_equal(h->patches, patches);
	h->refuse_patch = ERROR_CONFLICT;
	harness_advance(h, 1200);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_advance(h, 2400);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

static void test_cluster_errors(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
	h->refuse_create = ERROR_DENIED;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	assert_string_equal(harness_reason(h, "j"), "ClusterDenied");
	assert_true(controller_wake(h->c) <= h->now.mono_ms + 1200);
	harness_wake(h, 2000);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	assert_string_equal(harness_reason(h, "j"), "");
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

/* What was refused is tried again at once when the spec has changed, and not when something else of the object has. */
static void test_mended(void **state)
{
	(void)state;
	harness *h = harness_world();
	for (int i = 0; i < 4; i++) {
		h->refuse_create = ERROR_DENIED;
		if (i == 0)
			harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
		else
			while (h->refuse_create != 0)
				assert_true(harness_wake(h, 60 * 1000));
		assert_int_equal(h->refuse_create, 0);
	}
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	json_put_int(cJSON_GetObjectItem(harness_object(h, OBJECT_JOB, "j"), "metadata"), "generation", 2);
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
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
		cmocka_unit_test(test_conflict_met),
		cmocka_unit_test(test_conflict_with_nothing),
		cmocka_unit_test(test_cluster_errors),
		cmocka_unit_test(test_mended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
