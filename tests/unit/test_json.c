/* JSON: what is taken and what is refused, typed lookups, exact integers, equality. */
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>

#include "common/json.h"

enum { MAX = 1024 * 1024 };

static int parse(const char *text, size_t len, cJSON **out, error *err)
{
	/* In a block of exactly this size, so that a sanitizer sees a read beyond it. */
	char *exact = mem_alloc(len);
	memcpy(exact, text, len);
	int code = json_parse(exact, len, MAX, out, err);
	free(exact);
	return code;
}

static cJSON *parsed(const char *text)
{
	cJSON *value;
	error err = {0};
	if (parse(text, strlen(text), &value, &err) != 0)
		fail_msg("%s: %s", text, err.text);
	return value;
}

static void takes_what_is_json(void **state)
{
	(void)state;
	const char *const texts[] = {"null", "true", "false", "0", "-0", "-1.5e-3", "1E+2", "\"\"", "\"\\u00e9\\ud83d\\ude00\\n\\\"\\/\"", "[]",
		"{}", " [1 , 2 ] ", "{\"a\":{\"a\":1},\"b\":[{},{}]}", "{\"a\":1,\"A\":2}", "\"\xC3\xA9\xF0\x9F\x98\x80\x7f\"", "{\"\":0}",
		"\t\r\n1\t\r\n"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		cJSON *value = parsed(texts[i]);
		assert_non_null(value);
		cJSON_Delete(value);
	}
}

static const struct {
	const char *text;
	size_t len; /* 0: its length */
	const char *says;
} refused[] = {
	{"", 0, "byte 0: "},
	{" ", 0, "byte 1: "},
	{"{", 0, "byte 1: the text ends"},
	{"[1,]", 0, "byte 3: "},
	{"[1 2]", 0, "byte 3: "},
	{"{\"a\":1,}", 0, "byte 7: "},
	{"{a:1}", 0, "byte 1: "},
	{"{\"a\" 1}", 0, "byte 5: "},
	{"{\"a\":1 \"b\":2}", 0, "byte 7: "},
	{"1 1", 0, "byte 2: more follows"},
	{"nul", 0, "byte 0: "},
	{"True", 0, "byte 0: "},
	{"NaN", 0, "byte 0: "},
	{"-Infinity", 0, "byte 1: "},
	{"+1", 0, "byte 0: "},
	{"01", 0, "byte 1: "},
	{"-", 0, "byte 1: "},
	{"1.", 0, "byte 2: "},
	{".5", 0, "byte 0: "},
	{"1e", 0, "byte 2: "},
	{"1e+", 0, "byte 3: "},
	{"0x10", 0, "byte 1: "},
	{"1e400", 0, "byte 0: a number that is too large"},
	{"[-1e999]", 0, "byte 1: a number that is too large"},
	{"1111111111111111111111111111111111111111111111111111111111111111", 0, "byte 0: a number of more than 63"},
	{"\"abc", 0, "byte 4: "},
	{"'a'", 0, "byte 0: "},
	{"\"\\x\"", 0, "byte 2: "},
	{"\"\\", 0, "byte 2: "},
	{"\"\\u12\"", 0, "byte 5: "},
	{"\"\\ud800\"", 0, "byte 1: half of a surrogate"},
	{"\"\\ud800\\u0041\"", 0, "byte 1: half of a surrogate"},
	{"\"\\udc00\"", 0, "byte 1: half of a surrogate"},
	{"\"\\u0000\"", 0, "byte 1: a NUL"},
	{"\"a\nb\"", 0, "byte 2: a control"},
	{"\"a\0b\"", 5, "byte 2: a control"},
	{"1\0", 2, "byte 1: more follows"},
	{"\0", 1, "byte 0: "},
	{"\"\xff\"", 0, "byte 1: not UTF-8"},
	{"\"\xc3\"", 0, "byte 1: not UTF-8"},
	{"\"\xc0\x80\"", 0, "byte 1: not UTF-8"},
	{"\"\xe0\x80\x80\"", 0, "byte 1: not UTF-8"},
	{"\"\xed\xa0\x80\"", 0, "byte 1: not UTF-8"},
	{"\"\xf4\x90\x80\x80\"", 0, "byte 1: not UTF-8"},
	{"\xef\xbb\xbf{}", 0, "byte 0: "},
	{"{\"a\":1,\"b\":2,\"a\":3}", 0, "byte 13: the name \"a\" is there twice"},
	{"{\"a\":1,\"\\u0061\":3}", 0, "byte 7: the name \"a\" is there twice"},
	{"[{\"x\":{\"k\":1,\"k\":1}}]", 0, "byte 13: the name \"k\" is there twice"},
	{"// c\n1", 0, "byte 0: "},
};

