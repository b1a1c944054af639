/* What the broker holds: stamps, births, clearing, foreign messages, leadership. */
#include "tests/unit/cloud_harness.h"

static harness *world(void)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	return h;
}

static stamp stamp_at(const harness *h, const char *topic_text)
{
	const char *payload = harness_retained(h, topic_text);
	stamp s = {0};
	cJSON *tree = NULL;
	if (payload == NULL)
		fail_msg("nothing at %s", topic_text);
	assert_int_equal(json_parse(payload, strlen(payload), 100000, &tree, NULL), 0);
	json_get_int(json_member(tree, "stamp"), "", "epoch", 0, JSON_MAX_INT, &s.epoch, NULL);
	json_get_int(json_member(tree, "stamp"), "", "gen", 0, JSON_MAX_INT, &s.gen, NULL);
	cJSON_Delete(tree);
	return s;
}

#define DESIRED "ilmare/v1/node/edge-1/job/default/j"
#define STATE "ilmare/v1/ns/default/job/j/state"
#define DATASET "ilmare/v1/node/edge-1/dataset/default/d"
#define INVENTORY "ilmare/v1/node/edge-1/inventory"
#define CLOUD "ilmare/v1/presence/cloud"

static void said(harness *h, int64_t round, enum stage stage, enum report_what what)
{
	harness_report(h, "j", round, stage, what, &(says){.node = "edge-1", .to = 10, .metric = 0.9, .metric_old = 0.5});
	harness_run(h);
}

/* Every retained topic of ours, and no stamp twice. */
static void check_stamps(const harness *h)
{
	const cJSON *a, *b;
	cJSON_ArrayForEach(a, h->retained) {
		if (strstr(a->string, "/presence/") != NULL)
			continue;
		assert_int_equal(stamp_at(h, a->string).epoch, h->epoch);
		for (b = a->next; b != NULL; b = b->next) {
			if (strstr(b->string, "/presence/") == NULL)
				assert_int_not_equal(stamp_at(h, a->string).gen, stamp_at(h, b->string).gen);
		}
	}
}

static void test_topics(void **state)
{
	(void)state;
	harness *h = world();
	assert_non_null(harness_retained(h, DESIRED));
	assert_non_null(harness_retained(h, STATE));
	assert_non_null(harness_retained(h, DATASET));
	assert_non_null(harness_retained(h, INVENTORY));
	assert_int_equal(cJSON_GetArraySize(h->retained), 5);
	check_stamps(h);
	const char *payload = harness_retained(h, CLOUD);
	presence *p = NULL;
	assert_int_equal(presence_decode(payload, strlen(payload), &p, NULL), 0);
	assert_true(p->online);
	assert_int_equal(p->epoch, h->epoch);
	presence_free(p);
	char *topic_text, *will;
	controller_will(h->c, &topic_text, &will);
	assert_string_equal(topic_text, CLOUD);
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
	harness *h = world();
	said(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	stamp before = stamp_at(h, DESIRED), state_before = stamp_at(h, STATE), inventory_before = stamp_at(h, INVENTORY);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_READY);
	desired_free(d);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	assert_int_equal(stamp_compare(stamp_at(h, DESIRED), before), 0);
	assert_true(stamp_compare(stamp_at(h, STATE), state_before) > 0);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded"); /* that the worker has ended is for the node */
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_true(d->worker_ended);
	assert_int_equal(d->position.phase, PHASE_RUNNING);
	desired_free(d);
	assert_int_equal(stamp_compare(stamp_at(h, INVENTORY), inventory_before), 0);
	harness_free(h);
}

/* Only a position that was read back is published. */
static void test_read_back(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
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
	harness *h = world();
	cJSON *old = cJSON_Duplicate(harness_object(h, OBJECT_JOB, "j"), 1);
	said(h, 1, STAGE_TRAIN, REPORT_READY);
	stamp before = stamp_at(h, DESIRED);
	int made = h->creates;
	controller_object(h->c, OBJECT_JOB, "default", "j", cJSON_Duplicate(old, 1), h->now);
	harness_run(h);
	assert_int_equal(stamp_compare(stamp_at(h, DESIRED), before), 0);
	assert_int_equal(h->creates, made);
	/* After a relist the cluster is right, whatever it holds (it may have been restored). */
	controller_synced(h->c, false, h->now);
	controller_object(h->c, OBJECT_JOB, "default", "j", old, h->now);
	controller_synced(h->c, true, h->now);
	cloud_action action;
	bool published = false;
	while (!published && controller_next(h->c, h->now, &action))
		published = action.kind == CLOUD_PUBLISH && strcmp(action.publish.topic, DESIRED) == 0 &&
			strstr(action.publish.payload, "\"Waiting\"") != NULL;
	assert_true(published);
	harness_free(h);
}

