/* dataIndex.txt: which words of samples are files, whatever the pieces they come in. */
#include "tests/unit/dataset_kit.h"

#include <stdio.h>

#include "common/file.h"
#include "edge-agent/dataset/index_file.h"

static void words(void **state)
{
	static const struct {
		const char *word;
		bool file;
	} all[] = {{"a.jpg", true}, {"images/0017.png", true}, {"a.b/c.tar.gz", true}, {"x.7z", true}, {"1.5e.x", true}, {"#1.png", false},
		{"1.5", false}, {"-3.25e7", false}, {"0x1p-2", false}, {"inf.", false}, {"a", false}, {"a.", false}, {".png", false},
		{"d/.png", false}, {"a.b/c", false}, {"/abs/a.png", false}, {"../a.png", false}, {"x/../a.png", false}, {"http://h/a.png", false},
		{"a.p-g", false}, {"a.abcdefghijklmnopq", false}, {"a.abcdefghijklmnop", true}, {"", false}};
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (index_word_is_file(all[i].word, strlen(all[i].word)) != all[i].file)
			fail_msg("%s", all[i].word);
}

/* The file that is made of the text, given in pieces of that size. */
static char *made_of(const char *text, enum dataset_format format, size_t piece)
{
	char *folder = unit_folder(), *path = mem_printf("%s/index", folder);
	index_file *f = NULL;
	manifest_file told;
	buf b = {0};
	assert_int_equal(index_file_new(&f, path, "s3://bucket/d", format, NULL), 0);
	for (size_t i = 0, len = strlen(text); i < len; i += piece)
		assert_int_equal(index_file_add(f, text + i, len - i < piece ? len - i : piece, NULL), 0);
	assert_int_equal(index_file_end(f, &told, NULL), 0);
	assert_string_equal(told.name, "dataIndex.txt");
	assert_int_equal(file_read(path, 1 << 20, &b, NULL), 0);
	assert_int_equal(told.bytes, (int64_t)b.len);
	index_file_free(f);
	unit_folder_remove(folder);
	free(path);
	return buf_detach(&b);
}

static void assert_made(const char *text, enum dataset_format format, const char *expected)
{
	for (size_t piece = 1; piece <= strlen(text); piece++) {
		char *made = made_of(text, format, piece);
		assert_string_equal(made, expected);
		free(made);
	}
}

static void files_of_samples(void **state)
{
	(void)state;
	assert_made("a.jpg 1\nb.jpg\t2 0.5\r\nb.jpg b.jpg c.png", FORMAT_TXT, "s3://bucket/d\na.jpg\nb.jpg\nc.png\n");
	assert_made("a.jpg b.jpg a.jpg\n", FORMAT_TXT, "s3://bucket/d\na.jpg\nb.jpg\na.jpg\n");
	assert_made("a,b.jpg\n", FORMAT_TXT, "s3://bucket/d\na,b.jpg\n");
	assert_made("a,b.jpg,3\n\"c d.png\",1.5\n", FORMAT_CSV, "s3://bucket/d\nb.jpg\nd.png\n");
	assert_made("no files here\n", FORMAT_TXT, "s3://bucket/d\n");
}

static void a_word_without_end(void **state)
{
	(void)state;
	char *text = mem_alloc(10000);
	memset(text, 'x', 9000);
	memcpy(text + 9000, ".png a.png", 11);
	for (size_t piece = 1; piece < 10000; piece = piece * 3 + 1) {
		char *made = made_of(text, FORMAT_TXT, piece);
		assert_string_equal(made, "s3://bucket/d\na.png\n");
		free(made);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(files_of_samples), cmocka_unit_test(a_word_without_end)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
