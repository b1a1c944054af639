/* When the edge agent asks for a certificate, by which proof, and what it does when it gets none: with clocks that jump. */
#include "edge-agent/core/enrolment_plan.h"
#include "tests/unit/unit.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)

static const enrolment_certificate none = {0};
static const enrolment_certificate cert = {.there = true, .begins_ms = 1000 * DAY, .ends_ms = 1090 * DAY};

static moment at(int64_t mono_ms, int64_t unix_ms)
{
	return (moment){.mono_ms = mono_ms, .unix_ms = unix_ms};
}

static void test_need(void **state)
{
	(void)state;
	assert_int_equal(enrolment_need(&none, 0), ENROLMENT_FIRST);
	assert_int_equal(enrolment_need(&cert, 999 * DAY), ENROLMENT_CLOCK);
	assert_int_equal(enrolment_need(&cert, 1000 * DAY), ENROLMENT_NO_NEED);
	assert_int_equal(enrolment_need(&cert, 1060 * DAY - 1), ENROLMENT_NO_NEED);
	assert_int_equal(enrolment_need(&cert, 1060 * DAY), ENROLMENT_RENEWAL);
	assert_int_equal(enrolment_need(&cert, 1090 * DAY - 1), ENROLMENT_RENEWAL);
	assert_int_equal(enrolment_need(&cert, 1090 * DAY), ENROLMENT_FIRST);
}