/* The watch is faster than the answers to our own writes: it is the one that knows. */
static void test_answer_lags(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
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
	harness *h = world();
	harness_birth(h, "edge-1", "session-1");
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_string_equal(inv->session, "session-1");
	assert_true(stamp_compare(stamp_at(h, DESIRED), inv->stamp) > 0); /* of this session */
	assert_true(stamp_compare(stamp_at(h, DATASET), inv->stamp) > 0);
	stamp before = inv->stamp;
	inventory_free(inv);
	harness_birth(h, "edge-1", "session-1"); /* each connect repeats it, and is answered */
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, INVENTORY), before) > 0);
	/* after a connect of ours the retained one comes back, and everything went out anyway; the next one is a birth again */
	controller_link(h->c, true, h->now);
	harness_run(h);
	before = stamp_at(h, INVENTORY);
	harness_deliver(h, "ilmare/v1/presence/edge-1", harness_retained(h, "ilmare/v1/presence/edge-1"), true);
	harness_run(h);
	assert_int_equal(stamp_compare(stamp_at(h, INVENTORY), before), 0);
	harness_deliver(h, "ilmare/v1/presence/edge-1", harness_retained(h, "ilmare/v1/presence/edge-1"), true);
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, INVENTORY), before) > 0);
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
	harness *h = world();
	controller_link(h->c, false, h->now);
	said(h, 1, STAGE_TRAIN, REPORT_READY);
	h->mute = true;
	controller_link(h->c, true, h->now);
	harness_birth(h, "edge-1", "session-1");
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_string_equal(inv->session, "session-1");
	assert_true(stamp_compare(stamp_at(h, DESIRED), inv->stamp) > 0);
	inventory_free(inv);
	harness_free(h);
}

/* A node that nothing names gets an inventory as long as it has a presence; nothing is left when both are gone. */
static void test_unnamed_node(void **state)
{
	(void)state;
	harness *h = world();
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
	assert_non_null(harness_retained(h, INVENTORY));
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
	harness *h = world();
	harness_birth(h, "edge-1", "s");
	harness_run(h);
	stamp before = stamp_at(h, DESIRED);
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_null(harness_retained(h, DESIRED));
	assert_null(harness_retained(h, STATE));
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 0);
	assert_int_equal(inv->n_datasets, 1);
	assert_true(stamp_compare(inv->stamp, before) > 0);
	inventory_free(inv);
	harness_remove(h, OBJECT_DATASET, "d");
	harness_run(h);
	assert_null(harness_retained(h, DATASET));
	harness_foreign(h, "ilmare/v1/presence/edge-1", "");
	harness_run(h);
	assert_int_equal(cJSON_GetArraySize(h->retained), 1); /* our own presence */
	harness_free(h);
}

static void test_dataset_moves(void **state)
{
	(void)state;
	harness *h = world();
	harness_birth(h, "edge-1", "s");
	harness_birth(h, "edge-2", "s");
	harness_run(h);
	cJSON *spec = cJSON_GetObjectItem(harness_object(h, OBJECT_DATASET, "d"), "spec");
	cJSON_DeleteItemFromObject(spec, "nodeName");
	json_put_string(spec, "nodeName", "edge-2");
	harness_touch(h, OBJECT_DATASET, "d");
	harness_run(h);
	assert_null(harness_retained(h, DATASET));
	assert_non_null(harness_retained(h, "ilmare/v1/node/edge-2/dataset/default/d"));
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_datasets, 0);
	inventory_free(inv);
	inv = harness_inventory(h, "edge-2");
	assert_int_equal(inv->n_datasets, 1);
	inventory_free(inv);
	harness_free(h);
}

/* ---- what is not ours ---- */

