/* The inbox between a library's thread and the loop: order, the bound, waiting for room, dropping, and letting go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/mqtt/inbox.h"

enum { FOREVER = 60000, ROOM = 4000, PAYLOAD = 1000 };

static uv_loop_t loop;
static uv_async_t wake;
static int wakes;

static void on_wake(uv_async_t *handle)
{
	(void)handle;
	wakes++;
}

static int setup(void **state)
{
	(void)state;
	wakes = 0;
	uv_loop_init(&loop);
	uv_async_init(&loop, &wake, on_wake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	uv_close((uv_handle_t *)&wake, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void put(struct inbox *b, int64_t number)
{
	static const char payload[PAYLOAD];
	struct event *e = event_new(EVENT_MESSAGE, 1);

	e->token = number;
	e->message = message_copy(&(struct mqtt_message){.topic = "t", .payload = payload, .len = sizeof payload});
	inbox_put(b, e);
}

/* Frees the list; its length, and that the numbers go up from `first`. */
static int drain(struct event *list, int64_t first)
{
	int n = 0;

	for (struct event *next; list; list = next) {
		next = list->next;
		assert_int_equal(list->token, first + n++);
		event_free(list);
	}
	return n;
}

static void test_order_and_wake(void **state)
{
	struct inbox *b = inbox_new(&wake, ROOM, FOREVER);
	uint64_t dropped = 0;

	(void)state;
	put(b, 0);
	put(b, 1);
	uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(wakes, 1);
	assert_int_equal(drain(inbox_take(b, &dropped), 0), 2);
	assert_null(inbox_take(b, &dropped));
	assert_int_equal(dropped, 0);
	put(b, 0);
	inbox_free(b); /* with what is in it */
}

static void test_full_drops_and_counts(void **state)
{
	struct inbox *b = inbox_new(&wake, ROOM, 1);
	uint64_t dropped = 0;
	int n;

	(void)state;
	for (int64_t i = 0; i < 10; i++)
		put(b, i);
	n = drain(inbox_take(b, &dropped), 0);
	assert_in_range(n, 2, 3);
	assert_int_equal(dropped, 10 - n);
	put(b, 0);
	assert_int_equal(drain(inbox_take(b, &dropped), 0), 1);
	assert_int_equal(dropped, 10 - n); /* each is told once */
	inbox_free(b);
}

static void test_one_always_fits(void **state)
{
	struct inbox *b = inbox_new(&wake, 1, 1);
	uint64_t dropped = 0;

	(void)state;
	put(b, 0);
	inbox_put(b, event_new(EVENT_CLOSED, 1)); /* and so does everything that is not a message */
	inbox_put(b, event_new(EVENT_CLOSED, 1));
	assert_int_equal(dropped, 0);
	inbox_free(b);
}

static void producer(void *arg)
{
	for (int64_t i = 0; i < 20; i++)
		put(arg, i);
}

static void test_waits_for_room(void **state)
{
	struct inbox *b = inbox_new(&wake, ROOM, FOREVER);
	uint64_t dropped = 0;
	uv_thread_t thread;
	int n = 0;

	(void)state;
	assert_int_equal(uv_thread_create(&thread, producer, b), 0);
	while (n < 20) {
		uv_run(&loop, UV_RUN_ONCE);
		n += drain(inbox_take(b, &dropped), n);
	}
	uv_thread_join(&thread);
	assert_int_equal(n, 20);
	assert_int_equal(dropped, 0);
	inbox_free(b);
}

/* Whoever waits for room stops waiting when messages are not wanted any more, or nobody is there. */
static void test_letting_go(void **state)
{
	(void)state;
	for (int detach = 0; detach < 2; detach++) {
		struct inbox *b = inbox_new(&wake, ROOM, FOREVER);
		uint64_t dropped = 0;
		uv_thread_t thread;

		assert_int_equal(uv_thread_create(&thread, producer, b), 0);
		uv_run(&loop, UV_RUN_ONCE);
		if (detach)
			inbox_detach(b);
		else
			inbox_refuse_messages(b, true);
		uv_thread_join(&thread);
		assert_in_range(drain(inbox_take(b, &dropped), 0), 0, 3);
		assert_int_equal(dropped, 0);
		inbox_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order_and_wake, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_drops_and_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_always_fits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_for_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_letting_go, setup, teardown),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
