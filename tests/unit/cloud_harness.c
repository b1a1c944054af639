/* See cloud_harness.h. Here: life, the cluster, performing actions, pods, conditions. */
#include "tests/unit/cloud_harness.h"

#include <inttypes.h>

enum { ACTIONS_MAX = 200000 };

static char *key_of(const char *name)
{
	return mem_printf("default/%s", name);
}

static void set_text(cJSON *obj, const char *name, const char *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(obj, name);
	json_put_string(obj, name, value);
}

static cJSON *part(cJSON *obj, const char *name)
{
	cJSON *found = cJSON_GetObjectItemCaseSensitive(obj, name);
	return found != NULL ? found : cJSON_AddObjectToObject(obj, name);
}

const char *harness__text(const cJSON *obj, const char *group, const char *name)
{
	const cJSON *found = json_member(json_member(obj, group), name);
	return cJSON_IsString(found) ? found->valuestring : "";
}

/* ---- life ---- */

harness *harness_new(void)
{
	harness *h = mem_alloc(sizeof *h);
	cloud_config_init(&h->cfg);
	h->cfg.session = "cloud-session-1";
	h->cfg.workers_in_place = true;
	h->now = (moment){.mono_ms = 1000, .unix_ms = INT64_C(1796000000000), .minute = 0};
	h->epoch = 1796000000;
	h->budget = -1;
	for (int k = 0; k < OBJECT_KINDS; k++)
		h->objects[k] = cJSON_CreateObject();
	h->retained = cJSON_CreateObject();
	h->created = cJSON_CreateObject();
	h->events = cJSON_CreateArray();
	return h;
}

void harness_free(harness *h)
{
	controller_free(h->c);
	for (int k = 0; k < OBJECT_KINDS; k++)
		cJSON_Delete(h->objects[k]);
	cJSON_Delete(h->retained);
	cJSON_Delete(h->created);
	cJSON_Delete(h->events);
	free(h->last_delete_uid);
	free(h);
}

void harness_boot(harness *h)
{
	controller_free(h->c);
	h->c = controller_new(&h->cfg);
}

static void feed_all(harness *h)
{
	for (int k = 0; k < OBJECT_KINDS; k++) {
		const cJSON *object;
		cJSON_ArrayForEach(object, h->objects[k]) {
			const char *name = harness__text(object, "metadata", "name");
			controller_object(h->c, (enum object_kind)k, k == OBJECT_NODE ? NULL : "default", name, cJSON_Duplicate(object, 1), h->now);
		}
	}
}

void harness_start(harness *h)
{
	if (h->c == NULL)
		harness_boot(h);
	feed_all(h);
	controller_synced(h->c, true, h->now);
	controller_lead(h->c, ++h->epoch, h->now);
	controller_link(h->c, true, h->now);
	cJSON *snapshot = cJSON_Duplicate(h->retained, 1);
	const cJSON *message;
	cJSON_ArrayForEach(message, snapshot) {
		harness_deliver(h, message->string, message->valuestring, true);
	}
	cJSON_Delete(snapshot);
}

void harness_restart(harness *h)
{
	h->now.mono_ms = 500;
	harness_boot(h);
	harness_start(h);
}

void harness_advance(harness *h, int64_t ms)
{
	h->now.mono_ms += ms;
	h->now.unix_ms += ms;
}

/* ---- the cluster ---- */

cJSON *harness_object(const harness *h, enum object_kind kind, const char *name)
{
	char *key = key_of(name);
	cJSON *object = cJSON_GetObjectItemCaseSensitive(h->objects[kind], key);
	free(key);
	return object;
}

void harness_feed(harness *h, enum object_kind kind, const char *name)
{
	if (h->c == NULL)
		return;
	const cJSON *object = harness_object(h, kind, name);
	controller_object(h->c, kind, kind == OBJECT_NODE ? NULL : "default", name, object != NULL ? cJSON_Duplicate(object, 1) : NULL, h->now);
}

static void version(harness *h, cJSON *object)
{
	char *rv = mem_printf("%" PRId64, ++h->rv);
	set_text(part(object, "metadata"), "resourceVersion", rv);
	free(rv);
}