static void test_foreign(void **state)
{
	(void)state;
	harness *h = world();
	char *ours = mem_strdup(harness_retained(h, DESIRED));
	stamp before = stamp_at(h, DESIRED);
	int published = h->published;
	harness_deliver(h, DESIRED, ours, true); /* an echo is nothing */
	harness_run(h);
	assert_int_equal(h->published, published);
	harness_foreign(h, DESIRED, "{\"v\":1,\"stamp\":{\"epoch\":5,\"gen\":1}}");
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, DESIRED), before) > 0);
	harness_foreign(h, STATE, "rubbish");
	harness_foreign(h, INVENTORY, "");
	harness_foreign(h, DATASET, "{}");
	harness_run(h);
	assert_true(stamp_at(h, STATE).gen > 0);
	assert_true(stamp_at(h, INVENTORY).gen > 0);
	assert_true(stamp_at(h, DATASET).gen > 0);
	/* our epoch, but later than what we sent there */
	before = stamp_at(h, DESIRED);
	char *later = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":%lld}}", (long long)h->epoch, (long long)before.gen + 1);
	harness_foreign(h, DESIRED, later);
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, DESIRED), before) > 0);
	desired *again = harness_desired(h, "edge-1", "j");
	assert_non_null(again);
	desired_free(again);
	free(later);
	/* our own from before, back from somewhere */
	said(h, 1, STAGE_TRAIN, REPORT_READY);
	before = stamp_at(h, DESIRED);
	harness_foreign(h, DESIRED, ours);
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, DESIRED), before) > 0);
	check_stamps(h);
	/* where nothing belongs */
	harness_birth(h, "edge-7", "s");
	harness_run(h);
	stamp inventory_before = stamp_at(h, "ilmare/v1/node/edge-7/inventory");
	harness_foreign(h, "ilmare/v1/node/edge-7/job/default/j", ours);
	harness_foreign(h, "ilmare/v1/node/edge-7/dataset/default/d", "{}");
	harness_foreign(h, "ilmare/v1/ns/default/job/nobody/state", "{}");
	harness_foreign(h, "ilmare/v1/node/edge-8/inventory", "{}");
	harness_run(h);
	assert_null(harness_retained(h, "ilmare/v1/node/edge-7/job/default/j"));
	assert_null(harness_retained(h, "ilmare/v1/node/edge-7/dataset/default/d"));
	assert_null(harness_retained(h, "ilmare/v1/ns/default/job/nobody/state"));
	assert_null(harness_retained(h, "ilmare/v1/node/edge-8/inventory"));
	assert_true(stamp_compare(stamp_at(h, "ilmare/v1/node/edge-7/inventory"), inventory_before) > 0);
	free(ours);
	harness_free(h);
}

/* The echo of what a cleared topic held is not taken for somebody else's. */
static void test_late_echo(void **state)
{
	(void)state;
	harness *h = world();
	char *held = mem_strdup(harness_retained(h, DESIRED));
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	h->mute = false;
	int cleared = h->cleared;
	harness_deliver(h, DESIRED, held, false);
	harness_run(h);
	assert_int_equal(h->cleared, cleared);
	harness_deliver(h, DESIRED, "", false); /* the echo of the clear; what comes after it is there again */
	harness_deliver(h, DESIRED, held, false);
	harness_run(h);
	assert_int_equal(h->cleared, ++cleared);
	controller_link(h->c, true, h->now);
	harness_deliver(h, DESIRED, held, true);
	harness_run(h);
	assert_int_equal(h->cleared, cleared + 1);
	free(held);
	harness_free(h);
}

/* A topic is cleared and published again before the echo of the clear comes: that is not somebody else's doing. */
static void test_late_echo_of_clear(void **state)
{
	(void)state;
	harness *h = world();
	cJSON *job = cJSON_Duplicate(harness_object(h, OBJECT_JOB, "j"), 1);
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_put(h, OBJECT_JOB, job);
	harness_run(h);
	h->mute = false;
	stamp before = stamp_at(h, DESIRED);
	harness_deliver(h, DESIRED, "", false);
	harness_run(h);
	assert_int_equal(stamp_compare(stamp_at(h, DESIRED), before), 0);
	harness_foreign(h, DESIRED, ""); /* once more is one too many */
	harness_run(h);
	assert_true(stamp_compare(stamp_at(h, DESIRED), before) > 0);
	harness_free(h);
}

