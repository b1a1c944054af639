/* How a worker in a container comes to its files: folders of the node, remote files that are fetched first, and nodes that are away. */
#include "tests/unit/cloud_harness.h"

static harness *in_cluster(void)
{
	harness *h = harness_new();
	h->cfg.workers_in_place = false;
	h->cfg.storage_image = "fetcher:1";
	harness_add_world(h, "edge-1");
	return h;
}

static void begin(harness *h)
{
	harness_start(h);
	harness_run(h);
}

static void set_text(harness *h, enum object_kind kind, const char *object, const char *member, const char *value)
{
	cJSON *spec = cJSON_GetObjectItemCaseSensitive(harness_object(h, kind, object), "spec");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, member);
	json_put_string(spec, member, value);
}

static void add_secret(harness *h, const char *name, const char *endpoint)
{
	cJSON *secret = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(secret, "metadata");
	json_put_string(metadata, "name", name);
	json_put_string(cJSON_AddObjectToObject(metadata, "annotations"), "s3-endpoint", endpoint);
	harness_put(h, OBJECT_SECRET, secret);
}

static const char *text(const cJSON *object, const char *name)
{
	const char *value = cJSON_GetStringValue(json_member(object, name));
	return value != NULL ? value : "";
}

static const cJSON *spec_of(const cJSON *pod)
{
	return json_member(pod, "spec");
}

static const char *env(const cJSON *container, const char *name)
{
	const cJSON *entry;
	cJSON_ArrayForEach(entry, json_member(container, "env")) {
		if (strcmp(text(entry, "name"), name) == 0)
			return json_member(entry, "valueFrom") != NULL ? text(json_member(json_member(entry, "valueFrom"), "secretKeyRef"), "name") :
															 text(entry, "value");
	}
	return "(none)";
}

static const cJSON *first_container(const cJSON *pod)
{
	return cJSON_GetArrayItem(json_member(spec_of(pod), "containers"), 0);
}

/* "host folder>mount path " of each, in order; a volume that is no folder of the node shows its kind. */
static void expect_mounts(const cJSON *pod, const char *expected)
{
	buf out = {0};
	const cJSON *mount, *volume;
	cJSON_ArrayForEach(mount, json_member(first_container(pod), "volumeMounts")) {
		cJSON_ArrayForEach(volume, json_member(spec_of(pod), "volumes")) {
			const cJSON *host = json_member(volume, "hostPath");
			if (strcmp(text(volume, "name"), text(mount, "name")) != 0)
				continue;
			buf_printf(&out, "%s%s>%s ", host != NULL ? text(host, "type") : "emptyDir",
				host != NULL                                     ? text(host, "path") :
					cJSON_IsTrue(json_member(mount, "readOnly")) ? " ro" :
																   "",
				text(mount, "mountPath"));
		}
	}
	assert_string_equal(buf_text(&out), expected);
	buf_fini(&out);
}

static void folders_of_the_node(void **state)
{
	(void)state;
	harness *h = in_cluster();
	begin(h);
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0);
	expect_mounts(pod, "Directory/models>/home/data/models ");
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "/home/data/models/serve.pb");
	assert_string_equal(env(first_container(pod), "DATA_PATH_PREFIX"), "/home/data");
	assert_null(json_member(spec_of(pod), "initContainers"));
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	pod = harness_pod(h, WORKER_TRAIN, 1);
	expect_mounts(pod,
		"Directory/models>/home/data/models Directory/out/train>/home/data/out/train "
		"Directory/out/data/train/1>/home/data/out/data/train/1 Directory/data>/home/data/data ");
	assert_string_equal(env(first_container(pod), "TRAIN_DATASET_URL"), "/home/data/out/data/train/1/data.txt");
	assert_string_equal(env(first_container(pod), "ORIGINAL_DATASET_URL"), "/home/data/data/d.txt");
	harness_free(h);
}

