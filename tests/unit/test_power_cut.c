/* The power is cut before any step of what has to be durable, and what the disk then holds is one of the states that the code promises: before or
 * after, never half, and after once the caller was told so. Then it is done again, and comes out the same. */
#include "tests/unit/dataset_kit.h"
#include "tests/unit/power_kit.h"
#include "tests/unit/store_kit.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "edge-agent/dataset/eval_data.h"
#include "edge-agent/dataset/round.h"
#include "edge-agent/storage/deploy.h"

static const char UID[] = "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11";
enum { STEPS_MIN = 4, STEPS_MAX = 400, ROUNDS = 6 };

/* An output folder whose power goes; datasets and trained models lie beside it, on another disk. */
typedef struct fixture {
	char *folder, *out, *data, *trained;
	enum power_rule rule;
	int fail_at;
	bool *failed; /* shared with the process to which it happens */
} fixture;

static void make(fixture *f, enum power_rule rule)
{
	*f = (fixture){.folder = unit_folder(), .rule = rule};
	f->out = mem_printf("%s/out", f->folder);
	f->data = mem_printf("%s/ds", f->folder);
	f->trained = mem_printf("%s/trained", f->folder);
	assert_int_equal(mkdir(f->out, 0755), 0);
}

static void drop(fixture *f)
{
	unit_folder_remove(f->folder);
	free(f->out);
	free(f->data);
	free(f->trained);
}

/* f happens to a new fixture, with the power cut at each step in turn, by each rule. */
static void at_each_step(void (*prepare)(fixture *), void (*happens)(void *), void (*check)(fixture *, bool ended))
{
	for (enum power_rule rule = 0; rule < POWER_RULES; rule++) {
		bool ended = false;
		for (int n = 1; !ended; n++) {
			fixture f;
			make(&f, rule);
			prepare(&f);
			ended = power_cut(f.out, rule, n, happens, &f);
			check(&f, ended);
			drop(&f);
			assert_true(n < STEPS_MAX && (!ended || n > STEPS_MIN));
		}
	}
}

