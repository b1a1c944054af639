/* Objects: see objects.h for the contract.
 *
 * One table for all kinds; parts of an object are columns of JSON text, since nothing is ever searched for inside them. `meta` holds labels,
 * annotations and owner references, `notes` what became of annotations since (objects_notes.c). All SQL is in the table `sql` below; statements are prepared once. Opening, damage and the schema are
 * in objects_open.c.
 */
#include "cloud-agent/cluster/local/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "cloud-agent/cluster/local/merge.h"
#include "cloud-agent/cluster/local/objects_internal.h"
#include "common/json.h"
#include "common/mem.h"

static const char *const sql[OBJECTS_STATEMENTS] = {
	[SQL_BEGIN] = "BEGIN IMMEDIATE",
	[SQL_COMMIT] = "COMMIT",
	[SQL_ROLLBACK] = "ROLLBACK",
	[SQL_COUNTER_GET] = "SELECT value FROM counters WHERE name = ?1",
	[SQL_COUNTER_SET] = "INSERT INTO counters (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
	[SQL_GET] = "SELECT uid, version, generation, created, deleting, meta, spec, status, source, notes FROM objects"
				" WHERE kind = ?1 AND ns = ?2 AND name = ?3",
	[SQL_PUT] =
		"INSERT OR REPLACE INTO objects (kind, ns, name, uid, version, generation, created, deleting, meta, spec, status, source, notes)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
	[SQL_PUT_STATUS] = "UPDATE objects SET version = ?4, status = ?5 WHERE kind = ?1 AND ns = ?2 AND name = ?3",
	[SQL_REMOVE] = "DELETE FROM objects WHERE kind = ?1 AND ns = ?2 AND name = ?3",
	[SQL_KEYS] = "SELECT kind, ns, name, source FROM objects WHERE (kind = ?1) = ?2 ORDER BY kind, ns, name",
};

/* ---- statements ---- */

int objects__error(objects *o, error *err, const char *what)
{
	int code = ERROR_IO, sqlite = o->db != NULL ? sqlite3_errcode(o->db) : SQLITE_NOMEM;
	if (sqlite == SQLITE_FULL || sqlite == SQLITE_READONLY)
		code = ERROR_NO_SPACE;
	else if (sqlite == SQLITE_CORRUPT || sqlite == SQLITE_NOTADB)
		code = ERROR_CORRUPT;
	return error_set(err, code, "%s: cannot %s: %s", o->path, what, o->db != NULL ? sqlite3_errmsg(o->db) : "out of memory");
}

