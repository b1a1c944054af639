/* The numbers that waits are spread with. */
#include "tests/unit/unit.h"

#include "common/random.h"

/* As published for this generator, from 1234567 on. */
static void the_same_numbers_everywhere(void **state)
{
	static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
		UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
	uint64_t s = 1234567;
	(void)state;
	for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
		assert_true(random_next(&s) == expected[i]);
}

static void all_below_and_each(void **state)
{
	bool seen[7] = {false};
	uint64_t s = 0;
	(void)state;
	for (int i = 0; i < 200; i++) {
		int64_t r = random_below(&s, 7);
		assert_in_range(r, 0, 6);
		seen[r] = true;
	}
	for (size_t i = 0; i < 7; i++)
		assert_true(seen[i]);
	assert_true(random_below(&s, 1) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_numbers_everywhere),
		cmocka_unit_test(all_below_and_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
