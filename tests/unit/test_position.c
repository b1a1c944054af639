/* Positions: the whole order, and names there and back. */
#include "proto/position.h"
#include "tests/unit/unit.h"

static const struct {
	enum phase phase;
	const char *name;
	int rank;
} phases[] = {
	{PHASE_WAITING, "Waiting", 0},
	{PHASE_READY, "Ready", 1},
	{PHASE_STARTING, "Starting", 2},
	{PHASE_RUNNING, "Running", 3},
	{PHASE_COMPLETED, "Completed", 4},
	{PHASE_FAILED, "Failed", 4},
};
static const struct {
	enum stage stage;
	const char *name, *word;
} stages[] = {{STAGE_TRAIN, "Train", "train"}, {STAGE_EVAL, "Eval", "eval"}, {STAGE_DEPLOY, "Deploy", "deploy"}};

enum { N_PHASES = 6, N_STAGES = 3, N_ROUNDS = 3, N_ALL = N_ROUNDS * N_STAGES * N_PHASES };

/* Rounds far apart too, so that a difference that does not fit into an int shows. */
static const int64_t rounds[N_ROUNDS] = {1, 2, INT64_C(9007199254740991)};

static position at(int i)
{
	return (position){rounds[i / (N_STAGES * N_PHASES)], stages[i / N_PHASES % N_STAGES].stage, phases[i % N_PHASES].phase};
}

/* The place of position i in the order, with one place for both ends. */
static int place(int i)
{
	return i / N_PHASES * N_PHASES + phases[i % N_PHASES].rank;
}

static int sign(int n)
{
	return (n > 0) - (n < 0);
}

static void every_pair_is_ordered(void **state)
{
	(void)state;
	for (int i = 0; i < N_ALL; i++) {
		for (int j = 0; j < N_ALL; j++)
			assert_int_equal(sign(position_compare(at(i), at(j))), sign(place(i) - place(j)));
	}
}

static void a_stage_is_over_at_its_end_and_after(void **state)
{
	(void)state;
	for (int i = 0; i < N_ALL; i++) {
		for (int r = 0; r < N_ROUNDS; r++) {
			for (int s = 0; s < N_STAGES; s++) {
				int end = (r * N_STAGES + s) * N_PHASES + 4;

				assert_int_equal(position_over(at(i), rounds[r], stages[s].stage), place(i) >= end);
			}
		}
	}
}

static void names_there_and_back(void **state)
{
	(void)state;
	for (int i = 0; i < N_STAGES; i++) {
		enum stage by_name, by_word;

		assert_string_equal(stage_name(stages[i].stage), stages[i].name);
		assert_string_equal(stage_word(stages[i].stage), stages[i].word);
		assert_true(stage_parse(stages[i].name, &by_name));
		assert_true(stage_parse_word(stages[i].word, &by_word));
		assert_int_equal(by_name, stages[i].stage);
		assert_int_equal(by_word, stages[i].stage);
		assert_false(stage_parse(stages[i].word, &by_name));
		assert_false(stage_parse_word(stages[i].name, &by_word));
	}
	for (int i = 0; i < N_PHASES; i++) {
		enum phase p;

		assert_string_equal(phase_name(phases[i].phase), phases[i].name);
		assert_true(phase_parse(phases[i].name, &p));
		assert_int_equal(p, phases[i].phase);
		assert_int_equal(phase_rank(p), phases[i].rank);
		assert_int_equal(phase_ended(p), phases[i].rank == 4);
	}
}

static void other_names_are_refused(void **state)
{
	static const char *const wrong[] = {"", "Trai", "Train ", "TRAIN", "waiting", "Done", "Completed\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		enum stage s = STAGE_EVAL;
		enum phase p = PHASE_RUNNING;

		assert_false(stage_parse(wrong[i], &s));
		assert_false(phase_parse(wrong[i], &p));
		assert_int_equal(s, STAGE_EVAL);
		assert_int_equal(p, PHASE_RUNNING);
	}
	assert_string_equal(stage_name((enum stage)7), "?");
	assert_string_equal(stage_word((enum stage)7), "?");
	assert_string_equal(phase_name((enum phase)7), "?");
}

static void formatted(void **state)
{
	char text[48];

	(void)state;
	position_format((position){12, STAGE_TRAIN, PHASE_WAITING}, text);
	assert_string_equal(text, "12/Train/Waiting");
	position_format((position){INT64_MIN, STAGE_DEPLOY, PHASE_COMPLETED}, text);
	assert_string_equal(text, "-9223372036854775808/Deploy/Completed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_is_ordered),
		cmocka_unit_test(a_stage_is_over_at_its_end_and_after),
		cmocka_unit_test(names_there_and_back),
		cmocka_unit_test(other_names_are_refused),
		cmocka_unit_test(formatted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
