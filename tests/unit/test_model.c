/* Models: digests, copies of files and folders over each other, links, what is refused; and that a reader never sees a mixture. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "edge-agent/storage/model.h"
#include "tests/unit/fault_kit.h"

FAULT_FSYNC

typedef struct fixture {
	char *folder;
	char *at[64]; /* paths made by `in` */
	size_t n;
} fixture;

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	for (size_t i = 0; i < f->n; i++)
		free(f->at[i]);
	unit_folder_remove(f->folder);
	free(f);
	return 0;
}

static const char *in(fixture *f, const char *name)
{
	assert_true(f->n < sizeof f->at / sizeof *f->at);
	return f->at[f->n++] = mem_printf("%s/%s", f->folder, name);
}

static void put(const char *path, const void *data, size_t len)
{
	error err = {0};
	if (file_write(path, data, len, 0644, &err) != 0)
		fail_msg("%s", err.text);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void make_folder(const char *path)
{
	assert_int_equal(mkdir(path, 0755), 0);
}

static void assert_text(const char *path, const char *text)
{
	buf b = {0};
	if (file_read(path, 1 << 20, &b, NULL) != 0)
		fail_msg("cannot read %s", path);
	assert_string_equal(buf_text(&b), text);
	buf_fini(&b);
}

static model_info copy(const char *from, const char *to)
{
	model_info info;
	error err = {0};
	if (model_copy(from, to, NULL, NULL, &info, &err) != 0)
		fail_msg("%s", err.text);
	return info;
}

static void assert_refused(const char *from, const char *to, int code)
{
	model_info info;
	error err = {0};
	assert_int_equal(model_copy(from, to, NULL, NULL, &info, &err), code);
	assert_true(err.text[0] != '\0');
}

static struct stat stat_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static void digest_of_a_file(void **state)
{
	fixture *f = *state;
	model_info info;
	digest d;
	put_text(in(f, "m"), "hello");
	assert_int_equal(model_digest(in(f, "m"), NULL, &info, NULL), 0);
	digest_of("hello", 5, &d);
	assert_true(digest_equal(&d, &info.sha256));
	assert_int_equal(info.bytes, 5);
	assert_false(info.folder);
	assert_int_equal(model_digest(in(f, "none"), NULL, &info, NULL), ERROR_NOT_FOUND);
	assert_int_equal(mkfifo(in(f, "pipe"), 0644), 0);
	assert_int_equal(model_digest(in(f, "pipe"), NULL, &info, NULL), ERROR_INVALID);
}

static void digest_of_a_folder(void **state)
{
	fixture *f = *state;
	model_info info, other;
	digest d, a, b;
	make_folder(in(f, "m"));
	make_folder(in(f, "m/sub"));
	put_text(in(f, "m/b"), "B");
	put_text(in(f, "m/sub/a"), "AA");
	assert_int_equal(symlink("sub/a", in(f, "m/l")), 0);
	assert_int_equal(model_digest(in(f, "m"), NULL, &info, NULL), 0);
	/* By hand, from the description in the header. */
	digest_of("B", 1, &b);
	digest_of("AA", 2, &a);
	sha256 *h = sha256_new();
	sha256_add(h, "fb\0001", 5);
	sha256_add(h, b.b, DIGEST_SIZE);
	sha256_add(h, "ll\0sub/a\0dsub\0fsub/a\0002", 23);
	sha256_add(h, a.b, DIGEST_SIZE);
	sha256_end(h, &d);
	sha256_free(h);
	assert_true(info.folder);
	assert_int_equal(info.entries, 4);
	assert_int_equal(info.bytes, 3);
	assert_true(digest_equal(&d, &info.sha256));
	(void)copy(in(f, "m"), in(f, "n"));
	assert_int_equal(model_digest(in(f, "n"), NULL, &other, NULL), 0);
	assert_true(digest_equal(&other.sha256, &info.sha256));
}

static void small_over_large(void **state)
{
	fixture *f = *state;
	char *large = mem_alloc(3 * 1024 * 1024);
	memset(large, 'L', 3 * 1024 * 1024);
	put(in(f, "target"), large, 3 * 1024 * 1024);
	put_text(in(f, "new"), "small");
	assert_int_equal(chmod(in(f, "target"), 0640), 0);
	model_info info = copy(in(f, "new"), in(f, "target"));
	assert_int_equal(info.bytes, 5);
	assert_text(in(f, "target"), "small");
	assert_int_equal(stat_of(in(f, "target")).st_mode & 07777, 0640);
	free(large);
}

static void modes_and_owners_are_kept(void **state)
{
	fixture *f = *state;
	put_text(in(f, "new"), "x");
	assert_int_equal(chmod(in(f, "new"), 04751), 0);
	(void)copy(in(f, "new"), in(f, "first"));
	assert_int_equal(stat_of(in(f, "first")).st_mode & 07777, 0751);
	put_text(in(f, "locked"), "old");
	assert_int_equal(chmod(in(f, "locked"), 0444), 0);
	bool root = geteuid() == 0;
	if (root)
		assert_int_equal(chown(in(f, "locked"), 12345, 23456), 0);
	(void)copy(in(f, "new"), in(f, "locked"));
	struct stat st = stat_of(in(f, "locked"));
	assert_int_equal(st.st_mode & 07777, 0444);
	if (root) {
		assert_int_equal(st.st_uid, 12345);
		assert_int_equal(st.st_gid, 23456);
	}
}

static void folders_and_files_over_each_other(void **state)
{
	fixture *f = *state;
	make_folder(in(f, "new"));
	make_folder(in(f, "new/shut"));
	put_text(in(f, "new/shut/weights"), "w2");
	put_text(in(f, "new/graph"), "g2");
	assert_int_equal(chmod(in(f, "new/shut"), 0555), 0);
	make_folder(in(f, "target"));
	put_text(in(f, "target/graph"), "g1");
	put_text(in(f, "target/left-over"), "l1");
	assert_int_equal(chmod(in(f, "target"), 0750), 0);
	(void)copy(in(f, "new"), in(f, "target"));
	assert_text(in(f, "target/graph"), "g2");
	assert_text(in(f, "target/shut/weights"), "w2");
	assert_int_not_equal(access(in(f, "target/left-over"), F_OK), 0);
	assert_int_equal(stat_of(in(f, "target")).st_mode & 07777, 0750);
	assert_int_equal(stat_of(in(f, "target/shut")).st_mode & 07777, 0555);
	put_text(in(f, "file"), "f3");
	(void)copy(in(f, "file"), in(f, "target"));
	assert_text(in(f, "target"), "f3");
	(void)copy(in(f, "new"), in(f, "target"));
	assert_text(in(f, "target/graph"), "g2");
	/* A '/' at the end is a folder, whatever is there. */
	(void)copy(in(f, "new"), in(f, "target/"));
	(void)copy(in(f, "new/"), in(f, "made/on/the/way/"));
	assert_text(in(f, "made/on/the/way/graph"), "g2");
	assert_refused(in(f, "file"), in(f, "target/"), ERROR_INVALID);
	assert_int_equal(chmod(in(f, "new/shut"), 0755), 0);
	assert_int_equal(chmod(in(f, "target/shut"), 0755), 0);
	assert_int_equal(chmod(in(f, "made/on/the/way/shut"), 0755), 0);
}

static void link_stays_and_its_end_is_replaced(void **state)
{
	fixture *f = *state;
	make_folder(in(f, "store"));
	put_text(in(f, "store/v1"), "old");
	put_text(in(f, "new"), "new");
	assert_int_equal(symlink("store/v1", in(f, "hop")), 0);
	assert_int_equal(symlink(in(f, "hop"), in(f, "target")), 0);
	(void)copy(in(f, "new"), in(f, "target"));
	assert_true(S_ISLNK(stat_of(in(f, "target")).st_mode));
	assert_true(S_ISLNK(stat_of(in(f, "hop")).st_mode));
	assert_true(S_ISREG(stat_of(in(f, "store/v1")).st_mode));
	assert_text(in(f, "target"), "new");
	/* One that leads nowhere yet. */
	assert_int_equal(symlink("store/v2", in(f, "dangling")), 0);
	(void)copy(in(f, "new"), in(f, "dangling"));
	assert_text(in(f, "store/v2"), "new");
	assert_int_equal(symlink("loop", in(f, "loop")), 0);
	assert_refused(in(f, "new"), in(f, "loop"), ERROR_INVALID);
}

static void the_same_is_not_written(void **state)
{
	fixture *f = *state;
	put_text(in(f, "m"), "same");
	put_text(in(f, "copy"), "same");
	assert_int_equal(symlink("m", in(f, "link")), 0);
	struct stat one = stat_of(in(f, "m")), two = stat_of(in(f, "copy"));
	model_info info = copy(in(f, "m"), in(f, "m"));
	assert_int_equal(info.bytes, 4);
	(void)copy(in(f, "m"), in(f, "link"));
	(void)copy(in(f, "m"), in(f, "copy"));
	assert_int_equal(one.st_ino, stat_of(in(f, "m")).st_ino);
	assert_int_equal(two.st_ino, stat_of(in(f, "copy")).st_ino);
}

/* Of the same size, as models of one network are, and alike but for one byte, in the first piece that is compared, or the last. */
static void one_byte_is_another_model(void **state)
{
	enum { SIZE = 600 * 1024 };
	fixture *f = *state;
	char *data = mem_alloc(SIZE);
	static const size_t places[] = {0, 256 * 1024 - 1, 256 * 1024, SIZE - 1};
	memset(data, 'm', SIZE);
	put(in(f, "m"), data, SIZE);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		data[places[i]] = 'n';
		put(in(f, "copy"), data, SIZE);
		data[places[i]] = 'm';
		model_info info = copy(in(f, "m"), in(f, "copy")), there;
		assert_int_equal(model_digest(in(f, "copy"), NULL, &there, NULL), 0);
		assert_true(digest_equal(&info.sha256, &there.sha256));
	}
	ino_t ino = stat_of(in(f, "copy")).st_ino;
	(void)copy(in(f, "m"), in(f, "copy"));
	assert_int_equal(stat_of(in(f, "copy")).st_ino, ino);
	free(data);
}

