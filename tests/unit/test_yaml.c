/* YAML: the tree with its lines and quotes, what is refused and where, the meaning of scalars. */
#include "tests/unit/unit.h"

#include "common/json.h"
#include "common/yaml.h"

enum { MAX = 4 * 1024 * 1024 };

static arena *mem;

static int setup(void **state)
{
	(void)state;
	mem = arena_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_free(mem);
	return 0;
}

/* From a block of exactly the text's size, so that a sanitizer sees a read beyond it. */
static int parse(const char *text, size_t len, yaml_node ***docs, size_t *n, error *err)
{
	char *exact = mem_alloc(len);
	memcpy(exact, text, len);
	int code = yaml_parse(mem, "f.yaml", exact, len, MAX, docs, n, err);
	free(exact);
	return code;
}

static const yaml_node *parsed(const char *text)
{
	yaml_node **docs;
	size_t n;
	error err = {0};
	if (parse(text, strlen(text), &docs, &n, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(n, 1);
	return docs[0];
}

static void tree_remembers_lines_and_quotes(void **state)
{
	(void)state;
	const yaml_node *root = parsed("# comment\nkind: Job\nspec:\n  list: [a, 'b', \"c\"]\n  block: |\n    two\n    lines\n  empty:\n");
	assert_int_equal(root->kind, YAML_MAP);
	assert_int_equal(root->count, 2);
	assert_string_equal(root->child->key, "kind");
	assert_string_equal(root->child->text, "Job");
	assert_int_equal(root->child->line, 2);
	assert_int_equal(root->child->column, 1);
	const yaml_node *spec = yaml_member(root, "spec");
	assert_int_equal(spec->line, 3);
	assert_int_equal(spec->count, 3);
	const yaml_node *list = yaml_member(spec, "list");
	assert_int_equal(list->kind, YAML_SEQ);
	assert_int_equal(list->line, 4);
	assert_int_equal(list->column, 3);
	assert_int_equal(list->count, 3);
	assert_null(list->child->key);
	assert_true(list->child->plain);
	assert_false(list->child->next->plain);
	assert_false(list->child->next->next->plain);
	assert_int_equal(list->child->next->column, 13);
	assert_string_equal(yaml_member(spec, "block")->text, "two\nlines\n");
	assert_true(yaml_is_null(yaml_member(spec, "empty")));
	assert_null(yaml_member(spec, "Block"));
	assert_null(yaml_member(list, "a"));
	assert_null(yaml_member(NULL, "a"));
}

static void several_documents(void **state)
{
	(void)state;
	yaml_node **docs;
	size_t n;
	const char *text = "---\n# nothing\n---\na: 1\n---\n~\n---\nb: 2\n...\n---\n- c\n";
	assert_int_equal(parse(text, strlen(text), &docs, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_string_equal(docs[0]->child->key, "a");
	assert_int_equal(docs[1]->line, 8);
	assert_int_equal(docs[2]->kind, YAML_SEQ);
	const char *const empty[] = {"", "\n\n", "# only\n", "---\n---\n", "null\n"};
	for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
		assert_int_equal(parse(empty[i], strlen(empty[i]), &docs, &n, NULL), 0);
		assert_int_equal(n, 0);
	}
}

static const struct {
	const char *text;
	int code;
	const char *says;
} refused[] = {
	{"a: *x\n", ERROR_INVALID, "f.yaml:1:4: an alias (*) of an anchor (&) that is not there"},
	{"*x : 1\n", ERROR_INVALID, "f.yaml:1:1: an alias"},
	{"*x\n", ERROR_INVALID, "f.yaml:1:1: an alias"},
	{"a: *x\nb: &x 1\n", ERROR_INVALID, "f.yaml:1:4: an alias"},
	{"a: &x 1\n---\nb: *x\n", ERROR_INVALID, "f.yaml:3:4: an alias"},
	{"a: &x [1, *x]\n", ERROR_INVALID, "f.yaml:1:11: an alias (*) of what it is itself a part of"},
	{"a: &x 1\nb: &x {c: *x}\n", ERROR_INVALID, "f.yaml:2:11: an alias (*) of what it is itself"},
	{"a: &x [1]\n*x : 2\n", ERROR_UNSUPPORTED, "f.yaml:2:1: a key"},
	{"b:\n  <<: 1\n", ERROR_INVALID, "f.yaml:2:3: a merge key (<<) takes a map"},
	{"b:\n  <<:\n", ERROR_INVALID, "f.yaml:2:3: a merge key"},
	{"b:\n  <<: [{a: 1}, 2]\n", ERROR_INVALID, "f.yaml:2:3: a merge key"},
	{"a: 1\n<<: {a: 2}\na: 3\n", ERROR_INVALID, "f.yaml:3:1: the key \"a\" is there twice"},
	{"a: !thing 1\n", ERROR_UNSUPPORTED, "f.yaml:1:4: tags"},
	{"a: !!binary aGk=\n", ERROR_UNSUPPORTED, "f.yaml:1:4: tags"},
	{"a: !!python/object:os.system [x]\n", ERROR_UNSUPPORTED, "f.yaml:1:4: tags"},
	{"a: !!set {b}\n", ERROR_UNSUPPORTED, "f.yaml:1:4: tags"},
	{"a: 1\nb: 2\na: 3\n", ERROR_INVALID, "f.yaml:3:1: the key \"a\" is there twice"},
	{"a: 1\n\"a\": 3\n", ERROR_INVALID, "f.yaml:2:1: the key \"a\" is there twice"},
	{"x:\n  - {k: 1, k: 2}\n", ERROR_INVALID, "f.yaml:2:12: the key \"k\" is there twice"},
	{"? [a]\n: 1\n", ERROR_UNSUPPORTED, "f.yaml:1:3: a key"},
	{"{{a: 1}: 2}\n", ERROR_UNSUPPORTED, "f.yaml:1:2: a key"},
	{"a: \"x\\0y\"\n", ERROR_INVALID, "f.yaml:1:4: a NUL"},
	{"\"a\\0b\": 1\n", ERROR_INVALID, "f.yaml:1:1: a NUL"},
	{"a: [1, 2\n", ERROR_INVALID, "f.yaml:2:1: "},
	{"a: 1\n b: 2\n", ERROR_INVALID, "f.yaml:2:"},
	{"a: b: c\n", ERROR_INVALID, "f.yaml:1:5: "},
	{"\ta: 1\n", ERROR_INVALID, "f.yaml:1:1: "},
	{"a: 'x\n", ERROR_INVALID, "f.yaml:"},
	{"a: @x\n", ERROR_INVALID, "f.yaml:1:4: "},
	{"a: 1\nb: \xff\n", ERROR_INVALID, "f.yaml:2: "},
	{"a: \x01\n", ERROR_INVALID, "f.yaml:1: "},
	{"%FOO bar\n---\na: 1\n", ERROR_INVALID, "f.yaml:1:"},
	{"%YAML 3.0\n---\na: 1\n", ERROR_INVALID, "f.yaml:1:"},
	{"}\n", ERROR_INVALID, "f.yaml:1:1: "},
};

static void refuses_and_says_where(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		error err = {0};
		yaml_node **docs;
		size_t n = 99;
		int code = parse(refused[i].text, strlen(refused[i].text), &docs, &n, &err);
		if (code != refused[i].code || strncmp(err.text, refused[i].says, strlen(refused[i].says)) != 0)
			fail_msg("%s: %d \"%s\", expected \"%s\"", refused[i].text, code, err.text, refused[i].says);
		assert_int_equal(n, 0);
		assert_null(docs);
		assert_int_equal(parse(refused[i].text, strlen(refused[i].text), &docs, &n, NULL), refused[i].code);
	}
}

static void a_failing_later_document_refuses_all(void **state)
{
	(void)state;
	yaml_node **docs;
	size_t n;
	const char *text = "a: 1\n---\nb: *x\n";
	assert_int_equal(parse(text, strlen(text), &docs, &n, NULL), ERROR_INVALID);
	assert_int_equal(n, 0);
}

static const struct {
	const char *text, *json;
} expanded[] = {
	{"a: &x 1\nb: *x\n", "{\"a\":1,\"b\":1}"},
	{"a: &x '1'\nb: *x\n", "{\"a\":\"1\",\"b\":\"1\"}"},
	{"a: &x\nb: *x\n", "{\"a\":null,\"b\":null}"},
	{"a: &x {c: [1]}\nb: [*x, *x]\nd: *x\n", "{\"a\":{\"c\":[1]},\"b\":[{\"c\":[1]},{\"c\":[1]}],\"d\":{\"c\":[1]}}"},
	{"a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}"},
	{"a: &x [&x 1, *x]\nb: *x\n", "{\"a\":[1,1],\"b\":1}"},
	{"&k a: &v [*k]\n? *k\n", NULL},
	{"&k a: b\nc: {*k : *k}\n", "{\"a\":\"b\",\"c\":{\"a\":\"a\"}}"},
	/* Merged: in the order of the text the later entry counts, in a list of maps the earlier map. */
	{"x: &x {a: 1, b: 2}\ny: {<<: *x, a: 3}\n", "{\"x\":{\"a\":1,\"b\":2},\"y\":{\"b\":2,\"a\":3}}"},
	{"x: &x {a: 1, b: 2}\ny: {a: 3, <<: *x}\n", "{\"x\":{\"a\":1,\"b\":2},\"y\":{\"a\":1,\"b\":2}}"},
	{"- &x {a: 1}\n- &y {a: 2, b: 2}\n- <<: [*x, *y]\n", "[{\"a\":1},{\"a\":2,\"b\":2},{\"b\":2,\"a\":1}]"},
	{"- &x {a: 1}\n- &y {a: 2, b: 2}\n- <<: *x\n  <<: *y\n", "[{\"a\":1},{\"a\":2,\"b\":2},{\"a\":2,\"b\":2}]"},
	{"<<: {a: {<<: {b: 1}, c: 2}}\n", "{\"a\":{\"b\":1,\"c\":2}}"},
	{"<<: []\na: 1\n", "{\"a\":1}"},
	{"!!merge <<: {a: 1}\n", "{\"a\":1}"},
	{"'<<': {a: 1}\n", "{\"<<\":{\"a\":1}}"},
};

static void aliases_and_merge_keys_are_expanded(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof expanded / sizeof expanded[0]; i++) {
		yaml_node **docs;
		size_t n;
		error err = {0};
		int code = parse(expanded[i].text, strlen(expanded[i].text), &docs, &n, &err);
		if ((code == 0) != (expanded[i].json != NULL))
			fail_msg("%s: %d %s", expanded[i].text, code, err.text);
		if (code != 0)
			continue;
		cJSON *json = yaml_to_json(docs[0]);
		char *text = json_print(json);
		assert_string_equal(text, expanded[i].json);
		free(text);
		cJSON_Delete(json);
	}
	/* An alias is where it stands, what is inside it where it is written. */
	const yaml_node *root = parsed("a: &x\n  b: 1\nc:\n  - *x\nd:\n  <<: *x\n");
	const yaml_node *alias = yaml_member(root, "c")->child;
	assert_int_equal(alias->line, 4);
	assert_int_equal(alias->child->line, 2);
	assert_int_equal(yaml_member(yaml_member(root, "d"), "b")->line, 2);
	assert_int_equal(yaml_member(root, "d")->count, 1);
}

static int parse_code(buf *text, error *err)
{
	yaml_node **docs;
	size_t n;
	int code = parse(buf_text(text), text->len, &docs, &n, err);
	buf_fini(text);
	return code;
}

/* A file of a few hundred bytes that means thousands of millions of values; the same with long texts, and with merge keys. */
static void what_aliases_repeat_is_bounded(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		buf text = {0};
		error err = {0};
		buf_puts(&text, kind == 0 ? "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" : "a0: &a0 {x: 1}\n");
		for (int i = 1; i < 10; i++) {
			const char *form = kind == 0 ? "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n" :
										   "a%d: &a%d {<<: [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]}\n";
			int from = kind == 0 ? i - 1 : 0;
			buf_printf(&text, form, i, i, from, from, from, from, from, from, from, from, from, from);
		}
		assert_int_equal(parse_code(&text, &err), kind == 0 ? ERROR_LIMIT : 0);
		assert_true(kind == 1 || strstr(err.text, "repeat too much") != NULL);
	}
	buf text = {0}, deep = {0}, many = {0};
	error err = {0};
	buf_puts(&text, "a: &a ");
	for (int i = 0; i < 20000; i++)
		buf_puts(&text, "0123456789");
	buf_puts(&text, "\nb: [*a, *a, *a, *a, *a, *a]\n");
	assert_int_equal(parse_code(&text, &err), ERROR_LIMIT);
	/* Depth adds up. */
	buf_puts(&deep, "- &a [[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]\n- [[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]\n");
	assert_int_equal(parse_code(&deep, &err), 0);
	buf_puts(&deep, "- &a [[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]\n- &b [[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]\n- [*b]\n");
	assert_int_equal(parse_code(&deep, &err), ERROR_LIMIT);
	assert_non_null(strstr(err.text, "f.yaml:3:4: nested too deep"));
	for (int i = 0; i <= YAML_MAX_ANCHORS; i++)
		buf_printf(&many, "- &a%d x\n", i);
	assert_int_equal(parse_code(&many, &err), ERROR_LIMIT);
}