/* What is proven with what. */
static void test_ways(void **state)
{
	static const struct {
		const enrolment_certificate *c;
		int64_t unix_day;
		bool token;
		enum enrolment_way way;
	} rows[] = {
		{&none, 1000, true, ENROLMENT_BY_TOKEN},
		{&none, 1000, false, ENROLMENT_WAIT},
		{&cert, 1010, true, ENROLMENT_WAIT},
		{&cert, 990, true, ENROLMENT_WAIT},
		{&cert, 1070, true, ENROLMENT_BY_CERTIFICATE},
		{&cert, 1070, false, ENROLMENT_BY_CERTIFICATE},
		{&cert, 1090, true, ENROLMENT_BY_TOKEN},
		{&cert, 1090, false, ENROLMENT_WAIT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		enrolment_plan p;
		int64_t wake;

		enrolment_plan_init(&p, 1);
		assert_int_equal(enrolment_plan_next(&p, rows[i].c, rows[i].token, at(50, rows[i].unix_day * DAY), &wake), rows[i].way);
		/* While it is under way nothing wakes us, and nothing else begins. */
		if (rows[i].way != ENROLMENT_WAIT) {
			assert_int_equal(wake, MOMENT_NEVER);
			assert_int_equal(enrolment_plan_next(&p, &none, true, at(60, 0), &wake), ENROLMENT_WAIT);
			assert_int_equal(wake, MOMENT_NEVER);
		} else {
			assert_true(wake > 50 && wake <= 50 + ENROLMENT_LOOK_MS);
		}
	}
}

static void test_wakes_when_it_is_due(void **state)
{
	enrolment_plan p;
	int64_t wake;

	(void)state;
	enrolment_plan_init(&p, 1);
	enrolment_plan_next(&p, &cert, true, at(0, 1060 * DAY - 7), &wake);
	assert_int_equal(wake, 7);
	enrolment_plan_next(&p, &cert, true, at(0, 1001 * DAY), &wake);
	assert_int_equal(wake, ENROLMENT_LOOK_MS);
	enrolment_plan_next(&p, &none, false, at(0, 0), &wake);
	assert_int_equal(wake, ENROLMENT_SOON_MS);
	/* One that could not be renewed ends: that is to be seen at once. */
	p.not_before = 2 * ENROLMENT_LOOK_MS;
	enrolment_plan_next(&p, &cert, false, at(0, 1090 * DAY - 9), &wake);
	assert_int_equal(wake, 9);
}

/* Each wait is within its bounds, the ceiling doubles, and never is one above ten minutes. */
static void test_failures(void **state)
{
	enrolment_plan p;
	int64_t mono = 0, wake, longest = 0;

	(void)state;
	enrolment_plan_init(&p, 7);
	for (int n = 1; n <= 40; n++) {
		int64_t ceiling = n < 10 ? INT64_C(1000) << n : ENROLMENT_WAIT_MAX_MS, wait;

		assert_int_equal(enrolment_plan_next(&p, &none, true, at(mono, mono), &wake), ENROLMENT_BY_TOKEN);
		enrolment_plan_ended(&p, ENROLMENT_FAILED, &none, true, at(mono, mono));
		wait = p.not_before - mono;
		assert_true(wait >= ENROLMENT_WAIT_MIN_MS);
		assert_true(wait <= (ceiling < ENROLMENT_WAIT_MAX_MS ? ceiling : ENROLMENT_WAIT_MAX_MS));
		assert_int_equal(enrolment_plan_next(&p, &none, true, at(mono + wait - 1, mono + wait - 1), &wake), ENROLMENT_WAIT);
		assert_int_equal(wake, mono + wait);
		longest = wait > longest ? wait : longest;
		mono += wait;
	}
	assert_true(longest > ENROLMENT_WAIT_MAX_MS / 2);
}

static void test_refused(void **state)
{
	enrolment_plan p;
	int64_t wake;

	(void)state;
	enrolment_plan_init(&p, 7);
	for (int i = 0; i < 5; i++) {
		int64_t now = p.not_before;

		assert_int_equal(enrolment_plan_next(&p, &none, true, at(now, 0), &wake), ENROLMENT_BY_TOKEN);
		enrolment_plan_ended(&p, ENROLMENT_REFUSED, &none, true, at(now, 0));
		assert_in_range(p.not_before - now, 9 * 60 * 1000, 11 * 60 * 1000);
	}
}

/* A certificate that is refused is followed by the token at once, if there is one; and by the certificate again ten minutes later. */
static void test_refused_certificate(void **state)
{
	enrolment_plan p;
	int64_t wake, late = 1070 * DAY;

	(void)state;
	enrolment_plan_init(&p, 7);
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(0, late), &wake), ENROLMENT_BY_CERTIFICATE);
	enrolment_plan_ended(&p, ENROLMENT_REFUSED, &cert, true, at(0, late));
	assert_true(p.not_before <= 2000);
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, late), &wake), ENROLMENT_BY_TOKEN);
	enrolment_plan_ended(&p, ENROLMENT_REFUSED, &cert, true, at(2000, late));
	assert_true(p.not_before >= 9 * 60 * 1000);
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, late), &wake), ENROLMENT_BY_CERTIFICATE);
	enrolment_plan_ended(&p, ENROLMENT_REFUSED, &cert, false, at(0, late));
	assert_true(p.not_before >= 9 * 60 * 1000);
	assert_int_equal(enrolment_plan_next(&p, &cert, false, at(p.not_before, late), &wake), ENROLMENT_BY_CERTIFICATE);
}

static void test_done(void **state)
{
	enrolment_plan p;
	enrolment_certificate newer = {.there = true, .begins_ms = 1060 * DAY, .ends_ms = 1150 * DAY};
	int64_t wake;

	(void)state;
	enrolment_plan_init(&p, 7);
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(0, 1060 * DAY), &wake), ENROLMENT_BY_CERTIFICATE);
	enrolment_plan_ended(&p, ENROLMENT_DONE, &newer, true, at(5, 1060 * DAY));
	assert_int_equal(enrolment_plan_next(&p, &newer, true, at(5, 1060 * DAY), &wake), ENROLMENT_WAIT);
	assert_int_equal(p.failures, 0);
}

/* An authority that ends gives certificates that end no later: no reason to ask for one after the other. */
static void test_nothing_better(void **state)
{
	enrolment_plan p;
	int64_t wake;

	(void)state;
	enrolment_plan_init(&p, 7);
	for (int i = 1; i < 15; i++) {
		assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, 1080 * DAY + p.not_before), &wake),
			ENROLMENT_BY_CERTIFICATE);
		enrolment_plan_ended(&p, ENROLMENT_DONE, &cert, true, at(p.not_before, 1080 * DAY + p.not_before));
		assert_int_equal(p.failures, i);
	}
	/* The program says that it is done, and there is nothing. */
	assert_int_equal(enrolment_plan_next(&p, &none, true, at(p.not_before, 1080 * DAY + p.not_before), &wake), ENROLMENT_BY_TOKEN);
	enrolment_plan_ended(&p, ENROLMENT_DONE, &none, true, at(p.not_before, 1080 * DAY + p.not_before));
	assert_int_equal(p.failures, 15);
}

