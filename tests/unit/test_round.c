/* Folders of rounds: what is in them, adoption and moving aside, and that nothing half-made is ever left, whatever fails or is killed. */
#include "tests/unit/dataset_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "edge-agent/core/split.h"
#include "edge-agent/dataset/round.h"
#include "tests/unit/fault_kit.h"

FAULT_CALL(int, mkdir, false, (const char *path, mode_t mode), (path, mode))
FAULT_CALL(ssize_t, write, false, (int fd, const void *data, size_t len), (fd, data, len))
FAULT_FSYNC
FAULT_CALL(int, rename, false, (const char *from, const char *to), (from, to))
FAULT_CALL(int, renameat2, false, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
FAULT_CALL(int, unlink, true, (const char *path), (path))
FAULT_CALL(int, unlinkat, true, (int fd, const char *path, int flags), (fd, path, flags))

#define UID "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11"

typedef struct fixture {
	char *folder, *path, *out;
	scanner *scanner;
	manifest manifest; /* of the last round written */
} fixture;

static fixture *make_fixture(enum dataset_format format)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->path = mem_printf("%s/ds", f->folder);
	f->out = mem_printf("%s/out", f->folder);
	f->scanner = scanner_new(f->path, format, 1000);
	return f;
}

static void free_fixture(fixture *f)
{
	scanner_free(f->scanner);
	unit_folder_remove(f->folder);
	free(f->path);
	free(f->out);
	free(f);
}

/* Reading a piece of a file's text; to be freed. NULL if it is not there. */
static char *text_of(const char *out, const char *below)
{
	buf b = {0};
	char *path = mem_printf("%s/%s", out, below);
	bool there = file_read(path, 1 << 24, &b, NULL) == 0;
	free(path);
	return there ? buf_detach(&b) : NULL;
}

static void assert_file(const fixture *f, const char *below, const char *expected)
{
	char *text = text_of(f->out, below);
	if (text == NULL)
		fail_msg("%s is missing", below);
	assert_string_equal(text, expected);
	free(text);
}

