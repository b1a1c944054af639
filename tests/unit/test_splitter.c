/* The splitter: each rule by example, and against a slow reference for random bytes in random pieces. */
#include "tests/unit/unit.h"

#include "edge-agent/dataset/splitter.h"
#include "tests/unit/splitter_reference.h"

/* Feed in pieces of `piece` bytes; the samples come out joined by '|'. */
static char *split_text(splitter *s, const char *data, size_t len, size_t piece)
{
	buf out = {0};
	size_t used, done = 0;
	while (done < len) {
		size_t end = done + piece < len ? done + piece : len;
		while (splitter_next(s, data + done, end - done, &used)) {
			done += used;
			buf_add(&out, data + s->from, (size_t)(s->offset - s->from));
			buf_putc(&out, '|');
			assert_int_equal(s->offset, done);
		}
		assert_int_equal(used, end - done);
		done = end;
	}
	return buf_detach(&out);
}

static void assert_split(enum dataset_format format, int64_t line_max, const char *data, const char *samples, int64_t skipped,
	int64_t waiting)
{
	for (size_t piece = 1; piece <= strlen(data) + 1; piece++) {
		splitter s;
		splitter_start(&s, format, line_max);
		char *text = split_text(&s, data, strlen(data), piece);
		assert_string_equal(text, samples);
		assert_int_equal(s.skipped, skipped);
		assert_int_equal(splitter_waiting(&s), waiting);
		free(text);
	}
}

static void txt_lines(void **state)
{
	(void)state;
	assert_split(FORMAT_TXT, 100, "", "", 0, 0);
	assert_split(FORMAT_TXT, 100, "a 1\nb 2\n", "a 1\n|b 2\n|", 0, 0);
	assert_split(FORMAT_TXT, 100, "a 1\r\nb 2", "a 1\r\n|", 0, 3);
	assert_split(FORMAT_TXT, 100, "img_00", "", 0, 6);
	assert_split(FORMAT_TXT, 100, "\"a\nb\"\n", "\"a\n|b\"\n|", 0, 0);
}

static void blank_lines_and_marks_are_no_samples(void **state)
{
	(void)state;
	assert_split(FORMAT_TXT, 100, "\n\na\n\n \t\r\nb\n\n", "a\n|b\n|", 0, 0);
	assert_split(FORMAT_TXT, 100,
		"\xEF\xBB\xBF"
		"a\nb\n",
		"a\n|b\n|", 0, 0);
	assert_split(FORMAT_TXT, 100,
		"\xEF\xBB"
		"a\n",
		"\xEF\xBB"
		"a\n|",
		0, 0);
	assert_split(FORMAT_TXT, 100, "\xEF\xBB\xBF", "", 0, 0);
	assert_split(FORMAT_TXT, 100, "a\n\xEF\xBB\xBF\n", "a\n|\xEF\xBB\xBF\n|", 0, 0);
	assert_split(FORMAT_CSV, 100, "\xEF\xBB\xBF\"h\n1\",h\n\n1,2\n \n3,4\n", "1,2\n|3,4\n|", 0, 0);
}

static void too_long_lines_hide_nothing(void **state)
{
	(void)state;
	assert_split(FORMAT_TXT, 4, "abc\nabcd\nabc\nabcdefgh\nd\n", "abc\n|abc\n|d\n|", 2, 0);
	assert_split(FORMAT_TXT, 4, "abcdefghij", "", 0, 10);
	assert_split(FORMAT_CSV, 4, "h\nabcd\n1,2\n", "1,2\n|", 1, 0);
	/* A stray quote: the record ends at the first newline past the limit. */
	assert_split(FORMAT_CSV, 8, "h\n\"ab\n1,2\n3,4\n5,6\n", "5,6\n|", 1, 0);
	/* A header that is too long: no samples, but no end of the world. */
	assert_split(FORMAT_CSV, 4, "header\n1,2\n", "", 1, 0);
}

