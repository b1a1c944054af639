/* One stranger does not shut out everybody else: what an address may take, and what all may. */
#include "cloud-agent/enrolment/crowd.h"
#include "tests/unit/unit.h"

enum { SEED = 7 };

/* How many of `times` requests at that moment are let in. */
static int taken(crowd *c, const char *address, int times, int64_t at)
{
	int n = 0;

	for (int i = 0; i < times; i++)
		n += crowd_take(c, address, at);
	return n;
}

static void test_one_and_all(void **state)
{
	crowd c;

	(void)state;
	crowd_init(&c, SEED, 0);
	assert_int_equal(taken(&c, "192.0.2.1", 1000, 0), CROWD_ONE_BURST);
	assert_int_equal(taken(&c, "192.0.2.2", 10, 0), 10);
	assert_int_equal(taken(&c, "192.0.2.3", 1000, 0), CROWD_BURST - CROWD_ONE_BURST - 10);
	/* A second of one that never stops. */
	assert_int_equal(taken(&c, "192.0.2.1", 1000, 1000), CROWD_ONE_PER_SECOND);
	assert_int_equal(taken(&c, "192.0.2.2", 1000, 1000), CROWD_PER_SECOND - CROWD_ONE_PER_SECOND);
	assert_int_equal(taken(&c, "192.0.2.1", 1000, 100000), CROWD_ONE_BURST);
}

static void test_what_is_one_address(void **state)
{
	static const struct {
		const char *first, *second;
		bool same;
	} cases[] = {
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"", "", true},
		{"", "192.0.2.1", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		crowd c;

		crowd_init(&c, SEED, 0);
		assert_int_equal(taken(&c, cases[i].first, CROWD_ONE_BURST, 0), CROWD_ONE_BURST);
		assert_int_equal(crowd_take(&c, cases[i].second, 0), !cases[i].same);
	}
}

/* Who shares with whom is another matter with each start. */
static void test_seeds(void **state)
{
	int together = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		crowd c;

		crowd_init(&c, seed, 0);
		(void)taken(&c, "192.0.2.1", CROWD_ONE_BURST, 0);
		together += !crowd_take(&c, "192.0.2.2", 0);
	}
	assert_true(together < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_and_all),
		cmocka_unit_test(test_what_is_one_address),
		cmocka_unit_test(test_seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
