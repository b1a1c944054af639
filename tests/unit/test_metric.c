/* Expressions over metrics: what parses, what has a value, and the table of operators. */
#include "tests/unit/unit.h"

#include <math.h>

#include "common/json.h"
#include "proto/metric.h"

static cJSON *json(const char *text)
{
	cJSON *value;
	error err = {0};
	if (json_parse(text, strlen(text), 10000, &value, &err) != 0)
		fail_msg("%s: %s", text, err.text);
	return value;
}

static void test_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name;
		bool delta;
		long index;
	} good[] = {
		{"precision", "precision", false, -1},
		{"precision_delta", "precision", true, -1},
		{"precision_delta[1]", "precision", true, 1},
		{"precision[ 1 ]", "precision", false, 1},
		{"precision[99]", "precision", false, 99},
		{" f1 ", "f1", false, -1},
		{"_delta", "_delta", false, -1},
		{"mean average [0]", "mean average", false, 0},
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		metric_expr e;
		error err = {0};
		assert_int_equal(metric_parse(good[i].text, &e, &err), 0);
		assert_string_equal(e.name, good[i].name);
		assert_int_equal(e.delta, good[i].delta);
		assert_int_equal(e.index, good[i].index);
	}
	char longer[301];
	memset(longer, 'a', 300);
	longer[300] = '\0';
	const char *bad[] = {"", " ", "[1]", "[ 1 ]", "p[-1]", "p[1", "p1]", "p[]", "p[ ]", "p[0x1]", "p[1][2]", "a]b[", "p[1]x", "p[1 2]",
		"p[99999999999999999999]", longer};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		metric_expr e;
		error err = {0};
		assert_int_equal(metric_parse(bad[i], &e, &err), ERROR_INVALID);
		assert_true(err.text[0] != '\0');
	}
}

/* What is kept of the metrics gives the same value. */
static void check_cut(const metric_expr *e, const cJSON *a, const cJSON *b, int code, double value)
{
	double got;
	error err = {0};
	cJSON *cut_a = cJSON_CreateObject(), *cut_b = cJSON_CreateObject();
	metric_keep(e, a, b, false, cut_a);
	metric_keep(e, b, a, true, cut_b);
	json_put_bool(cut_a, "truncated", true);
	json_put_bool(cut_b, "truncated", true);
	int result = metric_evaluate(e, cut_a, cut_b, &got, &err);
	if (code == 0 && result == 0)
		assert_true(got == value);
	else if (code == 0 || result == 0)
		fail_msg("%s: %d, and cut down %d (%s)", e->name, code, result, err.text);
	else
		assert_null(strstr(err.text, "missing"));
	cJSON_Delete(cut_a);
	cJSON_Delete(cut_b);
}

/* code 0: value; else what was wrong is told. */
static void check(const char *text, const char *now, const char *before, int code, double value)
{
	metric_expr e;
	error err = {0};
	double got = NAN;
	cJSON *a = now != NULL ? json(now) : NULL, *b = before != NULL ? json(before) : NULL;
	assert_int_equal(metric_parse(text, &e, &err), 0);
	int result = metric_evaluate(&e, a, b, &got, &err);
	if (result != code)
		fail_msg("%s of %s and %s: %d, not %d (%s)", text, now, before, result, code, err.text);
	if (code == 0)
		assert_true(fabs(got - value) < 1e-12);
	else
		assert_true(err.text[0] != '\0');
	check_cut(&e, a, b, result, got);
	cJSON_Delete(a);
	cJSON_Delete(b);
}