/* The names in a folder below the output folder, sorted, joined by spaces. */
static void assert_names(const fixture *f, const char *below, const char *expected)
{
	char *path = mem_printf("%s/%s", f->out, below);
	struct dirent **list;
	buf names = {0};
	int n = scandir(path, &list, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0)
			buf_printf(&names, "%s%s", names.len > 0 ? " " : "", list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	assert_string_equal(buf_text(&names), expected);
	buf_fini(&names);
	free(path);
}

/* A request for all samples from `from` on, which lie at byte `offset` after `line` others. */
static round_request request(fixture *f, int64_t round, int64_t from, int64_t offset, int64_t line, double p)
{
	scan_view v = kit_look(f->scanner);
	return (round_request){.output_dir = f->out,
		.uid = UID,
		.round = round,
		.train_prob = p,
		.from = from,
		.offset = offset,
		.line = line,
		.end = {.sample = from + v.end.samples - line, .size = v.end.size, .digest = v.end.digest}};
}

static void assert_write(fixture *f, const round_request *r, enum round_outcome expected)
{
	enum round_outcome outcome;
	error err = {0};
	if (round_write(f->scanner, r, &outcome, &f->manifest, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(outcome, expected);
}

static void assert_refused(fixture *f, const round_request *r, int code)
{
	enum round_outcome outcome;
	manifest m;
	error err = {0};
	assert_int_equal(round_write(f->scanner, r, &outcome, &m, &err), code);
	assert_true(err.text[0] != '\0');
}

static void txt_round(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "s", 0, 5);
	kit_append(f->path, "\n \ns5\r\ns6");
	round_request r = request(f, 1, 0, 0, 0, 0.5);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_names(f, "data/train", "1");
	assert_names(f, "data/train/1", "data.txt eval.txt manifest.json");
	assert_names(f, "", "data train");
	assert_file(f, "data/train/1/data.txt", "s1\ns3\ns5\r\n");
	assert_file(f, "data/train/1/eval.txt", "s0\ns2\ns4\n");
	manifest m;
	digest d;
	assert_int_equal(round_read(f->out, 1, &m, NULL), 0);
	assert_memory_equal(&m, &f->manifest, sizeof m);
	assert_string_equal(m.uid, UID);
	assert_int_equal(m.from, 0);
	assert_int_equal(m.to, 6);
	assert_int_equal(m.after.size, 22);
	assert_int_equal(m.train, 3);
	digest_of("s0\ns2\ns4\n", 9, &d);
	assert_true(digest_equal(&d, &manifest_find(&m, "eval.txt")->sha256));
	/* The next one goes on where it ended; its numbers decide who trains. */
	kit_append(f->path, "\ns7\n");
	r = request(f, 2, 6, 22, 6, 0.5);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_file(f, "data/train/2/data.txt", "s7\n");
	assert_file(f, "data/train/2/eval.txt", "s6\n");
	assert_true(digest_equal(&f->manifest.before.digest, &m.after.digest));
	free_fixture(f);
}

static void csv_round(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_CSV);
	kit_append(f->path, "\xEF\xBB\xBFname,notes\r\nalice,\"line1\nline2\"\r\nbob,\"he said \"\"hi\"\"\"\r\n");
	round_request r = request(f, 1, 0, 0, 0, 0.5);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_file(f, "data/train/1/data.csv", "name,notes\r\nbob,\"he said \"\"hi\"\"\"\r\n");
	assert_file(f, "data/train/1/eval.csv", "name,notes\r\nalice,\"line1\nline2\"\r\n");
	r = request(f, 2, 2, f->manifest.after.size, 2, 1);
	assert_refused(f, &r, ERROR_INVALID); /* no samples */
	kit_append(f->path, "carl,x\r\n");
	r = request(f, 2, 2, f->manifest.after.size, 2, 1);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_file(f, "data/train/2/data.csv", "name,notes\r\ncarl,x\r\n");
	assert_file(f, "data/train/2/eval.csv", "name,notes\r\n"); /* header only */
	assert_int_equal(f->manifest.eval, 0);
	free_fixture(f);
}

static void shares_are_what_users_compute(void **state)
{
	(void)state;
	static const struct {
		int n;
		double p;
		int64_t train;
	} cases[] = {{20, 0.8, 16}, {100, 0.29, 29}, {100, 0.57, 57}, {100, 0, 0}, {100, 1, 100}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		fixture *f = make_fixture(FORMAT_CSV);
		kit_append(f->path, "h\n");
		kit_append_lines(f->path, "s", 0, cases[i].n);
		round_request r = request(f, 1, 0, 0, 0, cases[i].p);
		assert_write(f, &r, ROUND_WRITTEN);
		assert_int_equal(f->manifest.train, cases[i].train);
		assert_int_equal(f->manifest.eval, cases[i].n - cases[i].train);
		free_fixture(f);
	}
}

static void long_lines_and_large_samples(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	buf train = {0}, line = {0};
	for (int i = 0; i < 3000; i++) {
		buf_clear(&line);
		int len = i == 1500 ? 600000 : i % 1100; /* one that is longer than what is read at once */
		for (int n = 0; n <= len; n++)
			buf_putc(&line, (char)('a' + i % 26));
		buf_putc(&line, '\n');
		kit_put(f->path, O_APPEND, line.data, line.len);
		if (line.len <= 1000)
			buf_add(&train, line.data, line.len);
	}
	round_request r = request(f, 1, 0, 0, 0, 1);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_file(f, "data/train/1/data.txt", buf_text(&train));
	buf_fini(&train);
	buf_fini(&line);
	free_fixture(f);
}

static void folder_that_is_there_is_adopted(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "s", 0, 10);
	round_request r = request(f, 1, 0, 0, 0, 0.8);
	assert_write(f, &r, ROUND_WRITTEN);
	manifest first = f->manifest;
	/* More has come meanwhile, the share is another, the store does not know: what is there stays. */
	kit_append_lines(f->path, "s", 10, 20);
	r = request(f, 1, 0, 0, 0, 0.1);
	assert_write(f, &r, ROUND_ADOPTED);
	assert_memory_equal(&first, &f->manifest, sizeof first);
	/* Even when the dataset is gone. */
	assert_int_equal(unlink(f->path), 0);
	(void)scanner_look(f->scanner, 1000);
	assert_write(f, &r, ROUND_ADOPTED);
	assert_names(f, "data/train", "1");
	free_fixture(f);
}

