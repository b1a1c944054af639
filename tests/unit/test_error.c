/* Errors: every code has its words, texts stay one line and within their bound, errno values become the right codes. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "common/json.h"

static void every_code_has_words(void **state)
{
	(void)state;
#define X(id, value, name, text)                                                                                                           \
	assert_int_equal(ERROR_##id, value);                                                                                                   \
	assert_string_equal(error_name(value), name);                                                                                          \
	assert_string_equal(error_describe(value), text);
	ERROR_MAP(X)
#undef X
	assert_string_equal(error_name(0), "ok");
	assert_string_equal(error_name(-999), "unknown");
	assert_non_null(error_describe(0));
	assert_non_null(error_describe(7));
}

static void set_fills_and_returns(void **state)
{
	(void)state;
	error err = {0};
	assert_int_equal(error_set(&err, ERROR_LIMIT, "%s has %d", "it", 3), ERROR_LIMIT);
	assert_int_equal(err.code, ERROR_LIMIT);
	assert_string_equal(err.text, "it has 3");
	assert_int_equal(error_set(NULL, ERROR_IO, "nobody asks"), ERROR_IO);
}

static void set_may_use_its_own_text(void **state)
{
	(void)state;
	error err = {0};
	error_set(&err, ERROR_IO, "inner");
	error_set(&err, ERROR_IO, "outer (%s)", err.text);
	assert_string_equal(err.text, "outer (inner)");
}

static void text_is_one_line(void **state)
{
	(void)state;
	error err = {0};
	error_set(&err, ERROR_IO, "a\nb\tc\x7f\n\n");
	assert_string_equal(err.text, "a b c ");
}

static void text_is_cut_at_a_character(void **state)
{
	(void)state;
	/* At every offset of a three-byte character relative to the end. */
	for (size_t lead = 0; lead < 4; lead++) {
		error err = {0};
		buf text = {0};
		for (size_t i = 0; i < lead; i++)
			buf_putc(&text, 'x');
		while (text.len < sizeof err.text + 50)
			buf_puts(&text, "\xE2\x82\xAC");
		error_set(&err, ERROR_IO, "%s", buf_text(&text));
		size_t len = strlen(err.text);
		assert_true(len < sizeof err.text);
		assert_true(len > sizeof err.text - 5);
		assert_true(json_utf8_valid(err.text, len));
		error_prefix(&err, "p");
		assert_true(json_utf8_valid(err.text, strlen(err.text)));
		buf_fini(&text);
	}
}

static void text_that_just_fits_is_whole(void **state)
{
	(void)state;
	error err = {0};
	buf text = {0};
	while (text.len < sizeof err.text - 1 - 3)
		buf_putc(&text, 'x');
	buf_puts(&text, "\xE2\x82\xAC");
	error_set(&err, ERROR_IO, "%s", buf_text(&text));
	assert_string_equal(err.text, buf_text(&text));
	buf_fini(&text);
}

static void prefix_goes_before(void **state)
{
	(void)state;
	error err = {0};
	error_set(&err, ERROR_DENIED, "no");
	assert_int_equal(error_prefix(&err, "job %s", "x"), ERROR_DENIED);
	assert_string_equal(err.text, "job x: no");
	assert_int_equal(error_prefix(NULL, "y"), ERROR_INTERNAL);
}

static void errno_values_map(void **state)
{
	(void)state;
	static const struct {
		int errnum, code;
	} table[] = {{ENOSPC, ERROR_NO_SPACE}, {EDQUOT, ERROR_NO_SPACE}, {EROFS, ERROR_NO_SPACE}, {EACCES, ERROR_DENIED}, {EPERM, ERROR_DENIED},
		{ENOENT, ERROR_NOT_FOUND}, {EEXIST, ERROR_EXISTS}, {EIO, ERROR_IO}, {EINVAL, ERROR_IO}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		error err = {0};
		assert_int_equal(error_errno(&err, table[i].errnum, "cannot write %s", "f"), table[i].code);
		assert_int_equal(err.code, table[i].code);
		char *want = mem_printf("cannot write f: %s%s", strerror(table[i].errnum), error_hint(table[i].errnum));
		assert_string_equal(err.text, want);
		free(want);
		assert_int_equal(error_hint(table[i].errnum)[0] != '\0', table[i].code == ERROR_NO_SPACE || table[i].code == ERROR_DENIED);
		assert_int_equal(error_errno(NULL, table[i].errnum, "x"), table[i].code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_has_words),
		cmocka_unit_test(set_fills_and_returns),
		cmocka_unit_test(set_may_use_its_own_text),
		cmocka_unit_test(text_is_one_line),
		cmocka_unit_test(text_is_cut_at_a_character),
		cmocka_unit_test(text_that_just_fits_is_whole),
		cmocka_unit_test(prefix_goes_before),
		cmocka_unit_test(errno_values_map),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
