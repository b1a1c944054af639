/* Back-off: the bounds of each wait, full jitter, and that no number of failures overflows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/mqtt/backoff.h"

static void test_bounds_double(void **state)
{
	static const uint32_t ceilings[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000, 120000, 120000};
	struct backoff b = {.min_ms = 1000, .max_ms = 120000};

	(void)state;
	for (size_t i = 0; i < sizeof ceilings / sizeof *ceilings; i++) {
		struct backoff low = b, middle = b;

		assert_int_equal(backoff_next(&low, 0), 0);
		assert_int_equal(backoff_next(&middle, UINT32_C(1) << 31), ceilings[i] / 2);
		assert_int_equal(backoff_next(&b, UINT32_MAX), ceilings[i] - 1);
		assert_int_equal(b.failures, i + 1);
	}
	backoff_reset(&b);
	assert_int_equal(backoff_next(&b, UINT32_MAX), 999);
}

static void test_never_over_the_maximum(void **state)
{
	struct backoff b = {.min_ms = UINT32_MAX / 2, .max_ms = UINT32_MAX, .failures = 31};

	(void)state;
	assert_int_equal(backoff_next(&b, UINT32_MAX), UINT32_MAX - 1);
	b.failures = UINT32_MAX;
	assert_int_equal(backoff_next(&b, UINT32_MAX), UINT32_MAX - 1);
	assert_int_equal(b.failures, UINT32_MAX);
}

static void test_long(void **state)
{
	struct backoff b = {.min_ms = 1000, .max_ms = 120000};

	(void)state;
	assert_int_equal(backoff_long(&b, 0), 60000);
	assert_int_equal(backoff_long(&b, UINT32_MAX), 119999);
	assert_int_equal(b.failures, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_double),
		cmocka_unit_test(test_never_over_the_maximum),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
