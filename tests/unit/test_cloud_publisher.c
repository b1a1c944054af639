/* What the broker holds: when it is published, with which stamps, and when it is cleared. */
#include "tests/unit/cloud_harness.h"

static void test_topics(void **state)
{
	(void)state;
	harness *h = harness_world();
	assert_non_null(harness_retained(h, DESIRED_OF_J));
	assert_non_null(harness_retained(h, STATE_OF_J));
	assert_non_null(harness_retained(h, DATASET_OF_D));
	assert_non_null(harness_retained(h, INVENTORY_OF_1));
	assert_int_equal(cJSON_GetArraySize(h->retained), 5);
	harness_check_stamps(h);
	const char *payload = harness_retained(h, CLOUD_PRESENCE);
	presence *p = NULL;
	assert_int_equal(presence_decode(payload, strlen(payload), &p, NULL), 0);
	assert_true(p->online);
	assert_int_equal(p->epoch, h->epoch);
	presence_free(p);
	char *topic_text, *will;
	controller_will(h->c, &topic_text, &will);
	assert_string_equal(topic_text, CLOUD_PRESENCE);
	assert_int_equal(presence_decode(will, strlen(will), &p, NULL), 0);
	assert_false(p->online);
	presence_free(p);
	free(topic_text);
	free(will);
	harness_free(h);
}

/* Starting and Running alone change only the state topic. */
static void test_phases_not_sent_down(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	stamp before = harness_stamp(h, DESIRED_OF_J), state_before = harness_stamp(h, STATE_OF_J),
		  inventory_before = harness_stamp(h, INVENTORY_OF_1);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_READY);
	desired_free(d);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	assert_int_equal(stamp_compare(harness_stamp(h, DESIRED_OF_J), before), 0);
	assert_true(stamp_compare(harness_stamp(h, STATE_OF_J), state_before) > 0);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded"); /* that the worker has ended is for the node */
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	assert_int_equal(d->position.phase, PHASE_RUNNING);
	desired_free(d);
	assert_int_equal(stamp_compare(harness_stamp(h, INVENTORY_OF_1), inventory_before), 0);
	harness_free(h);
}

/* Only a position that was read back is published. */
static void test_read_back(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS);
	uint64_t id = action.id;
	assert_false(controller_next(h->c, h->now, &action));
	controller_link(h->c, true, h->now); /* even if all goes out again meanwhile */
	while (controller_next(h->c, h->now, &action)) {
		assert_int_equal(action.kind, CLOUD_PUBLISH);
		assert_null(strstr(action.publish.payload, "\"Ready\""));
	}
	controller_done(h->c, id, ERROR_CONFLICT, NULL, NULL, 0, h->now);
	harness_free(h);
}

/* A late watch event does not take the position back. */
static void test_watch_lags(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *old = cJSON_Duplicate(harness_object(h, OBJECT_JOB, "j"), 1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	stamp before = harness_stamp(h, DESIRED_OF_J);
	int made = h->creates;
	controller_object(h->c, OBJECT_JOB, "default", "j", cJSON_Duplicate(old, 1), h->now);
	harness_run(h);
	assert_int_equal(stamp_compare(harness_stamp(h, DESIRED_OF_J), before), 0);
	assert_int_equal(h->creates, made);
	/* After a relist the cluster is right, whatever it holds (it may have been restored). */
	controller_synced(h->c, false, h->now);
	controller_object(h->c, OBJECT_JOB, "default", "j", old, h->now);
	controller_synced(h->c, true, h->now);
	cloud_action action;
	bool published = false;
	while (!published && controller_next(h->c, h->now, &action))
		published = action.kind == CLOUD_PUBLISH && strcmp(action.publish.topic, DESIRED_OF_J) == 0 &&
			strstr(action.publish.payload, "\"Waiting\"") != NULL;
	assert_true(published);
	harness_free(h);
}

/* The watch is faster than the answers to our own writes: it is the one that knows. */
static void test_answer_lags(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS);
	uint64_t id = action.id;
	cJSON *object = harness_object(h, OBJECT_JOB, "j");
	cJSON_DeleteItemFromObject(object, "status");
	json_put(object, "status", cJSON_Duplicate(action.patch.status, 1));
	harness_touch(h, OBJECT_JOB, "j");
	cJSON *answer = cJSON_Duplicate(object, 1);
	json_put_string(cJSON_AddObjectToObject(cJSON_GetObjectItem(object, "metadata"), "labels"), "a", "b");
	harness_touch(h, OBJECT_JOB, "j"); /* and somebody changed it since */
	controller_done(h->c, id, 0, NULL, answer, 0, h->now);
	do
		assert_true(controller_next(h->c, h->now, &action));
	while (action.kind == CLOUD_PUBLISH || action.kind == CLOUD_EVENT);
	assert_int_equal(action.kind, CLOUD_CREATE_POD);
	id = action.id;
	char *name = mem_strdup(action.create.name);
	cJSON *pod = cJSON_Duplicate(action.create.pod, 1);
	json_put_string(cJSON_AddObjectToObject(pod, "status"), "phase", "Running");
	harness_put(h, OBJECT_POD, pod);
	answer = cJSON_Duplicate(harness_object(h, OBJECT_POD, name), 1);
	cJSON_DeleteItemFromObject(answer, "status");
	controller_done(h->c, id, 0, NULL, answer, 0, h->now);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING); /* without a wait for a conflict, or for another event of the pod */
	free(name);
	harness_free(h);
}

