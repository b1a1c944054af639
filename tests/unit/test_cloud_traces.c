/* The cloud's part of schedules on which simpler rules broke a guarantee; the simulator plays them with both sides. Numbers are those of the
 * schedules: 1, 6 to 8, 10, 12 to 17. */
#include "tests/unit/cloud_harness.h"

static harness *world(void)
{
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_birth(h, "edge-1", "s");
	harness_run(h);
	return h;
}

/* 1: the pod has succeeded and the result is still on its way: the cloud does not say that there is none. */
static void test_1_result_on_its_way(void **state)
{
	(void)state;
	harness *h = world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	for (int i = 0; i < 48; i++) {
		harness_run(h);
		harness_advance(h, INT64_C(3600000));
	}
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_RUNNING);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
	/* and once more, much later: nothing moves */
	int conditions = harness_conditions(h, "j");
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	assert_int_equal(harness_conditions(h, "j"), conditions);
	harness_free(h);
}

/* 1, second run: a limit for silence has failed the round. Its cursor does not move; the late result is ignored, and answered. */
static void test_1_late_result(void **state)
{
	(void)state;
	harness *h = harness_new();
	h->cfg.node_silence_ms = 60000;
	harness_add_world(h, "edge-1");
	harness_start(h);
	harness_run(h);
	presence p = {.node = "edge-1", .online = false, .version = "1", .session = "s"};
	char *will = presence_encode(&p);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_foreign(h, "ilmare/v1/presence/edge-1", will);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_run(h);
	harness_advance(h, 60000);
	harness_run(h);
	harness_advance(h, 10000);
	harness_run(h);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	stamp before = harness_stamp(h, DESIRED_OF_J);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_false(d->has_trained);
	desired_free(d);
	free(will);
	harness_free(h);
}

/* 6: a job is made again under its name: the inventory that lists the new one is newer than all that was said about the old one. */
static void test_6_made_again(void **state)
{
	(void)state;
	harness *h = world();
	inventory *before = harness_inventory(h, "edge-1");
	cJSON *again = harness_job("j", "edge-1", "/out");
	harness_remove(h, OBJECT_JOB, "j");
	harness_put(h, OBJECT_JOB, again);
	harness_run(h);
	inventory *after = harness_inventory(h, "edge-1");
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(after->n_jobs, 1);
	assert_string_equal(after->jobs[0], d->job.uid);
	assert_string_not_equal(after->jobs[0], before->jobs[0]);
	assert_true(stamp_compare(after->stamp, before->stamp) > 0);
	assert_int_equal(d->position.round, 1);
	inventory_free(before);
	inventory_free(after);
	desired_free(d);
	/* and if the deletion was never seen: the object has another uid */
	again = harness_job("j", "edge-1", "/out");
	harness_put(h, OBJECT_JOB, again);
	harness_run(h);
	after = harness_inventory(h, "edge-1");
	d = harness_desired(h, "edge-1", "j");
	assert_string_equal(after->jobs[0], d->job.uid);
	assert_int_equal(after->n_jobs, 1);
	inventory_free(after);
	desired_free(d);
	harness_free(h);
}

/* 7: the job is deleted before an inventory with it went out: the list is as before, and goes out with a new stamp all the same. */
static void test_7_same_list(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	cJSON *job = cJSON_Duplicate(harness_object(h, OBJECT_JOB, "j"), 1);
	harness_remove(h, OBJECT_JOB, "j");
	harness_start(h);
	harness_run(h);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 0);
	inventory_free(inv);
	harness_put(h, OBJECT_JOB, job);
	stamp document = {0};
	/* until the document is out, and the inventory is not */
	while (document.gen == 0 && controller_next(h->c, h->now, &action)) {
		if (action.kind == CLOUD_PATCH_STATUS) {
			cJSON *object = harness_object(h, OBJECT_JOB, "j");
			cJSON_DeleteItemFromObject(object, "status");
			json_put(object, "status", cJSON_Duplicate(action.patch.status, 1));
			controller_done(h->c, action.id, 0, NULL, NULL, 0, h->now);
			harness_touch(h, OBJECT_JOB, "j");
		} else if (action.kind == CLOUD_PUBLISH && strcmp(action.publish.topic, DESIRED_OF_J) == 0) {
			document = harness_stamp_of(action.publish.payload);
		}
	}
	assert_true(document.gen > 0);
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 0);
	assert_true(stamp_compare(inv->stamp, document) > 0);
	inventory_free(inv);
	harness_free(h);
}

