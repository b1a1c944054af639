/* The scanner: each thing that can happen to a dataset file, by example. */
#include "tests/unit/scanner_kit.h"

#include <sys/stat.h>

static void assert_counts(const scan_view *v, int64_t samples, int64_t waiting)
{
	assert_int_equal(v->code, 0);
	assert_null(v->error);
	assert_int_equal(v->end.samples, samples);
	assert_int_equal(v->waiting_bytes, waiting);
}

static void assert_counts_of(scanner *s, int64_t samples)
{
	scan_view v = kit_look(s);
	assert_counts(&v, samples, 0);
}

static void assert_problem(scanner *s, int code, const char *text)
{
	scan_view v = kit_look(s);
	assert_int_equal(v.code, code);
	assert_int_equal(v.end.samples, 0);
	if (strstr(v.error, text) == NULL)
		fail_msg("\"%s\" does not say %s", v.error, text);
}

static void file_comes_goes_and_comes_back(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_CSV, LINE_MAX_DEFAULT);
	assert_problem(s, ERROR_NOT_FOUND, f->path);
	kit_append(f->path, "");
	assert_counts_of(s, 0);
	kit_append(f->path, "h1,h2\n");
	assert_counts_of(s, 0);
	kit_append(f->path, "1,2\n3,4\n5,6\n");
	assert_counts_of(s, 3);
	char *away = mem_printf("%s.away", f->path);
	assert_int_equal(rename(f->path, away), 0);
	assert_problem(s, ERROR_NOT_FOUND, f->path);
	assert_int_equal(rename(away, f->path), 0);
	scan_view v = kit_look(s);
	assert_counts(&v, 3, 0);
	assert_int_equal(v.generation, 1); /* the same file is the same file */
	assert_int_equal(unlink(f->path), 0);
	kit_append(f->path, "h1,h2\n1,2\n3,4\n5,6\n7,8\n9,0\n");
	assert_counts_of(s, 5);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(mkdir(f->path, 0755), 0);
	assert_problem(s, ERROR_INVALID, "is a folder");
	assert_int_equal(rmdir(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0644), 0);
	assert_problem(s, ERROR_INVALID, "not a regular file");
	free(away);
	scanner_free(s);
}

static void half_a_line_waits(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append(f->path, "a.jpg 1\nimg_00");
	scan_view v = kit_look(s);
	assert_counts(&v, 1, 6);
	assert_int_equal(v.end.size, 8);
	v = kit_look(s);
	assert_counts(&v, 1, 6);
	kit_append(f->path, "01.jpg 1\n");
	v = kit_look(s);
	assert_counts(&v, 2, 0);
	assert_int_equal(v.end.size, 23);
	assert_int_equal(v.generation, 1);
	scanner_free(s);
}

static void long_line_is_counted(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_TXT, 65536);
	kit_append_lines(f->path, "line ", 0, 10);
	char *longest = mem_alloc(16 * 1024 * 1024 + 1);
	memset(longest, 'x', 16 * 1024 * 1024);
	kit_append(f->path, longest);
	kit_append(f->path, "\n");
	kit_append_lines(f->path, "line ", 10, 20);
	scan_view v = kit_look(s);
	assert_counts(&v, 20, 0);
	assert_int_equal(v.skipped, 1);
	longest[65535] = '\0'; /* exactly the limit with its end */
	kit_append(f->path, longest);
	kit_append(f->path, "\n");
	v = kit_look(s);
	assert_counts(&v, 21, 0);
	free(longest);
	scanner_free(s);
}

static void header_too_long_is_a_problem(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_CSV, 8);
	kit_append(f->path, "a,long,header\n1,2\n");
	assert_problem(s, ERROR_LIMIT, "header");
	kit_rewrite(f->path, "h\n1,2\n");
	assert_counts_of(s, 1);
	scanner_free(s);
}