/* Sample numbers that were given twice, by a cluster that was set back: the place in the file tells them apart. */
static void folder_that_begins_at_another_place_is_not_adopted(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "s", 0, 10);
	round_request r = request(f, 1, 4, 0, 0, 1);
	assert_write(f, &r, ROUND_WRITTEN);
	r = request(f, 1, 4, 9, 3, 1);
	assert_refused(f, &r, ERROR_CONFLICT);
	r.may_move_aside = true;
	assert_write(f, &r, ROUND_WRITTEN);
	assert_write(f, &r, ROUND_ADOPTED);
	free_fixture(f);
}

static void folder_of_another_is_moved_aside(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "s", 0, 10);
	round_request r = request(f, 1, 0, 0, 0, 1);
	r.uid = "another-job";
	assert_write(f, &r, ROUND_WRITTEN);
	r.uid = UID;
	assert_refused(f, &r, ERROR_CONFLICT);
	assert_names(f, "data/train", "1");
	r.may_move_aside = true;
	assert_write(f, &r, ROUND_WRITTEN);
	assert_names(f, "data/train", "1 1.aside-8c5d7b5e-1");
	/* Of this job, but beginning elsewhere. */
	r.from = 5;
	r.end.sample = 15;
	assert_write(f, &r, ROUND_WRITTEN);
	assert_names(f, "data/train", "1 1.aside-8c5d7b5e-1 1.aside-8c5d7b5e-2");
	/* Its data is gone, or its manifest is damaged, or it is no folder at all. */
	char *data = mem_printf("%s/data/train/1/data.txt", f->out), *meta = mem_printf("%s/data/train/1/manifest.json", f->out);
	assert_int_equal(truncate(data, 3), 0);
	manifest m;
	assert_int_equal(round_read(f->out, 1, &m, NULL), ERROR_CORRUPT);
	assert_write(f, &r, ROUND_WRITTEN);
	assert_int_equal(truncate(meta, 30), 0);
	r.may_move_aside = false;
	assert_refused(f, &r, ERROR_CONFLICT);
	r.may_move_aside = true;
	assert_write(f, &r, ROUND_WRITTEN);
	assert_names(f, "data/train", "1 1.aside-8c5d7b5e-1 1.aside-8c5d7b5e-2 1.aside-8c5d7b5e-3 1.aside-8c5d7b5e-4");
	free(data);
	free(meta);
	free_fixture(f);
}

static void changed_bytes_are_found(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "sample ", 0, 2000);
	round_request r = request(f, 1, 0, 0, 0, 0.5);
	/* Long past the end that looks compare: only the digest tells. */
	kit_put(f->path, 0, "S", 1);
	assert_refused(f, &r, ERROR_CHANGED);
	assert_names(f, "data/train", "");
	scanner_forget(f->scanner);
	r = request(f, 1, 0, 0, 0, 0.5);
	assert_write(f, &r, ROUND_WRITTEN);
	/* Behind the beginning of the range, in the same block. */
	r = request(f, 2, 1000, 0, 0, 0.5);
	dataset_point half;
	assert_int_equal(scanner_range_end(f->scanner, 0, 0, r.end.size / 2, NULL, &half, NULL), 0);
	r.offset = half.size;
	r.line = half.samples;
	r.end.sample = 1000 + 2000 - half.samples;
	kit_put(f->path, 0, "T", 1);
	assert_refused(f, &r, ERROR_CHANGED);
	/* Shorter, gone. */
	assert_int_equal(truncate(f->path, 100), 0);
	assert_refused(f, &r, ERROR_CHANGED);
	assert_int_equal(unlink(f->path), 0);
	assert_refused(f, &r, ERROR_NOT_FOUND);
	assert_names(f, "data/train", "1");
	free_fixture(f);
}

static void bad_requests(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	kit_append_lines(f->path, "s", 0, 10);
	round_request good = request(f, 1, 0, 0, 0, 1), r = good;
	r.round = 0;
	assert_refused(f, &r, ERROR_INVALID);
	r = good;
	r.uid = "";
	assert_refused(f, &r, ERROR_INVALID);
	r = good;
	r.output_dir = "relative/../path";
	assert_refused(f, &r, ERROR_INVALID);
	r = good;
	r.line = 1; /* not where the samples are */
	r.offset = 1;
	assert_refused(f, &r, ERROR_CHANGED);
	r = good;
	r.end.sample = 9;
	assert_refused(f, &r, ERROR_CHANGED);
	atomic_bool stop = true;
	r = good;
	r.stop = &stop;
	assert_refused(f, &r, ERROR_TIMEOUT);
	assert_names(f, "data/train", "");
	free_fixture(f);
}