/* ---- births ---- */

static void test_birth(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "session-1");
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_string_equal(inv->session, "session-1");
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), inv->stamp) > 0); /* of this session */
	assert_true(stamp_compare(harness_stamp(h, DATASET_OF_D), inv->stamp) > 0);
	stamp before = inv->stamp;
	inventory_free(inv);
	harness_birth(h, "edge-1", "session-1"); /* each connect repeats it, and is answered */
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, INVENTORY_OF_1), before) > 0);
	/* after a connect of ours the retained one comes back, and everything went out anyway; the next one is a birth again */
	controller_link(h->c, true, h->now);
	harness_run(h);
	before = harness_stamp(h, INVENTORY_OF_1);
	harness_deliver(h, "ilmare/v1/presence/edge-1", harness_retained(h, "ilmare/v1/presence/edge-1"), true);
	harness_run(h);
	assert_int_equal(stamp_compare(harness_stamp(h, INVENTORY_OF_1), before), 0);
	harness_deliver(h, "ilmare/v1/presence/edge-1", harness_retained(h, "ilmare/v1/presence/edge-1"), true);
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, INVENTORY_OF_1), before) > 0);
	cloud_counters n;
	controller_counters(h->c, &n);
	assert_int_equal(n.nodes, 1);
	assert_int_equal(n.nodes_online, 1);
	harness_free(h);
}

/* A birth while a document is in the queue: it goes out after the inventory. */
static void test_birth_overtakes(void **state)
{
	(void)state;
	harness *h = harness_world();
	controller_link(h->c, false, h->now);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	h->mute = true;
	controller_link(h->c, true, h->now);
	harness_birth(h, "edge-1", "session-1");
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_string_equal(inv->session, "session-1");
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), inv->stamp) > 0);
	inventory_free(inv);
	harness_free(h);
}

/* A node that nothing names gets an inventory as long as it has a presence; nothing is left when both are gone. */
static void test_unnamed_node(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-9", "s");
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-9");
	assert_int_equal(inv->n_jobs, 0);
	inventory_free(inv);
	harness_foreign(h, "ilmare/v1/presence/edge-9", "");
	harness_run(h);
	assert_null(harness_retained(h, "ilmare/v1/node/edge-9/inventory"));
	/* the presence of a node that something names goes: its inventory stays */
	harness_birth(h, "edge-1", "s");
	harness_foreign(h, "ilmare/v1/presence/edge-1", "");
	harness_run(h);
	assert_non_null(harness_retained(h, INVENTORY_OF_1));
	harness_free(h);
}