static void standard_tags_are_fine(void **state)
{
	(void)state;
	const yaml_node *root = parsed("a: !!str 5\nb: !!int 5\nc: ! 5\nd: !!map {}\ne: !!seq []\n");
	int64_t i;
	assert_int_equal(yaml_get_int(yaml_member(root, "a"), &i), ERROR_INVALID);
	assert_int_equal(yaml_get_int(yaml_member(root, "b"), &i), 0);
	assert_int_equal(yaml_get_int(yaml_member(root, "c"), &i), ERROR_INVALID);
	assert_false(yaml_member(root, "a")->plain);
}

static char *repeated(const char *open, size_t n, const char *middle, const char *close)
{
	buf text = {0};
	for (size_t i = 0; i < n; i++)
		buf_puts(&text, open);
	buf_puts(&text, middle);
	for (size_t i = 0; i < n; i++)
		buf_puts(&text, close);
	return buf_detach(&text);
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	static const char *const shapes[][2] = {{"[", "]"}, {"{a: ", "}"}, {"- ", ""}};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		yaml_node **docs;
		size_t n;
		error err = {0};
		char *text = repeated(shapes[i][0], YAML_MAX_DEPTH, "x", shapes[i][1]);
		assert_int_equal(parse(text, strlen(text), &docs, &n, &err), 0);
		cJSON *json = yaml_to_json(docs[0]);
		char *printed = json_print(json);
		assert_non_null(printed);
		free(printed);
		cJSON_Delete(json);
		free(text);
		const size_t deep[] = {YAML_MAX_DEPTH + 1, 900, 20000};
		for (size_t k = 0; k < 3; k++) {
			text = repeated(shapes[i][0], deep[k], "x", shapes[i][1]);
			int code = parse(text, strlen(text), &docs, &n, &err);
			assert_true(code == ERROR_LIMIT || code == ERROR_INVALID);
			free(text);
		}
	}
}

