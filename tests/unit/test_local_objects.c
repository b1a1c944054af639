/* The store of objects: identity, versions, guards, transactions, damage. */
#include "tests/unit/unit.h"

#include <sqlite3.h>

#include "cloud-agent/cluster/local/objects.h"
#include "common/json.h"
#include "common/log.h"

typedef struct fixture {
	char *folder, *path;
	objects *store;
} fixture;

static void open_store(fixture *f)
{
	error err = {0};
	if (objects_open(f->path, &f->store, &err) != 0)
		fail_msg("%s", err.text);
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->path = mem_printf("%s/cluster.db", f->folder);
	open_store(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	objects_close(f->store);
	unit_folder_remove(f->folder);
	free(f->path);
	free(f);
	return 0;
}

static cJSON *tree(const char *text)
{
	cJSON *value = NULL;
	assert_int_equal(json_parse(text, strlen(text), 1 << 20, &value, NULL), 0);
	return value;
}

static cJSON *apply(fixture *f, const char *name, const char *meta, const char *spec)
{
	char ns[] = "default", *copy = mem_strdup(name);
	manifest m = {.kind = OBJECT_JOB, .ns = ns, .name = copy, .meta = tree(meta), .spec = tree(spec)};
	cJSON *changed = NULL;
	error err = {0};
	if (objects_apply(f->store, &m, "a.yaml", &changed, &err) != 0)
		fail_msg("%s", err.text);
	cJSON_Delete(m.meta);
	cJSON_Delete(m.spec);
	free(copy);
	return changed;
}

static const char *meta_text(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(object, "metadata"), name));
	return text != NULL ? text : "";
}

static int generation(const cJSON *object)
{
	return json_member(json_member(object, "metadata"), "generation")->valueint;
}

static cJSON *get(fixture *f, enum object_kind kind, const char *name)
{
	cJSON *object = NULL;
	objects_get(f->store, kind, "default", name, &object, NULL);
	return object;
}

/* A Secret in this version of its values; its resourceVersion (0: nothing is new) and the whole as text. */
static int apply_secret(fixture *f, const char *values, char **text)
{
	manifest m = {.kind = OBJECT_SECRET, .ns = (char *)"default", .name = (char *)"s", .data = cJSON_Parse(values)};
	cJSON *changed = NULL;
	int version;

	assert_int_equal(objects_apply(f->store, &m, "a.yaml", &changed, NULL), 0);
	version = changed != NULL ? atoi(cJSON_GetStringValue(json_member(json_member(changed, "metadata"), "resourceVersion"))) : 0;
	free(*text);
	*text = json_print(changed);
	cJSON_Delete(changed);
	cJSON_Delete(m.data);
	return version;
}

static void a_change_of_a_secrets_values_is_a_change(void **state)
{
	fixture *f = *state;
	char *text = NULL;
	int first = apply_secret(f, "{\"k\":\"CANARY\"}", &text);

	assert_true(first > 0);
	assert_null(strstr(text, "CANARY"));
	assert_int_equal(apply_secret(f, "{\"k\":\"CANARY\"}", &text), 0);
	objects_close(f->store);
	open_store(f);
	assert_int_equal(apply_secret(f, "{\"k\":\"CANARY\"}", &text), 0);
	assert_true(apply_secret(f, "{\"k\":\"CANARY-2\"}", &text) > first);
	assert_null(strstr(text, "CANARY"));
	free(text);
}

static void an_object_keeps_its_uid_until_it_is_removed(void **state)
{
	fixture *f = *state;
	cJSON *first = apply(f, "j", "{\"labels\":{\"a\":\"b\"}}", "{\"x\":1,\"y\":2}");
	assert_string_equal(cJSON_GetStringValue(json_member(first, "kind")), "IncrementalLearningJob");
	assert_int_equal(strlen(meta_text(first, "uid")), 36);
	assert_int_equal(meta_text(first, "uid")[14], '4');
	assert_string_equal(meta_text(first, "resourceVersion"), "1");
	assert_string_equal(cJSON_GetStringValue(json_member(json_member(json_member(first, "metadata"), "labels"), "a")), "b");
	assert_null(apply(f, "j", "{\"labels\":{\"a\":\"b\"}}", "{\"y\":2,\"x\":1}")); /* nothing new */
	cJSON *second = apply(f, "j", "{\"labels\":{\"a\":\"b\"}}", "{\"x\":1,\"y\":3}");
	assert_string_equal(meta_text(second, "uid"), meta_text(first, "uid"));
	assert_string_equal(meta_text(second, "resourceVersion"), "2");
	assert_int_equal(generation(second), 2);
	cJSON *third = apply(f, "j", "{\"annotations\":{\"a\":\"b\"}}", "{\"x\":1,\"y\":3}");
	assert_int_equal(generation(third), 2); /* of the spec alone */
	assert_null(json_member(json_member(third, "metadata"), "labels"));
	objects_close(f->store);
	open_store(f);
	assert_null(apply(f, "j", "{\"annotations\":{\"a\":\"b\"}}", "{\"x\":1,\"y\":3}"));
	assert_int_equal(objects_remove(f->store, OBJECT_JOB, "default", "j", NULL), 0);
	cJSON *again = apply(f, "j", "{}", "{\"x\":1}");
	assert_string_not_equal(meta_text(again, "uid"), meta_text(first, "uid"));
	assert_string_equal(meta_text(again, "resourceVersion"), "4");
	cJSON_Delete(first);
	cJSON_Delete(second);
	cJSON_Delete(third);
	cJSON_Delete(again);
}