int objects__prepare(objects *o, error *err)
{
	for (size_t i = 0; i < OBJECTS_STATEMENTS; i++) {
		if (sqlite3_prepare_v3(o->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &o->statements[i], NULL) != SQLITE_OK)
			return objects__error(o, err, "prepare a statement");
	}
	return 0;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
	sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void bind_key(sqlite3_stmt *s, enum object_kind kind, const char *ns, const char *name)
{
	sqlite3_bind_int(s, 1, (int)kind);
	bind_text(s, 2, ns);
	bind_text(s, 3, name);
}

/* A statement without rows. */
static int run(objects *o, sqlite3_stmt *s, const char *what, error *err)
{
	int code = sqlite3_step(s) == SQLITE_DONE ? 0 : objects__error(o, err, what);
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return code;
}

static int begin(objects *o, error *err)
{
	if (o->depth++ > 0)
		return 0;
	int code = run(o, o->statements[SQL_BEGIN], "begin", err);
	if (code != 0)
		o->depth = 0;
	return code;
}

/* A pragma takes effect between transactions alone, and when it is compiled: hence no prepared statement. */
static int relax(objects *o, bool on, error *err)
{
	const char *text = on ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL";
	if (sqlite3_exec(o->db, text, NULL, NULL, NULL) != SQLITE_OK)
		return objects__error(o, err, "set how it is flushed");
	o->relaxed = on;
	return 0;
}

int objects_begin(objects *o, error *err)
{
	int code = o->depth == 0 && o->relaxed ? relax(o, false, err) : 0;
	return code == 0 ? begin(o, err) : code;
}

int objects_begin_relaxed(objects *o, error *err)
{
	int code = o->depth == 0 && !o->relaxed ? relax(o, true, err) : 0;
	return code == 0 ? begin(o, err) : code;
}

int objects_end(objects *o, int code, error *err)
{
	if (--o->depth > 0)
		return code;
	if (code == 0)
		code = run(o, o->statements[SQL_COMMIT], "commit", err);
	if (code != 0 && sqlite3_get_autocommit(o->db) == 0)
		run(o, o->statements[SQL_ROLLBACK], "roll back", NULL);
	return code;
}

int objects__counter_get(objects *o, const char *name, int64_t *value, error *err)
{
	sqlite3_stmt *s = o->statements[SQL_COUNTER_GET];
	bind_text(s, 1, name);
	int step = sqlite3_step(s), code = 0;
	*value = step == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		code = objects__error(o, err, "read a counter");
	sqlite3_reset(s);
	return code;
}

int objects__counter_set(objects *o, const char *name, int64_t value, error *err)
{
	sqlite3_stmt *s = o->statements[SQL_COUNTER_SET];
	bind_text(s, 1, name);
	sqlite3_bind_int64(s, 2, value);
	return run(o, s, "write a counter", err);
}

int objects_next_epoch(objects *o, int64_t at_least, int64_t *epoch, error *err)
{
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	int64_t stored = 0;
	code = objects__counter_get(o, "epoch", &stored, err);
	*epoch = stored + 1 > at_least ? stored + 1 : at_least;
	if (code == 0)
		code = objects__counter_set(o, "epoch", *epoch, err);
	return objects_end(o, code, err);
}

/* ---- rows ---- */

/* A part that cannot be read is not an absent one: a job without its status would begin anew. */
static int parse_column(sqlite3_stmt *s, int at, cJSON **out, error *err)
{
	const char *text = (const char *)sqlite3_column_text(s, at);
	if (text == NULL)
		return 0;
	int code = json_parse(text, (size_t)sqlite3_column_bytes(s, at), OBJECTS_PART_MAX, out, err);
	return code == 0 ? 0 : error_set(err, ERROR_CORRUPT, "what was stored is not JSON");
}

static char *text_column(sqlite3_stmt *s, int at)
{
	return mem_strdup((const char *)sqlite3_column_text(s, at));
}

void objects__row_fini(object_row *row)
{
	free(row->created);
	free(row->deleting);
	free(row->source);
	cJSON_Delete(row->meta);
	cJSON_Delete(row->spec);
	cJSON_Delete(row->status);
	cJSON_Delete(row->notes);
	*row = (object_row){0};
}

/* NOT_FOUND without a text if there is none. */
int objects__row_get(objects *o, enum object_kind kind, const char *ns, const char *name, object_row *row, error *err)
{
	*row = (object_row){0};
	sqlite3_stmt *s = o->statements[SQL_GET];
	bind_key(s, kind, ns, name);
	int step = sqlite3_step(s), code = 0;
	if (step == SQLITE_ROW) {
		snprintf(row->uid, sizeof row->uid, "%s", (const char *)sqlite3_column_text(s, 0));
		row->version = sqlite3_column_int64(s, 1);
		row->generation = sqlite3_column_int64(s, 2);
		row->created = text_column(s, 3);
		row->deleting = text_column(s, 4);
		row->source = mem_strdup(sqlite3_column_text(s, 8) != NULL ? (const char *)sqlite3_column_text(s, 8) : "");
		code = parse_column(s, 5, &row->meta, err);
		if (code == 0)
			code = parse_column(s, 6, &row->spec, err);
		if (code == 0)
			code = parse_column(s, 7, &row->status, err);
		if (code == 0)
			code = parse_column(s, 9, &row->notes, err);
		if (code != 0) {
			error_prefix(err, "%s: %s %s/%s", o->path, manifest_kind(kind), ns, name);
			objects__row_fini(row);
		}
	} else {
		code = step == SQLITE_DONE ? error_set(err, ERROR_NOT_FOUND, "there is no %s %s/%s", manifest_kind(kind), ns, name) :
									 objects__error(o, err, "read an object");
	}
	sqlite3_reset(s);
	return code;
}

static int row_version(objects *o, object_row *row, error *err)
{
	int64_t version = 0;
	int code = objects__counter_get(o, "version", &version, err);
	if (code != 0)
		return code;
	row->version = version + 1;
	return objects__counter_set(o, "version", row->version, err);
}

/* The status alone; gives the row its new version. */
static int row_put_status(objects *o, enum object_kind kind, const char *ns, const char *name, object_row *row, error *err)
{
	int code = row_version(o, row, err);
	if (code != 0)
		return code;
	char *status = json_print(row->status);
	if (row->status != NULL && status == NULL)
		return error_set(err, ERROR_LIMIT, "%s %s/%s is nested too deep", manifest_kind(kind), ns, name);
	sqlite3_stmt *s = o->statements[SQL_PUT_STATUS];
	bind_key(s, kind, ns, name);
	sqlite3_bind_int64(s, 4, row->version);
	bind_text(s, 5, status);
	code = run(o, s, "write a status", err);
	free(status);
	return code;
}

/* Gives the row its new version. */
int objects__row_put(objects *o, enum object_kind kind, const char *ns, const char *name, object_row *row, error *err)
{
	int code = row_version(o, row, err);
	if (code != 0)
		return code;
	char *meta = json_print(row->meta), *spec = json_print(row->spec), *status = json_print(row->status), *notes = json_print(row->notes);
	if ((row->meta != NULL && meta == NULL) || (row->spec != NULL && spec == NULL) || (row->status != NULL && status == NULL)) {
		code = error_set(err, ERROR_LIMIT, "%s %s/%s is nested too deep", manifest_kind(kind), ns, name);
		goto free_texts;
	}
	sqlite3_stmt *s = o->statements[SQL_PUT];
	bind_key(s, kind, ns, name);
	bind_text(s, 4, row->uid);
	sqlite3_bind_int64(s, 5, row->version);
	sqlite3_bind_int64(s, 6, row->generation);
	bind_text(s, 7, row->created);
	bind_text(s, 8, row->deleting);
	bind_text(s, 9, meta);
	bind_text(s, 10, spec);
	bind_text(s, 11, status);
	bind_text(s, 12, row->source);
	bind_text(s, 13, notes);
	code = run(o, s, "write an object", err);
free_texts:
	free(notes);
	free(status);
	free(spec);
	free(meta);
	return code;
}

/* The row as Kubernetes would give it; takes the row's parts. */
cJSON *objects__row_object(enum object_kind kind, const char *ns, const char *name, object_row *row)
{
	cJSON *object = cJSON_CreateObject(), *meta = row->meta != NULL ? row->meta : cJSON_CreateObject();
	char version[24];
	snprintf(version, sizeof version, "%lld", (long long)row->version);
	row->meta = NULL;
	objects__notes_apply(row->notes, meta);
	json_put_string(meta, "namespace", ns);
	json_put_string(meta, "name", name);
	json_put_string(meta, "uid", row->uid);
	json_put_string(meta, "resourceVersion", version);
	json_put_int(meta, "generation", row->generation);
	json_put_string(meta, "creationTimestamp", row->created);
	json_put_string(meta, "deletionTimestamp", row->deleting);
	json_put_string(object, "apiVersion", manifest_api_version(kind));
	json_put_string(object, "kind", manifest_kind(kind));
	json_put(object, "metadata", meta);
	json_put(object, "spec", row->spec);
	json_put(object, "status", row->status);
	row->spec = row->status = NULL;
	objects__row_fini(row);
	return object;
}

/* ---- operations ---- */

int objects_get(objects *o, enum object_kind kind, const char *ns, const char *name, cJSON **out, error *err)
{
	object_row row;
	*out = NULL;
	int code = objects__row_get(o, kind, ns, name, &row, err);
	if (code == 0)
		*out = objects__row_object(kind, ns, name, &row);
	return code;
}

static bool same(const cJSON *a, const cJSON *b)
{
	return (a == NULL && b == NULL) || (a != NULL && b != NULL && json_equal(a, b));
}

static void row_first(object_row *row)
{
	char text[32];
	stamp_make(text);
	if (row->uid[0] == '\0')
		uid_make(row->uid);
	row->generation = 1;
	row->created = mem_strdup(text);
}

static int put_in(objects *o, const manifest *m, const cJSON *spec, const char *source, cJSON **changed, error *err)
{
	object_row row;
	int code = objects__row_get(o, m->kind, m->ns, m->name, &row, err);
	if (code != 0 && code != ERROR_NOT_FOUND)
		return code;
	bool is_new = code == ERROR_NOT_FOUND, spec_same = !is_new && same(row.spec, spec);
	bool meta_same = !is_new && same(row.meta, m->meta);
	code = 0;
	if (meta_same && spec_same && row.source != NULL && strcmp(row.source, source) == 0)
		goto free_row;
	if (is_new)
		row_first(&row);
	else if (!spec_same)
		row.generation++;
	objects__notes_keep(&row, m->meta);
	cJSON_Delete(row.meta);
	cJSON_Delete(row.spec);
	free(row.source);
	row.meta = cJSON_Duplicate(m->meta, 1);
	row.spec = spec != NULL ? cJSON_Duplicate(spec, 1) : NULL;
	row.source = mem_strdup(source);
	code = objects__row_put(o, m->kind, m->ns, m->name, &row, err);
	if (code == 0)
		*changed = objects__row_object(m->kind, m->ns, m->name, &row);
free_row:
	objects__row_fini(&row);
	return code;
}

static int apply_in(objects *o, const manifest *m, const char *source, cJSON **changed, error *err)
{
	cJSON *made = NULL;
	int code = m->data != NULL ? objects__secret_spec(o, m->data, &made, err) : 0;
	if (code == 0)
		code = put_in(o, m, made != NULL ? made : m->spec, source, changed, err);
	cJSON_Delete(made);
	return code;
}

int objects_apply(objects *o, const manifest *m, const char *source, cJSON **changed, error *err)
{
	*changed = NULL;
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_end(o, apply_in(o, m, source, changed, err), err);
	if (code != 0) {
		cJSON_Delete(*changed);
		*changed = NULL;
	}
	return code;
}

int objects_remove(objects *o, enum object_kind kind, const char *ns, const char *name, error *err)
{
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	sqlite3_stmt *s = o->statements[SQL_REMOVE];
	bind_key(s, kind, ns, name);
	return objects_end(o, run(o, s, "remove an object", err), err);
}

static int patch_in(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *patch, cJSON **out, cJSON **was, error *err)
{
	object_row row;
	int code = objects__row_get(o, kind, ns, name, &row, err);
	if (code != 0)
		return code;
	char now[24];
	snprintf(now, sizeof now, "%lld", (long long)row.version);
	if ((uid != NULL && strcmp(uid, row.uid) != 0) || (version != NULL && strcmp(version, now) != 0)) {
		*out = objects__row_object(kind, ns, name, &row);
		return error_set(err, ERROR_CONFLICT, "%s %s/%s was changed meanwhile", manifest_kind(kind), ns, name);
	}
	cJSON *before = row.status;
	row.status = merge_patch(before != NULL ? cJSON_Duplicate(before, 1) : NULL, patch);
	bool changed = !same(before, row.status);
	if (changed)
		code = row_put_status(o, kind, ns, name, &row, err);
	if (code == 0 && changed && was != NULL)
		*was = before != NULL ? before : cJSON_CreateObject();
	else
		cJSON_Delete(before);
	if (code == 0)
		*out = objects__row_object(kind, ns, name, &row);
	objects__row_fini(&row);
	return code;
}

int objects_patch_status(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *patch, cJSON **out, cJSON **was, error *err)
{
	*out = NULL;
	if (was != NULL)
		*was = NULL;
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_end(o, patch_in(o, kind, ns, name, uid, version, patch, out, was, err), err);
	if (code != 0 && code != ERROR_CONFLICT) {
		cJSON_Delete(*out);
		*out = NULL;
	}
	if (code != 0 && was != NULL) {
		cJSON_Delete(*was);
		*was = NULL;
	}
	return code;
}

static cJSON *meta_of(const cJSON *pod)
{
	static const char *const kept[] = {"labels", "annotations", "ownerReferences"};
	cJSON *meta = cJSON_CreateObject();
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
		const cJSON *part = json_member(json_member(pod, "metadata"), kept[i]);
		json_put(meta, kept[i], part != NULL ? cJSON_Duplicate(part, 1) : NULL);
	}
	return meta;
}