/* 8: lists that are not complete: no inventory, no clearing, no pod, whatever else happens. */
static void test_8_incomplete(void **state)
{
	(void)state;
	for (int missing = OBJECT_JOB; missing <= OBJECT_POD; missing++) {
		harness *h = world();
		char *document = mem_strdup(harness_retained(h, DESIRED_OF_J)), *list = mem_strdup(harness_retained(h, INVENTORY_OF_1));
		int made = h->creates, deleted = h->deletes, cleared = h->cleared;
		harness_boot(h);
		for (int k = 0; k < OBJECT_KINDS; k++) {
			const cJSON *object;
			cJSON_ArrayForEach(object, h->objects[k]) {
				if (k != missing)
					harness_feed(h, (enum object_kind)k, json_member(json_member(object, "metadata"), "name")->valuestring);
			}
		}
		controller_lead(h->c, ++h->epoch, h->now);
		controller_link(h->c, true, h->now);
		harness_deliver(h, DESIRED_OF_J, document, true);
		harness_deliver(h, INVENTORY_OF_1, list, true);
		harness_birth(h, "edge-1", "s2");
		harness_run(h);
		harness_advance(h, INT64_C(7200000));
		harness_run(h);
		assert_int_equal(h->creates, made);
		assert_int_equal(h->deletes, deleted);
		assert_int_equal(h->cleared, cleared);
		assert_string_equal(harness_retained(h, INVENTORY_OF_1), list);
		assert_string_equal(harness_retained(h, DESIRED_OF_J), document);
		harness_start(h);
		harness_run(h);
		inventory *inv = harness_inventory(h, "edge-1");
		assert_int_equal(inv->n_jobs, 1);
		assert_string_equal(inv->session, "s2");
		inventory_free(inv);
		assert_int_equal(h->creates, made);
		assert_int_equal(h->deletes, deleted);
		free(document);
		free(list);
		harness_free(h);
	}
}

/* 8, later: a relist begins while all is well; objects vanish from sight only with its end. */
static void test_8_relist(void **state)
{
	(void)state;
	harness *h = world();
	int published = h->published, cleared = h->cleared;
	controller_synced(h->c, false, h->now);
	controller_object(h->c, OBJECT_JOB, "default", "j", NULL, h->now);
	harness_run(h);
	assert_int_equal(h->published, published);
	assert_int_equal(h->cleared, cleared);
	controller_synced(h->c, true, h->now);
	harness_run(h);
	assert_null(harness_retained(h, DESIRED_OF_J));
	harness_free(h);
}

/* 10a: the train worker restarts in place after its report: the eval pod waits for its end. */
static void test_10_restart_in_place(void **state)
{
	(void)state;
	harness *h = world();
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running");
	harness_run(h);
	harness_say(h, 1, STAGE_TRAIN, REPORT_COMPLETED);
	harness_say(h, 1, STAGE_EVAL, REPORT_READY);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Running"); /* its container exited with 1, and again */
	harness_run(h);
	assert_false(harness_has_pod(h, "j", WORKER_EVAL, 1));
	harness_restart(h);
	harness_run(h);
	assert_false(harness_has_pod(h, "j", WORKER_EVAL, 1));
	assert_true(harness_wake(h, 300 * 1000));
	assert_false(harness_has_pod(h, "j", WORKER_TRAIN, 1));
	assert_true(harness_has_pod(h, "j", WORKER_EVAL, 1));
	harness_free(h);
}