static int patch(fixture *f, const char *uid, const char *version, const char *status, cJSON **out)
{
	cJSON *body = tree(status);
	int code = objects_patch_status(f->store, OBJECT_JOB, "default", "j", uid, version, body, out, NULL, NULL);
	cJSON_Delete(body);
	return code;
}

static void a_patch_is_guarded_and_merged(void **state)
{
	fixture *f = *state;
	cJSON *job = apply(f, "j", "{}", "{\"x\":1}"), *out = NULL;
	char *uid = mem_strdup(meta_text(job, "uid"));
	cJSON_Delete(job);
	assert_int_equal(patch(f, uid, "1", "{\"a\":{\"b\":1},\"list\":[1,2]}", &out), 0);
	assert_string_equal(meta_text(out, "resourceVersion"), "2");
	cJSON_Delete(out);
	assert_int_equal(patch(f, uid, "1", "{\"a\":9}", &out), ERROR_CONFLICT);
	assert_string_equal(meta_text(out, "resourceVersion"), "2"); /* as it is */
	cJSON_Delete(out);
	assert_int_equal(patch(f, "another", "2", "{\"a\":9}", &out), ERROR_CONFLICT);
	cJSON_Delete(out);
	assert_int_equal(patch(f, uid, "2", "{\"a\":{\"c\":2},\"list\":[3]}", &out), 0);
	char *status = json_print(json_member(out, "status"));
	assert_string_equal(status, "{\"a\":{\"b\":1,\"c\":2},\"list\":[3]}");
	free(status);
	cJSON_Delete(out);
	assert_int_equal(patch(f, uid, "3", "{\"list\":[3]}", &out), 0); /* as it is: no new version */
	assert_string_equal(meta_text(out, "resourceVersion"), "3");
	cJSON_Delete(out);
	/* A status survives a change of the spec, and a restart. */
	cJSON_Delete(apply(f, "j", "{}", "{\"x\":2}"));
	objects_close(f->store);
	open_store(f);
	job = get(f, OBJECT_JOB, "j");
	status = json_print(json_member(job, "status"));
	assert_string_equal(status, "{\"a\":{\"b\":1,\"c\":2},\"list\":[3]}");
	free(status);
	cJSON_Delete(job);
	objects_remove(f->store, OBJECT_JOB, "default", "j", NULL);
	assert_int_equal(patch(f, uid, "4", "{}", &out), ERROR_NOT_FOUND);
	assert_null(out);
	free(uid);
}

static void a_transaction_is_whole_or_nothing(void **state)
{
	fixture *f = *state;
	cJSON_Delete(apply(f, "a", "{}", "{\"x\":1}"));
	assert_int_equal(objects_begin(f->store, NULL), 0);
	cJSON_Delete(apply(f, "b", "{}", "{\"x\":1}"));
	assert_int_equal(objects_remove(f->store, OBJECT_JOB, "default", "a", NULL), 0);
	assert_int_equal(objects_end(f->store, ERROR_IO, NULL), ERROR_IO);
	cJSON *a = get(f, OBJECT_JOB, "a"), *b = get(f, OBJECT_JOB, "b");
	assert_non_null(a);
	assert_null(b);
	cJSON_Delete(a);
	assert_int_equal(objects_begin(f->store, NULL), 0);
	cJSON_Delete(apply(f, "b", "{}", "{\"x\":1}"));
	assert_int_equal(objects_end(f->store, 0, NULL), 0);
	b = get(f, OBJECT_JOB, "b");
	assert_non_null(b);
	cJSON_Delete(b);
}

