/* The MQTT client and links that are dead without saying so: idle, with a message under way, and before the broker has answered at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/loop.h"
#include "tests/integration/mqtt_kit.h"

static void expect_dead_link(struct mqtt_fixture *f, uint64_t from, uint64_t limit)
{
	uint64_t took;

	loop_until(&f->loop, f->a.downs == 1, SOON);
	took = fixture_now_ms() - from;
	print_message("dead link found after %llu ms\n", (unsigned long long)took);
	assert_true(took <= limit);
	assert_int_equal(mqtt_client_counters(f->a.client)->dead_links, 1);
	proxy_thaw(f->proxy);
	loop_until(&f->loop, f->a.ups == 2, SOON);
	peer_publish(&f->a, "t/again", "1", false);
	loop_until(&f->loop, f->a.published == 1, SOON);
	peer_free(&f->a);
}

static void test_dead_link_idle(void **state)
{
	struct mqtt_fixture *f = *state;

	f->config.keep_alive_s = 2;
	fixture_up(f, &f->a);
	loop_for(&f->loop, 4500); /* two probes, answered */
	assert_true(peer_is_up(&f->a));
	assert_int_equal(f->a.downs, 0);
	proxy_freeze(f->proxy);
	expect_dead_link(f, fixture_now_ms(), 3000);
}

static void test_dead_link_while_publishing(void **state)
{
	struct mqtt_fixture *f = *state;

	f->config.keep_alive_s = 4;
	fixture_up(f, &f->a);
	loop_for(&f->loop, 100);
	proxy_freeze(f->proxy);
	assert_true(peer_publish(&f->a, "t/lost", "1", false) > 0);
	expect_dead_link(f, fixture_now_ms(), 2500);
}

/* The kernel accepts for a frozen proxy, but nobody answers the CONNECT. */
static void test_connect_times_out(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;

	f->config.connect_timeout_s = 1;
	proxy_freeze(f->proxy);
	peer_start(a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(a->client)->attempts == 2, SOON);
	assert_non_null(strstr(mqtt_client_problem(a->client), "within 1 s"));
	proxy_thaw(f->proxy);
	loop_until(&f->loop, a->ups == 1, SOON);
	peer_free(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dead_link_idle, fixture_setup_proxy, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_dead_link_while_publishing, fixture_setup_proxy, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_connect_times_out, fixture_setup_proxy, fixture_teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_links", LOG_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
