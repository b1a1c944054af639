/* The edge agent's store on a disk of which one call after the other fails, as in test_fault_objects.c: whatever answers with an error has
 * changed nothing and works when it is tried again; what answers with success is there after the next opening; no file stays open, and the
 * store is never taken for a damaged one. And without memory: the process ends and says so, and what was acknowledged before is there. Of the
 * pieces of memory each thirteenth is tried, all with the variable ILMARE_TEST_FAULTS.
 */
#include "tests/unit/store_kit.h"

#include <sqlite3.h>

#include "tests/unit/sqlite_kit.h"

enum { TRIES = 8, N_MAX = 4000, MEMORY_STRIDE = 13, EXIT_NO_MEMORY = 70 };

static const char url[] = "/data/d.txt";

/* The files of a store that was used before; log: its WAL, if it was not closed. */
static buf db, wal;
/* Jobs before and after, the same for all runs. */
static record *before, *after, *other;

static char *beside(const struct place *p, const char *suffix)
{
	return mem_printf("%s%s", p->path, suffix);
}

static store *open_at_last(const struct place *p)
{
	store *s = NULL;
	bool fresh = true;
	for (int i = 0; i < TRIES; i++) {
		error err = {0};
		if (store_open(p->path, "edge-1", &s, &fresh, &err) == 0) {
			assert_false(fresh);
			return s;
		}
		assert_true(err.code != 0 && err.text[0] != '\0' && err.code != ERROR_CORRUPT);
	}
	fail_msg("the store cannot be opened");
	return NULL;
}

static edge_agent *restore_at_last(store *s)
{
	edge_config config;
	edge_config_init(&config);
	config.node = "edge-1";
	config.session = "s";
	config.version = "1";
	config.seed = 1;
	for (int i = 0; i < TRIES; i++) {
		error err = {0};
		edge_agent *a = edge_agent_new(&config);
		if (store_restore(s, a, &err) == 0)
			return a;
		assert_true(err.code != 0 && err.text[0] != '\0' && err.code != ERROR_CORRUPT);
		edge_agent_free(a);
	}
	fail_msg("the store cannot be read");
	return NULL;
}

/* ---- what is in it ---- */

/* Round and reports of a job; 0: it is not there. */
static void check_job(const edge_agent *a, const record *like, const char *uid)
{
	const record *r = edge_agent_record(a, uid);
	if (like == NULL) {
		assert_null(r);
		return;
	}
	assert_non_null(r);
	assert_string_equal(r->document, like->document);
	assert_int_equal(r->n_rows, like->n_rows);
	for (size_t i = 0; i < like->n_rows; i++)
		assert_string_equal(r->rows[i].payload, like->rows[i].payload);
}

static void check_scan(store *s, const char *state)
{
	char *stored = NULL;
	assert_int_equal(store_scan_load(s, url, FORMAT_TXT, &stored, NULL), 0);
	assert_string_equal(stored != NULL ? stored : "", state);
	free(stored);
}

/* 0: as prepared; 1: u1 changed; 2: u2 is there; 3: the file was read on; 4: u2 is gone again, and the file forgotten. */
static void check(store *s, int at)
{
	sqlite_kit_hold(true);
	edge_agent *a = restore(s);
	check_job(a, at >= 1 ? after : before, "u1");
	check_job(a, at == 2 || at == 3 ? other : NULL, "u2");
	check_scan(s, at == 4 ? "" : at == 3 ? "{\"at\":2}" : "{\"at\":1}");
	edge_agent_free(a);
	sqlite_kit_hold(false);
}

/* ---- the steps ---- */

static int step_change(store *s, error *err)
{
	return put_over(s, before, after, err);
}

static int step_add(store *s, error *err)
{
	return put(s, other, err);
}

static int step_scan(store *s, error *err)
{
	return store_scan_save(s, url, FORMAT_TXT, "{\"at\":2}", err);
}

static bool keep_none(void *ctx, const char *file, enum dataset_format format)
{
	(void)ctx;
	(void)file;
	(void)format;
	return false;
}

static int step_drop(store *s, error *err)
{
	edge_change drop = {.kind = CHANGE_DROP_JOB, .uid = "u2"};
	int code = store_scan_prune(s, keep_none, NULL, err);
	return code == 0 ? store_commit(s, &drop, 1, err) : code;
}

static int (*const steps[])(store *s, error *err) = {step_change, step_add, step_scan, step_drop};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void use(store *s)
{
	for (int at = 0; at < (int)STEPS; at++) {
		int code = -1;
		for (int i = 0; i < TRIES && code != 0; i++) {
			error err = {0};
			code = steps[at](s, &err);
			if (code == 0)
				break;
			assert_true(err.code == code && err.text[0] != '\0' && code != ERROR_CORRUPT);
			/* The last step is two transactions. */
			if (at + 1 < (int)STEPS)
				check(s, at);
		}
		assert_int_equal(code, 0);
		check(s, at + 1);
	}
}

/* ---- one run ---- */

static void put_files(const struct place *p)
{
	char *log = beside(p, "-wal");
	assert_int_equal(file_write(p->path, db.data, db.len, 0600, NULL), 0);
	unlink(log);
	if (wal.len > 0)
		assert_int_equal(file_write(log, wal.data, wal.len, 0600, NULL), 0);
	free(log);
}