static int add_pod_in(objects *o, const char *ns, const char *name, const cJSON *pod, cJSON **out, error *err)
{
	object_row row;
	int code = objects__row_get(o, OBJECT_POD, ns, name, &row, err);
	if (code == 0) {
		*out = objects__row_object(OBJECT_POD, ns, name, &row);
		return error_set(err, ERROR_EXISTS, "there is a pod %s/%s already", ns, name);
	}
	if (code != ERROR_NOT_FOUND)
		return code;
	const char *uid = cJSON_GetStringValue(json_member(json_member(pod, "metadata"), "uid"));
	const cJSON *spec = json_member(pod, "spec"), *status = json_member(pod, "status");
	snprintf(row.uid, sizeof row.uid, "%s", uid != NULL ? uid : "");
	row_first(&row);
	row.meta = meta_of(pod);
	row.spec = spec != NULL ? cJSON_Duplicate(spec, 1) : NULL;
	row.status = status != NULL ? cJSON_Duplicate(status, 1) : NULL;
	row.source = mem_strdup("");
	code = objects__row_put(o, OBJECT_POD, ns, name, &row, err);
	if (code == 0)
		*out = objects__row_object(OBJECT_POD, ns, name, &row);
	objects__row_fini(&row);
	return code;
}

int objects_add_pod(objects *o, const char *ns, const char *name, const cJSON *pod, cJSON **out, error *err)
{
	*out = NULL;
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_end(o, add_pod_in(o, ns, name, pod, out, err), err);
	if (code != 0 && code != ERROR_EXISTS) {
		cJSON_Delete(*out);
		*out = NULL;
	}
	return code;
}

