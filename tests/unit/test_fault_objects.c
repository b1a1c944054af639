/* The local backend's store of objects on a disk of which one call after the other fails. For each kind of fault and each n: the store is
 * opened and used with the n-th call failing. Whatever answers with an error has changed nothing and works when it is tried again; what
 * answers with success is there after the next opening. No file stays open, and the store is never taken for a damaged one.
 */
#include "tests/unit/unit.h"

#include <sqlite3.h>

#include "cloud-agent/cluster/local/objects.h"
#include "common/json.h"
#include "tests/unit/sqlite_kit.h"

enum { STEPS_MAX = 16, TRIES = 8, N_MAX = 2000 };

typedef struct place {
	char *folder, *path, *wal, *bad;
	buf db, log; /* the files of a store that was used before; log: its WAL, if it was not closed */
} place;

/* What the store holds after each step when nothing fails. [0]: after opening. */
static char *expected[STEPS_MAX];

/* ---- what is in it ---- */

static void mask(cJSON *meta, const char *name)
{
	if (json_member(meta, name) != NULL)
		cJSON_ReplaceItemInObjectCaseSensitive(meta, name, cJSON_CreateString("masked"));
}

/* All objects, one a line. What a run makes anew has another uid each time. */
static char *dump(objects *o)
{
	buf text = {0};
	sqlite_kit_hold(true);
	for (int pods = 0; pods < 2; pods++) {
		object_key *keys = NULL;
		size_t n = 0;
		assert_int_equal(objects_keys(o, pods == 1, &keys, &n, NULL), 0);
		for (size_t i = 0; i < n; i++) {
			cJSON *object = NULL;
			assert_int_equal(objects_get(o, keys[i].kind, keys[i].ns, keys[i].name, &object, NULL), 0);
			cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
			mask(meta, "creationTimestamp");
			mask(meta, "deletionTimestamp");
			if (strncmp(keys[i].name, "new", 3) == 0)
				mask(meta, "uid");
			char *line = json_print(object);
			buf_printf(&text, "%s\n", line);
			free(line);
			cJSON_Delete(object);
		}
		object_keys_free(keys, n);
	}
	sqlite_kit_hold(false);
	buf_reserve(&text, 1);
	return buf_detach(&text);
}

/* ---- the steps ---- */

static cJSON *tree(const char *text)
{
	cJSON *value = NULL;
	assert_int_equal(json_parse(text, strlen(text), 1 << 20, &value, NULL), 0);
	return value;
}

static int apply(objects *o, enum object_kind kind, const char *name, const char *spec, error *err)
{
	char ns[] = "default", *copy = mem_strdup(name);
	manifest m = {.kind = kind, .ns = ns, .name = copy, .meta = tree("{\"labels\":{\"a\":\"b\"}}"), .spec = tree(spec)};
	cJSON *changed = NULL;
	int code = objects_apply(o, &m, "a.yaml", &changed, err);
	assert_true(code == 0 || changed == NULL);
	cJSON_Delete(changed);
	cJSON_Delete(m.meta);
	cJSON_Delete(m.spec);
	free(copy);
	return code;
}

static int patch(objects *o, enum object_kind kind, const char *name, const char *status, error *err)
{
	cJSON *body = tree(status), *out = NULL, *was = NULL;
	int code = objects_patch_status(o, kind, "default", name, NULL, NULL, body, &out, &was, err);
	assert_true(code == 0 ? out != NULL : out == NULL && was == NULL);
	cJSON_Delete(out);
	cJSON_Delete(was);
	cJSON_Delete(body);
	return code;
}

static int64_t last_epoch;

static int step_epoch(objects *o, error *err)
{
	int64_t epoch = 0;
	int code = objects_next_epoch(o, 1, &epoch, err);
	assert_true(code != 0 || epoch > last_epoch);
	last_epoch = code == 0 ? epoch : last_epoch;
	return code;
}

static int step_change(objects *o, error *err)
{
	return apply(o, OBJECT_JOB, "j", "{\"x\":2}", err);
}

static int step_make(objects *o, error *err)
{
	return apply(o, OBJECT_JOB, "new-j", "{\"x\":1}", err);
}

static int step_patch(objects *o, error *err)
{
	return patch(o, OBJECT_JOB, "j", "{\"a\":{\"c\":2}}", err);
}

static int step_pod(objects *o, error *err)
{
	cJSON *pod = tree("{\"metadata\":{\"labels\":{\"l\":\"1\"}},\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":\"Pending\"}}");
	cJSON *out = NULL;
	int code = objects_add_pod(o, "default", "new-p", pod, &out, err);
	assert_true((code == 0) == (out != NULL));
	cJSON_Delete(out);
	cJSON_Delete(pod);
	return code;
}

static int step_relaxed(objects *o, error *err)
{
	int code = objects_begin_relaxed(o, err);
	return code == 0 ? objects_end(o, patch(o, OBJECT_POD, "new-p", "{\"phase\":\"Running\"}", err), err) : code;
}

/* As the mirror takes over a folder: all or nothing. */
static int step_together(objects *o, error *err)
{
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_remove(o, OBJECT_MODEL, "default", "m", err);
	if (code == 0)
		code = apply(o, OBJECT_MODEL, "new-m", "{\"url\":\"/m\"}", err);
	if (code == 0)
		code = apply(o, OBJECT_DATASET, "d", "{\"url\":\"/another\"}", err);
	return objects_end(o, code, err);
}