void harness_put(harness *h, enum object_kind kind, cJSON *object)
{
	cJSON *metadata = part(object, "metadata");
	char *key = key_of(harness__text(object, "metadata", "name"));
	if (harness__text(object, "metadata", "uid")[0] == '\0') {
		char *uid = mem_printf("uid-%" PRId64, ++h->uids);
		set_text(metadata, "uid", uid);
		free(uid);
	}
	set_text(metadata, "namespace", "default");
	if (harness__text(object, "metadata", "creationTimestamp")[0] == '\0') {
		char time[32];
		time_format(h->now.unix_ms + h->uids * 1000, time);
		set_text(metadata, "creationTimestamp", time);
	}
	version(h, object);
	cJSON_DeleteItemFromObjectCaseSensitive(h->objects[kind], key);
	cJSON_AddItemToObject(h->objects[kind], key, object);
	free(key);
	harness_feed(h, kind, harness__text(object, "metadata", "name"));
}

void harness_touch(harness *h, enum object_kind kind, const char *name)
{
	version(h, harness_object(h, kind, name));
	harness_feed(h, kind, name);
}

void harness_remove(harness *h, enum object_kind kind, const char *name)
{
	char *copy = mem_strdup(name), *key = key_of(name);
	cJSON_DeleteItemFromObjectCaseSensitive(h->objects[kind], key);
	harness_feed(h, kind, copy);
	free(key);
	free(copy);
}

static cJSON *object_of(const char *json_text)
{
	cJSON *object;
	error err = {0};
	if (json_parse(json_text, strlen(json_text), 100000, &object, &err) != 0)
		fail_msg("%s: %s", json_text, err.text);
	return object;
}

cJSON *harness_job(const char *name, const char *node, const char *output_dir)
{
	char *json_text = mem_printf(
		"{\"apiVersion\":\"sedna.io/v1alpha1\",\"kind\":\"IncrementalLearningJob\",\"metadata\":{\"name\":\"%s\"},\"spec\":{"
		"\"dataset\":{\"name\":\"d\",\"trainProb\":0.8},\"initialModel\":{\"name\":\"initial\"},"
		"\"trainSpec\":{\"template\":{\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"t\",\"env\":[{\"name\":\"OWN\",\"value\":"
		"\"1\"}]}]}},"
		"\"trigger\":{\"condition\":{\"operator\":\">\",\"threshold\":5,\"metric\":\"num_of_samples\"}}},"
		"\"evalSpec\":{\"template\":{\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"e\"}]}}},"
		"\"deploySpec\":{\"model\":{\"name\":\"serve\"},\"template\":{\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"i\"}]}},"
		"\"trigger\":{\"condition\":{\"operator\":\">\",\"threshold\":0,\"metric\":\"acc_delta\"}},"
		"\"hardExampleMining\":{\"name\":\"IBT\",\"parameters\":[{\"key\":\"t\",\"value\":\"0.9\"}]}},"
		"\"outputDir\":\"%s\"}}",
		name, node, node, node, output_dir);
	cJSON *job = object_of(json_text);
	free(json_text);
	return job;
}

cJSON *harness_spec(const harness *h, const char *name)
{
	return part(harness_object(h, OBJECT_JOB, name), "spec");
}

void harness_add_world(harness *h, const char *node)
{
	char *set =
		mem_printf("{\"metadata\":{\"name\":\"d\"},\"spec\":{\"url\":\"/data/d.txt\",\"format\":\"txt\",\"nodeName\":\"%s\"}}", node);
	harness_put(h, OBJECT_DATASET, object_of(set));
	free(set);
	harness_put(h, OBJECT_MODEL,
		object_of("{\"metadata\":{\"name\":\"initial\"},\"spec\":{\"url\":\"/models/initial.ckpt\",\"format\":\"ckpt\"}}"));
	harness_put(h, OBJECT_MODEL,
		object_of("{\"metadata\":{\"name\":\"serve\"},\"spec\":{\"url\":\"/models/serve.pb\",\"format\":\"pb\"}}"));
	harness_put(h, OBJECT_JOB, harness_job("j", node, "/out"));
}

harness *harness_world(void)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	return h;
}

cJSON *harness_node(const char *name, const char *is_ready)
{
	char *json_text =
		mem_printf("{\"metadata\":{\"name\":\"%s\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"}]}}", name, is_ready);
	cJSON *node = object_of(json_text);
	free(json_text);
	return node;
}

