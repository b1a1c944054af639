/* Leaders: the fence, the epoch, and what another leader left. */
#include "tests/unit/cloud_harness.h"

static void test_deposed(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
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
	assert_null(harness_retained(h, DATASET_OF_D));
	assert_int_equal(harness_stamp(h, INVENTORY_OF_1).epoch, h->epoch);
	harness_free(h);
}

static void test_higher_epoch(void **state)
{
	(void)state;
	harness *h = harness_world();
	char *payload = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":1}}", (long long)h->epoch + 1000);
	h->raise_to = h->epoch + 1001;
	harness_foreign(h, DESIRED_OF_J, payload);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	h->epoch = h->raise_to;
	harness_check_stamps(h);
	/* another leader's presence, and another holds the Lease */
	presence p = {.ts = "2026-11-30T00:00:00Z", .node = "cloud", .online = true, .version = "1", .session = "other", .epoch = h->epoch + 5};
	char *other = presence_encode(&p);
	int published = h->published;
	h->raise_to = 0;
	harness_foreign(h, CLOUD_PRESENCE, other);
	harness_run(h);
	assert_int_equal(h->raises, 2);
	assert_int_equal(h->published, published);
	assert_string_equal(harness_retained(h, CLOUD_PRESENCE), other);
	free(other);
	free(payload);
	harness_free(h);
}

/* Broker and Lease are lost: a node that remembers a higher epoch says so in its birth. A number that no clock can reach is not believed. */
static void test_higher_epoch_in_a_birth(void **state)
{
	(void)state;
	harness *h = harness_world();
	presence p = {.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .online = true, .version = "1", .session = "s2"};
	const int64_t unbelievable[] = {DOCUMENT_MAX_EPOCH, DOCUMENT_MAX_EPOCH - 1, h->epoch + INT64_C(11) * 366 * 24 * 3600};
	char *birth;
	for (size_t i = 0; i < sizeof unbelievable / sizeof *unbelievable; i++) {
		p.epoch = unbelievable[i];
		birth = presence_encode(&p);
		harness_foreign_any(h, "ilmare/v1/presence/edge-1", birth);
		harness_run(h);
		assert_int_equal(h->raises, 0);
		free(birth);
	}
	p.epoch = h->epoch + 1000;
	birth = presence_encode(&p);
	h->raise_to = h->epoch + 1001;
	harness_foreign(h, "ilmare/v1/presence/edge-1", birth);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	h->epoch = h->raise_to;
	harness_check_stamps(h);
	free(birth);
	harness_free(h);
}

static void say_epoch(harness *h, int64_t epoch)
{
	presence p = {.ts = "2026-11-30T00:00:00Z", .node = "edge-1", .online = true, .version = "1", .session = "s2", .epoch = epoch};
	char *birth = presence_encode(&p);
	harness_foreign(h, "ilmare/v1/presence/edge-1", birth);
	free(birth);
}

/* A node that goes on naming higher ones makes this agent say everything anew less and less often. Those of one moment count together. */
static void test_higher_epochs_again_and_again(void **state)
{
	(void)state;
	harness *h = harness_world();
	int64_t first = h->epoch;
	h->raise_above = true;
	say_epoch(h, first + 10);
	say_epoch(h, first + 30);
	say_epoch(h, first + 20);
	harness_run(h);
	assert_int_equal(h->raises, 1);
	assert_int_equal(h->epoch, first + 31);
	for (int64_t wait = 1000, n = 2; n < 6; n++, wait *= 2) {
		harness_advance(h, wait - 1);
		say_epoch(h, first + 100 * n);
		harness_run(h);
		assert_int_equal(h->raises, n - 1);
		harness_advance(h, 1);
		say_epoch(h, first + 100 * n);
		harness_run(h);
		assert_int_equal(h->raises, n);
		assert_int_equal(h->epoch, first + 100 * n + 1);
	}
	harness_free(h);
}

/* Whoever may write to our topics may write any number there: the largest ones are overwritten like any other, and what we write is still in
 * range. */
