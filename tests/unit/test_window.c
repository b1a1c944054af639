/* The eval window: which earlier rounds count as completed, read from ranges alone. */
#include "tests/unit/unit.h"

#include "edge-agent/core/window.h"

/* Offers the rounds below the present one as a caller has to, highest first. expected: oldest first. */
static void assert_window(const window_round *rounds, size_t n, int64_t present, const char *expected)
{
	char text[128] = "";
	window w = {0};
	bool more = true;
	size_t used = 0;
	for (int64_t round = present; more && round > 0; round--) {
		for (size_t i = 0; i < n; i++) {
			if (rounds[i].round == round && round == present)
				window_start(&w, &rounds[i]);
			else if (rounds[i].round == round)
				more = window_offer(&w, &rounds[i]);
		}
	}
	for (size_t i = w.n; i-- > 0;)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", used == 0 ? "" : " ", (long long)w.rounds[i]);
	assert_string_equal(text, expected);
}

static void takes_five_before_the_present(void **state)
{
	(void)state;
	static const window_round rounds[] = {
		{1, 0, 10}, {2, 10, 20}, {3, 20, 30}, {4, 30, 40}, {5, 40, 50}, {6, 50, 60}, {7, 60, 70}, {8, 70, 80}};
	assert_window(rounds, 8, 8, "3 4 5 6 7 8");
	assert_window(rounds, 8, 6, "1 2 3 4 5 6");
	assert_window(rounds, 8, 3, "1 2 3");
	assert_window(rounds, 8, 1, "1");
}

static void failed_rounds_are_passed_over(void **state)
{
	(void)state;
	/* 2 failed, and 3 took its samples again with more; 4 and 5 failed. */
	static const window_round rounds[] = {{6, 25, 60}, {3, 10, 25}, {1, 0, 10}, {5, 25, 50}, {2, 10, 20}, {4, 25, 40}};
	assert_window(rounds, 6, 6, "1 3 6");
	assert_window(rounds, 6, 5, "1 3 5");
	assert_window(rounds, 6, 2, "1 2");
	/* The same range again: the later one is the one that completed. */
	static const window_round same[] = {{1, 0, 10}, {2, 10, 20}, {3, 10, 20}, {4, 20, 30}};
	assert_window(same, 4, 4, "1 3 4");
}

static void gaps_and_empty_rounds_end_nothing_wrong(void **state)
{
	(void)state;
	static const window_round gap[] = {{1, 0, 10}, {2, 12, 20}, {3, 20, 30}};
	assert_window(gap, 3, 3, "2 3");
	static const window_round empty[] = {{1, 0, 10}, {2, 10, 10}, {3, 10, 20}};
	assert_window(empty, 3, 3, "1 3");
	static const window_round late[] = {{1, 100, 110}, {2, 110, 120}};
	assert_window(late, 2, 2, "1 2");
}

static void stepping_says_when_to_stop(void **state)
{
	(void)state;
	window w;
	window_start(&w, &(window_round){9, 80, 90});
	assert_true(window_offer(&w, &(window_round){8, 80, 85}));
	assert_true(window_offer(&w, &(window_round){7, 70, 80}));
	assert_false(window_offer(&w, &(window_round){6, 0, 70}));
	assert_int_equal(w.n, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_five_before_the_present),
		cmocka_unit_test(failed_rounds_are_passed_over),
		cmocka_unit_test(gaps_and_empty_rounds_end_nothing_wrong),
		cmocka_unit_test(stepping_says_when_to_stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