/* A path is a path whatever is in it: nothing is fetched. */
static void a_folder_that_reads_like_a_url(void **state)
{
	(void)state;
	harness *h = in_cluster();
	set_text(h, OBJECT_MODEL, "serve", "url", "/models/s3://b/serve.pb");
	begin(h);
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0);
	expect_mounts(pod, "Directory/models/s3://b>/home/data/models/s3://b ");
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "/home/data/models/s3://b/serve.pb");
	assert_null(json_member(spec_of(pod), "initContainers"));
	harness_free(h);
}

static void nothing_in_place(void **state)
{
	(void)state;
	harness *h = harness_world();
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0);
	assert_null(json_member(spec_of(pod), "volumes"));
	assert_null(json_member(spec_of(pod), "tolerations"));
	assert_string_equal(env(first_container(pod), "DATA_PATH_PREFIX"), "");
	harness_free(h);
}

static void expect_args(const cJSON *container, const char *expected);

/* Without containers there is nothing to mount; what is to be fetched is said all the same. */
static void remote_files_in_place(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	set_text(h, OBJECT_MODEL, "serve", "url", "s3://bucket/a/serve.pb");
	set_text(h, OBJECT_MODEL, "serve", "credentialName", "later");
	set_text(h, OBJECT_MODEL, "initial", "credentialName", "never"); /* of a path of this machine */
	set_text(h, OBJECT_JOB, "j", "outputDir", "s3://bucket/out");
	begin(h);
	assert_string_equal(harness_reason(h, "j"), "MissingSecret");
	add_secret(h, "later", "minio:9000");
	harness_run(h);
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0), *fetchers = json_member(spec_of(pod), "initContainers");
	assert_int_equal(cJSON_GetArraySize(fetchers), 1);
	expect_args(cJSON_GetArrayItem(fetchers, 0), "[\"s3://bucket/a/serve.pb\",\"/downloads/bucket/a\"]");
	assert_string_equal(env(cJSON_GetArrayItem(fetchers, 0), "ACCESS_KEY_ID"), "later");
	assert_null(json_member(cJSON_GetArrayItem(fetchers, 0), "volumeMounts"));
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "/downloads/bucket/a/serve.pb");
	assert_string_equal(env(first_container(pod), "DATA_PATH_PREFIX"), "");
	assert_null(json_member(first_container(pod), "volumeMounts"));
	assert_null(json_member(spec_of(pod), "volumes"));
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10, .dir = "s3://bucket/out"});
	harness_run(h);
	pod = harness_pod(h, WORKER_TRAIN, 1);
	fetchers = json_member(spec_of(pod), "initContainers");
	assert_int_equal(cJSON_GetArraySize(fetchers), 1);
	expect_args(cJSON_GetArrayItem(fetchers, 0), "[\"s3://bucket/out/data/train/1/data.txt\",\"/downloads/bucket/out/data/train/1\"]");
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "s3://bucket/out/train/1");
	assert_string_equal(env(first_container(pod), "BASE_MODEL_URL"), "/models/initial.ckpt");
	harness_free(h);
}

static void expect_args(const cJSON *container, const char *expected)
{
	char *said = json_print(json_member(container, "args"));
	assert_string_equal(said, expected);
	free(said);
}

