/* Buffers: growing, printing, always ended by a NUL. */
#include "tests/unit/unit.h"

static void empty_buffer(void **state)
{
	(void)state;
	buf b = {0};
	assert_string_equal(buf_text(&b), "");
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	char *text = buf_detach(&b);
	assert_string_equal(text, "");
	free(text);
	buf_add(&b, NULL, 0);
	assert_string_equal(buf_text(&b), "");
	buf_fini(&b);
	assert_null(b.data);
}

static void grows_and_keeps(void **state)
{
	(void)state;
	buf b = {0};
	for (size_t i = 0; i < 10000; i++) {
		buf_putc(&b, (char)('a' + i % 26));
		assert_int_equal(b.data[b.len], 0);
	}
	assert_int_equal(b.len, 10000);
	for (size_t i = 0; i < 10000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	buf_clear(&b);
	assert_string_equal(buf_text(&b), "");
	assert_true(b.cap > 10000);
	buf_fini(&b);
}

static void holds_any_bytes(void **state)
{
	(void)state;
	buf b = {0};
	buf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	buf_fini(&b);
}

static void prints_around_the_capacity(void **state)
{
	(void)state;
	/* Every length around the first capacities, so that "just fits" and "one too long" are both there. */
	for (int n = 0; n < 300; n++) {
		buf b = {0};
		buf_puts(&b, "<");
		buf_printf(&b, "%*s", n, "");
		buf_printf(&b, ">%d", n);
		assert_int_equal(b.len, strlen(b.data));
		assert_int_equal(strspn(b.data + 1, " "), n);
		assert_int_equal(atoi(b.data + n + 2), n);
		buf_fini(&b);
	}
}

static void detach_gives_the_text_away(void **state)
{
	(void)state;
	buf b = {0};
	buf_puts(&b, "mine");
	char *text = buf_detach(&b);
	assert_string_equal(text, "mine");
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_buffer),
		cmocka_unit_test(grows_and_keeps),
		cmocka_unit_test(holds_any_bytes),
		cmocka_unit_test(prints_around_the_capacity),
		cmocka_unit_test(detach_gives_the_text_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