static void csv_records(void **state)
{
	(void)state;
	assert_split(FORMAT_CSV, 100, "name,notes\r\nalice,\"line1\nline2\"\r\nbob,\"he said \"\"hi\"\"\"\r\n",
		"alice,\"line1\nline2\"\r\n|bob,\"he said \"\"hi\"\"\"\r\n|", 0, 0);
	assert_split(FORMAT_CSV, 100, "h\n5\" pipe,x\n6\n", "5\" pipe,x\n|6\n|", 0, 0);
	assert_split(FORMAT_CSV, 100, "h\n\"a\"b\",\"\n\",c\n", "\"a\"b\",\"\n\",c\n|", 0, 0);
	assert_split(FORMAT_CSV, 100, "h\n,\"\"\n\"\n\"\n", ",\"\"\n|\"\n\"\n|", 0, 0);
	assert_split(FORMAT_CSV, 100, "h\na,\"b\nc\n", "", 0, 7);
	assert_split(FORMAT_CSV, 100, "h1,h2\n", "", 0, 0);
	assert_split(FORMAT_CSV, 100, "h1,h2", "", 0, 5);
}

static void header_is_told(void **state)
{
	(void)state;
	splitter s;
	splitter_start(&s, FORMAT_CSV, 100);
	assert_false(splitter_has_header(&s));
	const char *data = "\n\"a\nb\",c\n1,2\n";
	free(split_text(&s, data, strlen(data), 3));
	assert_true(splitter_has_header(&s));
	assert_int_equal(s.header_from, 1);
	assert_int_equal(s.header_to, 9);
}

static void resuming_goes_on(void **state)
{
	(void)state;
	splitter s;
	splitter_resume(&s, FORMAT_CSV, 100, 6, 1);
	size_t used;
	assert_true(splitter_next(&s, "3,4\n", 4, &used));
	assert_int_equal(s.samples, 2);
	assert_int_equal(s.from, 6);
	splitter_resume(&s, FORMAT_TXT, 100, 0, 0);
	assert_true(splitter_next(&s,
		"\xEF\xBB\xBF"
		"a\n",
		5, &used));
	assert_int_equal(s.from, 3);
}

static uint32_t draw(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % n;
}

static void compare_once(uint32_t *seed)
{
	static const char alphabet[] = "ab,,\"\"\"\n\n\r \xEF";
	char data[400];
	size_t len = draw(seed, sizeof data), n = 0, used, done = 0;
	enum dataset_format format = draw(seed, 2) == 0 ? FORMAT_TXT : FORMAT_CSV;
	int64_t line_max = 1 + draw(seed, 12);
	for (size_t i = 0; i < len; i++)
		data[i] = alphabet[draw(seed, sizeof alphabet - 1)];
	if (len > 3 && draw(seed, 4) == 0)
		memcpy(data, "\xEF\xBB\xBF", 3);
	reference r;
	splitter s;
	reference_split(&r, format, line_max, data, len);
	splitter_start(&s, format, line_max);
	while (done < len) {
		size_t end = done + 1 + draw(seed, 20);
		end = end > len ? len : end;
		while (splitter_next(&s, data + done, end - done, &used)) {
			done += used;
			assert_true(n < r.n);
			assert_int_equal(s.from, r.from[n]);
			assert_int_equal(s.offset, r.to[n]);
			n++;
		}
		done = end;
	}
	assert_int_equal(n, r.n);
	assert_int_equal(s.samples, r.n);
	assert_int_equal(s.skipped, r.skipped);
	assert_int_equal(splitter_waiting(&s), r.waiting);
	assert_int_equal(s.header_to, r.header_to);
	reference_free(&r);
}

static void agrees_with_the_reference(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t seed = i;
		compare_once(&seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(txt_lines),
		cmocka_unit_test(blank_lines_and_marks_are_no_samples),
		cmocka_unit_test(too_long_lines_hide_nothing),
		cmocka_unit_test(csv_records),
		cmocka_unit_test(header_is_told),
		cmocka_unit_test(resuming_goes_on),
		cmocka_unit_test(agrees_with_the_reference),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
