/* The split: the rule itself, its exactness for large numbers, and what it makes of values out of range. */
#include "tests/unit/unit.h"

#include <math.h>

#include "edge-agent/core/split.h"

static int64_t count_one_by_one(int64_t from, int64_t to, double p)
{
	int64_t count = 0;
	for (int64_t n = from; n < to; n++)
		count += split_trains(n, p);
	return count;
}

static void follows_the_rule(void **state)
{
	(void)state;
	static const double shares[] = {0.8, 0.29, 0.57, 0.5, 1.0 / 3, 0.1, 0.999, 0.001, 1e-9, 0.7};
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		for (int64_t n = 0; n < 3000; n++) {
			long double p = shares[i];
			bool trains = floorl((long double)(n + 1) * p + 1e-9L) > floorl((long double)n * p + 1e-9L);
			if (split_trains(n, shares[i]) != trains)
				fail_msg("p=%.17g n=%lld", shares[i], (long long)n);
		}
	}
}

static void counts_are_what_users_compute(void **state)
{
	(void)state;
	assert_int_equal(split_count(0, 100, 0.29), 29);
	assert_int_equal(split_count(0, 100, 0.57), 57);
	assert_int_equal(split_count(0, 20, 0.8), 16);
	assert_int_equal(split_count(0, 100, 0.1 + 0.2), 30);
	assert_int_equal(split_count(40, 80, 0.8), 32);
	assert_int_equal(split_count(7, 7, 0.8), 0);
	assert_int_equal(split_count(8, 7, 0.8), 0);
}

static void out_of_range_is_all_or_none(void **state)
{
	(void)state;
	assert_int_equal(split_count(0, 1000, 0), 0);
	assert_int_equal(split_count(0, 1000, -0.1), 0);
	assert_int_equal(split_count(0, 1000, (double)NAN), 0);
	assert_int_equal(split_count(0, 1000, 1), 1000);
	assert_int_equal(split_count(0, 1000, 1.0000001), 1000);
	assert_int_equal(split_count(0, 1000, (double)INFINITY), 1000);
	assert_int_equal(split_count(0, 1000, 5e-324), 0);
}

static void large_numbers_are_exact(void **state)
{
	(void)state;
	const int64_t top = INT64_C(1) << 53;
	/* A tenth of any ten consecutive ones, however far out. */
	assert_int_equal(split_count(0, top, 0.5), top / 2);
	assert_int_equal(split_count(0, INT64_C(9000000000000000), 0.29), INT64_C(2610000000000000));
	for (int64_t n = top - 1000; n < top; n += 10)
		assert_int_equal(count_one_by_one(n, n + 10, 0.1), 1);
	assert_int_equal(split_count(top - 1000, top, 0.1), 100);
}

static void walking_agrees_with_counting(void **state)
{
	(void)state;
	static const int64_t starts[] = {0, 1, 99, 123456789, INT64_C(1) << 52};
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		for (double p = 0; p <= 1; p += 0.037) {
			split s;
			int64_t count = 0;
			split_start(&s, starts[i], p);
			for (int64_t n = starts[i]; n < starts[i] + 200; n++) {
				count += split_next(&s);
				assert_int_equal(count, split_count(starts[i], n + 1, p));
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_the_rule),
		cmocka_unit_test(counts_are_what_users_compute),
		cmocka_unit_test(out_of_range_is_all_or_none),
		cmocka_unit_test(large_numbers_are_exact),
		cmocka_unit_test(walking_agrees_with_counting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
