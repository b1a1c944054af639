/* Texts in buffers of a fixed size. */
#include "tests/unit/unit.h"

#include "common/text.h"

static void test_copy(void **state)
{
	char out[6];

	(void)state;
	text_copy(out, sizeof out, "abc\xc3\xa4\xc3\xb6");
	assert_string_equal(out, "abc\xc3\xa4");
	text_copy(out, sizeof out, "abcd\xc3\xa4");
	assert_string_equal(out, "abcd");
	text_copy(out, sizeof out, "a\xff/b");
	assert_string_equal(out, "a?/b");
	text_copy(out, 1, "a");
	assert_string_equal(out, "");
}

/* Also where printf itself has cut an argument in two. */
static void test_print(void **state)
{
	char out[8];

	(void)state;
	text_print(out, sizeof out, "%s%d", "abc", 12);
	assert_string_equal(out, "abc12");
	text_print(out, sizeof out, "%s!", out);
	assert_string_equal(out, "abc12!");
	text_print(out, sizeof out, "12345%s", "\xe2\x82\xac");
	assert_string_equal(out, "12345");
	text_print(out, sizeof out, "'%.4s'", "ab\xe2\x82\xac");
	assert_string_equal(out,
		"'ab?"
		"?'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_print),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
