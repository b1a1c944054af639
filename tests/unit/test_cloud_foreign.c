/* What is on the broker and not ours: messages of others, and late echoes of our own, which are not. */
#include "tests/unit/cloud_harness.h"

#include "cloud-agent/core/core.h"

static void test_foreign(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *ours = mem_strdup(harness_retained(h, DESIRED_OF_J));
	stamp before = harness_stamp(h, DESIRED_OF_J);
	int published = h->published;
	harness_deliver(h, DESIRED_OF_J, ours, true); /* an echo is nothing */
	harness_run(h);
	assert_int_equal(h->published, published);
	harness_foreign(h, DESIRED_OF_J, "{\"v\":1,\"stamp\":{\"epoch\":5,\"gen\":1}}");
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	harness_foreign(h, STATE_OF_J, "rubbish");
	harness_foreign(h, INVENTORY_OF_1, "");
	harness_foreign(h, DATASET_OF_D, "{}");
	harness_run(h);
	assert_true(harness_stamp(h, STATE_OF_J).gen > 0);
	assert_true(harness_stamp(h, INVENTORY_OF_1).gen > 0);
	assert_true(harness_stamp(h, DATASET_OF_D).gen > 0);
	/* our epoch, but later than what we sent there */
	before = harness_stamp(h, DESIRED_OF_J);
	char *later = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":%lld}}", (long long)h->epoch, (long long)before.gen + 1);
	harness_foreign(h, DESIRED_OF_J, later);
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	desired *again = harness_desired(h, "edge-1", "j");
	assert_non_null(again);
	desired_free(again);
	free(later);
	/* our own from before, back from somewhere */
	harness_say(h, 1, STAGE_TRAIN, REPORT_READY);
	before = harness_stamp(h, DESIRED_OF_J);
	harness_foreign(h, DESIRED_OF_J, ours);
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	harness_check_stamps(h);
	/* where nothing belongs */
	harness_birth(h, "edge-7", "s");
	harness_run(h);
	stamp inventory_before = harness_stamp(h, "ilmare/v1/node/edge-7/inventory");
	harness_foreign(h, "ilmare/v1/node/edge-7/job/default/j", ours);
	harness_foreign(h, "ilmare/v1/node/edge-7/dataset/default/d", "{}");
	harness_foreign(h, "ilmare/v1/ns/default/job/nobody/state", "{}");
	harness_foreign(h, "ilmare/v1/node/edge-8/inventory", "{}");
	harness_run(h);
	assert_null(harness_retained(h, "ilmare/v1/node/edge-7/job/default/j"));
	assert_null(harness_retained(h, "ilmare/v1/node/edge-7/dataset/default/d"));
	assert_null(harness_retained(h, "ilmare/v1/ns/default/job/nobody/state"));
	assert_null(harness_retained(h, "ilmare/v1/node/edge-8/inventory"));
	assert_true(stamp_compare(harness_stamp(h, "ilmare/v1/node/edge-7/inventory"), inventory_before) > 0);
	free(ours);
	harness_free(h);
}

/* A birth, and topics to be cleared, which make the inventory go out anew: what the node should have still comes after the inventory that names its
 * session, or a new store would take none of it. */
static void test_leftovers_and_a_birth(void **state)
{
	(void)state;
	for (int later = 0; later < 2; later++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		json_put_string(h->retained, "ilmare/v1/node/edge-1/dataset/default/gone", "rubbish");
		json_put_string(h->retained, "ilmare/v1/node/edge-1/job/default/gone", "rubbish");
		if (later == 0)
			harness_birth(h, "edge-1", "session-1");
		harness_start(h);
		if (later == 1)
			harness_birth(h, "edge-1", "session-1");
		stamp named = {0}; /* of the first inventory that names the session */
		for (bool ended = false; !ended;) {
			h->budget = 1;
			ended = harness_run(h);
			const char *text = harness_retained(h, INVENTORY_OF_1);
			if (named.gen == 0 && text != NULL && strstr(text, "session-1") != NULL)
				named = harness_stamp(h, INVENTORY_OF_1);
		}
		assert_true(named.gen > 0);
		assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), named) > 0);
		assert_true(stamp_compare(harness_stamp(h, DATASET_OF_D), named) > 0);
		assert_null(harness_retained(h, "ilmare/v1/node/edge-1/dataset/default/gone"));
		assert_null(harness_retained(h, "ilmare/v1/node/edge-1/job/default/gone"));
		harness_free(h);
	}
}