static void large_scalars_are_taken(void **state)
{
	(void)state;
	size_t len = 1024 * 1024;
	char *big = mem_alloc(len + 1);
	memset(big, 'x', len);
	const char *const around[][2] = {{"a: ", "\n"}, {"a: \"", "\"\n"}, {"a: |\n  ", "\n"}};
	for (size_t i = 0; i < 3; i++) {
		char *text = mem_printf("%s%s%s", around[i][0], big, around[i][1]);
		const yaml_node *root = parsed(text);
		assert_in_range(strlen(root->child->text), len, len + 1);
		free(text);
	}
	free(big);
}

static void size_is_bounded(void **state)
{
	(void)state;
	yaml_node **docs;
	size_t n;
	error err = {0};
	assert_int_equal(yaml_parse(mem, "f.yaml", "a: 1\n", 5, 4, &docs, &n, &err), ERROR_LIMIT);
	assert_non_null(strstr(err.text, "f.yaml"));
	assert_int_equal(yaml_parse(mem, "f.yaml", "a: 1\n", 5, 5, &docs, &n, &err), 0);
}

static void many_keys_take_little_time(void **state)
{
	(void)state;
	buf text = {0};
	for (int i = 0; i < 40000; i++)
		buf_printf(&text, "k%d: 1\n", i);
	assert_int_equal(parsed(buf_text(&text))->count, 40000);
	buf_fini(&text);
}