/* ---- performing actions ---- */

static int patch(harness *h, const cloud_action *a, cJSON **answer)
{
	cJSON *object = harness_object(h, a->patch.kind, a->patch.name);
	const cJSON *member;
	h->patches++;
	if (object == NULL || strcmp(harness__text(object, "metadata", "uid"), a->patch.uid) != 0)
		return ERROR_NOT_FOUND;
	if (strcmp(harness__text(object, "metadata", "resourceVersion"), a->patch.resource_version) != 0)
		return ERROR_CONFLICT;
	cJSON *status = part(object, "status");
	cJSON_ArrayForEach(member, a->patch.status) {
		cJSON_DeleteItemFromObjectCaseSensitive(status, member->string);
		json_put(status, member->string, cJSON_Duplicate(member, 1));
	}
	version(h, object);
	*answer = cJSON_Duplicate(object, 1);
	return 0;
}

static int annotate(harness *h, const cloud_action *a, cJSON **answer)
{
	cJSON *object = harness_object(h, OBJECT_JOB, a->annotate.name);
	const cJSON *member;
	if (object == NULL || strcmp(harness__text(object, "metadata", "uid"), a->annotate.uid) != 0)
		return ERROR_NOT_FOUND;
	if (strcmp(harness__text(object, "metadata", "resourceVersion"), a->annotate.resource_version) != 0)
		return ERROR_CONFLICT;
	cJSON *annotations = part(part(object, "metadata"), "annotations");
	cJSON_ArrayForEach(member, a->annotate.annotations) {
		cJSON_DeleteItemFromObjectCaseSensitive(annotations, member->string);
		if (cJSON_IsString(member))
			json_put_string(annotations, member->string, member->valuestring);
	}
	version(h, object);
	*answer = cJSON_Duplicate(object, 1);
	return 0;
}

static int create(harness *h, const cloud_action *a, cJSON **answer)
{
	cJSON *there = harness_object(h, OBJECT_POD, a->create.name);
	if (there != NULL) {
		*answer = cJSON_Duplicate(there, 1);
		return ERROR_EXISTS;
	}
	h->creates++;
	cJSON *pod = cJSON_Duplicate(a->create.pod, 1);
	set_text(part(pod, "status"), "phase", "Pending");
	const cJSON *count = json_member(h->created, a->create.name);
	int times = cJSON_IsNumber(count) ? count->valueint : 0;
	cJSON_DeleteItemFromObjectCaseSensitive(h->created, a->create.name);
	json_put_int(h->created, a->create.name, times + 1);
	harness_put(h, OBJECT_POD, pod);
	*answer = cJSON_Duplicate(harness_object(h, OBJECT_POD, a->create.name), 1);
	return 0;
}

static int delete (harness *h, const cloud_action *a)
{
	const cJSON *there = harness_object(h, OBJECT_POD, a->remove.name);
	h->deletes++;
	free(h->last_delete_uid);
	h->last_delete_uid = mem_strdup(a->remove.uid);
	if (there == NULL)
		return ERROR_NOT_FOUND;
	if (strcmp(harness__text(there, "metadata", "uid"), a->remove.uid) != 0)
		return ERROR_CONFLICT;
	if (!h->hang_deletes) {
		harness_remove(h, OBJECT_POD, a->remove.name);
		return 0;
	}
	set_text(part(harness_object(h, OBJECT_POD, a->remove.name), "metadata"), "deletionTimestamp", "2026-11-30T00:00:00Z");
	harness_touch(h, OBJECT_POD, a->remove.name);
	return 0;
}

static int take_refusal(int *refuse)
{
	int code = *refuse;
	*refuse = 0;
	return code;
}

static void done(harness *h, uint64_t id, int code, cJSON *answer)
{
	if (h->lose_answer) {
		h->lose_answer = false;
		cJSON_Delete(answer);
		answer = NULL;
		code = ERROR_TIMEOUT;
	}
	controller_done(h->c, id, code, code == 0 ? NULL : error_name(code), answer, 0, h->now);
}