/* 12: each leadership has an epoch above all before; all is published again under it. */
static void test_12_epoch(void **state)
{
	(void)state;
	harness *h = world();
	stamp before = harness_stamp(h, DESIRED_OF_J);
	harness_restart(h); /* a: the same holder, again */
	harness_run(h);
	stamp after = harness_stamp(h, DESIRED_OF_J);
	assert_true(after.epoch > before.epoch);
	/* c: the Lease was lost and the clock is behind */
	h->epoch -= 86400;
	h->raise_to = after.epoch + 1;
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	before = harness_stamp(h, DESIRED_OF_J);
	assert_int_equal(before.epoch, h->raise_to);
	assert_int_equal(harness_stamp(h, INVENTORY_OF_1).epoch, h->raise_to);
	harness_free(h);
}

static void test_12_another_holds(void **state)
{
	(void)state;
	harness *h = world();
	char *held = mem_strdup(harness_retained(h, DESIRED_OF_J));
	h->epoch -= 86400;
	h->raise_to = 0;
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	assert_string_equal(harness_retained(h, DESIRED_OF_J), held);
	free(held);
	harness_free(h);
}

/* 13: the broker has lost everything, or holds what was saved earlier; a message of a deposed leader comes late. */
static void test_13_broker(void **state)
{
	(void)state;
	harness *h = world();
	cJSON *saved = cJSON_Duplicate(h->retained, 1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	for (int way = 0; way < 2; way++) {
		controller_link(h->c, false, h->now);
		harness_run(h);
		cJSON_Delete(h->retained);
		h->retained = way == 0 ? cJSON_CreateObject() : cJSON_Duplicate(saved, 1);
		controller_link(h->c, true, h->now);
		const cJSON *message;
		cJSON *snapshot = cJSON_Duplicate(h->retained, 1);
		cJSON_ArrayForEach(message, snapshot) {
			harness_deliver(h, message->string, message->valuestring, true);
		}
		cJSON_Delete(snapshot);
		harness_run(h);
		desired *d = harness_desired(h, "edge-1", "j");
		assert_int_equal(d->position.phase, PHASE_STARTING);
		desired_free(d);
		assert_non_null(harness_retained(h, INVENTORY_OF_1));
	}
	/* c: another led and the job is deleted; then the old leader's message is there again */
	char *late = mem_strdup(harness_retained(h, DESIRED_OF_J));
	harness_restart(h);
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_null(harness_retained(h, DESIRED_OF_J));
	inventory *before = harness_inventory(h, "edge-1");
	harness_foreign(h, DESIRED_OF_J, late);
	harness_run(h);
	assert_null(harness_retained(h, DESIRED_OF_J));
	inventory *after = harness_inventory(h, "edge-1");
	assert_true(stamp_compare(after->stamp, before->stamp) > 0);
	assert_int_equal(after->n_jobs, 0);
	inventory_free(before);
	inventory_free(after);
	free(late);
	cJSON_Delete(saved);
	harness_free(h);
}

/* 14: no object names the node any more: its retained presence, or its birth, gets it an inventory; what is left over is cleared. */
static void test_14_unnamed(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		harness *h = world();
		harness_boot(h); /* A restarts, and does not see the deletions */
		harness_remove(h, OBJECT_JOB, "j");
		harness_remove(h, OBJECT_DATASET, "d");
		if (lost) {
			cJSON_Delete(h->retained);
			h->retained = cJSON_CreateObject();
		}
		harness_start(h);
		harness_run(h);
		if (lost) {
			assert_null(harness_retained(h, INVENTORY_OF_1));
			harness_birth(h, "edge-1", "s");
			harness_run(h);
		}
		inventory *inv = harness_inventory(h, "edge-1");
		assert_non_null(inv);
		assert_int_equal(inv->n_jobs + inv->n_datasets, 0);
		assert_string_equal(inv->session, "s");
		assert_int_equal(inv->stamp.epoch, h->epoch);
		inventory_free(inv);
		assert_null(harness_retained(h, DESIRED_OF_J));
		harness_foreign(h, "ilmare/v1/presence/edge-1", "");
		harness_run(h);
		assert_int_equal(cJSON_GetArraySize(h->retained), 1); /* the cloud's own presence */
		harness_free(h);
	}
}