static const yaml_node *scalar(const char *text)
{
	char *doc = mem_printf("v: %s\n", text);
	const yaml_node *node = parsed(doc)->child;
	free(doc);
	return node;
}

static void integers_of_fields(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {{"0", 0}, {"7", 7}, {"-7", -7}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
	const char *const bad[] = {
		"", "+5", "007", "1.0", "1e3", "0x10", "1_000", "9223372036854775808", "12:30", "5s", "'5'", "\"5\"", "[5]", "null", "٣"};
	int64_t i = 99;
	for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
		assert_int_equal(yaml_get_int(scalar(good[k].text), &i), 0);
		assert_int_equal(i, good[k].value);
	}
	i = 99;
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
		assert_int_equal(yaml_get_int(scalar(bad[k]), &i), ERROR_INVALID);
	assert_int_equal(yaml_get_int(NULL, &i), ERROR_INVALID);
	assert_int_equal(i, 99);
}

static void doubles_of_fields(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		double value;
	} good[] = {{"0", 0}, {"0.8", 0.8}, {"-.5", -0.5}, {"1.", 1}, {"1e-3", 0.001}, {"+2.5E+2", 250}};
	const char *const bad[] = {
		"", ".", "e5", "1e", "1e400", ".inf", "-.INF", ".nan", "nan", "inf", "0x1p3", "1,5", "'0.8'", "1.0.0", "[1]"};
	double d = 99;
	for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
		assert_int_equal(yaml_get_double(scalar(good[k].text), &d), 0);
		assert_true(d == good[k].value);
	}
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
		if (yaml_get_double(scalar(bad[k]), &d) != ERROR_INVALID)
			fail_msg("%s was taken", bad[k]);
	}
}

