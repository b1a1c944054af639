/* Files: bounded reads, whole writes, removal that does not follow links, renames that do not replace, paths. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/path.h"

typedef struct folder {
	char *path;
	char *at[8]; /* names below it, made by `in` */
	size_t n;
} folder;

static int setup(void **state)
{
	folder *f = mem_alloc(sizeof *f);
	f->path = unit_folder();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	folder *f = *state;
	for (size_t i = 0; i < f->n; i++)
		free(f->at[i]);
	unit_folder_remove(f->path);
	free(f);
	return 0;
}

static const char *in(folder *f, const char *name)
{
	assert_true(f->n < 8);
	return f->at[f->n++] = mem_printf("%s/%s", f->path, name);
}

static void write_text(const char *path, const char *text)
{
	error err = {0};
	if (file_write(path, text, strlen(text), 0644, &err) != 0)
		fail_msg("%s", err.text);
}

static void assert_text(const char *path, const char *text)
{
	buf b = {0};
	error err = {0};
	if (file_read(path, 1 << 20, &b, &err) != 0)
		fail_msg("%s", err.text);
	assert_string_equal(buf_text(&b), text);
	buf_fini(&b);
}

static bool there(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0;
}

/* A call that a test makes fail: the errno, 0 for the real one. */
static int fail_rename2, fail_fsync, fail_link, fail_write, interrupts;
static bool short_write; /* a byte at a time */
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	errno = interrupts > 0 ? EINTR : fail_write;
	if (interrupts > 0)
		interrupts--;
	return errno != 0 ? -1 : __real_write(fd, data, short_write && len > 1 ? 1 : len);
}

int __real_renameat2(int, const char *, int, const char *, unsigned);
int __wrap_renameat2(int, const char *, int, const char *, unsigned);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	errno = fail_rename2;
	return fail_rename2 != 0 ? -1 : __real_renameat2(a, from, b, to, flags);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	errno = fail_fsync;
	return fail_fsync != 0 ? -1 : __real_fsync(fd);
}

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
	errno = fail_link;
	return fail_link != 0 ? -1 : __real_link(from, to);
}

static void read_is_bounded(void **state)
{
	const char *path = in(*state, "f");
	write_text(path, "12345");
	buf b = {0};
	error err = {0};
	buf_puts(&b, "<");
	assert_int_equal(file_read(path, 5, &b, &err), 0);
	assert_string_equal(buf_text(&b), "<12345");
	assert_int_equal(file_read(path, 4, &b, &err), ERROR_LIMIT);
	assert_string_equal(buf_text(&b), "<12345");
	assert_int_equal(file_read(path, 0, &b, &err), ERROR_LIMIT);
	assert_int_equal(file_read(in(*state, "none"), 4, &b, &err), ERROR_NOT_FOUND);
	assert_int_equal(file_read(((folder *)*state)->path, 4, &b, &err), ERROR_IO);
	assert_int_equal(b.len, 6);
	/* A file whose size the system does not say. */
	assert_int_equal(file_read("/dev/zero", 100000, &b, &err), ERROR_LIMIT);
	buf_fini(&b);
}

static void read_of_more_than_one_step(void **state)
{
	const char *path = in(*state, "f");
	size_t size = 3 * 64 * 1024 + 17;
	char *data = mem_alloc(size);
	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 7);
	assert_int_equal(file_write(path, data, size, 0600, NULL), 0);
	buf b = {0};
	assert_int_equal(file_read(path, size, &b, NULL), 0);
	assert_int_equal(b.len, size);
	assert_memory_equal(b.data, data, size);
	buf_clear(&b);
	assert_int_equal(file_read(path, size - 1, &b, NULL), ERROR_LIMIT);
	free(data);
	buf_fini(&b);
}

static void write_replaces_and_sets_the_mode(void **state)
{
	const char *path = in(*state, "f");
	struct stat st;
	write_text(path, "one");
	mode_t before = umask(077);
	assert_int_equal(file_write(path, "two", 3, 0664, NULL), 0);
	umask(before);
	assert_text(path, "two");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0664);
}

static void write_by_a_name_replaces_what_a_crash_left(void **state)
{
	char *temp = mem_strdup(in(*state, "f.new"));
	const char *path = in(*state, "f");
	write_text(temp, "half of something longer");
	assert_int_equal(chmod(temp, 0444), 0);
	assert_int_equal(file_write_by(temp, path, "one", 3, 0640, NULL), 0);
	assert_text(path, "one");
	assert_int_equal(access(temp, F_OK), -1);
	assert_int_equal(symlink(path, temp), 0); /* whoever put it there does not choose what is written to */
	assert_int_equal(file_write_by(temp, path, "two", 3, 0640, NULL), 0);
	assert_text(path, "two");
	free(temp);
}

