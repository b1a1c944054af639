/* Triggers as tables: windows, the sample count, operators, and metric expressions over results of every shape. */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>

#include "edge-agent/core/trigger.h"

static int clock_minute(const char *text)
{
	return atoi(text) * 60 + atoi(strchr(text, ':') + 1);
}

static void test_windows(void **state)
{
	static const struct {
		const char *start, *end, *now;
		bool holds;
	} rows[] = {
		{"23:00", "01:00", "22:59", false},
		{"23:00", "01:00", "23:00", true},
		{"23:00", "01:00", "23:59", true},
		{"23:00", "01:00", "00:00", true},
		{"23:00", "01:00", "01:00", true},
		{"23:00", "01:00", "01:01", false},
		{"02:00", "02:00", "01:59", false},
		{"02:00", "02:00", "02:00", true},
		{"02:00", "02:00", "02:01", false},
		{"20:00", "24:00", "23:59", true},
		{"20:00", "24:00", "00:00", false},
		{"9:00", "10:00", "09:30", true},
		{"9:00", "10:00", "10:00", true},
		{"9:00", "10:00", "08:59", false},
		{"00:00", "24:00", "00:00", true},
		{"00:00", "24:00", "12:00", true},
		{"24:00", "01:00", "00:30", true},
		{"24:00", "01:00", "12:00", false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		trigger t = {.has_timer = true, .start = clock_minute(rows[i].start), .end = clock_minute(rows[i].end)};

		if (trigger_timer_holds(&t, clock_minute(rows[i].now)) != rows[i].holds)
			fail_msg("%s-%s at %s", rows[i].start, rows[i].end, rows[i].now);
	}
}

static void test_train(void **state)
{
	trigger t = {.has_condition = true, .op = OP_GE, .threshold = 10, .metric = "num_of_samples"};
	error why = {0};
	(void)state;

	assert_int_equal(trigger_train(&t, 9, 0, &why), TRIGGER_NO);
	assert_int_equal(trigger_train(&t, 10, 0, &why), TRIGGER_YES);
	t.has_timer = true;
	t.start = 60;
	t.end = 120;
	assert_int_equal(trigger_train(&t, 10, 59, &why), TRIGGER_OUTSIDE);
	assert_int_equal(trigger_train(&t, 9, 90, &why), TRIGGER_NO); /* no window is worth waiting for then */
	assert_int_equal(trigger_train(&t, 10, 90, &why), TRIGGER_YES);
	t.has_condition = false;
	assert_int_equal(trigger_train(&t, 0, 90, &why), TRIGGER_YES);
	t.has_condition = true;
	t.metric = "precision";
	assert_int_equal(trigger_train(&t, 10, 90, &why), TRIGGER_UNKNOWN);
	assert_non_null(strstr(why.text, "precision"));
}

static void test_operators(void **state)
{
	static const struct {
		const char *spelling;
		enum trigger_answer equal, above, below;
	} rows[] = {
		{"gt", TRIGGER_NO, TRIGGER_YES, TRIGGER_NO},
		{">", TRIGGER_NO, TRIGGER_YES, TRIGGER_NO},
		{"ge", TRIGGER_YES, TRIGGER_YES, TRIGGER_NO},
		{">=", TRIGGER_YES, TRIGGER_YES, TRIGGER_NO},
		{"eq", TRIGGER_YES, TRIGGER_NO, TRIGGER_NO},
		{"=", TRIGGER_YES, TRIGGER_NO, TRIGGER_NO},
		{"==", TRIGGER_YES, TRIGGER_NO, TRIGGER_NO},
		{"ne", TRIGGER_NO, TRIGGER_YES, TRIGGER_YES},
		{"!=", TRIGGER_NO, TRIGGER_YES, TRIGGER_YES},
		{"le", TRIGGER_YES, TRIGGER_NO, TRIGGER_YES},
		{"<=", TRIGGER_YES, TRIGGER_NO, TRIGGER_YES},
		{"lt", TRIGGER_NO, TRIGGER_NO, TRIGGER_YES},
		{"<", TRIGGER_NO, TRIGGER_NO, TRIGGER_YES},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		static const char *const metrics[] = {"{\"m\":0.30000000000000004}", "{\"m\":0.31}", "{\"m\":0.29}"};
		const enum trigger_answer expected[] = {rows[i].equal, rows[i].above, rows[i].below};
		trigger t = {.has_condition = true, .threshold = 0.3, .metric = "m"};

		assert_true(trigger_op_parse(rows[i].spelling, &t.op));
		for (size_t k = 0; k < 3; k++) {
			cJSON *m = cJSON_Parse(metrics[k]);
			model results[2] = {{.metrics = m}, {.metrics = m}};
			error why;

			if (trigger_deploy(&t, results, 2, 0, &why) != expected[k])
				fail_msg("%s with %s", rows[i].spelling, metrics[k]);
			cJSON_Delete(m);
		}
	}
}

#define LISTS "{\"p\":[0.5,0.9]}", "{\"p\":[0.25,0.5]}"

static void test_expressions(void **state)
{
	static const struct {
		const char *metric, *metrics_new, *metrics_old;
		bool known;
		double value;
	} rows[] = {
		/* valid forms */
		{"p", LISTS, true, 0.7},
		{"p[0]", LISTS, true, 0.5},
		{"p_delta[1]", LISTS, true, 0.4},
		{"p_delta[ 1 ]", LISTS, true, 0.4},
		{"p_delta", LISTS, true, 0.325},
		{"p", "{\"p\":0.9}", "{\"p\":0.8}", true, 0.9},
		{"p_delta", "{\"p\":0.9}", "{\"p\":0.8}", true, 0.1},
		{"p_delta", "{\"p\":0.9,\"q\":1}", "{\"p\":0.8}", true, 0.1},
		{"p_delta[0]", "{\"p\":[1,2,3]}", "{\"p\":[0.5,2]}", true, 0.5},
		/* broken indexes */
		{"p_delta[-1]", LISTS, false, 0},
		{"p_delta[99]", LISTS, false, 0},
		{"p_delta[1", LISTS, false, 0},
		{"p_delta1]", LISTS, false, 0},
		{"p_delta[]", LISTS, false, 0},
		{"p_delta[0x1]", LISTS, false, 0},
		{"p_delta[1][2]", LISTS, false, 0},
		{"a]b[", LISTS, false, 0},
		{"[1]", LISTS, false, 0},
		{"", LISTS, false, 0},
		/* missing, not a number, not finite */
		{"q", LISTS, false, 0},
		{"f1_delta", "{\"f1\":0.9}", "{\"p\":0.8}", false, 0},
		{"p_delta[2]", "{\"p\":[1,2,3]}", "{\"p\":[1,2]}", false, 0},
		{"p", "{\"p\":\"0.9\"}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":null}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":true}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":[]}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":[1,\"x\"]}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":{}}", "{\"p\":0.8}", false, 0},
		{"p", "{\"p\":1e999}", "{\"p\":0.8}", false, 0},
		{"p", "null", "{\"p\":0.8}", false, 0},
		{"p_delta", "{\"p\":1}", "[]", false, 0},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cJSON *first = cJSON_Parse(rows[i].metrics_new), *second = cJSON_Parse(rows[i].metrics_old);
		model results[2] = {{.metrics = first}, {.metrics = second}};
		trigger t = {.has_condition = true, .op = OP_EQ, .threshold = rows[i].value, .metric = rows[i].metric};
		error why = {0};
		enum trigger_answer answer = trigger_deploy(&t, results, 2, 0, &why);

		if (answer != (rows[i].known ? TRIGGER_YES : TRIGGER_UNKNOWN))
			fail_msg("%s of %s against %s: %d (%s)", rows[i].metric, rows[i].metrics_new, rows[i].metrics_old, (int)answer, why.text);
		assert_true(rows[i].known || why.text[0] != '\0'); /* never a silent no */
		t.op = OP_NE;
		if (!rows[i].known)
			assert_int_equal(trigger_deploy(&t, results, 2, 0, &why), TRIGGER_UNKNOWN);
		cJSON_Delete(first);
		cJSON_Delete(second);
	}
}