static int step_mark(objects *o, error *err)
{
	cJSON *out = NULL;
	int code = objects_mark_deleting(o, "default", "p", &out, err);
	assert_true((code == 0) == (out != NULL));
	cJSON_Delete(out);
	return code;
}

static int step_remove(objects *o, error *err)
{
	return objects_remove(o, OBJECT_POD, "default", "p", err);
}

static int (*const steps[])(objects *o, error *err) = {
	step_epoch, step_change, step_make, step_patch, step_pod, step_relaxed, step_together, step_mark, step_remove};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* ---- one run ---- */

static void check(objects *o, int at, const char *when)
{
	char *now = dump(o);
	if (strcmp(now, expected[at]) != 0)
		fail_msg("step %d, %s:\n%sand not as it should be:\n%s", at, when, now, expected[at]);
	free(now);
}

/* Whatever fails is done again until it works. */
static objects *open_at_last(const place *p)
{
	objects *o = NULL;
	for (int i = 0; i < TRIES; i++) {
		error err = {0};
		if (objects_open(p->path, &o, &err) == 0)
			return o;
		assert_null(o);
		assert_true(err.code != 0 && err.text[0] != '\0' && err.code != ERROR_CORRUPT);
	}
	fail_msg("the store cannot be opened");
	return NULL;
}

static void use(objects *o)
{
	for (int at = 0; at < (int)STEPS; at++) {
		int code = -1;
		for (int i = 0; i < TRIES && code != 0; i++) {
			error err = {0};
			code = steps[at](o, &err);
			if (code == 0)
				break;
			assert_true(err.code == code && err.text[0] != '\0' && code != ERROR_CORRUPT);
			check(o, at, "after an error");
		}
		assert_int_equal(code, 0);
		check(o, at + 1, "after success");
	}
}

static void put_files(const place *p)
{
	assert_int_equal(file_write(p->path, p->db.data, p->db.len, 0600, NULL), 0);
	unlink(p->wal);
	if (p->log.len > 0)
		assert_int_equal(file_write(p->wal, p->log.data, p->log.len, 0600, NULL), 0);
}

/* False: the fault has not happened, there are fewer such calls. */
static bool run(const place *p, const struct sqlite_fault *fault, int n)
{
	put_files(p);
	last_epoch = 0;
	sqlite_kit_arm(fault->calls, n, fault->times, fault->code);
	objects *o = open_at_last(p);
	check(o, 0, "as it was opened");
	use(o);
	objects_close(o);
	bool failed = sqlite_kit_failed();
	assert_int_equal(sqlite_kit_files(), 0);
	assert_int_equal(sqlite3_memory_used(), 0);
	assert_int_not_equal(access(p->bad, F_OK), 0);
	o = open_at_last(p);
	check(o, STEPS, "as it was opened again");
	int64_t epoch = 0;
	assert_int_equal(objects_next_epoch(o, 1, &epoch, NULL), 0);
	assert_true(epoch > last_epoch);
	objects_close(o);
	return failed;
}

static void every_call(const place *p)
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

/* A store that was used; closed, or as a machine that went down left it. */
static void prepare(place *p, bool closed)
{
	objects *o = open_at_last(p);
	assert_int_equal(apply(o, OBJECT_JOB, "j", "{\"x\":1}", NULL), 0);
	assert_int_equal(apply(o, OBJECT_MODEL, "m", "{\"url\":\"/m\"}", NULL), 0);
	assert_int_equal(apply(o, OBJECT_DATASET, "d", "{\"url\":\"/d\"}", NULL), 0);
	assert_int_equal(patch(o, OBJECT_JOB, "j", "{\"a\":{\"b\":1}}", NULL), 0);
	cJSON *pod = tree("{\"metadata\":{\"uid\":\"p-1\"},\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":\"Pending\"}}"), *out = NULL;
	assert_int_equal(objects_add_pod(o, "default", "p", pod, &out, NULL), 0);
	cJSON_Delete(out);
	cJSON_Delete(pod);
	if (closed)
		objects_close(o);
	assert_int_equal(file_read(p->path, 1 << 24, &p->db, NULL), 0);
	if (!closed) {
		assert_int_equal(file_read(p->wal, 1 << 24, &p->log, NULL), 0);
		objects_close(o);
	}
	put_files(p);
	o = open_at_last(p);
	expected[0] = dump(o);
	for (int at = 0; at < (int)STEPS; at++) {
		assert_int_equal(steps[at](o, NULL), 0);
		expected[at + 1] = dump(o);
	}
	objects_close(o);
}

static int setup(void **state)
{
	place *p = mem_alloc(sizeof *p);
	p->folder = unit_folder();
	p->path = mem_printf("%s/cluster.db", p->folder);
	p->wal = mem_printf("%s-wal", p->path);
	p->bad = mem_printf("%s.bad-1", p->path);
	last_epoch = 0;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	place *p = *state;
	for (int i = 0; i < STEPS_MAX; i++) {
		free(expected[i]);
		expected[i] = NULL;
	}
	buf_fini(&p->db);
	buf_fini(&p->log);
	unit_folder_remove(p->folder);
	free(p->path);
	free(p->wal);
	free(p->bad);
	free(p);
	return 0;
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

int main(void)
{
	mem_init();
	sqlite_kit_install();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_store_that_was_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_store_that_was_not_closed, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