static void test_highest_numbers(void **state)
{
	static const char *const numbers[] = {"9007199254740991", "4503599627370496", "1099511627777", "1099511627776"};
	(void)state;
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		harness *h = harness_world();
		char *stamped = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%s,\"gen\":%s}}", numbers[i], numbers[i]);
		char *birth =
			mem_printf("{\"v\":1,\"ts\":\"\",\"node\":\"cloud\",\"online\":true,\"version\":\"1\",\"session\":\"other\",\"epoch\":%s}",
				numbers[i]);
		harness_foreign(h, DESIRED_OF_J, stamped);
		harness_foreign_any(h, CLOUD_PRESENCE, birth);
		harness_run(h);
		assert_int_equal(h->raises, 0);
		harness_check_stamps(h);
		assert_string_not_equal(harness_retained(h, DESIRED_OF_J), stamped);
		assert_string_not_equal(harness_retained(h, CLOUD_PRESENCE), birth);
		free(birth);
		free(stamped);
		harness_free(h);
	}
}

/* The Lease cannot be read: nothing is published until that is settled, and it is asked again. */
static void test_higher_epoch_unsettled(void **state)
{
	(void)state;
	cloud_action action;
	harness *h = harness_world();
	char *payload = mem_printf("{\"v\":1,\"stamp\":{\"epoch\":%lld,\"gen\":1}}", (long long)h->epoch + 1000);
	harness_foreign(h, DESIRED_OF_J, payload);
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
	harness *h = harness_world();
	presence p = {.node = "cloud", .online = false, .version = "1", .session = "older"};
	char *will = presence_encode(&p);
	harness_foreign(h, CLOUD_PRESENCE, will);
	harness_run(h);
	assert_string_not_equal(harness_retained(h, CLOUD_PRESENCE), will);
	free(will);
	harness_free(h);
}

/* What `from` has published since `seen`, and `to` not got yet. */
static bool carry(const harness *from, harness *to, cJSON *seen)
{
	bool any = false;
	const cJSON *message;
	cJSON_ArrayForEach(message, from->retained) {
		const cJSON *before = json_member(seen, message->string);
		if (before != NULL && strcmp(before->valuestring, message->valuestring) == 0)
			continue;
		any = true;
		cJSON_DeleteItemFromObjectCaseSensitive(seen, message->string);
		json_put_string(seen, message->string, message->valuestring);
		harness_foreign(to, message->string, message->valuestring);
	}
	return any;
}

/* Two cloud agents, each with a cluster of its own, and by mistake with one broker and one root. */
static void test_two_cloud_agents(void **state)
{
	(void)state;
	enum { MINUTES = 60, TURNS_MAX = 200 };
	harness *h[2] = {harness_new(), harness_new()};
	cJSON *seen = cJSON_CreateObject();
	const char *sessions[2] = {"one", "two"};
	int published[2] = {0};
	for (int i = 0; i < 2; i++) {
		h[i]->cfg.session = sessions[i];
		h[i]->raise_above = true;
		harness_add_world(h[i], "edge-1");
		harness_start(h[i]);
		harness_birth(h[i], "edge-9", "s9");
	}
	int64_t end = h[0]->now.mono_ms + MINUTES * 60 * 1000;
	while (h[0]->now.mono_ms < end) {
		int turns = 0;
		for (bool more = true; more; turns++) {
			more = false;
			for (int i = 0; i < 2; i++) {
				harness_run(h[i]);
				more |= carry(h[i], h[1 - i], seen);
			}
			if (turns > TURNS_MAX)
				fail_msg("they answer each other without end");
		}
		int64_t wake = end;
		for (int i = 0; i < 2; i++) {
			int64_t at = controller_wake(h[i]->c);
			wake = at < wake ? at : wake;
		}
		for (int i = 0; i < 2; i++) {
			harness_advance(h[i], wake - h[i]->now.mono_ms);
			if (h[i]->now.mono_ms < end - 30 * 60 * 1000)
				published[i] = h[i]->published;
		}
	}
	for (int i = 0; i < 2; i++) {
		/* Once the back-off is at its largest: all documents, ten at most, every five minutes. */
		assert_in_range(h[i]->published - published[i], 0, 200);
		assert_in_range(h[i]->raises, 1, 40);
		harness_free(h[i]);
	}
	cJSON_Delete(seen);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deposed),
		cmocka_unit_test(test_higher_epoch),
		cmocka_unit_test(test_higher_epoch_in_a_birth),
		cmocka_unit_test(test_higher_epochs_again_and_again),
		cmocka_unit_test(test_highest_numbers),
		cmocka_unit_test(test_higher_epoch_unsettled),
		cmocka_unit_test(test_two_cloud_agents),
		cmocka_unit_test(test_late_will),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