static void refuses_the_rest_and_says_where(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		error err = {0};
		cJSON *value = (cJSON *)&err;
		size_t len = refused[i].len > 0 ? refused[i].len : strlen(refused[i].text);
		int code = parse(refused[i].text, len, &value, &err);
		if (code != ERROR_INVALID || strncmp(err.text, refused[i].says, strlen(refused[i].says)) != 0)
			fail_msg("%s: %d \"%s\", expected \"%s\"", refused[i].text, code, err.text, refused[i].says);
		assert_null(value);
		assert_int_equal(json_parse(refused[i].text, len, MAX, &value, NULL), ERROR_INVALID);
	}
}

/* Objects of few and of many members look for repeated names in different ways. */
static void a_name_is_found_twice_among_many(void **state)
{
	(void)state;
	for (int n = 2; n <= 60; n++) {
		buf text = {0};
		cJSON *value;
		error err = {0};
		for (int i = 0; i < n; i++)
			buf_printf(&text, "%c\"name%d\":1", i == 0 ? '{' : ',', i);
		size_t len = text.len;
		buf_puts(&text, "}");
		assert_int_equal(json_parse(text.data, text.len, MAX, &value, &err), 0);
		cJSON_Delete(value);
		text.len = len;
		buf_printf(&text, ",\"name%d\":2}", n / 2);
		assert_int_equal(json_parse(text.data, text.len, MAX, &value, &err), ERROR_INVALID);
		assert_non_null(strstr(err.text, "is there twice"));
		buf_fini(&text);
	}
}

static char *nested(size_t depth, const char *open, const char *close)
{
	buf text = {0};
	for (size_t i = 0; i < depth; i++)
		buf_puts(&text, open);
	buf_puts(&text, "1");
	for (size_t i = 0; i < depth; i++)
		buf_puts(&text, close);
	return buf_detach(&text);
}

/* A message that was cut, say: whoever reads it would refuse all that stands beside it. */
static void what_is_no_character_is_not_printed(void **state)
{
	(void)state;
	const char *const texts[][2] = {
		{"caf\xc3\xa9 \xf0\x9f\x8d\x80", "\"caf\xc3\xa9 \xf0\x9f\x8d\x80\""},
		{"caf\xc3", "\"caf?\""},
		{"\xff\n\xe2\x82.",
			"\"?\\n?"
			"?.\""},
		{"\xed\xa0\x80",
			"\"?"
			"?"
			"?\""},
	};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		cJSON *value = cJSON_CreateString(texts[i][0]);
		char *printed = json_print(value);
		assert_string_equal(printed, texts[i][1]);
		cJSON_Delete(value);
		cJSON_Delete(parsed(printed));
		free(printed);
	}
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	const char *const around[][2] = {{"[", "]"}, {"{\"a\":", "}"}};
	for (size_t i = 0; i < 2; i++) {
		char *text = nested(JSON_MAX_DEPTH, around[i][0], around[i][1]);
		cJSON *value = parsed(text);
		char *printed = json_print(value);
		assert_string_equal(printed, text);
		free(printed);
		free(text);
		/* One more around it can be built, not printed and not read. */
		cJSON *outer = cJSON_CreateArray();
		cJSON_AddItemToArray(outer, value);
		assert_null(json_print(outer));
		cJSON_Delete(outer);
		error err = {0};
		text = nested(JSON_MAX_DEPTH + 1, around[i][0], around[i][1]);
		assert_int_equal(parse(text, strlen(text), &value, &err), ERROR_LIMIT);
		free(text);
		text = nested(100000, around[i][0], around[i][1]);
		assert_int_equal(parse(text, strlen(text), &value, &err), ERROR_LIMIT);
		free(text);
	}
	assert_null(json_print(NULL));
}

static void size_is_bounded(void **state)
{
	(void)state;
	cJSON *value;
	error err = {0};
	assert_int_equal(json_parse("[1,2]", 5, 4, &value, &err), ERROR_LIMIT);
	assert_null(value);
	assert_int_equal(json_parse("[1,2]", 5, 5, &value, &err), 0);
	cJSON_Delete(value);
}

static void many_names_take_little_time(void **state)
{
	(void)state;
	buf text = {0};
	buf_puts(&text, "{");
	for (int i = 0; i < 60000; i++)
		buf_printf(&text, "%s\"k%d\":1", i > 0 ? "," : "", i);
	buf_puts(&text, "}");
	cJSON *a = parsed(buf_text(&text)), *b = parsed(buf_text(&text));
	/* Quadratic work would be billions of comparisons here, and run into the test's time limit under a sanitizer. */
	assert_true(json_equal(a, b));
	cJSON_Delete(a);
	cJSON_Delete(b);
	buf_fini(&text);
}