/* A late message that nobody saw come: what was cleared is cleared once more with the slow timer. */
static void test_clear_twice(void **state)
{
	(void)state;
	harness *h = world();
	char *held = mem_strdup(harness_retained(h, DESIRED));
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	json_put_string(h->retained, DESIRED, held);
	assert_true(harness_wake(h, INT64_C(72) * 60 * 1000));
	assert_null(harness_retained(h, DESIRED));
	int cleared = h->cleared;
	for (int i = 0; i < 3; i++)
		assert_true(harness_wake(h, INT64_C(72) * 60 * 1000));
	assert_int_equal(h->cleared, cleared);
	free(held);
	harness_free(h);
}

/* No echo of a clear: it goes out once more with the slow timer, until one comes. */
static void test_clear_lost(void **state)
{
	(void)state;
	harness *h = world();
	char *held = mem_strdup(harness_retained(h, DESIRED));
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	json_put_string(h->retained, DESIRED, held); /* it never got there */
	h->mute = false;
	controller_resign(h->c, h->now); /* a new leadership on the same link forgets nothing */
	controller_lead(h->c, ++h->epoch, h->now);
	harness_run(h);
	assert_null(harness_retained(h, DESIRED));
	int cleared = h->cleared;
	assert_true(harness_wake(h, INT64_C(72) * 60 * 1000));
	assert_int_equal(h->cleared, cleared);
	free(held);
	harness_free(h);
}

/* While it is not known what belongs there, nothing is taken away. */
static void test_blocked_job_kept(void **state)
{
	(void)state;
	harness *h = world();
	harness_birth(h, "edge-1", "s");
	harness_run(h);
	char *held = mem_strdup(harness_retained(h, DESIRED));
	cJSON_DeleteItemFromObject(harness_spec(h, "j"), "outputDir");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_string_equal(harness_retained(h, DESIRED), held);
	harness_restart(h);
	harness_run(h);
	assert_string_equal(harness_retained(h, DESIRED), held);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 1);
	inventory_free(inv);
	job_state *s = harness_state(h, "j");
	assert_string_equal(s->reason, "InvalidSpec");
	assert_string_equal(s->message, "spec.outputDir: is missing");
	job_state_free(s);
	json_put_string(harness_spec(h, "j"), "outputDir", "/out");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_int_equal(stamp_at(h, DESIRED).epoch, h->epoch);
	free(held);
	harness_free(h);
}

/* ---- connects, timers, leaders ---- */

static void test_all_again(void **state)
{
	(void)state;
	harness *h = world();
	stamp before[4] = {stamp_at(h, DESIRED), stamp_at(h, STATE), stamp_at(h, DATASET), stamp_at(h, INVENTORY)};
	const char *topics[4] = {DESIRED, STATE, DATASET, INVENTORY};
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
			assert_true(stamp_compare(stamp_at(h, topics[i]), before[i]) > 0);
			before[i] = stamp_at(h, topics[i]);
		}
		assert_true(stamp_compare(stamp_at(h, DESIRED), stamp_at(h, INVENTORY)) > 0);
	}
	check_stamps(h);
	harness_free(h);
}

static void test_nothing_while_down(void **state)
{
	(void)state;
	harness *h = world();
	controller_link(h->c, false, h->now);
	int published = h->published;
	said(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING); /* the cluster goes on */
	assert_int_equal(h->published, published);
	controller_link(h->c, true, h->now);
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_STARTING);
	desired_free(d);
	harness_free(h);
}

static void test_deposed(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	controller_fence(h->c, h->now.mono_ms + 1000);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_advance(h, 1000);
	assert_false(controller_next(h->c, h->now, &action)); /* at the fence nothing goes out */
	assert_int_equal(controller_wake(h->c), MOMENT_NEVER);
	controller_fence(h->c, h->now.mono_ms + 1000);
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS);
	controller_done(h->c, action.id, ERROR_IO, "x", NULL, 0, h->now);
	controller_resign(h->c, h->now);
	harness_birth(h, "edge-1", "s");
	harness_remove(h, OBJECT_DATASET, "d");
	assert_false(controller_next(h->c, h->now, &action));
	assert_int_equal(controller_wake(h->c), MOMENT_NEVER);
	controller_fence(h->c, MOMENT_NEVER);
	controller_lead(h->c, ++h->epoch, h->now);
	harness_run(h);
	assert_null(harness_retained(h, DATASET));
	assert_int_equal(stamp_at(h, INVENTORY).epoch, h->epoch);
	harness_free(h);
}