static void credential(harness *h, const cloud_action *a)
{
	const credential_request *r = a->credential.request;
	h->credential.n++;
	snprintf(h->credential.topic, sizeof h->credential.topic, "%s", a->credential.topic);
	snprintf(h->credential.node, sizeof h->credential.node, "%s", r->node);
	snprintf(h->credential.secret, sizeof h->credential.secret, "%s", r->secret);
	snprintf(h->credential.uid, sizeof h->credential.uid, "%s", r->of.uid);
	snprintf(h->credential.reason, sizeof h->credential.reason, "%s", a->credential.reason != NULL ? a->credential.reason : "");
	memcpy(h->credential.correlation, a->credential.correlation, a->credential.correlation_len);
	h->credential.correlation_len = a->credential.correlation_len;
	if (!h->hang_answers)
		controller_answered(h->c, a->credential.reason == NULL, h->now);
}

static void publish(harness *h, const cloud_action *a)
{
	char *topic_copy = mem_strdup(a->publish.topic), *payload = mem_strdup(a->publish.payload);
	cJSON_DeleteItemFromObjectCaseSensitive(h->retained, topic_copy);
	if (payload[0] == '\0')
		h->cleared++;
	else
		json_put_string(h->retained, topic_copy, payload);
	h->published++;
	if (!h->mute)
		harness_deliver(h, topic_copy, payload, false);
	free(topic_copy);
	free(payload);
}

static void perform(harness *h, const cloud_action *a)
{
	cJSON *answer = NULL;
	uint64_t id = a->id;
	int code;
	switch (a->kind) {
	case CLOUD_PATCH_STATUS: {
		enum object_kind kind = a->patch.kind;
		char *name = mem_strdup(a->patch.name);
		code = take_refusal(&h->refuse_patch);
		if (code == 0)
			code = patch(h, a, &answer);
		bool lost = h->lose_answer;
		done(h, id, code, answer);
		if (lost)
			harness_feed(h, kind, name);
		free(name);
		break;
	}
	case CLOUD_PATCH_ANNOTATIONS: {
		char *name = mem_strdup(a->annotate.name);
		h->annotations++;
		code = take_refusal(&h->refuse_annotate);
		if (code == 0)
			code = annotate(h, a, &answer);
		bool lost = h->lose_answer;
		done(h, id, code, answer);
		if (lost)
			harness_feed(h, OBJECT_JOB, name);
		free(name);
		break;
	}
	case CLOUD_CREATE_POD:
		code = take_refusal(&h->refuse_create);
		if (code == 0)
			code = create(h, a, &answer);
		done(h, id, code, answer);
		break;
	case CLOUD_DELETE_POD:
		code = take_refusal(&h->refuse_delete);
		done(h, id, code != 0 ? code : delete (h, a), NULL);
		break;
	case CLOUD_PUBLISH:
		publish(h, a);
		break;
	case CLOUD_EVENT:
		cJSON_AddItemToArray(h->events, cJSON_CreateString(a->event.reason));
		break;
	case CLOUD_CREDENTIAL:
		credential(h, a);
		break;
	case CLOUD_RAISE_EPOCH:
		h->raises++;
		if (h->raise_above)
			h->raise_to = h->epoch = a->epoch.above + 1;
		if (h->raise_to > 0)
			controller_lead(h->c, h->raise_to, h->now);
		else
			controller_resign(h->c, h->now);
		controller_done(h->c, id, h->raise_to > 0 ? 0 : ERROR_CONFLICT, NULL, NULL, 0, h->now);
		break;
	}
}

bool harness_run(harness *h)
{
	cloud_action action;
	for (int i = 0; i < ACTIONS_MAX; i++) {
		if (h->budget == 0)
			return false;
		if (!controller_next(h->c, h->now, &action)) {
			if (controller_wake(h->c) <= h->now.mono_ms)
				fail_msg("nothing to do, but the core wants to be called at once");
			return true;
		}
		if (h->budget > 0)
			h->budget--;
		perform(h, &action);
	}
	fail_msg("the core never comes to rest");
	return false;
}

bool harness_wake(harness *h, int64_t ms)
{
	int64_t at = controller_wake(h->c);
	if (at == MOMENT_NEVER || at > h->now.mono_ms + ms)
		return false;
	if (at > h->now.mono_ms)
		harness_advance(h, at - h->now.mono_ms);
	harness_run(h);
	return true;
}

/* ---- pods ---- */