/* A clock that runs ahead makes a certificate look as if it were over. When it is set right nothing is asked any more, and failures are forgotten. */
static void test_clock_jumps(void **state)
{
	enrolment_plan p;
	int64_t wake;

	(void)state;
	enrolment_plan_init(&p, 7);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, 3000 * DAY), &wake), ENROLMENT_BY_TOKEN);
		enrolment_plan_ended(&p, ENROLMENT_FAILED, &cert, true, at(p.not_before, 3000 * DAY));
	}
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, 1001 * DAY), &wake), ENROLMENT_WAIT);
	assert_int_equal(p.failures, 0);
	/* Back before the certificate's beginning: it is looked at again soon. */
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(0, 0), &wake), ENROLMENT_WAIT);
	assert_int_equal(wake, ENROLMENT_SOON_MS);
	/* From there to the time of renewal in one step. */
	assert_int_equal(enrolment_plan_next(&p, &cert, true, at(p.not_before, 1075 * DAY), &wake), ENROLMENT_BY_CERTIFICATE);
}

/* A device begins in 1970: it fails, less and less often, until its clock is set; then the wait is over. Not so after a refusal. */
static void test_clock_is_set(void **state)
{
	enrolment_plan p;
	int64_t wake, now = 0;

	(void)state;
	enrolment_plan_init(&p, 7);
	for (int i = 0; i < 12; i++, now = p.not_before) {
		assert_int_equal(enrolment_plan_next(&p, &none, true, at(now, now), &wake), ENROLMENT_BY_TOKEN);
		enrolment_plan_ended(&p, ENROLMENT_FAILED, &none, true, at(now, now));
	}
	p.not_before = now + 10 * ENROLMENT_JUMP_MS;
	for (; now < p.not_before - ENROLMENT_SOON_MS; now = wake) {
		/* As time goes, and with what a clock is slewed by. */
		assert_int_equal(enrolment_plan_next(&p, &none, true, at(now, now + ENROLMENT_JUMP_MS), &wake), ENROLMENT_WAIT);
		assert_int_equal(wake, now + ENROLMENT_SOON_MS);
	}
	p.not_before = now + 10 * ENROLMENT_JUMP_MS;
	if (enrolment_plan_next(&p, &none, true, at(now, 1000 * DAY), &wake) == ENROLMENT_WAIT) {
		assert_in_range(wake, now + 1, now + ENROLMENT_WAIT_MIN_MS);
		assert_int_equal(enrolment_plan_next(&p, &none, true, at(wake, 1000 * DAY), &wake), ENROLMENT_BY_TOKEN);
	}
	enrolment_plan_ended(&p, ENROLMENT_FAILED, &none, true, at(now, 1000 * DAY));
	assert_in_range(p.not_before, now, now + 2 * ENROLMENT_WAIT_MIN_MS);
	now = p.not_before;
	assert_int_equal(enrolment_plan_next(&p, &none, true, at(now, 1000 * DAY), &wake), ENROLMENT_BY_TOKEN);
	enrolment_plan_ended(&p, ENROLMENT_REFUSED, &none, true, at(now, 1000 * DAY));
	assert_int_equal(enrolment_plan_next(&p, &none, true, at(now, 0), &wake), ENROLMENT_WAIT);
	assert_int_equal(wake, now + ENROLMENT_LOOK_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_need),
		cmocka_unit_test(test_ways),
		cmocka_unit_test(test_wakes_when_it_is_due),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_certificate),
		cmocka_unit_test(test_done),
		cmocka_unit_test(test_nothing_better),
		cmocka_unit_test(test_clock_jumps),
		cmocka_unit_test(test_clock_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