static int mark_in(objects *o, const char *ns, const char *name, cJSON **out, error *err)
{
	object_row row;
	int code = objects__row_get(o, OBJECT_POD, ns, name, &row, err);
	if (code == 0 && row.deleting == NULL) {
		char text[32];
		stamp_make(text);
		row.deleting = mem_strdup(text);
		code = objects__row_put(o, OBJECT_POD, ns, name, &row, err);
	}
	if (code == 0)
		*out = objects__row_object(OBJECT_POD, ns, name, &row);
	objects__row_fini(&row);
	return code;
}

int objects_mark_deleting(objects *o, const char *ns, const char *name, cJSON **out, error *err)
{
	*out = NULL;
	int code = objects_begin(o, err);
	if (code != 0)
		return code;
	code = objects_end(o, mark_in(o, ns, name, out, err), err);
	if (code != 0) {
		cJSON_Delete(*out);
		*out = NULL;
	}
	return code;
}

int objects_keys(objects *o, bool pods, object_key **keys, size_t *n, error *err)
{
	sqlite3_stmt *s = o->statements[SQL_KEYS];
	sqlite3_bind_int(s, 1, OBJECT_POD);
	sqlite3_bind_int(s, 2, pods ? 1 : 0);
	*keys = NULL;
	*n = 0;
	int step;
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		if ((*n & (*n - 1)) == 0)
			*keys = mem_resize_array(*keys, *n > 0 ? *n * 2 : 1, sizeof **keys);
		(*keys)[(*n)++] = (object_key){.kind = (enum object_kind)sqlite3_column_int(s, 0),
			.ns = text_column(s, 1),
			.name = text_column(s, 2),
			.source = text_column(s, 3)};
	}
	int code = step == SQLITE_DONE ? 0 : objects__error(o, err, "list the objects");
	sqlite3_reset(s);
	if (code != 0) {
		object_keys_free(*keys, *n);
		*keys = NULL;
		*n = 0;
	}
	return code;
}

void object_keys_free(object_key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(keys[i].ns);
		free(keys[i].name);
		free(keys[i].source);
	}
	free(keys);
}

int object_key_compare(enum object_kind kind_a, const char *ns_a, const char *name_a, enum object_kind kind_b, const char *ns_b,
	const char *name_b)
{
	if (kind_a != kind_b)
		return kind_a < kind_b ? -1 : 1;
	int order = strcmp(ns_a, ns_b);
	return order != 0 ? order : strcmp(name_a, name_b);
}

void uid_make(char out[37])
{
	unsigned char b[16];
	if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
		abort();
	b[6] = (unsigned char)((b[6] & 0x0F) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
	char *p = out;
	for (size_t i = 0; i < sizeof b; i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

void stamp_make(char out[32])
{
	time_t now = time(NULL);
	struct tm tm;
	gmtime_r(&now, &tm);
	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