static void pods_and_keys(void **state)
{
	fixture *f = *state;
	cJSON *pod = tree("{\"metadata\":{\"name\":\"other\",\"labels\":{\"l\":\"1\"},\"ownerReferences\":[{\"uid\":\"o\"}]},"
					  "\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":\"Pending\"}}");
	cJSON *made = NULL, *there = NULL, *marked = NULL;
	assert_int_equal(objects_add_pod(f->store, "default", "p", pod, &made, NULL), 0);
	assert_string_equal(meta_text(made, "name"), "p");
	assert_string_equal(cJSON_GetStringValue(json_member(made, "apiVersion")), "v1");
	assert_int_equal(objects_add_pod(f->store, "default", "p", pod, &there, NULL), ERROR_EXISTS);
	assert_true(json_equal(made, there));
	assert_int_equal(objects_mark_deleting(f->store, "default", "p", &marked, NULL), 0);
	assert_int_equal(strlen(meta_text(marked, "deletionTimestamp")), 20);
	cJSON_Delete(there);
	assert_int_equal(objects_mark_deleting(f->store, "default", "p", &there, NULL), 0);
	assert_true(json_equal(marked, there)); /* once */
	cJSON_Delete(apply(f, "j", "{}", "{\"x\":1}"));
	object_key *keys = NULL;
	size_t n = 0;
	assert_int_equal(objects_keys(f->store, false, &keys, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(keys[0].name, "j");
	assert_string_equal(keys[0].source, "a.yaml");
	object_keys_free(keys, n);
	assert_int_equal(objects_keys(f->store, true, &keys, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(keys[0].name, "p");
	object_keys_free(keys, n);
	cJSON_Delete(pod);
	cJSON_Delete(made);
	cJSON_Delete(there);
	cJSON_Delete(marked);
}

static void the_epoch_only_grows(void **state)
{
	fixture *f = *state;
	int64_t epoch = 0;
	assert_int_equal(objects_next_epoch(f->store, 1000, &epoch, NULL), 0);
	assert_int_equal(epoch, 1000);
	assert_int_equal(objects_next_epoch(f->store, 10, &epoch, NULL), 0); /* the clock went back */
	assert_int_equal(epoch, 1001);
	objects_close(f->store);
	open_store(f);
	assert_int_equal(objects_next_epoch(f->store, 0, &epoch, NULL), 0);
	assert_int_equal(epoch, 1002);
}

static void a_damaged_file_is_set_aside(void **state)
{
	fixture *f = *state;
	cJSON *job = apply(f, "j", "{}", "{\"x\":1}");
	char *uid = mem_strdup(meta_text(job, "uid")), *bad = mem_printf("%s.bad-1", f->path), *bad2 = mem_printf("%s.bad-2", f->path);
	cJSON_Delete(job);
	objects_close(f->store);
	FILE *file = fopen(f->path, "r+e");
	assert_non_null(file);
	for (int i = 0; i < 6000; i++)
		fputc('x', file);
	fclose(file);
	open_store(f);
	assert_int_equal(access(bad, F_OK), 0);
	assert_null(get(f, OBJECT_JOB, "j"));
	job = apply(f, "j", "{}", "{\"x\":1}");
	assert_string_not_equal(meta_text(job, "uid"), uid);
	cJSON_Delete(job);
	objects_close(f->store);
	/* Damage behind a good first page, which only the integrity check sees. */
	file = fopen(f->path, "r+e");
	assert_non_null(file);
	fseek(file, 4096 + 50, SEEK_SET);
	for (int i = 0; i < 4096; i++)
		fputc('x', file);
	fclose(file);
	open_store(f);
	assert_int_equal(access(bad2, F_OK), 0);
	free(uid);
	free(bad);
	free(bad2);
}

static void a_newer_schema_is_refused(void **state)
{
	fixture *f = *state;
	error err = {0};
	objects_close(f->store);
	sqlite3 *db = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(objects_open(f->path, &f->store, &err), ERROR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "install the newer"));
	assert_null(f->store);
	assert_int_equal(access(f->path, F_OK), 0);
}

static void a_part_that_cannot_be_read_is_not_an_absent_one(void **state)
{
	fixture *f = *state;
	error err = {0};
	cJSON *out = NULL;
	cJSON_Delete(apply(f, "j", "{}", "{\"x\":1}"));
	objects_close(f->store);
	sqlite3 *db = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE objects SET status = '{\"a\":'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(objects_open(f->path, &f->store, &err), 0);
	assert_int_equal(objects_get(f->store, OBJECT_JOB, "default", "j", &out, &err), ERROR_CORRUPT);
	assert_non_null(strstr(err.text, "IncrementalLearningJob default/j"));
}

/* ---- annotations: the manifest is the user's ---- */

static const char *annotation(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(json_member(json_member(json_member(object, "metadata"), "annotations"), name));
}

static int annotate(fixture *f, const cJSON *job, const char *change, cJSON **out)
{
	cJSON *body = tree(change);
	int code =
		objects_annotate(f->store, OBJECT_JOB, "default", "j", meta_text(job, "uid"), meta_text(job, "resourceVersion"), body, out, NULL);
	cJSON_Delete(body);
	return code;
}

#define WISH "{\"annotations\":{\"back\":\"3\",\"other\":\"x\"}}"

static void what_is_taken_counts_once(void **state)
{
	fixture *f = *state;
	cJSON *job = apply(f, "j", WISH, "{\"x\":1}"), *out = NULL, *stale;
	assert_string_equal(annotation(job, "back"), "3");
	assert_int_equal(annotate(f, job, "{\"back\":null,\"ours\":\"17:3\"}", &out), 0);
	assert_null(annotation(out, "back"));
	assert_string_equal(annotation(out, "ours"), "17:3");
	assert_string_equal(annotation(out, "other"), "x");
	assert_int_equal(annotate(f, job, "{\"ours\":null}", &stale), ERROR_CONFLICT);
	assert_string_equal(annotation(stale, "ours"), "17:3");
	cJSON_Delete(stale);
	/* The manifest as it was, also after a restart; and with another spec. */
	objects_close(f->store);
	open_store(f);
	assert_null(apply(f, "j", WISH, "{\"x\":1}"));
	cJSON_Delete(job);
	job = apply(f, "j", WISH, "{\"x\":2}");
	assert_null(annotation(job, "back"));
	assert_string_equal(annotation(job, "ours"), "17:3");
	cJSON_Delete(out);
	assert_int_equal(annotate(f, job, "{\"ours\":null}", &out), 0);
	assert_null(annotation(out, "ours"));
	assert_null(annotation(out, "back"));
	cJSON_Delete(out);
	/* Another value is another wish; so is the same one, when it was away. */
	cJSON_Delete(job);
	job = apply(f, "j", "{\"annotations\":{\"back\":\"4\"}}", "{\"x\":2}");
	assert_string_equal(annotation(job, "back"), "4");
	assert_int_equal(annotate(f, job, "{\"back\":null}", &out), 0);
	cJSON_Delete(out);
	cJSON_Delete(job);
	job = apply(f, "j", "{}", "{\"x\":2}");
	assert_null(annotation(job, "back"));
	cJSON_Delete(job);
	job = apply(f, "j", "{\"annotations\":{\"back\":\"4\"}}", "{\"x\":2}");
	assert_string_equal(annotation(job, "back"), "4");
	cJSON_Delete(job);
}

/* What was taken goes with the object. */
static void a_new_object_has_no_notes(void **state)
{
	fixture *f = *state;
	cJSON *job = apply(f, "j", WISH, "{\"x\":1}"), *out = NULL;
	assert_int_equal(annotate(f, job, "{\"back\":null,\"ours\":\"1:3\"}", &out), 0);
	cJSON_Delete(job);
	cJSON_Delete(out);
	assert_int_equal(objects_remove(f->store, OBJECT_JOB, "default", "j", NULL), 0);
	job = apply(f, "j", WISH, "{\"x\":1}");
	assert_string_equal(annotation(job, "back"), "3");
	assert_null(annotation(job, "ours"));
	cJSON_Delete(job);
}

/* A store of the version before: its objects are as they were. */
static void an_older_schema_is_brought_up_to_date(void **state)
{
	fixture *f = *state;
	cJSON *job = apply(f, "j", WISH, "{\"x\":1}"), *out = NULL;
	objects_close(f->store);
	sqlite3 *db = NULL;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "ALTER TABLE objects DROP COLUMN notes; PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	open_store(f);
	out = get(f, OBJECT_JOB, "j");
	assert_true(cJSON_Compare(job, out, true));
	cJSON_Delete(out);
	assert_int_equal(annotate(f, job, "{\"back\":null}", &out), 0);
	assert_null(annotation(out, "back"));
	cJSON_Delete(out);
	cJSON_Delete(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_object_keeps_its_uid_until_it_is_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_of_a_secrets_values_is_a_change, setup, teardown),
		cmocka_unit_test_setup_teardown(a_patch_is_guarded_and_merged, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_taken_counts_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_object_has_no_notes, setup, teardown),
		cmocka_unit_test_setup_teardown(an_older_schema_is_brought_up_to_date, setup, teardown),
		cmocka_unit_test_setup_teardown(a_transaction_is_whole_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(pods_and_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(the_epoch_only_grows, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_file_is_set_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(a_newer_schema_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_that_cannot_be_read_is_not_an_absent_one, setup, teardown),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