static void remote_files_are_fetched(void **state)
{
	(void)state;
	harness *h = in_cluster();
	set_text(h, OBJECT_MODEL, "serve", "url", "s3://bucket/a/serve.pb");
	set_text(h, OBJECT_MODEL, "serve", "credentialName", "of-the-model");
	set_text(h, OBJECT_DATASET, "d", "url", "https://host:8443/d/d.txt");
	add_secret(h, "of-the-model", "minio:9000");
	begin(h);
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0), *fetcher = cJSON_GetArrayItem(json_member(spec_of(pod), "initContainers"), 0);
	expect_args(fetcher, "[\"s3://bucket/a/serve.pb\",\"/downloads/bucket/a\"]");
	assert_string_equal(text(fetcher, "image"), "fetcher:1");
	assert_string_equal(env(fetcher, "ACCESS_KEY_ID"), "of-the-model");
	assert_string_equal(env(fetcher, "S3_ENDPOINT_URL"), "https://minio:9000");
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "/downloads/bucket/a/serve.pb");
	assert_string_equal(env(first_container(pod), "DATA_PATH_PREFIX"), "(none)"); /* no folder of the node is mounted */
	expect_mounts(pod, "emptyDir ro>/downloads ");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	pod = harness_pod(h, WORKER_TRAIN, 1);
	fetcher = cJSON_GetArrayItem(json_member(spec_of(pod), "initContainers"), 0);
	expect_args(fetcher, "[\"https://host:8443/d/d.txt\",\"/downloads/host:8443/d\"]");
	assert_string_equal(env(fetcher, "ACCESS_KEY_ID"), "(none)");
	assert_string_equal(env(first_container(pod), "ORIGINAL_DATASET_URL"), "/downloads/host:8443/d/d.txt");
	harness_free(h);
}

/* What a worker writes on a remote store is passed on, what it reads from there is fetched: with the Secret of each source. */
static void a_remote_output_folder(void **state)
{
	(void)state;
	harness *h = in_cluster();
	set_text(h, OBJECT_JOB, "j", "outputDir", "s3://bucket/out");
	set_text(h, OBJECT_JOB, "j", "credentialName", "key");
	set_text(h, OBJECT_DATASET, "d", "url", "s3://other/d.txt");
	set_text(h, OBJECT_DATASET, "d", "credentialName", "of-the-data");
	add_secret(h, "key", "s3.example.org");
	add_secret(h, "of-the-data", "minio:9000");
	begin(h);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10, .dir = "s3://bucket/out"});
	harness_run(h);
	const cJSON *pod = harness_pod(h, WORKER_TRAIN, 1), *fetchers = json_member(spec_of(pod), "initContainers");
	assert_string_equal(env(first_container(pod), "MODEL_URL"), "s3://bucket/out/train/1");
	assert_string_equal(env(first_container(pod), "TRAIN_DATASET_URL"), "/downloads/bucket/out/data/train/1/data.txt");
	assert_string_equal(env(first_container(pod), "ACCESS_KEY_ID"), "key");
	assert_int_equal(cJSON_GetArraySize(fetchers), 2);
	expect_args(cJSON_GetArrayItem(fetchers, 0), "[\"s3://bucket/out/data/train/1/data.txt\",\"/downloads/bucket/out/data/train/1\"]");
	assert_string_equal(env(cJSON_GetArrayItem(fetchers, 0), "ACCESS_KEY_ID"), "key");
	expect_args(cJSON_GetArrayItem(fetchers, 1), "[\"s3://other/d.txt\",\"/downloads/other\"]");
	assert_string_equal(env(cJSON_GetArrayItem(fetchers, 1), "ACCESS_KEY_ID"), "of-the-data");
	harness_free(h);
}

static void a_models_secret_is_awaited(void **state)
{
	(void)state;
	harness *h = in_cluster();
	set_text(h, OBJECT_MODEL, "initial", "url", "s3://bucket/initial.ckpt");
	set_text(h, OBJECT_MODEL, "initial", "credentialName", "later");
	begin(h);
	assert_string_equal(harness_reason(h, "j"), "MissingSecret");
	assert_int_equal(h->creates, 0);
	add_secret(h, "later", "minio:9000");
	harness_run(h);
	assert_int_equal(h->creates, 1);
	harness_free(h);
}

static int count_events(const harness *h, const char *reason)
{
	const cJSON *event;
	int n = 0;
	cJSON_ArrayForEach(event, h->events) {
		n += strcmp(event->valuestring, reason) == 0;
	}
	return n;
}