static void emptied_file_starts_over(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append_lines(f->path, "old ", 0, 100);
	scan_view v = kit_look(s);
	assert_counts(&v, 100, 0);
	kit_rewrite(f->path, "");
	v = kit_look(s);
	assert_counts(&v, 0, 0);
	assert_int_equal(v.generation, 2);
	kit_append_lines(f->path, "new ", 0, 40);
	v = kit_look(s);
	assert_counts(&v, 40, 0);
	assert_int_equal(v.generation, 2);
	/* Written anew and already longer than before, between two looks. */
	kit_rewrite(f->path, "");
	kit_append_lines(f->path, "third ", 0, 200);
	v = kit_look(s);
	assert_counts(&v, 200, 0);
	assert_int_equal(v.generation, 3);
	scanner_free(s);
}

static void slices_read_no_more_than_asked(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	scan_view v;
	kit_append_lines(f->path, "sample ", 0, 1000);
	scanner_view(s, &v);
	assert_false(v.looked);
	assert_true(v.more);
	assert_int_equal(scanner_look(s, 100), 0);
	scanner_view(s, &v);
	assert_true(v.more);
	assert_true(v.end.size <= 100 && v.end.samples > 0);
	v = kit_look(s);
	assert_counts(&v, 1000, 0);
	scanner_free(s);
}

static void cursors_are_located(void **state)
{
	fixture *f = *state;
	dataset_point at, wrong, beginning = {0};
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append_lines(f->path, "a ", 0, 500);
	scan_view first = kit_look(s);
	assert_int_equal(kit_locate(s, &first.end, &at), LOCATE_MATCHED);
	assert_int_equal(at.samples, 500);
	assert_int_equal(kit_locate(s, &beginning, &at), LOCATE_MATCHED);
	assert_int_equal(at.samples, 0);
	wrong = first.end;
	wrong.digest.b[5] ^= 1;
	assert_int_equal(kit_locate_all(s, &wrong, &at), LOCATE_UNMATCHED);
	wrong = first.end;
	wrong.size -= 1;
	assert_int_equal(kit_locate_all(s, &wrong, &at), LOCATE_UNMATCHED);
	wrong.size += 1000;
	assert_int_equal(kit_locate_all(s, &wrong, &at), LOCATE_UNMATCHED);
	wrong = beginning;
	wrong.digest.b[0] = 1;
	assert_int_equal(kit_locate_all(s, &wrong, &at), LOCATE_UNMATCHED);
	/* A scanner that never saw that place on its way: behind its position, it has to read again, in slices. */
	kit_append_lines(f->path, "b ", 0, 500);
	scanner *other = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	(void)kit_look(other);
	assert_int_equal(kit_locate(other, &first.end, &at), LOCATE_MORE);
	assert_int_equal(kit_locate_all(other, &first.end, &at), LOCATE_MATCHED);
	assert_int_equal(at.samples, 500);
	assert_int_equal(kit_locate(other, &first.end, &at), LOCATE_MATCHED);
	scanner_free(other);
	/* Known before the first look: decided in passing. */
	other = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	assert_int_equal(kit_locate(other, &first.end, &at), LOCATE_MORE);
	(void)kit_look(other);
	assert_int_equal(kit_locate(other, &first.end, &at), LOCATE_MATCHED);
	scanner_free(other);
	scanner_free(s);
}

static void replaced_file_with_the_same_beginning(void **state)
{
	fixture *f = *state;
	dataset_point at;
	buf content = {0};
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append_lines(f->path, "a ", 0, 500);
	scan_view first = kit_look(s);
	assert_int_equal(kit_locate(s, &first.end, &at), LOCATE_MATCHED);
	assert_int_equal(file_read(f->path, 1 << 20, &content, NULL), 0);
	buf_puts(&content, "one more\n");
	kit_replace(f->path, content.data, content.len);
	scan_view second = kit_look(s);
	assert_counts(&second, 501, 0);
	assert_int_equal(second.generation, 2);
	assert_int_equal(kit_locate(s, &first.end, &at), LOCATE_MATCHED);
	assert_int_equal(at.samples, 500);
	content.data[3] = '9';
	kit_replace(f->path, content.data, content.len);
	(void)kit_look(s);
	assert_int_equal(kit_locate(s, &first.end, &at), LOCATE_UNMATCHED);
	buf_fini(&content);
	scanner_free(s);
}