static void one_in_the_other_is_refused(void **state)
{
	fixture *f = *state;
	make_folder(in(f, "m"));
	put_text(in(f, "m/a"), "a");
	put_text(in(f, "out"), "out");
	assert_refused(in(f, "m"), in(f, "m/copy"), ERROR_INVALID);
	assert_refused(in(f, "m/a"), in(f, "m"), ERROR_INVALID);
	assert_text(in(f, "m/a"), "a");
	assert_int_not_equal(access(in(f, "m/copy"), F_OK), 0);
	assert_refused(in(f, "m/a"), "/", ERROR_INVALID);
	assert_refused(in(f, "none"), in(f, "out"), ERROR_NOT_FOUND);
	assert_text(in(f, "out"), "out");
}

static void links_in_a_folder(void **state)
{
	fixture *f = *state;
	static const struct {
		const char *to;
		bool inside;
	} cases[] = {{"a", true}, {"./sub/../a", false}, {"../a", true}, {"../../outside", false}, {"/etc/passwd", false},
		{"../sub/none", true}, {"sub/../../../etc", false}, {"..", true}, {"../..", false}, {".././a", true}};
	make_folder(in(f, "m"));
	make_folder(in(f, "m/sub"));
	put_text(in(f, "m/a"), "a");
	const char *link = in(f, "m/sub/link"), *from = in(f, "m"), *to = in(f, "n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(symlink(cases[i].to, link), 0);
		if (cases[i].inside) {
			(void)copy(from, to);
			assert_true(S_ISLNK(stat_of(in(f, "n/sub/link")).st_mode));
		} else {
			assert_refused(from, to, ERROR_INVALID);
		}
		assert_int_equal(unlink(link), 0);
	}
	assert_int_equal(mkfifo(link, 0644), 0);
	assert_refused(from, to, ERROR_INVALID);
}