/* The keys, but no address: said with each pod, unless the template has one. */
static void a_secret_without_an_address(void **state)
{
	(void)state;
	harness *h = in_cluster();
	set_text(h, OBJECT_JOB, "j", "credentialName", "key");
	add_secret(h, "key", NULL);
	begin(h);
	assert_string_equal(env(first_container(harness_pod(h, WORKER_INFERENCE, 0)), "S3_ENDPOINT_URL"), "(none)");
	assert_int_equal(count_events(h, "SecretIncomplete"), 1);
	cJSON *template = cJSON_GetObjectItem(cJSON_GetObjectItem(harness_spec(h, "j"), "trainSpec"), "template");
	cJSON *container = cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(template, "spec"), "containers"), 0);
	cJSON *entry = cJSON_CreateObject();
	json_put_string(entry, "name", "S3_ENDPOINT_URL");
	json_put_string(entry, "value", "http://minio");
	cJSON_AddItemToArray(cJSON_GetObjectItem(container, "env"), entry);
	harness_touch(h, OBJECT_JOB, "j");
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	assert_string_equal(env(first_container(harness_pod(h, WORKER_TRAIN, 1)), "S3_ENDPOINT_URL"), "http://minio");
	assert_int_equal(count_events(h, "SecretIncomplete"), 1);
	add_secret(h, "key", "minio:9000");
	harness_free(h);
}

static void hot_update(void **state)
{
	(void)state;
	harness *h = in_cluster();
	cJSON *deploy = cJSON_GetObjectItemCaseSensitive(harness_spec(h, "j"), "deploySpec");
	json_put_bool(cJSON_GetObjectItemCaseSensitive(deploy, "model"), "hotUpdateEnabled", true);
	begin(h);
	const cJSON *pod = harness_pod(h, WORKER_INFERENCE, 0);
	expect_mounts(pod,
		"Directory/models>/home/data/models "
		"DirectoryOrCreate/var/lib/sedna/model-hot-update/default/incrementallearningjob/j>/model-hot-update ");
	assert_string_equal(env(first_container(pod), "MODEL_HOT_UPDATE_CONFIG"), "/model-hot-update/model_config.json");
	harness_free(h);
}

/* The two taints of a node that is away, for as long as it takes; what the template says about one of them stays. */
static void nodes_that_are_away(void **state)
{
	static const struct {
		const char *own;
		const char *expected;
	} cases[] = {
		{"[]",
			"[{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\",\"effect\":\"NoExecute\"},"
			"{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\"}]"},
		{"[{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\",\"tolerationSeconds\":5}]",
			"[{\"key\":\"node.kubernetes.io/unreachable\",\"operator\":\"Exists\",\"tolerationSeconds\":5},"
			"{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\"}]"},
		{"[{\"operator\":\"Exists\"}]", "[{\"operator\":\"Exists\"}]"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		harness *h = in_cluster();
		cJSON *own = NULL;
		cJSON *deploy = cJSON_GetObjectItemCaseSensitive(harness_spec(h, "j"), "deploySpec");
		assert_int_equal(json_parse(cases[i].own, strlen(cases[i].own), 1000, &own, NULL), 0);
		json_put(cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(deploy, "template"), "spec"), "tolerations", own);
		begin(h);
		char *said = json_print(json_member(spec_of(harness_pod(h, WORKER_INFERENCE, 0)), "tolerations"));
		assert_string_equal(said, cases[i].expected);
		free(said);
		harness_free(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_of_the_node),
		cmocka_unit_test(a_folder_that_reads_like_a_url),
		cmocka_unit_test(nothing_in_place),
		cmocka_unit_test(remote_files_in_place),
		cmocka_unit_test(remote_files_are_fetched),
		cmocka_unit_test(a_remote_output_folder),
		cmocka_unit_test(a_models_secret_is_awaited),
		cmocka_unit_test(a_secret_without_an_address),
		cmocka_unit_test(hot_update),
		cmocka_unit_test(nodes_that_are_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