/* ---- faults ---- */

static void full_disk_leaves_nothing(void **state)
{
	(void)state;
	static const int errors[] = {ENOSPC, EROFS, EIO};
	for (int n = 1;; n++) {
		fixture *f = make_fixture(FORMAT_CSV);
		kit_append(f->path, "h\n");
		kit_append_lines(f->path, "s", 0, 10);
		round_request r = request(f, 3, 100, 0, 0, 0.5);
		enum round_outcome outcome;
		manifest m;
		error err = {0};
		fault_arm(FAULT_ERROR, n, errors[n % 3]);
		int code = round_write(f->scanner, &r, &outcome, &m, &err);
		bool happened = fault_happened();
		assert_int_equal(code, !happened ? 0 : errors[n % 3] == EIO ? ERROR_IO : ERROR_NO_SPACE);
		if (code != 0 && round_read(f->out, 3, &m, NULL) != 0) /* only the last sync comes after the rename */
			assert_names(f, "data/train", "");
		assert_write(f, &r, code == 0 || round_read(f->out, 3, &m, NULL) == 0 ? ROUND_ADOPTED : ROUND_WRITTEN);
		assert_names(f, "data/train", "3");
		free_fixture(f);
		if (!happened) {
			assert_true(n > 15);
			return;
		}
	}
}

typedef struct attempt {
	fixture *f;
	const round_request *r;
} attempt;

static void write_in_child(void *arg)
{
	attempt *a = arg;
	enum round_outcome outcome;
	manifest m;
	(void)round_write(a->f->scanner, a->r, &outcome, &m, NULL);
}

static void kill_at_any_step_is_made_good(void **state)
{
	(void)state;
	bool killed = true;
	for (int n = 1; killed; n++) {
		fixture *f = make_fixture(FORMAT_TXT);
		kit_append_lines(f->path, "s", 0, 10);
		round_request r = request(f, 3, 100, 0, 0, 0.5);
		r.uid = "another-job";
		assert_write(f, &r, ROUND_WRITTEN);
		r.uid = UID;
		r.may_move_aside = true;
		killed = fault_kill_at(n, write_in_child, &(attempt){f, &r});
		manifest m;
		bool whole = round_read(f->out, 3, &m, NULL) == 0 && strcmp(m.uid, UID) == 0;
		assert_write(f, &r, whole ? ROUND_ADOPTED : ROUND_WRITTEN);
		assert_names(f, "data/train", "3 3.aside-8c5d7b5e-1");
		assert_file(f, "data/train/3/data.txt", "s1\ns3\ns5\ns7\ns9\n");
		free_fixture(f);
	}
}

/* ---- many rounds ---- */

static void the_window_is_read_from_the_folders(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	int64_t offset = 0, line = 0, in[WINDOW_MAX];
	size_t n;
	for (int round = 1; round <= 12; round++) {
		kit_append_lines(f->path, "s", round * 10, round * 10 + 2);
		round_request r = request(f, round, line, offset, line, 0.5);
		if (round == 4)
			r.uid = "another-job";
		assert_write(f, &r, ROUND_WRITTEN);
		if (round % 3 != 0) { /* every third fails: its samples go back */
			line = r.end.sample;
			offset = r.end.size;
		}
	}
	assert_int_equal(round_window(f->out, UID, 13, in, &n, NULL), ERROR_NOT_FOUND);
	assert_int_equal(round_window(f->out, UID, 4, in, &n, NULL), ERROR_NOT_FOUND);
	assert_int_equal(round_window(f->out, UID, 3, in, &n, NULL), 0);
	assert_int_equal(n, 3);
	/* 4 is not this job's, so the chain ends at 5. */
	static const int64_t expected[] = {5, 7, 8, 10, 11};
	assert_int_equal(round_window(f->out, UID, 11, in, &n, NULL), 0);
	assert_int_equal(n, 5);
	assert_memory_equal(in, expected, sizeof expected);
	assert_int_equal(round_window("/nowhere/at/all", UID, 1, in, &n, NULL), ERROR_NOT_FOUND);
	free_fixture(f);
}

