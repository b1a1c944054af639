/* The eval data of a round: put together from the window's rounds, and never half there. */
#include "tests/unit/dataset_kit.h"

#include "edge-agent/dataset/eval_data.h"
#include "tests/unit/fault_kit.h"

FAULT_CALL(int, mkdir, false, (const char *path, mode_t mode), (path, mode))
FAULT_CALL(ssize_t, write, false, (int fd, const void *data, size_t len), (fd, data, len))
FAULT_FSYNC
FAULT_CALL(int, rename, false, (const char *from, const char *to), (from, to))

#define UID "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11"

typedef struct fixture {
	char *folder, *path, *out, *result;
	enum dataset_format format;
	scanner *scanner;
	cursor at; /* where the next round begins */
	int64_t line;
} fixture;

static fixture *make_fixture(enum dataset_format format)
{
	fixture *f = mem_alloc(sizeof *f);
	f->format = format;
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

/* A round of these lines, half of which evaluate (those with odd numbers train). */
static void add_round(fixture *f, int64_t round, const char *lines)
{
	enum round_outcome outcome;
	manifest m;
	error err = {0};
	kit_append(f->path, lines);
	scan_view v = kit_look(f->scanner);
	round_request r = {.output_dir = f->out, .uid = UID, .round = round, .train_prob = 0.5, .from = f->at.sample};
	r.offset = f->at.size;
	r.line = f->line;
	r.end = (cursor){.sample = f->at.sample + v.end.samples - f->line, .size = v.end.size, .digest = v.end.digest};
	if (round_write(f->scanner, &r, &outcome, &m, &err) != 0)
		fail_msg("%s", err.text);
	f->at = r.end;
	f->line = v.end.samples;
}

static void new_file(fixture *f, const char *text)
{
	kit_rewrite(f->path, text);
	f->at.size = f->line = 0;
}

static eval_result assemble(fixture *f, int64_t round)
{
	int64_t rounds[WINDOW_MAX];
	eval_result result = {0};
	error err = {0};
	size_t n;
	if (round_window(f->out, UID, round, rounds, &n, &err) != 0 || eval_data_write(f->out, rounds, n, NULL, NULL, &result, &err) != 0)
		fail_msg("%s", err.text);
	return result;
}

static void assert_eval(fixture *f, int64_t round, const char *expected)
{
	buf b = {0};
	char *path = mem_printf("%s/data/eval/%lld/data.%s", f->out, (long long)round, dataset_format_name(f->format));
	assert_int_equal(file_read(path, 1 << 20, &b, NULL), 0);
	assert_string_equal(buf_text(&b), expected);
	buf_fini(&b);
	free(path);
}

static void window_oldest_first_each_once(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	char lines[32];
	for (int i = 1; i <= 8; i++) {
		snprintf(lines, sizeof lines, "e%d\nt%d\n", i, i);
		add_round(f, i, lines);
	}
	eval_result r = assemble(f, 8);
	assert_int_equal(r.samples, 6);
	assert_int_equal(r.rounds, 6);
	assert_int_equal(r.bytes, 18);
	assert_string_equal(r.skipped, "");
	assert_eval(f, 8, "e3\ne4\ne5\ne6\ne7\ne8\n");
	digest d;
	digest_of("e3\ne4\ne5\ne6\ne7\ne8\n", 18, &d);
	assert_true(digest_equal(&d, &r.sha256));
	(void)assemble(f, 8); /* again, the same */
	assert_eval(f, 8, "e3\ne4\ne5\ne6\ne7\ne8\n");
	(void)assemble(f, 1);
	assert_eval(f, 1, "e1\n");
	free_fixture(f);
}

static void csv_has_one_header(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_CSV);
	kit_append(f->path, "\"a\nb\",c\r\n");
	add_round(f, 1, "e,1\r\nt,1\r\n");
	add_round(f, 2, "\"e\n\",2\r\nt,2\r\n");
	(void)assemble(f, 2);
	assert_eval(f, 2, "\"a\nb\",c\r\ne,1\r\n\"e\n\",2\r\n");
	/* A file with other columns: what does not fit is left out, and said. */
	new_file(f, "x\n");
	add_round(f, 3, "e3\nt3\n");
	eval_result r = assemble(f, 3);
	assert_eval(f, 3, "x\ne3\n");
	assert_string_equal(r.skipped, "round 1: other columns or format; round 2: other columns or format");
	assert_int_equal(r.samples, 1);
	free_fixture(f);
}