static void bools_of_fields(void **state)
{
	(void)state;
	const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "ON"};
	const char *const no[] = {"false", "False", "FALSE", "no", "No", "off", "OFF"};
	const char *const bad[] = {"", "1", "0", "y", "n", "tRUE", "'true'", "[true]", "null"};
	bool b;
	for (size_t i = 0; i < 7; i++) {
		b = false;
		assert_int_equal(yaml_get_bool(scalar(yes[i]), &b), 0);
		assert_true(b);
		assert_int_equal(yaml_get_bool(scalar(no[i]), &b), 0);
		assert_false(b);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(yaml_get_bool(scalar(bad[i]), &b), ERROR_INVALID);
}

static void as_json(void **state)
{
	(void)state;
	static const char *const table[][2] = {
		{"", "null"},
		{"~", "null"},
		{"NULL", "null"},
		{"'null'", "\"null\""},
		{"true", "true"},
		{"'true'", "\"true\""},
		{"False", "false"},
		{"yes", "\"yes\""},
		{"off", "\"off\""},
		{"5", "5"},
		{"'5'", "\"5\""},
		{"-5", "-5"},
		{"+5", "5"},
		{"0644", "420"},
		{"0o644", "420"},
		{"0x1F", "31"},
		{"0b101", "5"},
		{"1_000", "1000"},
		{"08", "8"},
		{"0.50", "0.5"},
		{"1e3", "1000"},
		{".inf", "\".inf\""},
		{".nan", "\".nan\""},
		{"1e400", "\"1e400\""},
		{"02:00", "\"02:00\""},
		{"24:00", "\"24:00\""},
		{"2026-11-30", "\"2026-11-30\""},
		{"0x", "\"0x\""},
		{"1-2", "\"1-2\""},
		{"9007199254740991", "9007199254740991"},
		{"9223372036854775807", "9223372036854775807"},
		{"99999999999999999999", "1e+20"},
		{"-0", "0"},
		{"1.2.3", "\"1.2.3\""},
		{"[a, 1, {b: }]", "[\"a\",1,{\"b\":null}]"},
		{"{}", "{}"},
		{"[]", "[]"},
		{"\"\\u00e9\\n\"", "\"\xC3\xA9\\n\""},
		{"0b", "\"0b\""},
		{"--5", "\"--5\""},
		{"0x-5", "\"0x-5\""},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		cJSON *json = yaml_to_json(scalar(table[i][0]));
		char *text = json_print(json);
		if (strcmp(text, table[i][1]) != 0)
			fail_msg("%s became %s, expected %s", table[i][0], text, table[i][1]);
		free(text);
		cJSON_Delete(json);
	}
	cJSON *null = yaml_to_json(NULL);
	assert_true(cJSON_IsNull(null));
	cJSON_Delete(null);
}

#define WITH_MEM(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MEM(tree_remembers_lines_and_quotes),
		WITH_MEM(several_documents),
		WITH_MEM(refuses_and_says_where),
		WITH_MEM(a_failing_later_document_refuses_all),
		WITH_MEM(aliases_and_merge_keys_are_expanded),
		WITH_MEM(what_aliases_repeat_is_bounded),
		WITH_MEM(standard_tags_are_fine),
		WITH_MEM(nesting_is_bounded),
		WITH_MEM(large_scalars_are_taken),
		WITH_MEM(size_is_bounded),
		WITH_MEM(many_keys_take_little_time),
		WITH_MEM(integers_of_fields),
		WITH_MEM(doubles_of_fields),
		WITH_MEM(bools_of_fields),
		WITH_MEM(as_json),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