static uint32_t draw(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % n;
}

/* What the split gives to a side of one round, put together from the numbers. */
static void assert_round_files(fixture *f, const manifest *m, double p)
{
	buf sides[2] = {{0}, {0}};
	for (int64_t n = m->from; n < m->to; n++)
		buf_printf(&sides[split_trains(n, p) ? 0 : 1], "sample %lld\n", (long long)n);
	char *data = mem_printf("data/train/%lld/data.txt", (long long)m->round);
	char *eval = mem_printf("data/train/%lld/eval.txt", (long long)m->round);
	assert_file(f, data, buf_text(&sides[0]));
	assert_file(f, eval, buf_text(&sides[1]));
	free(data);
	free(eval);
	buf_fini(&sides[0]);
	buf_fini(&sides[1]);
}

/* Appended in odd pieces, rounds of limited size that complete or fail: the completed ones hold every sample once. */
static void every_sample_is_in_one_completed_round(void **state)
{
	(void)state;
	for (uint32_t run = 0; run < 12; run++) {
		uint32_t seed = run;
		double p = (1 + draw(&seed, 99)) / 100.0;
		fixture *f = make_fixture(FORMAT_TXT);
		buf source = {0};
		dataset_point at = {0}, end;
		size_t written = 0;
		for (int i = 0; i < 300; i++)
			buf_printf(&source, "sample %d\n", i);
		for (int round = 1; at.samples < 300; round++) {
			size_t len = draw(&seed, 1200);
			len = len > source.len - written ? source.len - written : len;
			kit_put(f->path, O_APPEND, source.data + written, len);
			written += len;
			(void)kit_look(f->scanner);
			assert_int_equal(scanner_range_end(f->scanner, at.size, at.samples, 1 + draw(&seed, 900), NULL, &end, NULL), 0);
			if (end.samples == at.samples)
				continue;
			round_request r = {.output_dir = f->out, .uid = UID, .round = round, .train_prob = p, .from = at.samples};
			r.offset = at.size;
			r.line = at.samples;
			r.end = (cursor){.sample = end.samples, .size = end.size, .digest = end.digest};
			assert_write(f, &r, ROUND_WRITTEN);
			assert_round_files(f, &f->manifest, p);
			if (draw(&seed, 3) > 0)
				at = end;
		}
		buf_fini(&source);
		free_fixture(f);
	}
}

/* Of a remote dataset: the files that its samples name, those that train with the training's. */
static void names_files(void **state)
{
	(void)state;
	for (int csv = 0; csv <= 1; csv++) {
		fixture *f = make_fixture(csv ? FORMAT_CSV : FORMAT_TXT);
		kit_append(f->path, csv ? "file.name,n\na.png,0\nb.png,1\nc.png,2\nd.png,3\n" : "a.png 0\nb.png 1\nc.png 2\nd.png 3\n");
		round_request r = request(f, 1, 0, 0, 0, 0.5);
		r.files_url = "s3://bucket/d";
		assert_write(f, &r, ROUND_WRITTEN);
		assert_names(f, "data/train/1",
			csv ? "data.csv dataIndex.txt eval.csv manifest.json" : "data.txt dataIndex.txt eval.txt manifest.json");
		assert_file(f, "data/train/1/dataIndex.txt", "s3://bucket/d\nb.png\nd.png\n");
		assert_int_equal(manifest_find(&f->manifest, "dataIndex.txt")->bytes, strlen("s3://bucket/d\nb.png\nd.png\n"));
		free_fixture(f);
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_files),
		cmocka_unit_test(txt_round),
		cmocka_unit_test(csv_round),
		cmocka_unit_test(shares_are_what_users_compute),
		cmocka_unit_test(long_lines_and_large_samples),
		cmocka_unit_test(folder_that_is_there_is_adopted),
		cmocka_unit_test(folder_that_begins_at_another_place_is_not_adopted),
		cmocka_unit_test(folder_of_another_is_moved_aside),
		cmocka_unit_test(changed_bytes_are_found),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(full_disk_leaves_nothing),
		cmocka_unit_test(kill_at_any_step_is_made_good),
		cmocka_unit_test(the_window_is_read_from_the_folders),
		cmocka_unit_test(every_sample_is_in_one_completed_round),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