static void ranges_keep_to_their_size(void **state)
{
	fixture *f = *state;
	dataset_point end;
	error err = {0};
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append(f->path, "0123456\n\n\n0123456\n0123456\n");
	scan_view v = kit_look(s);
	assert_int_equal(scanner_range_end(s, 0, 0, 0, NULL, &end, &err), 0);
	assert_memory_equal(&end, &v.end, sizeof end);
	assert_int_equal(scanner_range_end(s, 8, 1, 18, NULL, &end, &err), 0);
	assert_memory_equal(&end, &v.end, sizeof end);
	assert_int_equal(scanner_range_end(s, 8, 1, 17, NULL, &end, &err), 0);
	assert_int_equal(end.samples, 2);
	assert_int_equal(end.size, 18);
	/* One sample at least, however small the limit. */
	assert_int_equal(scanner_range_end(s, 8, 1, 3, NULL, &end, &err), 0);
	assert_int_equal(end.size, 18);
	assert_int_equal(scanner_range_end(s, 26, 3, 3, NULL, &end, &err), 0);
	assert_int_equal(end.size, 26);
	assert_int_equal(scanner_range_end(s, 9, 1, 3, NULL, &end, &err), ERROR_CHANGED);
	assert_int_equal(scanner_range_end(s, 8, 2, 3, NULL, &end, &err), ERROR_CHANGED);
	assert_int_equal(scanner_range_end(s, 27, 3, 3, NULL, &end, &err), ERROR_CHANGED);
	atomic_bool stop = true;
	assert_int_equal(scanner_range_end(s, 8, 1, 3, &stop, &end, &err), ERROR_TIMEOUT);
	/* A change that no look can see is seen by whoever reads those bytes. */
	kit_put(f->path, 0, "X", 1);
	(void)kit_look(s);
	scanner_free(s);
}

static void restart_reads_only_the_rest(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_CSV, LINE_MAX_DEFAULT);
	char *longest = mem_alloc(LINE_MAX_DEFAULT + 1);
	memset(longest, 'x', LINE_MAX_DEFAULT);
	kit_append(f->path, "a,b\n");
	kit_append(f->path, longest);
	kit_append(f->path, "\n");
	free(longest);
	kit_append_lines(f->path, "sample,", 0, 200000); /* more than two blocks */
	kit_append(f->path, "half");
	scan_view before = kit_look(s);
	assert_true(before.end.size > 3 * 1024 * 1024);
	s = kit_restarted(f->path, FORMAT_CSV, s);
	/* One look that may read next to nothing knows all again. */
	assert_int_equal(scanner_look(s, 16), 0);
	scan_view after;
	scanner_view(s, &after);
	assert_false(after.more);
	assert_memory_equal(&after.end, &before.end, sizeof after.end);
	assert_int_equal(after.generation, 1);
	assert_int_equal(after.waiting_bytes, 4);
	assert_int_equal(after.skipped, 1);
	s = kit_restarted(f->path, FORMAT_CSV, s);
	after = kit_look(s);
	assert_int_equal(after.generation, 1);
	assert_int_equal(after.skipped, 1);
	kit_append(f->path, ",1\n");
	after = kit_look(s);
	assert_counts(&after, 200001, 0);
	s = kit_restarted(f->path, FORMAT_CSV, s);
	kit_rewrite(f->path, "a,b\n1,2\n");
	after = kit_look(s);
	assert_counts(&after, 1, 0);
	assert_int_equal(after.generation, 2);
	scanner_free(s);
}

static void damaged_state_is_refused(void **state)
{
	fixture *f = *state;
	buf text = {0};
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append(f->path, "a\nb\n");
	(void)kit_look(s);
	scanner_save(s, &text);
	scanner_free(s);
	s = scanner_new(f->path, FORMAT_CSV, LINE_MAX_DEFAULT);
	assert_int_equal(scanner_restore(s, text.data, text.len, NULL), ERROR_INVALID);
	scanner_free(s);
	s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	for (size_t cut = 0; cut < text.len; cut += 7)
		assert_true(scanner_restore(s, text.data, cut, NULL) < 0);
	assert_counts_of(s, 2);
	scanner_free(s);
	buf_fini(&text);
}

/* Called before the n-th pread from now on. */
static void (*interrupt)(const char *path);
static const char *interrupt_path;
static int interrupt_after;