static void missing_rounds(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	static const int64_t rounds[] = {1, 2, 3}, unknown[] = {1, 9};
	for (int i = 1; i <= 3; i++)
		add_round(f, i, "e\nt\n");
	char *gone = round_path(f->out, "train", 1, NULL), *damaged = round_path(f->out, "train", 2, "eval.txt");
	eval_result r;
	assert_int_equal(file_remove_tree(gone, NULL), 0);
	assert_int_equal(truncate(damaged, 1), 0);
	assert_int_equal(eval_data_write(f->out, rounds, 3, NULL, NULL, &r, NULL), 0);
	assert_string_equal(r.skipped, "round 1: not found; round 2: corrupt");
	assert_eval(f, 3, "e\n");
	assert_int_equal(eval_data_write(f->out, rounds, 2, NULL, NULL, &r, NULL), ERROR_CORRUPT);
	assert_int_equal(eval_data_write(f->out, unknown, 2, NULL, NULL, &r, NULL), ERROR_NOT_FOUND);
	assert_int_equal(eval_data_write(f->out, NULL, 0, NULL, NULL, &r, NULL), ERROR_NOT_FOUND);
	atomic_bool stop = true;
	assert_int_equal(eval_data_write(f->out, rounds, 3, NULL, &stop, &r, NULL), ERROR_TIMEOUT);
	assert_eval(f, 3, "e\n");
	free(gone);
	free(damaged);
	free_fixture(f);
}

static void faults_leave_the_old(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_TXT);
	static const int64_t before[] = {2}, now[] = {1, 2};
	eval_result r;
	add_round(f, 1, "e1\nt1\n");
	add_round(f, 2, "e2\nt2\n");
	bool happened = true;
	for (int n = 1; happened; n++) {
		assert_int_equal(eval_data_write(f->out, before, 1, NULL, NULL, &r, NULL), 0);
		fault_arm(FAULT_ERROR, n, ENOSPC);
		int code = eval_data_write(f->out, now, 2, NULL, NULL, &r, NULL);
		happened = fault_happened();
		assert_int_equal(code, happened ? ERROR_NO_SPACE : 0);
		char *tmp = round_path(f->out, "eval", 2, ".data.txt.tmp");
		assert_int_not_equal(access(tmp, F_OK), 0);
		free(tmp);
		buf b = {0};
		char *path = round_path(f->out, "eval", 2, "data.txt");
		assert_int_equal(file_read(path, 100, &b, NULL), 0);
		bool whole = strcmp(buf_text(&b), "e1\ne2\n") == 0;
		assert_true(whole || (happened && strcmp(buf_text(&b), "e2\n") == 0));
		buf_fini(&b);
		free(path);
	}
	free_fixture(f);
}

static void names_files(void **state)
{
	(void)state;
	fixture *f = make_fixture(FORMAT_CSV);
	int64_t rounds[] = {1, 2};
	eval_result result;
	buf text = {0};
	char *index = mem_printf("%s/data/eval/2/dataIndex.txt", f->out);
	add_round(f, 1, "file.name,n\na.png,0\nb.png,1\n");
	add_round(f, 2, "c.png,2\nd.png,3\n");
	for (int again = 0; again < 2; again++) {
		assert_int_equal(eval_data_write(f->out, rounds, 2, "s3://bucket/d", NULL, &result, NULL), 0);
		buf_clear(&text);
		assert_int_equal(file_read(index, 1 << 20, &text, NULL), 0);
		assert_string_equal(buf_text(&text), "s3://bucket/d\na.png\nc.png\n");
	}
	buf_fini(&text);
	free(index);
	free_fixture(f);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_files),
		cmocka_unit_test(window_oldest_first_each_once),
		cmocka_unit_test(csv_has_one_header),
		cmocka_unit_test(missing_rounds),
		cmocka_unit_test(faults_leave_the_old),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