static void depth_and_number_are_bounded(void **state)
{
	fixture *f = *state;
	buf path = {0};
	buf_puts(&path, in(f, "m"));
	make_folder(buf_text(&path));
	for (int i = 0; i < 33; i++) {
		buf_puts(&path, "/d");
		make_folder(buf_text(&path));
	}
	assert_refused(in(f, "m"), in(f, "n"), ERROR_LIMIT);
	buf_fini(&path);
}

static void stops_when_told(void **state)
{
	fixture *f = *state;
	atomic_bool stop = true;
	model_info info;
	put_text(in(f, "m"), "m");
	put_text(in(f, "target"), "old");
	assert_int_equal(model_copy(in(f, "m"), in(f, "target"), &stop, NULL, &info, NULL), ERROR_TIMEOUT);
	assert_text(in(f, "target"), "old");
}

/* What is said to be known is what a copy has to be; of a model that is its own target, what it is now counts. */
static void what_was_known_has_to_be_so(void **state)
{
	fixture *f = *state;
	model_info known, info;
	struct stat st;
	put_text(in(f, "m"), "one");
	put_text(in(f, "target"), "old");
	assert_int_equal(model_digest(in(f, "m"), NULL, &known, NULL), 0);
	put_text(in(f, "m"), "two");
	assert_int_equal(model_copy(in(f, "m"), in(f, "target"), NULL, &known, &info, NULL), ERROR_CHANGED);
	assert_text(in(f, "target"), "old");
	assert_int_equal(model_copy(in(f, "m"), in(f, "m"), NULL, &known, &info, NULL), 0);
	assert_false(digest_equal(&info.sha256, &known.sha256));
	assert_int_equal(link(in(f, "m"), in(f, "linked")), 0);
	assert_int_equal(model_copy(in(f, "m"), in(f, "linked"), NULL, &known, &info, NULL), ERROR_CHANGED);
	assert_int_equal(model_digest(in(f, "m"), NULL, &known, NULL), 0);
	assert_int_equal(model_copy(in(f, "m"), in(f, "linked"), NULL, &known, &info, NULL), 0);
	assert_true(stat(in(f, "linked"), &st) == 0 && st.st_nlink == 2);
	assert_int_equal(model_copy(in(f, "m"), in(f, "target"), NULL, &known, &info, NULL), 0);
	assert_true(digest_equal(&info.sha256, &known.sha256));
	assert_text(in(f, "target"), "two");
}

