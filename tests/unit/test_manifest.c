/* manifest.json: what is written is read back, and what is malformed or contradicts itself is refused with its place. */
#include "tests/unit/unit.h"

#include "edge-agent/dataset/manifest.h"

static manifest example(void)
{
	manifest m = {.uid = "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11",
		.round = 12,
		.format = FORMAT_CSV,
		.from = 300,
		.to = 400,
		.before = {.sample = 300, .size = 8192},
		.after = {.sample = 400, .size = 12000},
		.train_prob = 0.8,
		.train = 80,
		.eval = 20,
		.n_files = 2};
	memset(m.before.digest.b, 0x11, DIGEST_SIZE);
	memset(m.after.digest.b, 0x22, DIGEST_SIZE);
	m.files[0] = (manifest_file){.name = "data.csv", .samples = 80, .bytes = 3000};
	m.files[1] = (manifest_file){.name = "eval.csv", .samples = 20, .bytes = 808};
	memset(m.files[1].sha256.b, 0x33, DIGEST_SIZE);
	return m;
}

static void round_trip(void **state)
{
	(void)state;
	manifest m = example(), back;
	error err = {0};
	char *text = manifest_encode(&m);
	if (manifest_decode(text, strlen(text), &back, &err) != 0)
		fail_msg("%s", err.text);
	assert_memory_equal(&m, &back, sizeof m);
	assert_ptr_equal(manifest_find(&back, "eval.csv"), &back.files[1]);
	assert_null(manifest_find(&back, "data.txt"));
	free(text);
}

/* The example with one piece of its text replaced. */
static int decode_with(const char *what, const char *by, error *err)
{
	manifest m = example(), back;
	char *text = manifest_encode(&m), *at = strstr(text, what);
	assert_non_null(at);
	char *changed = mem_printf("%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
	int code = manifest_decode(changed, strlen(changed), &back, err);
	free(changed);
	free(text);
	return code;
}

static void refusals(void **state)
{
	(void)state;
	static const struct {
		const char *what, *by;
		int code;
		const char *place;
	} cases[] = {
		{"\"v\":1", "\"v\":2", ERROR_UNSUPPORTED, "version 2"},
		{"\"v\":1,", "", ERROR_INVALID, "manifest.v"},
		{"\"round\":12", "\"round\":0", ERROR_INVALID, "round"},
		{"\"round\":12", "\"round\":12.5", ERROR_INVALID, "round"},
		{"\"format\":\"csv\"", "\"format\":\"xml\"", ERROR_INVALID, "xml"},
		{"8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11", "", ERROR_INVALID, "uid"},
		{"\"from\":300", "\"from\":301", ERROR_INVALID, "range"},
		{"\"to\":400", "\"to\":299", ERROR_INVALID, "range"},
		{"\"train\":80", "\"train\":81", ERROR_INVALID, "add up"},
		{"\"train\":80", "\"train\":9007199254740991", ERROR_INVALID, "add up"},
		{"\"size\":12000", "\"size\":8191", ERROR_INVALID, "range"},
		{"\"eval.csv\"", "\"../eval.csv\"", ERROR_INVALID, "eval.csv"},
		{"\"eval.csv\"", "\"a/b\"", ERROR_INVALID, "a/b"},
		{"2222", "222g", ERROR_INVALID, "digest"},
		{"\"bytes\":808,", "", ERROR_INVALID, "eval.csv.bytes"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		error err = {0};
		assert_int_equal(decode_with(cases[i].what, cases[i].by, &err), cases[i].code);
		if (strstr(err.text, cases[i].place) == NULL)
			fail_msg("\"%s\" does not name %s", err.text, cases[i].place);
	}
	error err = {0};
	assert_int_equal(decode_with("\"v\":1", "\"v\":1,\"more\":[1]", &err), 0);
}

static void not_an_object(void **state)
{
	(void)state;
	manifest m;
	assert_int_equal(manifest_decode("[]", 2, &m, NULL), ERROR_INVALID);
	assert_int_equal(manifest_decode("", 0, &m, NULL), ERROR_INVALID);
	char *big = mem_alloc(MANIFEST_BYTES_MAX + 2);
	memset(big, ' ', MANIFEST_BYTES_MAX + 1);
	assert_true(manifest_decode(big, MANIFEST_BYTES_MAX + 1, &m, NULL) < 0);
	free(big);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(refusals),
		cmocka_unit_test(not_an_object),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