static size_t entries(const char *path)
{
	size_t n = 0;
	char *command = mem_printf("ls -A '%s' | wc -l", path);
	FILE *f = popen(command, "r");
	if (fscanf(f, "%zu", &n) != 1)
		fail_msg("ls failed");
	pclose(f);
	free(command);
	return n;
}

static void failed_write_leaves_what_was_there(void **state)
{
	const char *path = in(*state, "f");
	error err = {0};
	write_text(path, "old");
	fail_fsync = ENOSPC;
	assert_int_equal(file_write(path, "new", 3, 0644, &err), ERROR_NO_SPACE);
	fail_fsync = 0;
	assert_non_null(strstr(err.text, path));
	assert_text(path, "old");
	assert_int_equal(entries(((folder *)*state)->path), 1);
	/* A target that cannot be replaced by a file. */
	const char *dir = in(*state, "d");
	assert_int_equal(file_make_dirs(dir, 0755, NULL), 0);
	assert_int_equal(file_write(dir, "x", 1, 0644, &err), ERROR_IO);
	assert_int_equal(entries(((folder *)*state)->path), 2);
	assert_int_equal(file_write(in(*state, "none/f"), "x", 1, 0644, &err), ERROR_NOT_FOUND);
}

static void full_disk_is_no_space(void **state)
{
	const char *path = in(*state, "f");
	error err = {0};
	write_text(path, "old");
	fail_write = ENOSPC;
	assert_int_equal(file_write(path, "new", 3, 0644, &err), ERROR_NO_SPACE);
	fail_write = 0;
	assert_text(path, "old");
	assert_int_equal(entries(((folder *)*state)->path), 1);
	/* Nothing to write is written all the same. */
	assert_int_equal(file_write(path, "", 0, 0644, &err), 0);
	assert_text(path, "");
}

static void interrupted_and_short_writes_go_on(void **state)
{
	const char *path = in(*state, "f");
	short_write = true;
	interrupts = 3;
	write_text(path, "12345");
	short_write = false;
	assert_int_equal(interrupts, 0);
	assert_text(path, "12345");
}

static void long_names_can_be_written(void **state)
{
	char name[256];
	memset(name, 'n', 255);
	name[255] = '\0';
	write_text(in(*state, name), "x");
}