/* ---- calls that behave otherwise ---- */

static bool no_exchange;

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	if (no_exchange && (flags & RENAME_EXCHANGE) != 0) {
		errno = EINVAL;
		return -1;
	}
	return __real_renameat2(a, from, b, to, flags);
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
static int64_t room = INT64_MAX;     /* bytes until the disk is full */
static const char *append_to = NULL; /* a file that grows at the next write */
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	if (append_to != NULL) {
		int other = open(append_to, O_WRONLY | O_APPEND | O_CLOEXEC);
		append_to = NULL;
		assert_int_equal(__real_write(other, "more", 4), 4);
		close(other);
	}
	if ((int64_t)len > room && room <= 0) {
		errno = ENOSPC;
		return -1;
	}
	if ((int64_t)len > room)
		len = (size_t)room; /* a disk gets full in the middle of a write */
	room -= room == INT64_MAX ? 0 : (int64_t)len;
	return __real_write(fd, data, len);
}

static void file_system_without_exchange(void **state)
{
	fixture *f = *state;
	make_folder(in(f, "new"));
	put_text(in(f, "new/a"), "2");
	make_folder(in(f, "d"));
	make_folder(in(f, "d/target"));
	put_text(in(f, "d/target/a"), "1");
	no_exchange = true;
	(void)copy(in(f, "new"), in(f, "d/target"));
	assert_text(in(f, "d/target/a"), "2");
	assert_int_not_equal(access(in(f, "d/.target.ilmare-old"), F_OK), 0);
	/* Ended in the moment in which the name was free: the old one is put back first, and only then replaced. */
	assert_int_equal(rename(in(f, "d/target"), in(f, "d/.target.ilmare-old")), 0);
	assert_refused(in(f, "new/a"), in(f, "d/target/"), ERROR_INVALID);
	assert_text(in(f, "d/target/a"), "2");
	no_exchange = false;
}

static void assert_no_litter(fixture *f)
{
	char *command = mem_printf("test -z \"$(find %s -name '.*.ilmare-*')\"", f->folder);
	assert_int_equal(system(command), 0);
	free(command);
}

static void source_that_changes_while_it_is_copied(void **state)
{
	fixture *f = *state;
	put_text(in(f, "new"), "new");
	put_text(in(f, "target"), "old");
	append_to = in(f, "new");
	assert_refused(in(f, "new"), in(f, "target"), ERROR_CHANGED);
	assert_text(in(f, "target"), "old");
	assert_no_litter(f);
}

static void full_disk_leaves_the_old(void **state)
{
	fixture *f = *state;
	make_folder(in(f, "new"));
	put_text(in(f, "new/a"), "0123456789");
	put_text(in(f, "new/b"), "0123456789");
	put_text(in(f, "target"), "old");
	const char *from = in(f, "new"), *to = in(f, "target");
	for (int64_t n = 0; n < 20; n++) {
		room = n;
		assert_refused(from, to, ERROR_NO_SPACE);
		room = INT64_MAX;
		assert_text(to, "old");
		assert_no_litter(f);
	}
	room = 20;
	(void)copy(from, to);
	room = INT64_MAX;
}

