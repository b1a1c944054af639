/* Files that are being fetched: all of the new one or what was there before, parts that are gone on with, parts that are not. */
#include "tests/unit/unit.h"

#include <dirent.h>

#include "transfer/sink.h"

#define BIG (SINK_PART_FROM + 10)
#define SOURCE "s3://b/k"

static char *folder, *target;

static int begin(void **state)
{
	(void)state;
	folder = unit_folder();
	target = mem_printf("%s/model", folder);
	return 0;
}

static int end(void **state)
{
	(void)state;
	unit_folder_remove(folder);
	free(target);
	return 0;
}

static int entries(void)
{
	int n = -2; /* "." and ".." */
	DIR *d = opendir(folder);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void put(sink *s, char c, size_t n)
{
	char *data = mem_alloc(n + 1);
	memset(data, c, n);
	assert_int_equal(sink_write(s, data, n, NULL), 0);
	free(data);
}

/* A part with n bytes of a big file, as a process that was killed leaves it. */
static void leave_part(const char *etag, size_t n)
{
	sink s;
	assert_int_equal(sink_open(&s, target, SOURCE, true, NULL), 0);
	assert_int_equal(sink_begin(&s, etag, BIG, NULL), 0);
	put(&s, 'a', n);
	sink_close(&s);
}

static char first_and_size(const char *path, int64_t *size)
{
	char c = '\0';
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_true(read(fd, &c, 1) >= 0);
	*size = lseek(fd, 0, SEEK_END);
	close(fd);
	return c;
}

static void small_files_have_no_part(void **state)
{
	sink s;
	int64_t size;
	(void)state;
	for (int i = 0; i < 2; i++) { /* the second replaces the first */
		assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
		assert_int_equal(s.have, 0);
		assert_int_equal(sink_begin(&s, "\"e\"", 3, NULL), 0);
		put(&s, i == 0 ? 'x' : 'y', 3);
		assert_int_equal(entries(), i);
		assert_int_equal(sink_commit(&s, true, NULL), 0);
		sink_close(&s);
		assert_int_equal(first_and_size(target, &size), i == 0 ? 'x' : 'y');
		assert_int_equal(size, 3);
		assert_int_equal(entries(), 1);
	}
}

static void given_up(void **state)
{
	sink s;
	(void)state;
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	assert_int_equal(sink_begin(&s, "\"e\"", 3, NULL), 0);
	put(&s, 'x', 2);
	sink_close(&s);
	assert_int_equal(entries(), 0);
	/* A version that cannot be asked for again is no use. */
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	assert_int_equal(sink_begin(&s, "W/\"e\"", BIG, NULL), 0);
	put(&s, 'x', 2);
	sink_close(&s);
	assert_int_equal(entries(), 0);
}

static void goes_on(void **state)
{
	sink s;
	int64_t size;
	(void)state;
	leave_part("\"e\"", 100);
	assert_int_equal(entries(), 2);
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	assert_int_equal(s.have, 100);
	assert_int_equal(s.size, BIG);
	assert_string_equal(s.etag, "\"e\"");
	put(&s, 'b', BIG - 100);
	assert_int_equal(sink_commit(&s, true, NULL), 0);
	sink_close(&s);
	assert_int_equal(entries(), 1);
	assert_int_equal(first_and_size(target, &size), 'a');
	assert_int_equal(size, BIG);
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* Whatever moment it is, the next one that has the file whole leaves that and nothing else. */
static void killed_beside_the_part(void **state)
{
	static const size_t sizes[2] = {BIG, 3};
	sink s;
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		leave_part("\"e\"", 100);
		assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
		touch(s.next); /* while the state was written */
		if (i % 2 == 1)
			assert_int_equal(unlink(s.part), 0); /* while the part was removed, or had become the file */
		sink_close(&s);
		assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
		assert_int_equal(sink_begin(&s, "\"f\"", (int64_t)sizes[i / 2], NULL), 0);
		put(&s, 'b', sizes[i / 2]);
		assert_int_equal(sink_commit(&s, true, NULL), 0);
		sink_close(&s);
		assert_int_equal(entries(), 1);
		assert_int_equal(unlink(target), 0);
	}
}

static void not_of_this_source(void **state)
{
	sink s;
	(void)state;
	leave_part("\"e\"", 100);
	assert_int_equal(sink_open(&s, target, "s3://b/other", false, NULL), 0);
	assert_int_equal(s.have, 0);
	sink_close(&s);
	assert_int_equal(entries(), 0);
}

static void not_when_fresh(void **state)
{
	sink s;
	(void)state;
	leave_part("\"e\"", 100);
	assert_int_equal(sink_open(&s, target, SOURCE, true, NULL), 0);
	assert_int_equal(s.have, 0);
	sink_close(&s);
	assert_int_equal(entries(), 0);
}

/* The state of another boot of the machine: only what was synced is sure. */
static void after_a_boot(void **state)
{
	sink s;
	error err = {0};
	buf b = {0};
	(void)state;
	leave_part("\"e\"", 100);
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	char *path = mem_strdup(s.state);
	sink_close(&s);
	assert_int_equal(file_read(path, 4096, &b, &err), 0);
	char *boot = strstr(b.data, "\"boot\":\"");
	assert_non_null(boot);
	boot[8] = boot[8] == '0' ? '1' : '0';
	assert_int_equal(file_write(path, b.data, b.len, 0644, &err), 0);
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	assert_int_equal(s.have, 0);
	sink_close(&s);
	buf_fini(&b);
	free(path);
}

static void damaged_state(void **state)
{
	static const char *const bad[] = {"", "{", "[]", "{\"v\":1}", "{\"source\":\"x\"}"};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		sink s;
		leave_part("\"e\"", 100);
		assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
		char *path = mem_strdup(s.state);
		sink_close(&s);
		assert_int_equal(file_write(path, bad[i], strlen(bad[i]), 0644, NULL), 0);
		assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
		assert_int_equal(s.have, 0);
		sink_close(&s);
		free(path);
	}
}

static void one_process_at_a_time(void **state)
{
	sink a, b;
	(void)state;
	leave_part("\"e\"", 100);
	assert_int_equal(sink_open(&a, target, SOURCE, false, NULL), 0);
	assert_int_equal(sink_open(&b, target, SOURCE, false, NULL), ERROR_EXISTS);
	sink_close(&b);
	put(&a, 'b', BIG - 100);
	assert_int_equal(sink_commit(&a, false, NULL), 0);
	sink_close(&a);
}

static void more_than_announced(void **state)
{
	sink s;
	(void)state;
	assert_int_equal(sink_open(&s, target, SOURCE, false, NULL), 0);
	assert_int_equal(sink_begin(&s, "", 3, NULL), 0);
	assert_int_equal(sink_write(&s, "abcd", 4, NULL), ERROR_CORRUPT);
	sink_close(&s);
	assert_int_equal(entries(), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(small_files_have_no_part),
		TEST(given_up),
		TEST(goes_on),
		TEST(killed_beside_the_part),
		TEST(not_of_this_source),
		TEST(not_when_fresh),
		TEST(after_a_boot),
		TEST(damaged_state),
		TEST(one_process_at_a_time),
		TEST(more_than_announced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