static void lookups_are_case_sensitive(void **state)
{
	(void)state;
	cJSON *obj = parsed("{\"Name\":1,\"list\":[1]}");
	assert_null(json_member(obj, "name"));
	assert_non_null(json_member(obj, "Name"));
	assert_null(json_member(json_member(obj, "list"), "Name"));
	assert_null(json_member(NULL, "Name"));
	cJSON_Delete(obj);
}

static void absent_is_not_zero(void **state)
{
	(void)state;
	cJSON *obj = parsed("{\"n\":null}");
	const char *const names[] = {"n", "missing"};
	for (size_t i = 0; i < 2; i++) {
		const char *s = "kept";
		int64_t n = 7;
		double d = 7;
		bool b = true;
		const cJSON *c = obj;
		assert_int_equal(json_get_string(obj, "", names[i], &s, NULL), 0);
		assert_int_equal(json_get_int(obj, "", names[i], 0, 9, &n, NULL), 0);
		assert_int_equal(json_get_double(obj, "", names[i], &d, NULL), 0);
		assert_int_equal(json_get_bool(obj, "", names[i], &b, NULL), 0);
		assert_int_equal(json_get_object(obj, "", names[i], &c, NULL), 0);
		assert_int_equal(json_get_array(obj, "", names[i], &c, NULL), 0);
		assert_string_equal(s, "kept");
		assert_int_equal(n, 7);
		assert_true(d == 7.0 && b && c == obj);
	}
	cJSON_Delete(obj);
}

static void right_types_are_given(void **state)
{
	(void)state;
	cJSON *obj = parsed("{\"s\":\"x\",\"i\":-3,\"d\":0.5,\"b\":true,\"o\":{},\"a\":[]}");
	const char *s;
	int64_t n;
	double d;
	bool b;
	const cJSON *c;
	assert_int_equal(json_get_string(obj, "", "s", &s, NULL), 1);
	assert_string_equal(s, "x");
	assert_int_equal(json_get_int(obj, "", "i", -3, 0, &n, NULL), 1);
	assert_int_equal(n, -3);
	assert_int_equal(json_get_double(obj, "", "d", &d, NULL), 1);
	assert_true(d == 0.5);
	assert_int_equal(json_get_bool(obj, "", "b", &b, NULL), 1);
	assert_true(b);
	assert_int_equal(json_get_object(obj, "", "o", &c, NULL), 1);
	assert_int_equal(json_get_array(obj, "", "a", &c, NULL), 1);
	cJSON_Delete(obj);
}

static void wrong_types_name_the_path(void **state)
{
	(void)state;
	cJSON *obj = parsed("{\"s\":1,\"i\":\"1\",\"d\":\"0.5\",\"b\":0,\"o\":[],\"a\":{}}");
	const char *s;
	int64_t n;
	double d;
	bool b;
	const cJSON *c;
	error err = {0};
	assert_int_equal(json_get_string(obj, "top", "s", &s, &err), ERROR_INVALID);
	assert_string_equal(err.text, "top.s: must be a string");
	assert_int_equal(json_get_int(obj, NULL, "i", 0, 5, &n, &err), ERROR_INVALID);
	assert_string_equal(err.text, "i: must be a whole number from 0 to 5");
	assert_int_equal(json_get_double(obj, "", "d", &d, &err), ERROR_INVALID);
	assert_int_equal(json_get_bool(obj, "", "b", &b, &err), ERROR_INVALID);
	assert_int_equal(json_get_object(obj, "", "o", &c, &err), ERROR_INVALID);
	assert_int_equal(json_get_array(obj, "a.b", "a", &c, &err), ERROR_INVALID);
	assert_string_equal(err.text, "a.b.a: must be an array");
	cJSON_Delete(obj);
}

static void integers_are_exact_or_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t min, max;
		int code;
		int64_t value;
	} table[] = {
		{"{\"n\":9007199254740991}", 0, INT64_MAX, 1, JSON_MAX_INT},
		{"{\"n\":-9007199254740991}", INT64_MIN, 0, 1, -JSON_MAX_INT},
		{"{\"n\":9007199254740992}", 0, INT64_MAX, ERROR_INVALID, 0},
		{"{\"n\":9223372036854775807}", 0, INT64_MAX, ERROR_INVALID, 0},
		{"{\"n\":1e300}", 0, INT64_MAX, ERROR_INVALID, 0},
		{"{\"n\":-0}", 0, 0, 1, 0},
		{"{\"n\":1e2}", 0, 100, 1, 100},
		{"{\"n\":1.5}", 0, 100, ERROR_INVALID, 0},
		{"{\"n\":101}", 0, 100, ERROR_INVALID, 0},
		{"{\"n\":-1}", 0, 100, ERROR_INVALID, 0},
		{"{\"n\":1e-300}", 0, 100, ERROR_INVALID, 0},
		{"{\"n\":true}", 0, 100, ERROR_INVALID, 0},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		cJSON *obj = parsed(table[i].text);
		int64_t n = 0;
		assert_int_equal(json_get_int(obj, "", "n", table[i].min, table[i].max, &n, NULL), table[i].code);
		assert_int_equal(n, table[i].value);
		cJSON_Delete(obj);
	}
	/* Not from text, but built. */
	const double built[] = {INFINITY, -INFINITY, NAN};
	for (size_t i = 0; i < 3; i++) {
		cJSON *obj = cJSON_CreateObject();
		int64_t n;
		double d;
		json_put_double(obj, "n", built[i]);
		assert_int_equal(json_get_int(obj, "", "n", INT64_MIN, INT64_MAX, &n, NULL), ERROR_INVALID);
		assert_int_equal(json_get_double(obj, "", "n", &d, NULL), ERROR_INVALID);
		cJSON_Delete(obj);
	}
}