static void leftovers_are_removed(void **state)
{
	fixture *f = *state;
	put_text(in(f, "m"), "new");
	make_folder(in(f, ".target.ilmare-tmp-abcdef"));
	put_text(in(f, ".target.ilmare-tmp-abcdef/x"), "x");
	put_text(in(f, ".target.ilmare-tmp-123456"), "x");
	put_text(in(f, ".target.ilmare-old"), "x");
	put_text(in(f, ".other.ilmare-tmp-123456"), "x");
	put_text(in(f, "target"), "old");
	(void)copy(in(f, "m"), in(f, "target"));
	assert_int_not_equal(access(in(f, ".target.ilmare-tmp-abcdef"), F_OK), 0);
	assert_int_not_equal(access(in(f, ".target.ilmare-tmp-123456"), F_OK), 0);
	assert_int_not_equal(access(in(f, ".target.ilmare-old"), F_OK), 0);
	assert_int_equal(unlink(in(f, ".other.ilmare-tmp-123456")), 0);
}

static void long_names(void **state)
{
	fixture *f = *state;
	char name[256];
	memset(name, 'n', 255);
	name[255] = '\0';
	put_text(in(f, "m"), "new");
	const char *to = in(f, name);
	(void)copy(in(f, "m"), to);
	assert_text(to, "new");
}

/* ---- a reader that never rests ---- */

static void read_file_for_ever(const char *path, int report)
{
	char data[200001];
	for (;;) {
		int fd = open(path, O_RDONLY);
		size_t n = 0;
		for (ssize_t got; n < sizeof data && (got = read(fd, data + n, sizeof data - n)) > 0;)
			n += (size_t)got;
		close(fd);
		bool whole = fd >= 0 && n > 0 && (n == 200000 || n == 50000);
		for (size_t i = 1; whole && i < n; i++)
			whole = data[i] == data[0];
		if (!whole || data[0] != (n == 200000 ? 'o' : 'n'))
			(void)!write(report, "x", 1);
	}
}

static void read_folder_for_ever(const char *path, int report)
{
	for (;;) {
		char a[2] = {0}, b[2] = {0};
		int folder = open(path, O_RDONLY | O_DIRECTORY);
		int one = openat(folder, "a", O_RDONLY), two = openat(folder, "b", O_RDONLY);
		/* The old folder may be on its way out, then its files are gone; but what is there belongs together. */
		bool both = one >= 0 && two >= 0 && read(one, a, 1) == 1 && read(two, b, 1) == 1;
		if (folder < 0 || (both && a[0] != b[0]))
			(void)!write(report, "x", 1);
		close(one);
		close(two);
		close(folder);
	}
}

/* Copy one and the other model over the target while a process reads it; whatever that finds wrong makes the pipe readable. */
static void assert_never_mixed(const char *one, const char *two, const char *target, void (*reader)(const char *, int))
{
	int ends[2];
	char complaint;
	(void)copy(one, target);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail */
		reader(target, ends[1]);
	}
	for (int i = 0; i < 60; i++)
		(void)copy(i % 2 == 0 ? two : one, target);
	assert_true(read(ends[0], &complaint, 1) < 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

static void reader_sees_old_or_new(void **state)
{
	fixture *f = *state;
	char data[200000];
	memset(data, 'o', sizeof data);
	put(in(f, "old"), data, 200000);
	memset(data, 'n', sizeof data);
	put(in(f, "new"), data, 50000);
	assert_never_mixed(in(f, "old"), in(f, "new"), in(f, "target"), read_file_for_ever);
	make_folder(in(f, "v1"));
	make_folder(in(f, "v2"));
	put_text(in(f, "v1/a"), "1");
	put_text(in(f, "v1/b"), "1");
	put_text(in(f, "v2/a"), "2");
	put_text(in(f, "v2/b"), "2");
	assert_never_mixed(in(f, "v1"), in(f, "v2"), in(f, "folder"), read_folder_for_ever);
	assert_no_litter(f);
}

int main(void)
{
	mem_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(digest_of_a_file),
		TEST(digest_of_a_folder),
		TEST(small_over_large),
		TEST(modes_and_owners_are_kept),
		TEST(folders_and_files_over_each_other),
		TEST(link_stays_and_its_end_is_replaced),
		TEST(the_same_is_not_written),
		TEST(one_byte_is_another_model),
		TEST(one_in_the_other_is_refused),
		TEST(links_in_a_folder),
		TEST(depth_and_number_are_bounded),
		TEST(stops_when_told),
		TEST(what_was_known_has_to_be_so),
		TEST(file_system_without_exchange),
		TEST(source_that_changes_while_it_is_copied),
		TEST(full_disk_leaves_the_old),
		TEST(leftovers_are_removed),
		TEST(long_names),
		TEST(reader_sees_old_or_new),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
