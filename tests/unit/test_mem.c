/* Memory: zeroed, bounded, and an exit instead of a NULL; arenas keep their pieces apart and undo what they own in reverse. */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>
#include <stdalign.h>

static void alloc_is_zeroed_and_never_null(void **state)
{
	(void)state;
	char *p = mem_alloc(1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
	free(p);
	p = mem_alloc(0);
	assert_non_null(p);
	free(p);
	p = mem_resize(NULL, 0);
	assert_non_null(p);
	free(p);
}

static void strings_are_copied(void **state)
{
	(void)state;
	char *s = mem_strdup("text");
	assert_string_equal(s, "text");
	free(s);
	s = mem_strndup("text", 2);
	assert_string_equal(s, "te");
	free(s);
	s = mem_strndup("te", 100);
	assert_string_equal(s, "te");
	free(s);
	assert_null(mem_strdup(NULL));
	assert_null(mem_strndup(NULL, 3));
	s = mem_printf("%s-%d", "a", 5);
	assert_string_equal(s, "a-5");
	free(s);
}

static void ask_too_much(void *arg)
{
	(void)arg;
	free(mem_resize_array(NULL, SIZE_MAX / 2, 4));
}

static void ask_too_much_of_an_arena(void *arg)
{
	arena_alloc(arg, SIZE_MAX - 3);
}

static void ask_too_much_of_a_buffer(void *arg)
{
	buf b = {0};
	(void)arg;
	buf_putc(&b, 'x');
	buf_reserve(&b, SIZE_MAX - 1);
}

static void overflow_ends_the_process(void **state)
{
	(void)state;
	void (*const asks[])(void *) = {ask_too_much, ask_too_much_of_an_arena};
	arena *a = arena_new();
	for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
		buf said = {0};
		assert_int_equal(unit_run(2, asks[i], a, &said), 70);
		assert_non_null(strstr(buf_text(&said), "out of memory"));
		buf_fini(&said);
	}
	arena_free(a);
	/* A sanitizer ends the process in its own way. */
	buf said = {0};
	assert_int_not_equal(unit_run(2, ask_too_much_of_a_buffer, NULL, &said), 0);
	buf_fini(&said);
}

static void arena_pieces_are_apart_aligned_and_zeroed(void **state)
{
	(void)state;
	enum { N = 3000 };
	static unsigned char *piece[N];
	arena *a = arena_new();
	for (size_t i = 0; i < N; i++) {
		size_t size = i * 7 % 2500;
		piece[i] = arena_alloc(a, size);
		assert_int_equal((uintptr_t)piece[i] % alignof(max_align_t), 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(piece[i][k], 0);
		memset(piece[i], (int)(i & 0xFF), size);
	}
	for (size_t i = 0; i < N; i++) {
		for (size_t k = 0; k < i * 7 % 2500; k++)
			assert_int_equal(piece[i][k], i & 0xFF);
	}
	arena_free(a);
}

static void arena_strings(void **state)
{
	(void)state;
	arena *a = arena_new();
	assert_string_equal(arena_strdup(a, "x"), "x");
	assert_string_equal(arena_strndup(a, "xyz", 2), "xy");
	assert_string_equal(arena_printf(a, "%d/%s", 1, "y"), "1/y");
	assert_null(arena_strdup(a, NULL));
	assert_null(arena_strndup(a, NULL, 1));
	arena_free(a);
	arena_free(NULL);
}

static char order[8];

static void note(void *p)
{
	strncat(order, p, 1);
}

static void arena_undoes_in_reverse(void **state)
{
	(void)state;
	order[0] = '\0';
	arena *a = arena_new();
	arena_own(a, arena_strdup(a, "1"), note);
	arena_own(a, arena_strdup(a, "2"), note);
	arena_own(a, arena_strdup(a, "3"), note);
	arena_free(a);
	assert_string_equal(order, "321");
}

static void arena_owns_json(void **state)
{
	(void)state;
	arena *a = arena_new();
	cJSON *tree = cJSON_Parse("{\"a\":[1,2]}");
	arena_own(a, tree, (void (*)(void *))cJSON_Delete);
	arena_free(a); /* the leak checker looks */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_is_zeroed_and_never_null),
		cmocka_unit_test(strings_are_copied),
		cmocka_unit_test(overflow_ends_the_process),
		cmocka_unit_test(arena_pieces_are_apart_aligned_and_zeroed),
		cmocka_unit_test(arena_strings),
		cmocka_unit_test(arena_undoes_in_reverse),
		cmocka_unit_test(arena_owns_json),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