void harness_pod_phase(harness *h, const char *name, const char *phase)
{
	cJSON *pod = harness_object(h, OBJECT_POD, name);
	if (pod == NULL)
		fail_msg("there is no pod %s", name);
	set_text(part(pod, "status"), "phase", phase);
	harness_touch(h, OBJECT_POD, name);
}

char *harness_pod_name(const harness *h, const char *job, enum worker_kind kind, int64_t round)
{
	char name[POD_NAME_SIZE];
	pod_name(kind, job, harness__text(harness_object(h, OBJECT_JOB, job), "metadata", "uid"), round, name);
	return mem_strdup(name);
}

cJSON *harness_pod(const harness *h, enum worker_kind kind, int64_t round)
{
	char *name = harness_pod_name(h, "j", kind, round);
	cJSON *pod = harness_object(h, OBJECT_POD, name);
	free(name);
	assert_non_null(pod);
	return pod;
}

void harness_add_pod(harness *h, const char *name, const char *kind, const char *owner_uid)
{
	char *json_text =
		mem_printf("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"incrementallearningjob.sedna.io/worker-type\":\"%s\"},"
				   "\"ownerReferences\":[{\"kind\":\"IncrementalLearningJob\",\"name\":\"j\",\"uid\":\"%s\",\"controller\":true}]},"
				   "\"spec\":{},\"status\":{\"phase\":\"Running\"}}",
			name, kind, owner_uid);
	harness_put(h, OBJECT_POD, object_of(json_text));
	free(json_text);
}

bool harness_has_pod(const harness *h, const char *job, enum worker_kind kind, int64_t round)
{
	char *name = harness_pod_name(h, job, kind, round);
	bool there = harness_object(h, OBJECT_POD, name) != NULL;
	free(name);
	return there;
}

void harness_work_phase(harness *h, const char *job, enum worker_kind kind, int64_t round, const char *phase)
{
	char *name = harness_pod_name(h, job, kind, round);
	harness_pod_phase(h, name, phase);
	free(name);
}

int harness_created(const harness *h, const char *job_uid, const char *job, enum worker_kind kind, int64_t round)
{
	char name[POD_NAME_SIZE];
	pod_name(kind, job, job_uid, round, name);
	const cJSON *count = json_member(h->created, name);
	return cJSON_IsNumber(count) ? count->valueint : 0;
}

/* ---- conditions ---- */

static const cJSON *last_condition(const harness *h, const char *job)
{
	const cJSON *list = json_member(json_member(harness_object(h, OBJECT_JOB, job), "status"), "conditions");
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	return n > 0 ? cJSON_GetArrayItem(list, n - 1) : NULL;
}

int harness_conditions(const harness *h, const char *job)
{
	return cJSON_GetArraySize(json_member(json_member(harness_object(h, OBJECT_JOB, job), "status"), "conditions"));
}

const char *harness_last(const harness *h, const char *job, const char *member)
{
	const cJSON *value = json_member(last_condition(h, job), member);
	return cJSON_IsString(value) ? value->valuestring : "";
}

cJSON *harness_member(const harness *h, const char *job)
{
	const char *data = harness_last(h, job, "data");
	cJSON *tree = data[0] != '\0' ? object_of(data) : cJSON_CreateObject();
	cJSON *member = cJSON_DetachItemFromObjectCaseSensitive(tree, "ilmare");
	cJSON_Delete(tree);
	return member;
}

position harness_position(const harness *h, const char *job)
{
	position p = {0};
	cJSON *member = harness_member(h, job);
	stage_parse(harness_last(h, job, "stage"), &p.stage);
	phase_parse(harness_last(h, job, "type"), &p.phase);
	json_get_int(member, "", "round", 0, JSON_MAX_INT, &p.round, NULL);
	cJSON_Delete(member);
	return p;
}

void harness_expect(const harness *h, const char *job, int64_t round, enum stage stage, enum phase phase)
{
	char is[48], wanted[48];
	position p = harness_position(h, job);
	position_format(p, is);
	position_format((position){.round = round, .stage = stage, .phase = phase}, wanted);
	if (strcmp(is, wanted) != 0)
		fail_msg("%s is at %s, not %s (%s: %s)", job, is, wanted, harness_last(h, job, "reason"), harness_last(h, job, "message"));
}
