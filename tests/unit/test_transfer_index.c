/* Indexes: the same folder and files whatever pieces they are read in. */
#include "tests/unit/unit.h"

#include "transfer/core/index.h"

/* "F:folder" and "f:file" for each event, or "! text". */
static char *read_in(const char *data, size_t len, size_t piece)
{
	index_reader r;
	error err = {0};
	buf out = {0};
	int event = INDEX_MORE;
	index_init(&r);
	for (size_t at = 0; at < len && event >= 0;) {
		size_t end = at + piece < len ? at + piece : len, used = 0;
		event = index_next(&r, data + at, end - at, &used, &err);
		at += used;
		if (event > 0)
			buf_printf(&out, "%c:%s\n", event == INDEX_FOLDER ? 'F' : 'f', buf_text(&r.word));
	}
	while (event >= 0 && (event = index_end(&r, &err)) > 0)
		buf_printf(&out, "%c:%s\n", event == INDEX_FOLDER ? 'F' : 'f', buf_text(&r.word));
	if (event < 0)
		buf_printf(&out, "! %s", err.text);
	index_fini(&r);
	return buf_detach(&out);
}

static void check(const char *text, const char *expected)
{
	for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
		char *got = read_in(text, strlen(text), piece);
		if (expected[0] == '!' ? strstr(got, expected) == NULL : strcmp(got, expected) != 0)
			fail_msg("pieces of %zu bytes: %s", piece, got);
		free(got);
	}
}

static void files(void **state)
{
	(void)state;
	check("s3://b/f\na.png b.png\nc.png\n", "F:s3://b/f\nf:a.png\nf:b.png\nf:c.png\n");
	check("s3://b/f\na.png b.png\nc.png", "F:s3://b/f\nf:a.png\nf:b.png\nf:c.png\n");
	check("s3://b/f", "F:s3://b/f\n");
	check("s3://b/f\r\na.png\r\n", "F:s3://b/f\nf:a.png\n");
	check("  s3://b/with blank \t\n\n \n\ta.png\n", "F:s3://b/with blank\nf:a.png\n");
}

static void remarks(void **state)
{
	(void)state;
	check("# one\n  # two\n#\ns3://b/f\na.png\n", "F:s3://b/f\nf:a.png\n");
	check("s3://b/f\n# more\n#1.png\n#\na#b.png #c.png\n", "F:s3://b/f\nf:#1.png\nf:a#b.png\nf:#c.png\n");
}

static void refused(void **state)
{
	char nul[] = "s3://b/f\na\0b\n";
	(void)state;
	check("", "! it names no folder");
	check("# only this\n", "! it names no folder");
	check("s3://b/f\n/etc/passwd\n", "! line 2: \"/etc/passwd\" is an absolute path");
	check("s3://b/f\na\n../x\n", "! line 3: \"../x\" has");
	check("s3://b/f\nhttp://h/x.png\n", "! line 2: \"http://h/x.png\" is a url of its own");
	char *got = read_in(nul, sizeof nul - 1, 4);
	assert_non_null(strstr(got, "NUL"));
	free(got);
	char *longest = mem_alloc(INDEX_WORD_MAX + 3);
	memset(longest, 'x', INDEX_WORD_MAX + 2);
	got = read_in(longest, INDEX_WORD_MAX + 2, 100);
	assert_non_null(strstr(got, "too long"));
	free(got);
	free(longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files),
		cmocka_unit_test(remarks),
		cmocka_unit_test(refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