/* False: the fault has not happened, there are fewer such calls. */
static bool run(const struct place *p, const struct sqlite_fault *fault, int n)
{
	char *bad = beside(p, ".bad-1");
	put_files(p);
	sqlite_kit_arm(fault->calls, n, fault->times, fault->code);
	store *s = open_at_last(p);
	edge_agent *a = restore_at_last(s);
	check_job(a, before, "u1");
	edge_agent_free(a);
	use(s);
	store_close(s);
	bool failed = sqlite_kit_failed();
	assert_int_equal(sqlite_kit_files(), 0);
	assert_int_equal(sqlite3_memory_used(), 0);
	assert_int_not_equal(access(bad, F_OK), 0);
	s = open_at_last(p);
	check(s, STEPS);
	store_close(s);
	free(bad);
	return failed;
}

static void every_call(const struct place *p)
{
	for (const struct sqlite_fault *fault = sqlite_faults; fault->name != NULL; fault++) {
		int n = 1;
		while (run(p, fault, n) && n < N_MAX)
			n++;
		print_message("%s: %d times\n", fault->name, n - 1);
		assert_true(n < N_MAX);
	}
}

/* ---- the cases ---- */

static void prepare(const struct place *p, bool closed)
{
	bool fresh;
	char *log = beside(p, "-wal");
	store *s = open_store(p, &fresh);
	edge_agent_free(restore(s));
	assert_int_equal(put(s, before, NULL), 0);
	assert_int_equal(store_scan_save(s, url, FORMAT_TXT, "{\"at\":1}", NULL), 0);
	if (closed)
		store_close(s);
	assert_int_equal(file_read(p->path, 1 << 24, &db, NULL), 0);
	if (!closed) {
		assert_int_equal(file_read(log, 1 << 24, &wal, NULL), 0);
		store_close(s);
	}
	free(log);
}

static int setup(void **state)
{
	before = make_record("u1", 1, 2);
	after = make_record("u1", 2, 3);
	other = make_record("u2", 5, 1);
	return place_setup(state);
}

static int teardown(void **state)
{
	record_free(before);
	record_free(after);
	record_free(other);
	buf_fini(&db);
	buf_fini(&wal);
	return place_teardown(state);
}

static void a_store_that_was_closed(void **state)
{
	prepare(*state, true);
	every_call(*state);
}

static void a_store_that_was_not_closed(void **state)
{
	prepare(*state, false);
	every_call(*state);
}

/* ---- no memory ---- */

struct poor {
	const struct place *p;
	char *acknowledged; /* a file with one byte for each step that was */
	int n;
};

static void use_poorly(void *arg)
{
	const struct poor *poor = arg;
	sqlite_kit_arm_memory(poor->n);
	store *s = open_at_last(poor->p);
	edge_agent_free(restore_at_last(s));
	int told = open(poor->acknowledged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (int at = 0; at < (int)STEPS; at++) {
		if (steps[at](s, NULL) != 0 || write(told, "x", 1) != 1)
			exit(1);
	}
	close(told);
	store_close(s);
	sqlite_kit_arm_memory(0);
	record_free(before);
	record_free(after);
	record_free(other);
	buf_fini(&db);
	buf_fini(&wal);
}

/* After so many acknowledged steps: what they did is there, and of the next one all or nothing. */
static void check_whole(const struct place *p, size_t acknowledged)
{
	store *s = open_at_last(p);
	edge_agent *a = restore(s);
	char *scan = NULL;
	const record *r = edge_agent_record(a, "u1"), *second = edge_agent_record(a, "u2");
	assert_non_null(r);
	int64_t round = r->desired->position.round;
	assert_true(round == 2 || (round == 1 && acknowledged == 0));
	assert_int_equal(r->n_rows, round == 2 ? 3 : 2);
	assert_true(acknowledged == 1 || acknowledged == 3 || (second != NULL) == (acknowledged == 2));
	assert_int_equal(store_scan_load(s, url, FORMAT_TXT, &scan, NULL), 0);
	if (acknowledged < 2)
		assert_string_equal(scan, "{\"at\":1}");
	else if (acknowledged == 4)
		assert_null(scan);
	free(scan);
	edge_agent_free(a);
	store_close(s);
}

static void every_piece_of_memory(void **state)
{
	const struct place *p = *state;
	struct poor poor = {.p = p, .acknowledged = beside(p, "-acknowledged")};
	int status = EXIT_NO_MEMORY, stride = getenv("ILMARE_TEST_FAULTS") != NULL ? 1 : MEMORY_STRIDE, tries = 0;
	prepare(p, false);
	for (poor.n = 1; status == EXIT_NO_MEMORY && poor.n < N_MAX; poor.n += stride, tries++) {
		buf said = {0}, acknowledged = {0};
		put_files(p);
		unlink(poor.acknowledged);
		status = unit_run(2, use_poorly, &poor, &said);
		if (status != 0 && strstr(buf_text(&said), "out of memory") == NULL)
			fail_msg("status %d at the allocation %d: %s", status, poor.n, buf_text(&said));
		if (file_read(poor.acknowledged, STEPS, &acknowledged, NULL) != 0)
			assert_int_not_equal(status, 0);
		check_whole(p, acknowledged.len);
		buf_fini(&said);
		buf_fini(&acknowledged);
	}
	print_message("%d of about %d pieces of memory\n", tries - 1, poor.n);
	assert_int_equal(status, 0);
	assert_true(tries > 50);
	free(poor.acknowledged);
}

int main(void)
{
	mem_init();
	sqlite_kit_install();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_store_that_was_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_store_that_was_not_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(every_piece_of_memory, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
