/* Arguments of ilmare-transfer: what each command takes, and that no two outcomes share an exit status. */
#include "tests/unit/unit.h"

#include "transfer/core/http_reply.h"
#include "transfer/options.h"
#include "transfer/outcome.h"

enum { WORDS_MAX = 12 };

static int parse(const char *line, options *o)
{
	static char words[512];
	char *argv[WORDS_MAX] = {(char *)(uintptr_t) "ilmare-transfer"}, *rest = words;
	int argc = 1;
	enum options_result result;
	error err = {0};
	(void)snprintf(words, sizeof words, "%s", line);
	for (char *w; (w = strtok_r(rest, " ", &rest)) != NULL && argc < WORDS_MAX;)
		argv[argc++] = w;
	int code = options_parse(argc, argv, o, &result, &err);
	assert_int_equal(code != 0, err.text[0] != '\0');
	return code;
}

static void commands(void **state)
{
	options o;
	(void)state;
	assert_int_equal(parse("s3://b/k /d", &o), 0);
	assert_int_equal(o.command, COMMAND_FETCH);
	assert_int_equal(o.n_words, 2);
	assert_int_equal(parse("--jobs 3 @s3://b/k /d --fresh http://h/x /e", &o), 0);
	assert_int_equal(o.command, COMMAND_FETCH);
	assert_int_equal(o.n_words, 4);
	assert_int_equal(o.jobs, 3);
	assert_true(o.fresh);
	assert_int_equal(parse("get --range=5 --if-match \"e\" s3://b/k f", &o), 0);
	assert_int_equal(o.command, COMMAND_GET);
	assert_true(o.has_range);
	assert_int_equal(o.range, 5);
	assert_string_equal(o.if_match, "\"e\"");
	assert_int_equal(o.same, -1);
	assert_false(o.until_stdin_ends);
	assert_int_equal(parse("get --range 5 --same 1048576 --until-stdin-ends s3://b/k f", &o), 0);
	assert_int_equal(o.same, 1048576);
	assert_int_equal(o.max_size, -1);
	assert_int_equal(parse("get --max-size 16384 s3://b/k f", &o), 0);
	assert_int_equal(o.max_size, 16384);
	assert_int_equal(parse("get --range 5 --until-stdin-ends s3://b/k f", &o), 0);
	assert_true(o.until_stdin_ends);
	assert_int_equal(parse("put --new -- -f s3://b/k", &o), 0);
	assert_true(o.only_new);
	assert_int_equal(parse("put-folder --last manifest.json --new d s3://b/k", &o), 0);
	assert_int_equal(parse("delete-folder --first m.json s3://b/k", &o), 0);
	assert_int_equal(o.command, COMMAND_DELETE_FOLDER);
	assert_string_equal(o.first, "m.json");
	assert_int_equal(parse("move-folder --last m.json --jobs 3 --etag-is-no-md5 s3://b/k s3://b/l", &o), 0);
	assert_int_equal(o.command, COMMAND_MOVE_FOLDER);
	assert_int_equal(parse("head --stall-time 5s https://h/x", &o), 0);
	assert_int_equal(o.stall_ms, 5000);
}

static void refused(void **state)
{
	static const char *const bad[] = {"", "s3://b/k", "s3://b/k /d s3://b/l", "get s3://b/k", "get s3://b/k f g", "get --last x s3://b/k f",
		"get --range -1 s3://b/k f", "get --range 5x s3://b/k f", "get --range", "get --if-match e s3://b/k f",
		"get --range 1 --fresh s3://b/k f", "get --sha256 abc s3://b/k f", "put-folder --new d s3://b/k", "head --fresh s3://b/k",
		"get --same 5 s3://b/k f", "get --range 5 --same 0 s3://b/k f", "get --range 5 --same 1048577 s3://b/k f",
		"get --max-size 0 s3://b/k f", "get --range 5 --max-size 9 s3://b/k f", "put --max-size 9 f s3://b/k", "put --same 5 f s3://b/k",
		"put --what f s3://b/k", "get --fresh=1 s3://b/k f", "--jobs 0 s3://b/k /d", "--jobs 65 s3://b/k /d", "get --attempts 101 u f",
		"get --connect-time 1ms u f", "get --retry-wait 2h u f", "get --log-level loud u f"};
	options o;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (parse(bad[i], &o) != ERROR_INVALID)
			fail_msg("accepted: %s", bad[i]);
	}
}

static void outcomes(void **state)
{
	static const int codes[] = {
#define X(id, status, word, text) id,
		OUTCOME_MAP(X)
#undef X
	};
	(void)state;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		assert_int_equal(outcome_status(codes[i]), (int)i);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(outcome_word(codes[i]), outcome_word(codes[k]));
	}
	assert_int_equal(outcome_status(ERROR_TIMEOUT), outcome_status(ERROR_OFFLINE));
	assert_int_equal(outcome_status(-9999), outcome_status(ERROR_INTERNAL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands),
		cmocka_unit_test(refused),
		cmocka_unit_test(outcomes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