static void dirs_are_made_as_needed(void **state)
{
	folder *f = *state;
	struct stat st;
	error err = {0};
	mode_t before = umask(077);
	assert_int_equal(file_make_dirs(in(f, "a/b//c/"), 0755, &err), 0);
	umask(before);
	assert_int_equal(stat(in(f, "a/b/c"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(file_make_dirs(in(f, "a/b/c"), 0700, &err), 0);
	assert_int_equal(stat(in(f, "a/b/c"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	write_text(in(f, "a/file"), "");
	assert_int_equal(file_make_dirs(in(f, "a/file/x"), 0755, &err), ERROR_IO);
	assert_non_null(strstr(err.text, "a/file:"));
	/* A link to a folder is a folder. */
	assert_int_equal(symlink("a", in(f, "l")), 0);
	assert_int_equal(file_make_dirs(in(f, "l/new"), 0755, &err), 0);
}

static void remove_does_not_follow_links(void **state)
{
	folder *f = *state;
	const char *keep = in(f, "keep"), *kept = in(f, "keep/f"), *tree = in(f, "t");
	error err = {0};
	assert_int_equal(file_make_dirs(keep, 0755, NULL), 0);
	write_text(kept, "x");
	assert_int_equal(file_make_dirs(in(f, "t/a/b"), 0755, NULL), 0);
	write_text(in(f, "t/a/f"), "x");
	assert_int_equal(symlink("../../keep", in(f, "t/a/link")), 0);
	assert_int_equal(symlink("nowhere", in(f, "t/dangling")), 0);
	assert_int_equal(file_remove_tree(tree, &err), 0);
	assert_false(there(tree));
	assert_text(kept, "x");
	/* Also the path itself. */
	assert_int_equal(symlink("keep", tree), 0);
	assert_int_equal(file_remove_tree(tree, &err), 0);
	assert_false(there(tree));
	assert_text(kept, "x");
	assert_int_equal(file_remove_tree(tree, &err), 0);
	assert_int_equal(file_remove_tree(kept, &err), 0);
	assert_false(there(kept));
}

static void remove_is_bounded_in_depth(void **state)
{
	folder *f = *state;
	buf path = {0};
	error err = {0};
	buf_printf(&path, "%s/t", f->path);
	for (int i = 0; i < 70; i++)
		buf_puts(&path, "/d");
	assert_int_equal(file_make_dirs(buf_text(&path), 0755, NULL), 0);
	assert_int_equal(file_remove_tree(in(f, "t"), &err), ERROR_LIMIT);
	/* From further inside it works, and then from the top. */
	assert_int_equal(file_remove_tree(in(f, "t/d/d/d/d/d/d/d/d"), &err), 0);
	assert_int_equal(file_remove_tree(in(f, "t"), &err), 0);
	buf_fini(&path);
}

static void rename_checks(folder *f)
{
	const char *a = in(f, "a"), *b = in(f, "b"), *d = in(f, "d"), *e = in(f, "e");
	error err = {0};
	write_text(a, "a");
	write_text(b, "b");
	assert_int_equal(file_rename_new(a, b, &err), ERROR_EXISTS);
	assert_text(a, "a");
	assert_text(b, "b");
	assert_int_equal(file_remove_tree(b, NULL), 0);
	/* A dangling link is there too. */
	assert_int_equal(symlink("nowhere", b), 0);
	assert_int_equal(file_rename_new(a, b, &err), ERROR_EXISTS);
	assert_int_equal(file_remove_tree(b, NULL), 0);
	assert_int_equal(file_rename_new(a, b, &err), 0);
	assert_false(there(a));
	assert_text(b, "a");
	assert_int_equal(file_rename_new(a, b, &err), ERROR_NOT_FOUND);
	assert_int_equal(file_make_dirs(d, 0755, NULL), 0);
	assert_int_equal(file_make_dirs(e, 0755, NULL), 0);
	assert_int_equal(file_rename_new(d, e, &err), ERROR_EXISTS);
	assert_int_equal(file_remove_tree(e, NULL), 0);
	assert_int_equal(file_rename_new(d, e, &err), 0);
	assert_false(there(d));
	assert_true(there(e));
}

static void rename_never_replaces(void **state)
{
	rename_checks(*state);
}

static void rename_without_the_system_call(void **state)
{
	fail_rename2 = EINVAL;
	rename_checks(*state);
	fail_rename2 = 0;
}

static void rename_without_links(void **state)
{
	fail_rename2 = ENOSYS;
	fail_link = EPERM;
	rename_checks(*state);
	fail_rename2 = fail_link = 0;
}

static void sync_of_a_folder(void **state)
{
	folder *f = *state;
	error err = {0};
	assert_int_equal(file_sync_dir(f->path, &err), 0);
	fail_fsync = EINVAL;
	assert_int_equal(file_sync_dir(f->path, &err), 0);
	fail_fsync = EIO;
	assert_int_equal(file_sync_dir(f->path, &err), ERROR_IO);
	fail_fsync = 0;
	assert_int_equal(file_sync_dir(in(f, "none"), &err), ERROR_NOT_FOUND);
}

static void parents(void **state)
{
	(void)state;
	static const char *const table[][2] = {
		{"/a/b/c", "/a/b"}, {"a/b/", "a/b"}, {"x", "."}, {"/x", "/"}, {"/", "/"}, {"", "."}, {"a//b", "a/"}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char *parent = file_parent(table[i][0]);
		assert_string_equal(parent, table[i][1]);
		free(parent);
	}
}

static void clean_paths(void **state)
{
	(void)state;
	const char *const clean[] = {"/a", "/a/b.c", "/a/..b", "/a/b..", "/...", "/a b", "/a /b", "/\xC3\xA9"};
	const char *const unclean[] = {
		"", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/a\nb", "/a\x7f", "/a ", "/a/ "};
	for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++)
		assert_true(path_is_clean(clean[i]));
	for (size_t i = 0; i < sizeof unclean / sizeof unclean[0]; i++)
		assert_false(path_is_clean(unclean[i]));
	assert_false(path_is_clean(NULL));
	char long_path[4097];
	memset(long_path, 'x', sizeof long_path);
	long_path[0] = '/';
	long_path[4095] = '\0';
	assert_true(path_is_clean(long_path));
	long_path[4095] = 'x';
	long_path[4096] = '\0';
	assert_false(path_is_clean(long_path));
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(read_is_bounded),
		IN_A_FOLDER(read_of_more_than_one_step),
		IN_A_FOLDER(write_replaces_and_sets_the_mode),
		IN_A_FOLDER(write_by_a_name_replaces_what_a_crash_left),
		IN_A_FOLDER(failed_write_leaves_what_was_there),
		IN_A_FOLDER(full_disk_is_no_space),
		IN_A_FOLDER(interrupted_and_short_writes_go_on),
		IN_A_FOLDER(long_names_can_be_written),
		IN_A_FOLDER(dirs_are_made_as_needed),
		IN_A_FOLDER(remove_does_not_follow_links),
		IN_A_FOLDER(remove_is_bounded_in_depth),
		IN_A_FOLDER(rename_never_replaces),
		IN_A_FOLDER(rename_without_the_system_call),
		IN_A_FOLDER(rename_without_links),
		IN_A_FOLDER(sync_of_a_folder),
		cmocka_unit_test(parents),
		cmocka_unit_test(clean_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