static void what_is_put_is_read_back(void **state)
{
	(void)state;
	cJSON *obj = cJSON_CreateObject();
	json_put_string(obj, "s", "a\"\n\x01\xC3\xA9");
	json_put_string(obj, "none", NULL);
	json_put(obj, "nothing", NULL);
	json_put_int(obj, "i", JSON_MAX_INT);
	json_put_int(obj, "j", -1796008260123);
	json_put_double(obj, "d", 0.1);
	json_put_double(obj, "tiny", DBL_MIN);
	json_put_bool(obj, "b", false);
	json_put(obj, "o", cJSON_CreateObject());
	char *text = json_print(obj);
	assert_null(strchr(text, ' '));
	assert_null(strchr(text, '\n'));
	cJSON *back = parsed(text);
	assert_true(json_equal(obj, back));
	assert_int_equal(cJSON_GetArraySize(back), 7);
	int64_t n;
	assert_int_equal(json_get_int(back, "", "i", 0, INT64_MAX, &n, NULL), 1);
	assert_int_equal(n, JSON_MAX_INT);
	free(text);
	cJSON_Delete(obj);
	cJSON_Delete(back);
}

static void bad_text_is_repaired_when_put(void **state)
{
	(void)state;
	cJSON *obj = cJSON_CreateObject();
	json_put_string(obj, "s", "a\xff\xC3\xA9\xe2\x82");
	char *text = json_print(obj);
	assert_string_equal(text, "{\"s\":\"a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\"}");
	cJSON_Delete(parsed(text));
	free(text);
	cJSON_Delete(obj);
}

static void equality(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b;
		bool same;
	} table[] = {
		{"{\"a\":1,\"b\":[1,{\"c\":null}]}", "{\"b\":[1,{\"c\":null}],\"a\":1.0}", true},
		{"{\"a\":1}", "{\"a\":1,\"b\":null}", false},
		{"{\"a\":1}", "{\"A\":1}", false},
		{"[1,2]", "[2,1]", false},
		{"[1,2]", "[1,2,3]", false},
		{"[]", "{}", false},
		{"0", "-0", true},
		{"1", "1.0000000000000002", false},
		{"\"a\"", "\"b\"", false},
		{"true", "false", false},
		{"null", "false", false},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		cJSON *a = parsed(table[i].a), *b = parsed(table[i].b);
		assert_int_equal(json_equal(a, b), table[i].same);
		assert_int_equal(json_equal(b, a), table[i].same);
		assert_true(json_equal(a, a));
		assert_false(json_equal(a, NULL));
		cJSON_Delete(a);
		cJSON_Delete(b);
	}
	assert_true(json_equal(NULL, NULL));
}

static void utf8_validity(void **state)
{
	(void)state;
	assert_true(json_utf8_valid("", 0));
	assert_true(json_utf8_valid("a\xF0\x9F\x98\x80\xC3\xA9", 7));
	assert_false(json_utf8_valid("a\0b", 3));
	assert_false(json_utf8_valid("a\x80", 2));
	assert_false(json_utf8_valid("\xF0\x9F\x98", 3));
	assert_false(json_utf8_valid("\xF5\x80\x80\x80", 4));
	assert_false(json_utf8_valid("\xF0\x8F\x80\x80", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_is_json),
		cmocka_unit_test(refuses_the_rest_and_says_where),
		cmocka_unit_test(a_name_is_found_twice_among_many),
		cmocka_unit_test(what_is_no_character_is_not_printed),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(size_is_bounded),
		cmocka_unit_test(many_names_take_little_time),
		cmocka_unit_test(lookups_are_case_sensitive),
		cmocka_unit_test(absent_is_not_zero),
		cmocka_unit_test(right_types_are_given),
		cmocka_unit_test(wrong_types_name_the_path),
		cmocka_unit_test(integers_are_exact_or_refused),
		cmocka_unit_test(what_is_put_is_read_back),
		cmocka_unit_test(bad_text_is_repaired_when_put),
		cmocka_unit_test(equality),
		cmocka_unit_test(utf8_validity),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
