/* What a url says by itself: where it leads, where its query begins, and what a file from it is called. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "proto/url.h"

static void kinds(void **state)
{
	(void)state;
	assert_true(url_is_remote("s3://b/k"));
	assert_true(url_is_remote("https://h"));
	assert_true(url_is_remote("other://x"));
	assert_false(url_is_remote(NULL));
	assert_false(url_is_remote(""));
	assert_false(url_is_remote("/data/s3://b/k"));
	assert_false(url_is_remote("s3:/b"));
	assert_string_equal(url_after_scheme("s3://b/x://k"), "b/x://k");
	assert_string_equal(url_after_scheme("/data/x://k"), "/data/x://k");
}

static void queries(void **state)
{
	(void)state;
	assert_int_equal(url_length("http://h/a.txt?k=a/b"), strlen("http://h/a.txt"));
	assert_int_equal(url_length("https://h/a#b"), strlen("https://h/a"));
	assert_int_equal(url_length("s3://b/a?b#c"), strlen("s3://b/a?b#c"));
	assert_int_equal(url_length("/a?b"), strlen("/a?b"));
}

static void names(void **state)
{
	static const char *const good[][2] = {{"s3://b/d/m.bin", "m.bin"}, {"s3://b/d/m//", "m"}, {"s3://b", "b"}, {"/d/m?x", "m?x"},
		{"http://h/d/m.bin?sign=/a/b", "m.bin"}, {"s3://b/...", "..."}, {"s3://b/.a", ".a"}, {"m", "m"}};
	static const char *const bad[] = {"", "/", "s3://b/..", "s3://b/./", "/d/..//"};
	char *name, *longest = mem_alloc(300);
	error err;
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(url_file_name(good[i][0], &name, &err), 0);
		assert_string_equal(name, good[i][1]);
		free(name);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(url_file_name(bad[i], &name, &err), ERROR_INVALID);
		assert_null(name);
	}
	memset(longest, 'x', 255);
	assert_int_equal(url_file_name(longest, &name, &err), 0);
	free(name);
	longest[255] = 'x';
	assert_int_equal(url_file_name(longest, &name, &err), ERROR_INVALID);
	free(longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(queries),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