static void test_values(void **state)
{
	(void)state;
	check("f1", "{\"f1\":0.9}", NULL, 0, 0.9);
	check("f1[0]", "{\"f1\":0.9}", NULL, 0, 0.9);
	check("f1[1]", "{\"f1\":0.9}", NULL, ERROR_NOT_FOUND, 0);
	check("f1", "{\"f1\":[0.5,1]}", NULL, 0, 0.75);
	check("f1[1]", "{\"f1\":[0.5,1]}", NULL, 0, 1);
	check("f1[2]", "{\"f1\":[0.5,1]}", NULL, ERROR_NOT_FOUND, 0);
	check("f1_delta", "{\"f1\":[0.5,1]}", "{\"f1\":[0.25,0.75]}", 0, 0.25);
	check("f1_delta[0]", "{\"f1\":[0.5,1,7]}", "{\"f1\":[0.25,0.75]}", 0, 0.25);
	check("f1_delta", "{\"f1\":[0.5,1,7]}", "{\"f1\":[0.25,0.75]}", 0, 0.25);
	check("f1_delta", "{\"f1\":0.5}", "{\"f1\":[0.25,0.75]}", 0, 0);
	check("f1_delta[2]", "{\"f1\":[0.5,1,7]}", "{\"f1\":[0.25,0.75]}", ERROR_NOT_FOUND, 0);
	check("f1_delta[1]", "{\"f1\":[0.5,1,7]}", "{\"f1\":[0.25,0.75]}", 0, 0.25);
	check("f1[1]", "{\"f1\":[0.5,1],\"f1[1]\":3}", NULL, 0, 3);
	check("f1_delta[1]", "{\"f1\":[0.5,1],\"f1_delta\":[4,5]}", "{\"f1\":[0,1]}", 0, 5);
	/* a metric that is really called so comes first */
	check("f1_delta", "{\"f1\":1,\"f1_delta\":0.125}", "{\"f1\":0}", 0, 0.125);
}

static void test_no_value(void **state)
{
	(void)state;
	check("f1", NULL, NULL, ERROR_NOT_FOUND, 0);
	check("f1", "null", NULL, ERROR_NOT_FOUND, 0);
	check("f1", "[1]", NULL, ERROR_NOT_FOUND, 0);
	check("f1", "{\"F1\":1}", NULL, ERROR_NOT_FOUND, 0);
	check("f1", "{\"f1\":null}", NULL, ERROR_NOT_FOUND, 0);
	check("f1", "{\"f1\":\"0.9\"}", NULL, ERROR_INVALID, 0);
	check("f1", "{\"f1\":true}", NULL, ERROR_INVALID, 0);
	check("f1", "{\"f1\":[]}", NULL, ERROR_INVALID, 0);
	check("f1", "{\"f1\":[1,\"x\"]}", NULL, ERROR_INVALID, 0);
	check("f1", "{\"f1\":{\"a\":1}}", NULL, ERROR_INVALID, 0);
	check("f1_delta", "{\"f1\":1}", NULL, ERROR_NOT_FOUND, 0);
	check("f1_delta", "{\"f1\":1}", "{\"f2\":1}", ERROR_NOT_FOUND, 0);
	check("f1_delta", "{\"f1\":1}", "{\"f1\":[]}", ERROR_INVALID, 0);
	check("f1_delta", "{\"f1\":1.7e308}", "{\"f1\":-1.7e308}", ERROR_INVALID, 0);

	cJSON *infinite = cJSON_CreateObject();
	cJSON_AddNumberToObject(infinite, "f1", INFINITY);
	metric_expr e;
	double got;
	assert_int_equal(metric_parse("f1", &e, NULL), 0);
	assert_int_equal(metric_of(&e, infinite, &got, NULL), ERROR_INVALID);
	cJSON_Delete(infinite);
}

static void test_operators(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool equal, above, below;
	} table[] = {
		{"gt", false, true, false},
		{">", false, true, false},
		{"ge", true, true, false},
		{">=", true, true, false},
		{"eq", true, false, false},
		{"=", true, false, false},
		{"==", true, false, false},
		{"ne", false, true, true},
		{"!=", false, true, true},
		{"le", true, false, true},
		{"<=", true, false, true},
		{"lt", false, false, true},
		{"<", false, false, true},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		enum trigger_op op;
		assert_true(trigger_op_parse(table[i].text, &op));
		assert_int_equal(metric_holds(op, 0.30000000000000004, 0.3), table[i].equal);
		assert_int_equal(metric_holds(op, 0.3000009, 0.3), table[i].equal);
		assert_int_equal(metric_holds(op, 0.30001, 0.3), table[i].above);
		assert_int_equal(metric_holds(op, 0.29999, 0.3), table[i].below);
		assert_false(metric_holds(op, (double)NAN, 0.3));
		assert_false(metric_holds(op, (double)INFINITY, 0.3));
		assert_false(metric_holds(op, 0.3, (double)NAN));
	}
	enum trigger_op op;
	assert_false(trigger_op_parse("GT", &op));
	assert_false(trigger_op_parse("=>", &op));
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_no_value),
		cmocka_unit_test(test_operators),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
