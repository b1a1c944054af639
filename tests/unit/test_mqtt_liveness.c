/* When a connection is asked and when it is given up: the times of liveness.h, with a clock that the test turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/mqtt/liveness.h"

enum { KEEP_ALIVE = 60000, START = 1000 };

static struct liveness l;
static uint64_t next;

static int setup(void **state)
{
	(void)state;
	liveness_init(&l, KEEP_ALIVE, START);
	return 0;
}

/* Fine until just before `at`, then `verdict`. */
static void expect(enum liveness_verdict verdict, uint64_t at)
{
	assert_int_equal(liveness_check(&l, at - 1, &next), LIVENESS_FINE);
	assert_int_equal(next, at);
	assert_int_equal(liveness_check(&l, at, &next), verdict);
	assert_int_equal(liveness_check(&l, at + 1000000, &next), verdict);
}

static void test_idle_is_asked_then_given_up(void **state)
{
	(void)state;
	expect(LIVENESS_PROBE, START + 54000);
	liveness_sent(&l, 0, START + 54000);
	expect(LIVENESS_DEAD, START + 54000 + 30000);
	assert_true(START + 54000 + 30000 - START <= KEEP_ALIVE * 3 / 2);
}

static void test_an_answer_starts_over(void **state)
{
	(void)state;
	liveness_sent(&l, 0, START + 54000);
	liveness_answered(&l, 0, START + 54100);
	expect(LIVENESS_PROBE, START + 54100 + 54000);
}

static void test_messages_put_the_probe_off(void **state)
{
	(void)state;
	liveness_heard(&l, START + 50000);
	expect(LIVENESS_PROBE, START + 50000 + 54000);
}

static void test_unacknowledged_is_given_up_sooner(void **state)
{
	(void)state;
	liveness_sent(&l, 0, START + 10000);
	expect(LIVENESS_DEAD, START + 10000 + 30000);
	/* The first of two that is answered shows life; the time runs anew for the other. */
	liveness_sent(&l, 0, START + 11000);
	liveness_answered(&l, 0, START + 20000);
	expect(LIVENESS_DEAD, START + 20000 + 30000);
	liveness_answered(&l, 0, START + 21000);
	expect(LIVENESS_PROBE, START + 21000 + 54000);
}

/* Something sent long after the last exchange gets its whole time. */
static void test_waiting_counts_from_when_it_began(void **state)
{
	(void)state;
	liveness_sent(&l, 0, START + 53999);
	expect(LIVENESS_DEAD, START + 53999 + 30000);
}

static void test_big_messages_get_time(void **state)
{
	(void)state;
	liveness_sent(&l, 400000, START);
	expect(LIVENESS_DEAD, START + 30000 + 100000);
	liveness_sent(&l, 4000, START);
	liveness_answered(&l, 400000, START + 90000);
	expect(LIVENESS_DEAD, START + 90000 + 30000 + 1000);
	liveness_answered(&l, 4000, START + 91000);
	liveness_sent(&l, 0, START + 92000);
	expect(LIVENESS_DEAD, START + 92000 + 30000);
}

/* An answer to nothing, or of the wrong size, does not wrap the counters. */
static void test_surplus_answers(void **state)
{
	(void)state;
	liveness_answered(&l, 100, START);
	expect(LIVENESS_PROBE, START + 54000);
	liveness_sent(&l, 10, START);
	liveness_sent(&l, 10, START);
	liveness_answered(&l, 100, START);
	expect(LIVENESS_DEAD, START + 30000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_idle_is_asked_then_given_up, setup),
		cmocka_unit_test_setup(test_an_answer_starts_over, setup),
		cmocka_unit_test_setup(test_messages_put_the_probe_off, setup),
		cmocka_unit_test_setup(test_unacknowledged_is_given_up_sooner, setup),
		cmocka_unit_test_setup(test_waiting_counts_from_when_it_began, setup),
		cmocka_unit_test_setup(test_big_messages_get_time, setup),
		cmocka_unit_test_setup(test_surplus_answers, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