/* While the cluster lists the node its inventory stays, though nothing else speaks of it. */
static void test_listed_node(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.nodes_listed = true;
	harness_add_world(h, "edge-1");
	cJSON *object = cJSON_CreateObject();
	json_put_string(cJSON_AddObjectToObject(object, "metadata"), "name", "edge-9");
	harness_put(h, OBJECT_NODE, object);
	harness_start(h);
	harness_birth(h, "edge-9", "s");
	harness_run(h);
	harness_foreign(h, "ilmare/v1/presence/edge-9", "");
	harness_run(h);
	assert_non_null(harness_retained(h, "ilmare/v1/node/edge-9/inventory"));
	harness_remove(h, OBJECT_NODE, "edge-9");
	harness_run(h);
	assert_null(harness_retained(h, "ilmare/v1/node/edge-9/inventory"));
	harness_free(h);
}

/* ---- what leaves ---- */

static void test_job_deleted(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s");
	harness_run(h);
	stamp before = harness_stamp(h, DESIRED_OF_J);
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_null(harness_retained(h, DESIRED_OF_J));
	assert_null(harness_retained(h, STATE_OF_J));
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 0);
	assert_int_equal(inv->n_datasets, 1);
	assert_true(stamp_compare(inv->stamp, before) > 0);
	inventory_free(inv);
	harness_remove(h, OBJECT_DATASET, "d");
	harness_run(h);
	assert_null(harness_retained(h, DATASET_OF_D));
	harness_foreign(h, "ilmare/v1/presence/edge-1", "");
	harness_run(h);
	assert_int_equal(cJSON_GetArraySize(h->retained), 1); /* our own presence */
	harness_free(h);
}

static void test_dataset_moves(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s");
	harness_birth(h, "edge-2", "s");
	harness_run(h);
	cJSON *spec = cJSON_GetObjectItem(harness_object(h, OBJECT_DATASET, "d"), "spec");
	cJSON_DeleteItemFromObject(spec, "nodeName");
	json_put_string(spec, "nodeName", "edge-2");
	harness_touch(h, OBJECT_DATASET, "d");
	harness_run(h);
	assert_null(harness_retained(h, DATASET_OF_D));
	assert_non_null(harness_retained(h, "ilmare/v1/node/edge-2/dataset/default/d"));
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_datasets, 0);
	inventory_free(inv);
	inv = harness_inventory(h, "edge-2");
	assert_int_equal(inv->n_datasets, 1);
	inventory_free(inv);
	harness_free(h);
}

/* ---- connects, timers ---- */

static void test_all_again(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	stamp before[4] = {
		harness_stamp(h, DESIRED_OF_J), harness_stamp(h, STATE_OF_J), harness_stamp(h, DATASET_OF_D), harness_stamp(h, INVENTORY_OF_1)};
	const char *topics[4] = {DESIRED_OF_J, STATE_OF_J, DATASET_OF_D, INVENTORY_OF_1};
	for (int way = 0; way < 2; way++) {
		if (way == 0) {
			controller_link(h->c, false, h->now);
			harness_run(h);
			controller_link(h->c, true, h->now);
			harness_run(h);
		} else {
			assert_true(harness_wake(h, INT64_C(72) * 60 * 1000));
		}
		for (int i = 0; i < 4; i++) {
			assert_true(stamp_compare(harness_stamp(h, topics[i]), before[i]) > 0);
			before[i] = harness_stamp(h, topics[i]);
		}
		assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), harness_stamp(h, INVENTORY_OF_1)) > 0);
	}
	harness_check_stamps(h);
	harness_free(h);
}

static void test_nothing_while_down(void **state)
{
	(void)state;
	harness *h = harness_world();
	controller_link(h->c, false, h->now);
	int published = h->published;
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING); /* the cluster goes on */
	assert_int_equal(h->published, published);
	controller_link(h->c, true, h->now);
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_STARTING);
	desired_free(d);
	harness_free(h);
}

/* ---- dataset status ---- */

