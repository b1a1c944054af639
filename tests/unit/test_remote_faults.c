/* Whatever ilmare-transfer does, or leaves undone: deployments, rounds and copies are whole or not there, and the next try leads to the same end. */
#include "tests/unit/dataset_kit.h"
#include "tests/unit/fake_transfer.h"

#include "edge-agent/dataset/round_files.h"
#include "edge-agent/remote/mirror.h"
#include "edge-agent/remote/output.h"
#include "edge-agent/remote/ship.h"

#define UID "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11"

enum { COMMANDS_MAX = 100 };

typedef struct fixture {
	char *folder, *store, *here;
	transfer t;
} fixture;

static fixture *make_fixture(void)
{
	fixture *f = mem_alloc(sizeof *f);
	error err = {0};
	f->folder = unit_folder();
	f->store = mem_printf("%s/store", f->folder);
	f->here = mem_printf("%s/here", f->folder);
	f->t = (transfer){.program = FAKE_PROGRAM};
	char *bucket = mem_printf("%s/b", f->store);
	assert_int_equal(file_make_dirs(bucket, 0755, &err), 0);
	free(bucket);
	fake_begin(f->store);
	return f;
}

static void free_fixture(fixture *f)
{
	unit_folder_remove(f->folder);
	free(f->store);
	free(f->here);
	free(f);
}

static void assert_object(const char *url, const char *expected)
{
	char *text = fake_text(url);
	if (text == NULL)
		fail_msg("%s is missing", url);
	assert_string_equal(text, expected);
	free(text);
}

static bool is_object(const char *url)
{
	char *text = fake_text(url);
	free(text);
	return text != NULL;
}

/* ---- deployments ---- */

static int deploy_to(fixture *f, const char *to, int64_t round, size_t *n, error *err)
{
	char *from = mem_printf("s3://b/out/train/%lld/m", (long long)round);
	const deploy_step step = {.from = from, .to = to};
	const deploy_plan plan = {.output_dir = "s3://b/out/", .round = round, .steps = &step, .n = 1, .uid = UID, .keep = 1};
	deploy_version *versions;
	model_info info;
	int code = ship_run(&plan, &f->t, f->here, &info, &versions, n, err);
	deploy_versions_free(versions, *n);
	free(from);
	return code;
}

static int deploy(fixture *f, int64_t round, size_t *n, error *err)
{
	return deploy_to(f, "s3://b/serve", round, n, err);
}

