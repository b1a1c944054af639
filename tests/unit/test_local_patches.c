/* Status patches of one turn: one transaction, answered when it is committed, each by itself if it cannot be. */
#include "tests/unit/unit.h"

#include <sqlite3.h>
#include <stdio.h>
#include <uv.h>

#include "cloud-agent/cluster/local/patches.h"
#include "common/json.h"

/* Commits that were tried, and how many of them, from the first one on, the disk refuses. */
static int commits, refused;

int __real_sqlite3_step(sqlite3_stmt *s);
int __wrap_sqlite3_step(sqlite3_stmt *s);
int __wrap_sqlite3_step(sqlite3_stmt *s)
{
	const char *text = sqlite3_sql(s);
	if (text == NULL || strcmp(text, "COMMIT") != 0)
		return __real_sqlite3_step(s);
	return ++commits <= refused ? SQLITE_FULL : __real_sqlite3_step(s);
}

enum { JOBS = 300 };

typedef struct fixture {
	char *folder;
	objects *store;
	uv_loop_t loop;
	patches *patches;
	cJSON *status;
	char names[JOBS][8];
	int answered, good, objects, commits_at_answer, more;
	int codes[JOBS];
	bool closed;
} fixture;

static void add(fixture *f, int i, const char *version)
{
	patches_add(f->patches,
		&(patch_request){
			.id = (uint64_t)i, .kind = OBJECT_JOB, .ns = "default", .name = f->names[i], .version = version, .status = f->status});
}

static void on_answer(void *ctx, uint64_t id, int code, const error *err, cJSON *object)
{
	fixture *f = ctx;
	assert_int_equal(err->code, code);
	f->codes[id] = code;
	f->answered++;
	f->good += code == 0;
	f->objects += object != NULL;
	f->commits_at_answer = commits;
	cJSON_Delete(object);
	if (f->more > 0)
		add(f, --f->more, NULL);
}

static void on_closed(void *ctx)
{
	((fixture *)ctx)->closed = true;
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	char *path = mem_printf("%s/cluster.db", f->folder);
	assert_int_equal(objects_open(path, &f->store, NULL), 0);
	free(path);
	assert_int_equal(objects_begin(f->store, NULL), 0);
	for (int i = 0; i < JOBS; i++) {
		cJSON *changed = NULL, *meta = cJSON_CreateObject(), *spec = cJSON_CreateObject();
		snprintf(f->names[i], sizeof f->names[i], "j%d", i);
		manifest m = {.kind = OBJECT_JOB, .ns = (char *)"default", .name = f->names[i], .meta = meta, .spec = spec};
		assert_int_equal(objects_apply(f->store, &m, "a.yaml", &changed, NULL), 0);
		cJSON_Delete(changed);
		cJSON_Delete(meta);
		cJSON_Delete(spec);
	}
	assert_int_equal(objects_end(f->store, 0, NULL), 0);
	uv_loop_init(&f->loop);
	f->patches = patches_new(&f->loop, f->store, on_answer, f);
	f->status = cJSON_CreateObject();
	json_put_int(f->status, "round", 1);
	commits = refused = 0;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	if (f->patches != NULL)
		patches_free(f->patches, on_closed, f);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_true(f->closed);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	objects_close(f->store);
	cJSON_Delete(f->status);
	unit_folder_remove(f->folder);
	free(f);
	return 0;
}

static int patched(fixture *f)
{
	int n = 0;
	for (int i = 0; i < JOBS; i++) {
		cJSON *object = NULL;
		assert_int_equal(objects_get(f->store, OBJECT_JOB, "default", f->names[i], &object, NULL), 0);
		n += json_member(json_member(object, "status"), "round") != NULL;
		cJSON_Delete(object);
	}
	return n;
}

static void a_turns_patches_are_one_commit(void **state)
{
	fixture *f = *state;
	for (int i = 0; i < 10; i++)
		add(f, i, NULL);
	assert_int_equal(f->answered, 0);
	assert_int_equal(patched(f), 0);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, 10);
	assert_int_equal(f->good, 10);
	assert_int_equal(f->objects, 10);
	assert_int_equal(f->commits_at_answer, 1);
	assert_int_equal(commits, 1);
	assert_int_equal(patched(f), 10);
	assert_int_equal(uv_run(&f->loop, UV_RUN_NOWAIT), 0); /* and nothing keeps the loop going */
}

static void a_refused_one_is_no_harm_to_the_others(void **state)
{
	fixture *f = *state;
	add(f, 0, NULL);
	add(f, 1, "1000000");
	add(f, 2, NULL);
	snprintf(f->names[3], sizeof f->names[3], "nobody");
	add(f, 3, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->codes[1], ERROR_CONFLICT);
	assert_int_equal(f->codes[3], ERROR_NOT_FOUND);
	assert_int_equal(f->good, 2);
	assert_int_equal(f->objects, 3); /* of a conflict as it is */
	assert_int_equal(commits, 1);
	snprintf(f->names[3], sizeof f->names[3], "j3");
	assert_int_equal(patched(f), 2);
}

static void each_by_itself_if_not_together(void **state)
{
	fixture *f = *state;
	refused = 1;
	for (int i = 0; i < 10; i++)
		add(f, i, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->good, 10);
	assert_int_equal(f->objects, 10);
	assert_int_equal(commits, 11);
	assert_int_equal(patched(f), 10);
}

static void nothing_is_said_to_be_done_that_is_not(void **state)
{
	fixture *f = *state;
	refused = 1000;
	for (int i = 0; i < 10; i++)
		add(f, i, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, 10);
	assert_int_equal(f->good, 0);
	assert_int_equal(f->objects, 0);
	assert_int_equal(patched(f), 0);
	refused = 0;
	add(f, 0, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->good, 1);
	assert_int_equal(patched(f), 1);
}

static void many_are_several(void **state)
{
	fixture *f = *state;
	for (int i = 0; i < JOBS; i++)
		add(f, i, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, 256);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, JOBS);
	assert_int_equal(commits, 2);
	assert_int_equal(patched(f), JOBS);
}

/* What answers bring waits for the next turn: in between the loop looks at everything else. */
static void answers_may_bring_more(void **state)
{
	fixture *f = *state;
	f->more = 200;
	for (int i = 200; i < 210; i++)
		add(f, i, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, 10);
	uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->answered, 20);
	assert_int_equal(commits, 2);
	/* To the end, all of it, when it is given back. */
	patches_free(f->patches, on_closed, f);
	f->patches = NULL;
	assert_int_equal(f->answered, 210);
	assert_int_equal(patched(f), 210);
}

int main(void)
{
#define PATCHES_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		PATCHES_TEST(a_turns_patches_are_one_commit),
		PATCHES_TEST(a_refused_one_is_no_harm_to_the_others),
		PATCHES_TEST(each_by_itself_if_not_together),
		PATCHES_TEST(nothing_is_said_to_be_done_that_is_not),
		PATCHES_TEST(many_are_several),
		PATCHES_TEST(answers_may_bring_more),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