static void test_long_name(void **state)
{
	char name[301];
	trigger t = {.has_condition = true, .metric = name};
	model results[2] = {{0}};
	error why = {0};
	(void)state;

	memset(name, 'x', 300);
	name[300] = '\0';
	assert_int_equal(trigger_deploy(&t, results, 2, 0, &why), TRIGGER_UNKNOWN);
	assert_true(why.text[0] != '\0');
}

static void test_results_must_be_two(void **state)
{
	cJSON *m = cJSON_Parse("{\"p\":1}");
	model results[3] = {{.metrics = m}, {.metrics = m}, {.metrics = m}};
	trigger t = {.has_condition = true, .op = OP_GE, .threshold = 0, .metric = "p"};
	error why = {0};
	(void)state;

	for (size_t n = 0; n <= 3; n++)
		assert_int_equal(trigger_deploy(&t, results, n, 0, &why), n == 2 ? TRIGGER_YES : TRIGGER_UNKNOWN);
	assert_non_null(strstr(why.text, "3 results"));
	t.has_timer = true;
	t.start = 10;
	t.end = 20;
	assert_int_equal(trigger_deploy(&t, results, 2, 30, &why), TRIGGER_OUTSIDE);
	t.threshold = 2;
	assert_int_equal(trigger_deploy(&t, results, 2, 30, &why), TRIGGER_NO);
	assert_non_null(strstr(why.text, "p is 1, not >= 2"));
	t.has_condition = false;
	assert_int_equal(trigger_deploy(&t, results, 2, 15, &why), TRIGGER_YES);
	cJSON_Delete(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_train),
		cmocka_unit_test(test_operators),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_results_must_be_two),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