static void test_dataset_status(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s1");
	harness_run(h);
	const char *topic_text = "ilmare/v1/ns/default/dataset/d/node/edge-1/status";
	const cJSON *object = harness_object(h, OBJECT_DATASET, "d");
	dataset_status s = {.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .samples = 100, .size = 1000, .changed = "2026-11-30T00:00:00Z"};
	s.dataset = (dataset_ref){.ns = "default", .name = "d", .uid = json_member(json_member(object, "metadata"), "uid")->valuestring};
	for (int i = 0; i < 3; i++) {
		s.samples = 100 + i;
		char *payload = dataset_status_encode(&s);
		harness_deliver(h, topic_text, payload, true);
		free(payload);
		harness_run(h);
	}
	object = harness_object(h, OBJECT_DATASET, "d");
	assert_int_equal(json_member(json_member(object, "status"), "numberOfSamples")->valueint, 100); /* thinned */
	assert_string_equal(json_member(json_member(object, "status"), "updateTime")->valuestring, "2026-11-30T00:00:00Z");
	harness_wake(h, 10000);
	assert_int_equal(json_member(json_member(object, "status"), "numberOfSamples")->valueint, 102);
	job_state *st = harness_state(h, "j");
	assert_int_equal(st->waiting_samples, 81); /* 0.8 of 102 */
	job_state_free(st);
	int patches = h->patches;
	s.dataset.uid = "another";
	s.samples = 7;
	char *payload = dataset_status_encode(&s);
	harness_deliver(h, topic_text, payload, true);
	free(payload);
	harness_advance(h, 60000);
	harness_run(h);
	assert_int_equal(h->patches, patches);
	harness_free(h);
}

/* After a loss the link subscribes again, and all that is retained comes once more: each birth is answered once more, and that is all. */
static void test_retained_again(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_birth(h, "edge-1", "first");
	dataset_status status = {.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .samples = 12, .changed = "2026-11-30T00:00:00Z"};
	const cJSON *object = harness_object(h, OBJECT_DATASET, "d");
	status.dataset = (dataset_ref){.ns = "default", .name = "d", .uid = json_member(json_member(object, "metadata"), "uid")->valuestring};
	char *payload = dataset_status_encode(&status);
	harness_foreign(h, "ilmare/v1/ns/default/dataset/d/node/edge-1/status", payload);
	free(payload);
	harness_run(h);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	for (int i = 0; i < 3; i++) {
		const cJSON *message;
		cJSON *all = cJSON_Duplicate(h->retained, 1);
		int published = h->published, written = h->patches + h->creates + h->deletes + h->cleared;
		stamp state_before = harness_stamp(h, STATE_OF_J);
		cJSON_ArrayForEach(message, all) {
			harness_deliver(h, message->string, message->valuestring, true);
		}
		harness_run(h);
		assert_int_equal(h->published - published, 3); /* the node's inventory, desired document and dataset */
		assert_int_equal(h->patches + h->creates + h->deletes + h->cleared, written);
		assert_int_equal(stamp_compare(harness_stamp(h, STATE_OF_J), state_before), 0);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
		cJSON_Delete(all);
	}
	harness_free(h);
}

/* A link without room takes nothing, and what waits is not lost; the cluster goes on meanwhile. */
static void test_no_room(void **state)
{
	(void)state;
	harness *h = harness_world();
	stamp before = harness_stamp(h, DESIRED_OF_J);
	int published = h->published;
	controller_room(h->c, false);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY); /* harness_run: and the core does not ask to be called at once */
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	controller_link(h->c, true, h->now);
	harness_run(h);
	assert_int_equal(h->published, published);
	controller_room(h->c, true);
	assert_true(controller_wake(h->c) <= h->now.mono_ms);
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	job_state *s = harness_state(h, "j");
	assert_int_equal(s->position.phase, PHASE_STARTING);
	job_state_free(s);
	harness_check_stamps(h);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_topics),
		cmocka_unit_test(test_phases_not_sent_down),
		cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_watch_lags),
		cmocka_unit_test(test_answer_lags),
		cmocka_unit_test(test_birth),
		cmocka_unit_test(test_birth_overtakes),
		cmocka_unit_test(test_unnamed_node),
		cmocka_unit_test(test_listed_node),
		cmocka_unit_test(test_job_deleted),
		cmocka_unit_test(test_dataset_moves),
		cmocka_unit_test(test_all_again),
		cmocka_unit_test(test_retained_again),
		cmocka_unit_test(test_nothing_while_down),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_dataset_status),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