static void test_higher_epoch(void **state)
{
	(void)state;
	harness *h = world();
	char *payload = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":1}}", (long long)h->epoch + 1000);
	h->raise_to = h->epoch + 1001;
	harness_foreign(h, DESIRED, payload);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	h->epoch = h->raise_to;
	check_stamps(h);
	/* another leader's presence, and another holds the Lease */
	presence p = {.ts = "2026-11-30T00:00:00Z", .node = "cloud", .online = true, .version = "1", .session = "other", .epoch = h->epoch + 5};
	char *other = presence_encode(&p);
	int published = h->published;
	h->raise_to = 0;
	harness_foreign(h, CLOUD, other);
	harness_run(h);
	assert_int_equal(h->raises, 2);
	assert_int_equal(h->published, published);
	assert_string_equal(harness_retained(h, CLOUD), other);
	free(other);
	free(payload);
	harness_free(h);
}

/* Broker and Lease are lost: a node that remembers a higher epoch says so in its birth. A number that no clock can reach is not believed. */
static void test_higher_epoch_in_a_birth(void **state)
{
	(void)state;
	harness *h = world();
	presence p = {
		.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .online = true, .version = "1", .session = "s2", .epoch = INT64_C(1) << 41};
	char *birth = presence_encode(&p);
	harness_foreign(h, "ilmare/v1/presence/edge-1", birth);
	harness_run(h);
	assert_int_equal(h->raises, 0);
	free(birth);
	p.epoch = h->epoch + 1000;
	birth = presence_encode(&p);
	h->raise_to = h->epoch + 1001;
	harness_foreign(h, "ilmare/v1/presence/edge-1", birth);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	h->epoch = h->raise_to;
	check_stamps(h);
	free(birth);
	harness_free(h);
}

/* The Lease cannot be read: nothing is published until that is settled, and it is asked again. */
static void test_higher_epoch_unsettled(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	char *payload = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":1}}", (long long)h->epoch + 1000);
	harness_foreign(h, DESIRED, payload);
	for (int i = 0; i < 3; i++) {
		assert_true(controller_next(h->c, h->now, &action));
		assert_int_equal(action.kind, CLOUD_RAISE_EPOCH);
		assert_int_equal(action.epoch.above, h->epoch + 1000);
		controller_link(h->c, true, h->now);
		assert_false(controller_next(h->c, h->now, &action));
		controller_done(h->c, action.id, ERROR_OFFLINE, NULL, NULL, 0, h->now);
		assert_false(controller_next(h->c, h->now, &action));
		int64_t wake = controller_wake(h->c);
		assert_true(wake > h->now.mono_ms && wake < h->now.mono_ms + 6000);
		harness_advance(h, wake - h->now.mono_ms);
	}
	free(payload);
	harness_free(h);
}

/* An older leader's will, come late: ours is put in its place. */
static void test_late_will(void **state)
{
	(void)state;
	harness *h = world();
	presence p = {.node = "cloud", .online = false, .version = "1", .session = "older"};
	char *will = presence_encode(&p);
	harness_foreign(h, CLOUD, will);
	harness_run(h);
	assert_string_not_equal(harness_retained(h, CLOUD), will);
	free(will);
	harness_free(h);
}

/* ---- dataset status ---- */

static void test_dataset_status(void **state)
{
	(void)state;
	harness *h = world();
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
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_late_echo),
		cmocka_unit_test(test_late_echo_of_clear),
		cmocka_unit_test(test_clear_twice),
		cmocka_unit_test(test_clear_lost),
		cmocka_unit_test(test_blocked_job_kept),
		cmocka_unit_test(test_all_again),
		cmocka_unit_test(test_nothing_while_down),
		cmocka_unit_test(test_deposed),
		cmocka_unit_test(test_higher_epoch),
		cmocka_unit_test(test_higher_epoch_in_a_birth),
		cmocka_unit_test(test_higher_epoch_unsettled),
		cmocka_unit_test(test_late_will),
		cmocka_unit_test(test_dataset_status),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
