/* The queue and the window of what is published: order, bounds by number and bytes, tokens that stay unique. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/mqtt/outgoing.h"

static struct outgoing o;
static char big[OUTGOING_WINDOW_BYTES + 1000];

static int setup(void **state)
{
	(void)state;
	outgoing_init(&o, 10000);
	o.window = 4;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	outgoing_fini(&o);
	return 0;
}

static int64_t put(size_t len)
{
	return outgoing_put(&o, &(struct mqtt_message){.topic = "t", .payload = big, .len = len});
}

static int64_t next(void)
{
	struct message *m = outgoing_next(&o);
	int64_t token = m ? m->token : 0;

	free(m);
	return token;
}

/* The size of what is not in flight any more; SIZE_MAX if it was not. */
static size_t acknowledge(int64_t token)
{
	struct outgoing_done done;

	if (!outgoing_acknowledge(&o, token, &done))
		return SIZE_MAX;
	assert_string_equal(done.topic, "t");
	free(done.topic);
	return done.size;
}

static void test_window_by_number(void **state)
{
	int64_t first = 0;

	(void)state;
	for (int i = 0; i < 6; i++) {
		int64_t token = put(1);

		assert_true(token > 0);
		first = i == 0 ? token : first;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(next(), first + i);
	assert_int_equal(next(), 0);
	assert_int_equal(acknowledge(first + 2), 2); /* in any order */
	assert_int_equal(next(), first + 4);
	assert_int_equal(next(), 0);
	assert_int_equal(acknowledge(first + 2), SIZE_MAX);
	assert_int_equal(acknowledge(first), 2);
	assert_int_equal(next(), first + 5);
	assert_false(outgoing_is_empty(&o));
	assert_int_equal(acknowledge(first + 1), 2);
	assert_int_equal(acknowledge(first + 3), 2);
	assert_int_equal(acknowledge(first + 4), 2);
	assert_int_equal(acknowledge(first + 5), 2);
	assert_true(outgoing_is_empty(&o));
	assert_int_equal(o.inflight_bytes, 0);
	assert_int_equal(o.queued_bytes, 0);
}

static void test_window_by_bytes(void **state)
{
	int64_t a, b;

	(void)state;
	a = put(sizeof big); /* over both bounds, but it is alone */
	assert_true(a > 0);
	assert_int_equal(next(), a);
	b = put(1);
	assert_int_equal(next(), 0);
	assert_int_equal(acknowledge(a), sizeof big + 1);
	assert_int_equal(next(), b);
}

static void test_queue_bound(void **state)
{
	int n = 0;

	(void)state;
	while (put(1000) > 0)
		n++;
	assert_in_range(n, 5, 10);
	assert_int_equal(put(1000), ERROR_LIMIT);
	assert_false(outgoing_has_room(&o));
	while (!outgoing_has_room(&o))
		assert_int_equal(acknowledge(next()), 1001);
	assert_true(put(1000) > 0);
	/* Who waits is told later: there is room for several then. */
	assert_false(outgoing_is_low(&o));
	while (!outgoing_is_low(&o))
		assert_int_equal(acknowledge(next()), 1001);
	for (n = 0; outgoing_has_room(&o); n++)
		assert_true(put(1000) > 0);
	assert_in_range(n, 2, 8);
}

/* Empty messages take memory too. */
static void test_queue_bound_of_empty_messages(void **state)
{
	int n = 0;

	(void)state;
	while (put(0) > 0)
		assert_true(n++ < 1000);
}

static void test_clear(void **state)
{
	int64_t a, b;

	(void)state;
	put(1);
	a = put(1);
	next();
	outgoing_clear(&o);
	assert_true(outgoing_is_empty(&o));
	assert_int_equal(acknowledge(a), SIZE_MAX);
	b = put(1);
	assert_true(b > a);
	assert_int_equal(next(), b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_window_by_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_window_by_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_queue_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_queue_bound_of_empty_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear, setup, teardown),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