static void check_deployed(fixture *f, int64_t round)
{
	error err = {0};
	size_t n;
	if (deploy(f, round, &n, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(n, 2);
	assert_object("s3://b/serve", round == 1 ? "one" : "two");
	assert_object("s3://b/out/deployed/0/serve", "zero");
	assert_object(round == 1 ? "s3://b/out/deployed/1/m" : "s3://b/out/deployed/2/m", round == 1 ? "one" : "two");
	assert_int_not_equal(access(f->here, F_OK), 0);
}

static void put_models(void)
{
	fake_put("s3://b/serve", "zero");
	fake_put("s3://b/out/train/1/m", "one");
	fake_put("s3://b/out/train/2/m", "two");
}

/* What is served is a version that is kept, and can be gone back to. */
static void check_between(void)
{
	char *served = fake_text("s3://b/serve");
	assert_non_null(served);
	if (strcmp(served, "one") == 0)
		assert_true(is_object("s3://b/out/deployed/1/version.json"));
	else if (strcmp(served, "two") == 0)
		assert_true(is_object("s3://b/out/deployed/2/version.json"));
	else
		assert_string_equal(served, "zero");
	if (strcmp(served, "zero") != 0)
		assert_object("s3://b/out/deployed/0/serve", "zero");
	free(served);
}

static fixture *copy_fixture(const fixture *of)
{
	fixture *f = make_fixture();
	char *command = mem_printf("cp -r '%s/.' '%s'", of->store, f->store);
	assert_int_equal(system(command), 0);
	free(command);
	return f;
}

static void deployments(void **state)
{
	(void)state;
	fixture *first = make_fixture();
	put_models();
	check_deployed(first, 1);
	fake_put("s3://b/out/deployed/2/left", "of a run that another device did not end");
	for (int how = FAKE_MIDST; how < FAKE_HOWS; how++) { /* before one is after the one before */
		bool failed = true;
		for (int at = 1; failed; at++) {
			fixture *f = copy_fixture(first);
			error err = {0};
			size_t n;
			fake_fail(at, (enum fake_how)how);
			int code = deploy(f, 2, &n, &err);
			failed = fake_asked() >= at;
			assert_true(at < COMMANDS_MAX);
			check_between();
			if (code == 0)
				assert_object("s3://b/serve", "two"); /* and it may be that what is superfluous could not be removed */
			fake_begin(f->store);
			check_deployed(f, 2);
			assert_false(is_object("s3://b/out/deployed/2/left"));
			assert_false(is_object("s3://b/out/deployed/1/m"));
			free_fixture(f);
		}
	}
	free_fixture(first);
}

static void what_is_missing_is_the_model(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	error err = {0};
	size_t n;
	put_models();
	assert_int_equal(deploy(f, 3, &n, &err), ERROR_NOT_FOUND);
	assert_int_equal(deploy_to(f, "s3://nobody/serve", 1, &n, &err), ERROR_IO);
	free_fixture(f);
}

/* ---- rounds ---- */

typedef struct rounds {
	fixture *f;
	output o;
	scanner *scanner;
	char *data;
} rounds;

static void rounds_open(rounds *r)
{
	r->f = make_fixture();
	r->o = (output){.url = "s3://b/out", .folder = r->f->here, .transfer = &r->f->t};
	r->data = mem_printf("%s/data", r->f->folder);
	r->scanner = scanner_new(r->data, FORMAT_TXT, 1000);
	kit_append_lines(r->data, "s", 0, 8);
}

static void rounds_close(rounds *r)
{
	scanner_free(r->scanner);
	free(r->data);
	free_fixture(r->f);
}

static int write_round(rounds *r, int64_t round, manifest *out, error *err)
{
	scan_view v = kit_look(r->scanner);
	cursor begin = {0};
	if (round == 2)
		begin = (cursor){.sample = 8, .size = 24};
	round_request q = {.uid = UID,
		.round = round,
		.train_prob = 0.5,
		.from = begin.sample,
		.offset = begin.size,
		.line = begin.sample,
		.end = {.sample = v.end.samples, .size = v.end.size, .digest = v.end.digest},
		.may_move_aside = true};
	enum round_outcome outcome;
	return output_write(&r->o, r->scanner, &q, &outcome, out, err);
}

static int evaluate(rounds *r, int64_t round, error *err)
{
	eval_result result;
	int64_t oldest;
	return output_eval(&r->o, UID, round, NULL, &oldest, &result, err);
}

static void must(int code, const error *err)
{
	if (code != 0)
		fail_msg("%s", err->text);
}

/* Round 1 is done; round 2 is in the midst, on a device whose copies are gone. */
static void second_round(rounds *r)
{
	manifest m;
	error err = {0};
	rounds_open(r);
	must(write_round(r, 1, &m, &err), &err);
	must(evaluate(r, 1, &err), &err);
	must(file_remove_tree(r->f->here, &err), &err);
	kit_append_lines(r->data, "t", 8, 12);
}

static void check_rounds(void)
{
	assert_object("s3://b/out/data/train/1/data.txt", "s1\ns3\ns5\ns7\n");
	assert_object("s3://b/out/data/train/1/eval.txt", "s0\ns2\ns4\ns6\n");
	if (!is_object("s3://b/out/data/train/2/manifest.json"))
		return;
	assert_object("s3://b/out/data/train/2/data.txt", "t9\nt11\n");
	assert_object("s3://b/out/data/train/2/eval.txt", "t8\nt10\n");
}

static void rounds_that_are_written(void **state)
{
	(void)state;
	for (int how = FAKE_MIDST; how < FAKE_HOWS; how++) { /* before one is after the one before */
		bool failed = true;
		for (int at = 1; failed; at++) {
			rounds r;
			manifest m;
			error err = {0};
			second_round(&r);
			fake_fail(at, (enum fake_how)how);
			int code = write_round(&r, 2, &m, &err);
			failed = fake_asked() >= at;
			assert_true(failed == (code != 0));
			assert_true(at < COMMANDS_MAX);
			check_rounds();
			fake_begin(r.f->store);
			must(write_round(&r, 2, &m, &err), &err);
			assert_int_equal(m.to, 12);
			assert_true(is_object("s3://b/out/data/train/2/manifest.json"));
			check_rounds();
			rounds_close(&r);
		}
	}
}

static void eval_data_that_are_sent(void **state)
{
	(void)state;
	for (int how = FAKE_MIDST; how < FAKE_HOWS; how++) { /* before one is after the one before */
		bool failed = true;
		for (int at = 1; failed; at++) {
			rounds r;
			manifest m;
			error err = {0};
			second_round(&r);
			must(write_round(&r, 2, &m, &err), &err);
			fake_fail(at, (enum fake_how)how);
			int code = evaluate(&r, 2, &err);
			failed = fake_asked() >= at;
			assert_true(failed == (code != 0));
			/* The samples are there: whatever it was, it passes. */
			assert_int_not_equal(code, ERROR_NOT_FOUND);
			assert_true(at < COMMANDS_MAX);
			fake_begin(r.f->store);
			must(evaluate(&r, 2, &err), &err);
			assert_object("s3://b/out/data/eval/2/data.txt", "s0\ns2\ns4\ns6\nt8\nt10\n");
			check_rounds();
			rounds_close(&r);
		}
	}
}

static void samples_that_are_missing(void **state)
{
	rounds r;
	manifest m;
	error err = {0};
	(void)state;
	second_round(&r);
	must(write_round(&r, 2, &m, &err), &err);
	/* All of the store is: it may be another one's address. */
	char *bucket = fake_path("s3://b"), *aside = fake_path("s3://c"), *round = fake_path("s3://b/out/data/train/2/manifest.json");
	assert_int_equal(rename(bucket, aside), 0);
	assert_int_equal(evaluate(&r, 2, &err), ERROR_IO);
	assert_int_equal(rename(aside, bucket), 0);
	must(evaluate(&r, 2, &err), &err);
	/* This round's are. */
	assert_int_equal(unlink(round), 0);
	assert_int_equal(evaluate(&r, 2, &err), ERROR_NOT_FOUND);
	free(round);
	free(aside);
	free(bucket);
	rounds_close(&r);
}

/* ---- copies of datasets ---- */

static void assert_copy(const char *path, const char *expected)
{
	buf b = {0};
	error err = {0};
	must(file_read(path, 1 << 24, &b, &err), &err);
	assert_string_equal(buf_text(&b), expected);
	buf_fini(&b);
}

static void copies(void **state)
{
	static const char *const histories[][4] = {
		{"a\n", "a\nb\n", "a\nb\n", "a\nb\nc\n"}, {"a\nb\n", "x\ny\n", "a\nb\n", "a\nb\nc\n"}, {"a\nb\n", "x\n", "x\ny\n", "a\nb\n"}};
	(void)state;
	for (size_t h = 0; h < sizeof histories / sizeof *histories; h++) {
		for (int how = 0; how < FAKE_HOWS; how++) {
			bool failed = true;
			for (int at = 1; failed; at++) {
				fixture *f = make_fixture();
				char *path = mem_printf("%s/copy", f->here);
				error err = {0};
				fake_put("s3://b/d", histories[h][0]);
				must(mirror_update(&f->t, "s3://b/d", path, &err), &err);
				fake_put("s3://b/d", histories[h][1]);
				fake_fail(at, (enum fake_how)how);
				(void)mirror_update(&f->t, "s3://b/d", path, &err);
				failed = fake_asked() >= at;
				for (int next = 2; next < 4; next++) {
					fake_begin(f->store);
					fake_put("s3://b/d", histories[h][next]);
					must(mirror_update(&f->t, "s3://b/d", path, &err), &err);
					assert_copy(path, histories[h][next]);
				}
				free(path);
				free_fixture(f);
			}
		}
	}
}

/* ---- what it says ---- */

static void count_event(void *ctx, const cJSON *event)
{
	(void)event;
	++*(int *)ctx;
}

static void says(fixture *f, const char *text, size_t len, const char *ends, int code, const char *words)
{
	const char *args[] = {"head", "s3://b/k", NULL};
	char *file = mem_printf("%s/says", f->folder);
	error err = {0};
	int events = 0;
	assert_int_equal(file_write(file, text, len, 0644, &err), 0);
	setenv("FAKE_SAYS", file, 1);
	setenv("FAKE_ENDS", ends, 1);
	assert_int_equal(transfer_run(&f->t, "s3://b/k", args, count_event, &events, &err), code);
	if (words != NULL && strstr(err.text, words) == NULL)
		fail_msg("%s", err.text);
	if (code == 0)
		assert_int_equal(events, 1);
	unsetenv("FAKE_SAYS");
	free(file);
}

static void lines(void **state)
{
	static const char done[] = "{\"event\":\"done\"}\n",
					  error_line[] = "{\"event\":\"error\",\"code\":\"no-space\",\"exit\":5,\"message\":\"full\"}\n";
	(void)state;
	fixture *f = make_fixture();
	says(f, done, strlen(done), "0", 0, NULL);
	says(f, error_line, strlen(error_line), "5", ERROR_NO_SPACE, "full");
	says(f, done, strlen(done), "3", ERROR_IO, "status 3");
	says(f, "", 0, "0", ERROR_IO, "no word");
	says(f, "{\"event\":\"done\"}", strlen("{\"event\":\"done\"}"), "0", ERROR_IO, "no word");
	static const char none[] = "not JSON\n\n{}\n[1]\n{\"event\":7}\n\xff\xfe\n", bare[] = "{\"event\":\"error\"}\n",
					  other[] = "{\"event\":\"error\",\"code\":\"new\"}\n";
	says(f, none, strlen(none), "0", ERROR_IO, "no word");
	says(f, bare, strlen(bare), "1", ERROR_INTERNAL, NULL);
	says(f, other, strlen(other), "99", ERROR_INTERNAL, NULL);
	/* A line without end, of which the rest looks like a line of its own. */
	buf b = {0};
	for (int i = 0; i < 200000; i++)
		buf_add(&b, "x", 1);
	buf_printf(&b, "%s", error_line);
	buf_printf(&b, "%s", done);
	says(f, buf_text(&b), b.len, "0", 0, NULL);
	buf_clear(&b);
	for (int i = 0; i < 65536 + 4096; i++)
		buf_add(&b, " ", 1);
	buf_printf(&b, "%s", error_line);
	buf_printf(&b, "%s", done);
	says(f, buf_text(&b), b.len, "0", 0, NULL);
	buf_fini(&b);
	free_fixture(f);
}

static void a_program_that_cannot_run(void **state)
{
	const char *args[] = {"head", "s3://b/k", NULL}, *flag[] = {"head", "--fresh://", NULL};
	error err = {0};
	(void)state;
	fixture *f = make_fixture();
	f->t.program = "/nowhere/ilmare-transfer";
	assert_int_equal(transfer_run(&f->t, "s3://b/k", args, NULL, NULL, &err), ERROR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "/nowhere/ilmare-transfer"));
	f->t.program = f->folder;
	assert_int_equal(transfer_run(&f->t, "s3://b/k", args, NULL, NULL, &err), ERROR_DENIED);
	f->t.program = FAKE_PROGRAM;
	assert_int_equal(transfer_run(&f->t, "--fresh://", flag, NULL, NULL, &err), ERROR_INVALID);
	free_fixture(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deployments),
		cmocka_unit_test(what_is_missing_is_the_model),
		cmocka_unit_test(rounds_that_are_written),
		cmocka_unit_test(eval_data_that_are_sent),
		cmocka_unit_test(samples_that_are_missing),
		cmocka_unit_test(copies),
		cmocka_unit_test(lines),
		cmocka_unit_test(a_program_that_cannot_run),
	};
	if (fake_is_asked(argv))
		fake_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