/* As before, but each step in turn fails, it happens once more, and the power goes after that. `happens` says if a step has failed. */
static void after_each_failure(void (*prepare)(fixture *), void (*happens)(void *), void (*check)(fixture *, bool ended))
{
	bool *failed = mmap(NULL, sizeof *failed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(failed != MAP_FAILED);
	*failed = true;
	for (int n = 1; *failed; n++) {
		fixture f;
		make(&f, POWER_SYNCED);
		f.fail_at = n;
		f.failed = failed;
		prepare(&f);
		assert_true(power_cut(f.out, f.rule, INT_MAX, happens, &f));
		check(&f, true);
		drop(&f);
		assert_true(n < STEPS_MAX && (*failed || n > STEPS_MIN));
	}
	munmap(failed, sizeof *failed);
}

/* The text of a file below the output folder, until the next call; NULL: it is not there. */
static const char *text_of(const fixture *f, const char *below)
{
	static char text[256];
	buf b = {0};
	char *path = mem_printf("%s/%s", f->out, below);
	bool there = file_read(path, sizeof text - 1, &b, NULL) == 0;
	snprintf(text, sizeof text, "%s", buf_text(&b));
	buf_fini(&b);
	free(path);
	return there ? text : NULL;
}

static bool holds(const fixture *f, const char *below, const char *expected)
{
	const char *text = text_of(f, below);
	return text != NULL && strcmp(text, expected) == 0;
}

static bool exists(const fixture *f, const char *below)
{
	char *path = mem_printf("%s/%s", f->out, below);
	bool there = access(path, F_OK) == 0;
	free(path);
	return there;
}

/* ---- the folder of a round ---- */

static int try_round(fixture *f, int64_t round, error *err)
{
	enum round_outcome outcome;
	manifest m;
	scanner *s = scanner_new(f->data, FORMAT_TXT, 1000);
	scan_view v = kit_look(s);
	round_request r = {.output_dir = f->out, .uid = UID, .round = round, .train_prob = 0.5, .may_move_aside = true};
	/* Each round takes four samples of three bytes. */
	dataset_point end;
	r.from = r.line = 4 * (round - 1);
	r.offset = 3 * r.from;
	assert_int_equal(scanner_range_end(s, r.offset, r.line, 12, NULL, &end, err), 0);
	assert_true(end.samples <= v.end.samples);
	r.end = (cursor){.sample = end.samples, .size = end.size, .digest = end.digest};
	int code = round_write(s, &r, &outcome, &m, err);
	scanner_free(s);
	return code;
}

static void write_round(fixture *f, int64_t round)
{
	error err = {0};
	if (try_round(f, round, &err) != 0)
		fail_msg("%s", err.text);
}

static void one_round_is_there(fixture *f)
{
	kit_append_lines(f->data, "s", 0, 8);
	write_round(f, 1);
}

static void second_round(void *f)
{
	write_round(f, 2);
}

/* Whole: as its manifest says, to the byte. */
static bool has_round(fixture *f, int64_t round, const char *train, const char *eval)
{
	manifest m;
	int code = round_read(f->out, round, &m, NULL);
	if (code == ERROR_NOT_FOUND)
		return false;
	assert_int_equal(code, 0);
	char *data = mem_printf("data/train/%lld/data.txt", (long long)round),
		 *other = mem_printf("data/train/%lld/eval.txt", (long long)round);
	assert_true(holds(f, data, train));
	assert_true(holds(f, other, eval));
	free(data);
	free(other);
	return true;
}

static void round_is_whole_or_not_there(fixture *f, bool ended)
{
	assert_true(has_round(f, 1, "s1\ns3\n", "s0\ns2\n"));
	assert_true(has_round(f, 2, "s5\ns7\n", "s4\ns6\n") || !ended);
	write_round(f, 2);
	assert_true(has_round(f, 2, "s5\ns7\n", "s4\ns6\n"));
	assert_false(exists(f, "data/train/.2.tmp"));
	assert_true(exists(f, "train"));
}

static void round_folder(void **state)
{
	(void)state;
	at_each_step(one_round_is_there, second_round, round_is_whole_or_not_there);
}

static void second_round_again(void *arg)
{
	fixture *f = arg;
	error err = {0};
	power_fail(f->fail_at);
	(void)try_round(f, 2, &err);
	*f->failed = power_failed();
	write_round(f, 2);
}

/* What the first attempt left was not on the disk, whatever the second one finds. */
static void round_folder_after_a_failure(void **state)
{
	(void)state;
	after_each_failure(one_round_is_there, second_round_again, round_is_whole_or_not_there);
}

static void nothing_is_there(fixture *f)
{
	kit_append_lines(f->data, "s", 0, 8);
}

static void first_round(void *f)
{
	write_round(f, 1);
}

/* With the folders above it, which are new too. */
static void first_is_whole_or_not_there(fixture *f, bool ended)
{
	assert_true(has_round(f, 1, "s1\ns3\n", "s0\ns2\n") || !ended);
	assert_true(exists(f, "train") || !ended);
	write_round(f, 1);
	assert_true(has_round(f, 1, "s1\ns3\n", "s0\ns2\n"));
}

static void first_round_folder(void **state)
{
	(void)state;
	at_each_step(nothing_is_there, first_round, first_is_whole_or_not_there);
}

static void somebodys_folder_is_there(fixture *f)
{
	one_round_is_there(f);
	char *folder = mem_printf("%s/data/train/2", f->out), *path = mem_printf("%s/data.txt", folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	kit_append(path, "somebody's");
	free(path);
	free(folder);
}

/* What was in the place is still there, under its name or aside; never gone, never taken for the round. */
static void somebodys_folder_is_kept(fixture *f, bool ended)
{
	bool in_place = holds(f, "data/train/2/data.txt", "somebody's");
	assert_true(in_place || holds(f, "data/train/2.aside-8c5d7b5e-1/data.txt", "somebody's"));
	if (!in_place)
		assert_true(has_round(f, 2, "s5\ns7\n", "s4\ns6\n") || !ended);
	assert_true(!in_place || !ended);
	write_round(f, 2);
	assert_true(has_round(f, 2, "s5\ns7\n", "s4\ns6\n"));
	assert_true(holds(f, "data/train/2.aside-8c5d7b5e-1/data.txt", "somebody's"));
}

static void folder_moved_aside(void **state)
{
	(void)state;
	at_each_step(somebodys_folder_is_there, second_round, somebodys_folder_is_kept);
}

/* ---- eval data ---- */

static void two_rounds_are_there(fixture *f)
{
	one_round_is_there(f);
	write_round(f, 2);
}

static void eval_data(void *arg)
{
	const fixture *f = arg;
	static const int64_t rounds[] = {1, 2};
	eval_result result;
	error err = {0};
	if (eval_data_write(f->out, rounds, 2, NULL, NULL, &result, &err) != 0)
		fail_msg("%s", err.text);
}

static void eval_data_is_whole_or_not_there(fixture *f, bool ended)
{
	const char *text = text_of(f, "data/eval/2/data.txt");
	assert_true(text != NULL || !ended);
	assert_true(text == NULL || strcmp(text, "s0\ns2\ns4\ns6\n") == 0);
	eval_data(f);
	assert_true(holds(f, "data/eval/2/data.txt", "s0\ns2\ns4\ns6\n"));
}

static void eval_file(void **state)
{
	(void)state;
	at_each_step(two_rounds_are_there, eval_data, eval_data_is_whole_or_not_there);
}

/* ---- deployment ---- */

static void write_file(const char *folder, const char *below, const char *text)
{
	char *path = mem_printf("%s/%s", folder, below), *parent = file_parent(path);
	assert_int_equal(file_make_dirs(parent, 0755, NULL), 0);
	assert_int_equal(file_write(path, text, strlen(text), 0644, NULL), 0);
	free(parent);
	free(path);
}

static void a_model_is_served(fixture *f)
{
	write_file(f->out, "serve/model.pb", "old model");
	write_file(f->out, "eval/model/weights", "old model");
	write_file(f->trained, "new.pb", "new");
	write_file(f->trained, "new/weights", "new");
	write_file(f->trained, "new/more", "new");
}

static int try_deploy(fixture *f, error *err)
{
	char *served = mem_printf("%s/serve/model.pb", f->out), *eval = mem_printf("%s/eval/model", f->out);
	char *config = mem_printf("%s/hot/model_config.json", f->out);
	char *file = mem_printf("%s/new.pb", f->trained), *folder = mem_printf("%s/new", f->trained);
	deploy_step steps[] = {{.to = served, .from = file}, {.to = eval, .from = folder}, {.to = config, .text = "{\"v\":1}"}};
	deploy_plan plan = {.output_dir = f->out, .round = 5, .steps = steps, .n = 3};
	model_info info;
	int code = deploy_run(&plan, &info, err);
	free(served);
	free(eval);
	free(config);
	free(file);
	free(folder);
	return code;
}

static void deploy(void *f)
{
	error err = {0};
	if (try_deploy(f, &err) != 0)
		fail_msg("%s", err.text);
}

/* The parts come one after the other, each durable before the next: what was there is kept before it is replaced, and the small file that tells
 * a worker to load comes last. */
static void models_are_whole_and_in_order(fixture *f, bool ended)
{
	bool first = holds(f, "deployed/0/model.pb", "old model"), version = holds(f, "deployed/5/new.pb", "new");
	bool served = holds(f, "serve/model.pb", "new");
	bool eval = holds(f, "eval/model/weights", "new") && holds(f, "eval/model/more", "new");
	bool config = holds(f, "hot/model_config.json", "{\"v\":1}");
	assert_true(first || !exists(f, "deployed/0"));
	assert_true(version || !exists(f, "deployed/5"));
	assert_true(served || holds(f, "serve/model.pb", "old model"));
	assert_true(eval || (holds(f, "eval/model/weights", "old model") && !exists(f, "eval/model/more")));
	assert_true(config || !exists(f, "hot/model_config.json"));
	assert_true(first || !version);
	assert_true(version || !served);
	assert_true(served || !eval);
	assert_true(eval || !config);
	assert_true(config || !ended);
	deploy(f);
	assert_true(holds(f, "deployed/0/model.pb", "old model") && holds(f, "deployed/5/new.pb", "new"));
	assert_true(holds(f, "serve/model.pb", "new") && holds(f, "eval/model/more", "new") && holds(f, "hot/model_config.json", "{\"v\":1}"));
}

static void deployment(void **state)
{
	(void)state;
	at_each_step(a_model_is_served, deploy, models_are_whole_and_in_order);
}

static void deploy_again(void *arg)
{
	fixture *f = arg;
	error err = {0};
	power_fail(f->fail_at);
	(void)try_deploy(f, &err);
	*f->failed = power_failed();
	deploy(f);
}

static void deployment_after_a_failure(void **state)
{
	(void)state;
	after_each_failure(a_model_is_served, deploy_again, models_are_whole_and_in_order);
}

/* ---- one file ---- */

static void a_file_is_there(fixture *f)
{
	write_file(f->out, "file", "old");
}

static void replace_file(void *arg)
{
	const fixture *f = arg;
	write_file(f->out, "file", "new");
	write_file(f->out, "a/b", "new");
}

static void file_is_old_or_new(fixture *f, bool ended)
{
	bool replaced = holds(f, "file", "new"), second = holds(f, "a/b", "new");
	assert_true(replaced || holds(f, "file", "old"));
	assert_true(second || !exists(f, "a/b"));
	assert_true(replaced || !second);
	assert_true(second || !ended);
}

static void one_file(void **state)
{
	(void)state;
	at_each_step(a_file_is_there, replace_file, file_is_old_or_new);
}

/* ---- the store ---- */

static int64_t *committed; /* shared with the process that commits: the round that store_commit has said is durable */

static void store_is_new(fixture *f)
{
	(void)f;
	*committed = 0;
}

/* A commit for each round, and now and then the store is closed, which puts the log into the database. */
static void commit_rounds(void *arg)
{
	const fixture *f = arg;
	const struct place p = {.dir = f->out, .path = mem_printf("%s/edge.db", f->out)};
	record *before = NULL;
	bool fresh;
	store *s = NULL;
	for (int64_t round = 1; round <= ROUNDS; round++) {
		record *r = make_record("u1", round, (int)round);
		if (s == NULL) {
			s = open_store(&p, &fresh);
			edge_agent_free(restore(s));
		}
		if (put_over(s, before, r, NULL) != 0)
			fail_msg("round %d was not committed", (int)round);
		*committed = round;
		if (round % 2 == 0) {
			store_close(s);
			s = NULL;
		}
		record_free(before);
		before = r;
	}
	record_free(before);
	free(p.path);
}

static void store_holds_what_was_committed(fixture *f, bool ended)
{
	const struct place p = {.dir = f->out, .path = mem_printf("%s/edge.db", f->out)};
	size_t rows;
	int64_t round = stored_round(&p, "u1", &rows);
	assert_true(round == *committed || round == *committed + 1);
	assert_true(round == ROUNDS || !ended);
	assert_int_equal(rows, (size_t)round); /* of one commit all */
	assert_false(exists(f, "edge.db.bad-1"));
	free(p.path);
}

static void edge_store(void **state)
{
	(void)state;
	committed = mmap(NULL, sizeof *committed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(committed != MAP_FAILED);
	at_each_step(store_is_new, commit_rounds, store_holds_what_was_committed);
	munmap(committed, sizeof *committed);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_file),
		cmocka_unit_test(first_round_folder),
		cmocka_unit_test(round_folder),
		cmocka_unit_test(round_folder_after_a_failure),
		cmocka_unit_test(folder_moved_aside),
		cmocka_unit_test(eval_file),
		cmocka_unit_test(deployment),
		cmocka_unit_test(deployment_after_a_failure),
		cmocka_unit_test(edge_store),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