ssize_t __real_pread(int fd, void *data, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *data, size_t len, off_t offset)
{
	if (interrupt != NULL && --interrupt_after == 0) {
		interrupt(interrupt_path);
		interrupt = NULL;
	}
	return __real_pread(fd, data, len, offset);
}

static void write_anew(const char *path)
{
	kit_rewrite(path, "");
	kit_append_lines(path, "new ", 0, 4000);
}

/* Emptied and written again between any two reads of a look: what the next looks count is what is in the file. */
static void rewritten_while_read(void **state)
{
	fixture *f = *state;
	for (int n = 1; n <= 3; n++) { /* compare, read, compare */
		scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
		kit_rewrite(f->path, "");
		kit_append_lines(f->path, "old ", 0, 1000);
		(void)kit_look(s);
		kit_append_lines(f->path, "older ", 0, 1500);
		interrupt = write_anew;
		interrupt_path = f->path;
		interrupt_after = n;
		scan_view v = kit_look(s);
		interrupt = NULL;
		v = kit_look(s);
		assert_counts(&v, 4000, 0);
		scanner_free(s);
	}
}

static void forgetting_reads_again(void **state)
{
	fixture *f = *state;
	scanner *s = scanner_new(f->path, FORMAT_TXT, LINE_MAX_DEFAULT);
	kit_append_lines(f->path, "a ", 0, 2000);
	scan_view v = kit_look(s);
	kit_put(f->path, 0, "b", 1); /* long past: no look sees it */
	assert_int_equal(kit_look(s).generation, 1);
	scanner_forget(s);
	scan_view again = kit_look(s);
	assert_counts(&again, 2000, 0);
	assert_int_equal(again.generation, 2);
	assert_false(digest_equal(&again.end.digest, &v.end.digest));
	scanner_free(s);
}

/* Where the node's file system is mounted below a folder, its links mean what they mean there. */
static void links_below_a_root(void **state)
{
	char *root = unit_folder(), *folder = mem_printf("%s/srv", root), *file = mem_printf("%s/srv/ds.txt", root),
		 *link = mem_printf("%s/ds.txt", root);
	scan_view v;
	(void)state;

	assert_int_equal(file_make_dirs(folder, 0755, NULL), 0);
	assert_int_equal(file_write(file, "a\nb\n", 4, 0644, NULL), 0);
	assert_int_equal(symlink("/srv/ds.txt", link), 0);
	scanner *s = scanner_new("/ds.txt", FORMAT_TXT, LINE_MAX_DEFAULT);
	scanner_set_root(s, root);
	assert_int_equal(scanner_look(s, 1000), 0);
	scanner_view(s, &v);
	assert_int_equal(v.end.samples, 2);
	scanner_free(s);
	free(link);
	free(file);
	free(folder);
	unit_folder_remove(root);
}

static void urls_that_are_no_local_path(void **state)
{
	static const struct {
		const char *url;
		int code;
		const char *text;
	} rows[] = {
		{"s3://bucket/pts.csv", ERROR_UNSUPPORTED,
			"dataset: s3://bucket/pts.csv is neither a path from the root nor an s3:// url, and one of them is needed here"},
		{"data/pts.csv", ERROR_INVALID, "dataset: data/pts.csv is relative to nothing that is known: an absolute path is needed"},
	};
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		scanner *s = scanner_new(rows[i].url, FORMAT_CSV, LINE_MAX_DEFAULT);
		scan_view v;
		assert_int_equal(scanner_look(s, 1000), rows[i].code);
		scanner_view(s, &v);
		assert_string_equal(v.error, rows[i].text);
		scanner_free(s);
	}
}

int main(void)
{
	mem_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(file_comes_goes_and_comes_back),
		TEST(half_a_line_waits),
		TEST(long_line_is_counted),
		TEST(header_too_long_is_a_problem),
		TEST(emptied_file_starts_over),
		TEST(slices_read_no_more_than_asked),
		TEST(cursors_are_located),
		TEST(replaced_file_with_the_same_beginning),
		TEST(ranges_keep_to_their_size),
		TEST(restart_reads_only_the_rest),
		TEST(damaged_state_is_refused),
		TEST(rewritten_while_read),
		TEST(forgetting_reads_again),
		cmocka_unit_test(links_below_a_root),
		cmocka_unit_test(urls_that_are_no_local_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