/* The echo of what a cleared topic held is not taken for somebody else's. */
static void test_late_echo(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *held = mem_strdup(harness_retained(h, DESIRED_OF_J));
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	h->mute = false;
	int cleared = h->cleared;
	harness_deliver(h, DESIRED_OF_J, held, false);
	harness_run(h);
	assert_int_equal(h->cleared, cleared);
	harness_deliver(h, DESIRED_OF_J, "", false); /* the echo of the clear; what comes after it is there again */
	harness_deliver(h, DESIRED_OF_J, held, false);
	harness_run(h);
	assert_int_equal(h->cleared, ++cleared);
	controller_link(h->c, true, h->now);
	harness_deliver(h, DESIRED_OF_J, held, true);
	harness_run(h);
	assert_int_equal(h->cleared, cleared + 1);
	free(held);
	harness_free(h);
}

/* A topic is cleared and published again before the echo of the clear comes: that is not somebody else's doing. */
static void test_late_echo_of_clear(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *same = cJSON_Duplicate(harness_object(h, OBJECT_JOB, "j"), 1);
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_put(h, OBJECT_JOB, same);
	harness_run(h);
	h->mute = false;
	stamp before = harness_stamp(h, DESIRED_OF_J);
	harness_deliver(h, DESIRED_OF_J, "", false);
	harness_run(h);
	assert_int_equal(stamp_compare(harness_stamp(h, DESIRED_OF_J), before), 0);
	harness_foreign(h, DESIRED_OF_J, ""); /* once more is one too many */
	harness_run(h);
	assert_true(stamp_compare(harness_stamp(h, DESIRED_OF_J), before) > 0);
	harness_free(h);
}

/* A late message that nobody saw come: what was cleared is cleared once more with the slow timer. */
static void test_clear_twice(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *held = mem_strdup(harness_retained(h, DESIRED_OF_J));
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	json_put_string(h->retained, DESIRED_OF_J, held);
	assert_true(harness_wake(h, INT64_C(72) * 60 * 1000));
	assert_null(harness_retained(h, DESIRED_OF_J));
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
	harness *h = harness_world();
	char *held = mem_strdup(harness_retained(h, DESIRED_OF_J));
	h->mute = true;
	harness_remove(h, OBJECT_JOB, "j");
	harness_run(h);
	json_put_string(h->retained, DESIRED_OF_J, held); /* it never got there */
	h->mute = false;
	controller_resign(h->c, h->now); /* a new leadership on the same link forgets nothing */
	controller_lead(h->c, ++h->epoch, h->now);
	harness_run(h);
	assert_null(harness_retained(h, DESIRED_OF_J));
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
	harness *h = harness_world();
	harness_birth(h, "edge-1", "s");
	harness_run(h);
	char *held = mem_strdup(harness_retained(h, DESIRED_OF_J));
	cJSON_DeleteItemFromObject(harness_spec(h, "j"), "outputDir");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	assert_string_equal(harness_retained(h, DESIRED_OF_J), held);
	harness_restart(h);
	harness_run(h);
	assert_string_equal(harness_retained(h, DESIRED_OF_J), held);
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
	assert_int_equal(harness_stamp(h, DESIRED_OF_J).epoch, h->epoch);
	free(held);
	harness_free(h);
}

/* Whoever publishes below the topics of nodes that are not there makes nothing that stays. */
static void test_foreign_nodes_are_forgotten(void **state)
{
	(void)state;
	enum { NODES = 50 };
	harness *h = harness_world();
	size_t before = h->c->nodes.n, docs = h->c->docs.n;
	for (int i = 0; i < NODES; i++) {
		char *topic_text = mem_printf("ilmare/v1/node/x%d/%s", i, i % 2 == 0 ? "inventory" : "job/default/other");
		harness_foreign(h, topic_text, "{}");
		free(topic_text);
		topic_text = mem_printf("ilmare/v1/node/y%d/inventory", i);
		harness_foreign(h, topic_text, ""); /* nothing there: nothing to remember */
		free(topic_text);
	}
	assert_int_equal(h->c->nodes.n, before + NODES);
	harness_run(h);
	for (int i = 0; i < 3; i++) /* each clear goes out once more, and then is forgotten */
		harness_wake(h, INT64_C(2) * 3600 * 1000);
	harness_birth(h, "edge-1", "s1");
	for (int i = 0; i < 3; i++)
		harness_wake(h, INT64_C(2) * 3600 * 1000);
	assert_int_equal(h->c->nodes.n, before);
	assert_int_equal(h->c->docs.n, docs);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_leftovers_and_a_birth),
		cmocka_unit_test(test_late_echo),
		cmocka_unit_test(test_late_echo_of_clear),
		cmocka_unit_test(test_clear_twice),
		cmocka_unit_test(test_clear_lost),
		cmocka_unit_test(test_blocked_job_kept),
		cmocka_unit_test(test_foreign_nodes_are_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
