/* The MQTT client and more messages than it takes at once: floods, a loop that is busy, and what comes again of what was lost meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/loop.h"
#include "tests/integration/mqtt_kit.h"

enum { FLOOD = 10000 };

/* As fast as the window allows, to itself: all published, all received, in order. */
static void test_flood(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;
	uint64_t from;
	int sent = 0;
	char text[16];

	fixture_up(f, a);
	from = fixture_now_ms();
	while (sent < FLOOD) {
		int rooms = a->rooms;

		snprintf(text, sizeof text, "%d", sent);
		if (peer_publish(a, "t/flood", text, false) > 0)
			sent++;
		else
			loop_until(&f->loop, a->rooms > rooms, SOON);
	}
	loop_until(&f->loop, a->published == FLOOD && a->received == FLOOD, 60000);
	print_message("%d messages there and back in %llu ms\n", FLOOD, (unsigned long long)(fixture_now_ms() - from));
	assert_int_equal(a->out_of_order, 0);
	assert_int_equal(mqtt_client_counters(a->client)->dropped_in, 0);
	assert_int_equal(a->downs, 0);
	peer_free(a);
}

/* A loop that does not come to its messages makes the broker wait; nothing is lost, nothing grows over its bound. */
static void test_slow_loop(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a, b;
	char text[1000];
	uv_loop_t other;
	enum { MESSAGES = 500 };

	f->config.queue_bytes = 20 * 1000;
	fixture_up(f, a);
	peer_publish(a, "t/marker", "0", false);
	loop_until(&f->loop, a->received == 1, SOON);

	uv_loop_init(&other);
	f->config.client_id = "edge-2";
	f->config.n_subscriptions = 0;
	f->config.queue_bytes = (size_t)1000 * 1000;
	peer_start(&b, &other, &f->config);
	loop_until(&other, b.ups == 1, SOON);
	for (int i = 0; i < MESSAGES; i++) {
		memset(text, ' ', sizeof text);
		snprintf(text + 900, 99, "%d", i);
		assert_true(peer_publish(&b, "t/many", text, false) > 0);
	}
	loop_for(&other, 1500); /* the first loop does not run meanwhile */
	loop_until(&f->loop, a->received == MESSAGES + 1 || !uv_run(&other, UV_RUN_NOWAIT), SOON);
	assert_int_equal(a->received, MESSAGES + 1);
	assert_int_equal(a->out_of_order, 0);
	assert_int_equal(mqtt_client_counters(a->client)->dropped_in, 0);
	peer_free(&b);
	loop_fini(&other);
	peer_free(a);
}

enum { KEPT = 40, PATIENCE_MS = 10, AGAIN_MS = 1500 };

/* `b` publishes more than `a`, whose loop does not run meanwhile, has room for; then `a` finds out. */
static void overflow(struct mqtt_fixture *f, struct peer *b)
{
	struct peer *a = &f->a;
	uint64_t dropped = mqtt_client_counters(a->client)->dropped_in;
	int published = b->published;
	char topic[32], text[1000];

	memset(text, ' ', sizeof text);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < KEPT; i++) {
		snprintf(topic, sizeof topic, "t/kept/%d", i);
		assert_true(peer_publish(b, topic, text, true) > 0);
	}
	loop_until(b->loop, b->published == published + KEPT, SOON);
	loop_for(b->loop, 2 * PATIENCE_MS);
	loop_until(&f->loop, mqtt_client_counters(a->client)->dropped_in > dropped, SOON);
}

static bool has_all_kept(const struct peer *p)
{
	char topic[32];

	for (int i = 0; i < KEPT; i++) {
		snprintf(topic, sizeof topic, "t/kept/%d", i);
		if (!peer_payload(p, topic))
			return false;
	}
	return true;
}

static const struct mqtt_counters *wait_resubscribed(struct mqtt_fixture *f, uint64_t n, uint64_t begin)
{
	const struct mqtt_counters *counters = mqtt_client_counters(f->a.client);

	loop_until(&f->loop, counters->resubscribes >= n, SOON);
	assert_true(counters->resubscribes <= (fixture_now_ms() - begin) / AGAIN_MS); /* the first subscription counts too */
	return counters;
}

/* What a loop that was away for too long has lost comes again as far as it is retained, by a new subscription; not too many of them. */
static void test_lost_retained_come_again(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a, b;
	const struct mqtt_subscription once = {.filter = "t/#", .qos = 1, .retain_handling = MQTT_RETAINED_IF_NEW};
	const struct mqtt_counters *counters;
	struct mqtt_counters then;
	uint64_t begin = fixture_now_ms();
	uv_loop_t other;

	f->config.subscriptions = &once;
	f->config.queue_bytes = 5 * 1000;
	f->config.patience_ms = PATIENCE_MS;
	f->config.resubscribe_ms = AGAIN_MS;
	fixture_up(f, a);
	peer_publish(a, "t/marker", "0", false);
	loop_until(&f->loop, a->received == 1, SOON);
	uv_loop_init(&other);
	peer_config(&f->config, &f->url);
	f->config.client_id = "edge-2";
	f->config.n_subscriptions = 0;
	peer_start(&b, &other, &f->config);
	loop_until(&other, b.ups == 1, SOON);

	overflow(f, &b);
	assert_false(has_all_kept(a));
	counters = wait_resubscribed(f, 1, begin);
	loop_until(&f->loop, has_all_kept(a), SOON);
	overflow(f, &b);
	wait_resubscribed(f, counters->resubscribes + 1, begin);
	then = *counters;
	loop_for(&f->loop, AGAIN_MS + 200);
	assert_true(counters->resubscribes == then.resubscribes || counters->dropped_in > then.dropped_in); /* once is enough */
	assert_int_equal(a->downs, 0);
	peer_free(&b);
	loop_fini(&other);
	peer_free(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_flood, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_slow_loop, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_lost_retained_come_again, fixture_setup, fixture_teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_load", LOG_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