/* 15a: the cluster is restored to an earlier position: that is what is published, with a newer stamp, and the same report leads on. */
static void test_15_cluster_restored(void **state)
{
	(void)state;
	harness *h = world();
	cJSON *backup[OBJECT_KINDS];
	for (int k = 0; k < OBJECT_KINDS; k++)
		backup[k] = cJSON_Duplicate(h->objects[k], 1);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	stamp before = harness_stamp(h, DESIRED_OF_J);
	for (int k = 0; k < OBJECT_KINDS; k++) {
		cJSON_Delete(h->objects[k]);
		h->objects[k] = backup[k];
	}
	harness_restart(h);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_WAITING);
	assert_true(stamp_compare(d->stamp, before) > 0);
	desired_free(d);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

/* 15b: the patch is lost with its leader: nobody has seen its position. */
static void test_15_phantom(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	assert_true(controller_next(h->c, h->now, &action));
	assert_int_equal(action.kind, CLOUD_PATCH_STATUS); /* it never gets there */
	assert_false(controller_next(h->c, h->now, &action));
	harness_restart(h);
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.phase, PHASE_WAITING);
	desired_free(d);
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_free(h);
}

/* 16, through the API: one deployed round, then many that end otherwise, a restart after each; the old results are what later rounds need. */
static void test_16_trimmed(void **state)
{
	(void)state;
	static const int limits[] = {12, 14, 20, 30};
	for (int i = 0; i < 4; i++) {
		harness *h = harness_new();
		h->cfg.conditions_max = limits[i];
		harness_add_world(h, "edge-1");
		harness_start(h);
		device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
		device_run(h, &dev);
		for (int64_t round = 2; round <= 7; round++) {
			dev.metric = 0.25;
			dev.last_round = round;
			device_run(h, &dev);
			harness_restart(h);
			harness_run(h);
			assert_true(harness_conditions(h, "j") <= limits[i]);
			desired *d = harness_desired(h, "edge-1", "j");
			assert_int_equal(d->position.round, round + 1);
			assert_int_equal(d->deployed_round, 1);
			assert_string_equal(d->base.url, "/out/train/1/ckpt");
			assert_int_equal(d->cursor.sample, 10 * round);
			desired_free(d);
		}
		harness_free(h);
	}
}

/* 17b: A made the pod and stalled; B takes over: the pod is there already, and the position moves once. */
static void test_17_two_leaders(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	char *uid = mem_strdup(json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "uid")->valuestring);
	controller_fence(h->c, h->now.mono_ms + 1000);
	for (int i = 0; i < 100 && h->creates < 2; i++) { /* the inference pod's was the first */
		h->budget = 1;
		harness_run(h);
	}
	h->budget = -1;
	assert_int_equal(h->creates, 2);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_READY);
	controller *a = h->c;
	h->c = NULL;
	harness_boot(h); /* B */
	harness_start(h);
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_STARTING);
	harness_advance(h, 1000);
	assert_false(controller_next(a, h->now, &action)); /* A wakes past its deadline */
	assert_int_equal(harness_created(h, uid, "j", WORKER_TRAIN, 1), 1);
	controller_free(a);
	free(uid);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_1_result_on_its_way),
		cmocka_unit_test(test_1_late_result),
		cmocka_unit_test(test_6_made_again),
		cmocka_unit_test(test_7_same_list),
		cmocka_unit_test(test_8_incomplete),
		cmocka_unit_test(test_8_relist),
		cmocka_unit_test(test_10_restart_in_place),
		cmocka_unit_test(test_12_epoch),
		cmocka_unit_test(test_12_another_holds),
		cmocka_unit_test(test_13_broker),
		cmocka_unit_test(test_14_unnamed),
		cmocka_unit_test(test_15_cluster_restored),
		cmocka_unit_test(test_15_phantom),
		cmocka_unit_test(test_16_trimmed),
		cmocka_unit_test(test_17_two_leaders),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
