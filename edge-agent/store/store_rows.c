/* The rows of the store: written by store_commit, given back by store_restore. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/store/store.h"
#include "edge-agent/store/store_internal.h"

enum { SCAN_STATE_MAX = 64 * 1024 };

static const char *column(sqlite3_stmt *st, int i)
{
	return (const char *)sqlite3_column_text(st, i);
}

/* ---- writing ---- */

static int put_meta_text(store *s, const char *key, const char *value, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_META_PUT);

	store__bind(st, 1, key);
	store__bind(st, 2, value);
	sqlite3_bind_int64(st, 3, store__sum(2, key, value));
	return store__run(s, st, err, "store its own facts");
}

static char *list_text(char *const *uids, size_t n)
{
	cJSON *list = cJSON_CreateArray();
	char *text;

	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(uids[i]));
	text = json_print(list);
	cJSON_Delete(list);
	return text;
}

static int put_meta(store *s, const store_meta *m, error *err)
{
	char seq[32], stamp_text[64];
	char *jobs = list_text(m->jobs, m->n_jobs), *datasets = list_text(m->datasets, m->n_datasets);
	const char *const rows[][2] = {
		{"node", m->node},
		{"store", m->store},
		{"seq", seq},
		{"confirmed", m->confirmed ? "1" : "0"},
		{"inventory", stamp_text},
		{"jobs", jobs},
		{"datasets", datasets},
	};
	int code = 0;

	snprintf(seq, sizeof seq, "%" PRId64, m->seq);
	snprintf(stamp_text, sizeof stamp_text, "%" PRId64 " %" PRId64, m->inventory.epoch, m->inventory.gen);
	for (size_t i = 0; code == 0 && i < sizeof rows / sizeof rows[0]; i++)
		code = put_meta_text(s, rows[i][0], rows[i][1], err);
	free(jobs);
	free(datasets);
	return code;
}

static int put_report(store *s, const char *uid, const outbox_row *row, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_REPORT_PUT);

	store__bind(st, 1, uid);
	sqlite3_bind_int64(st, 2, row->position.round);
	store__bind(st, 3, stage_name(row->position.stage));
	store__bind(st, 4, report_what_word(row->what));
	store__bind(st, 5, phase_name(row->position.phase));
	sqlite3_bind_int64(st, 6, row->seq);
	sqlite3_bind_int(st, 7, row->settled);
	sqlite3_bind_int64(st, 8, row->from);
	store__bind(st, 9, row->reason);
	store__bind(st, 10, row->payload);
	sqlite3_bind_int64(st, 11, store__sum_report(uid, row));
	return store__run(s, st, err, "store a report");
}

static bool row_same(const outbox_row *a, const outbox_row *b)
{
	return a && a->seq == b->seq && a->settled == b->settled && a->from == b->from && position_compare(a->position, b->position) == 0 &&
		strcmp(a->reason ? a->reason : "", b->reason ? b->reason : "") == 0 && strcmp(a->payload, b->payload) == 0;
}

static int drop_report(store *s, const char *uid, const outbox_row *row, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_REPORT_DROP);

	store__bind(st, 1, uid);
	sqlite3_bind_int64(st, 2, row->position.round);
	store__bind(st, 3, stage_name(row->position.stage));
	store__bind(st, 4, report_what_word(row->what));
	return store__run(s, st, err, "drop a report");
}

static const outbox_row *row_like(const record *r, const outbox_row *row)
{
	return record_row(r, row->position.round, row->position.stage, row->what);
}

/* Only what differs from `base`: a record changes often, its reports seldom. */
static int put_reports(store *s, const char *uid, const record *base, const record *r, error *err)
{
	int code = 0;

	for (size_t i = 0; code == 0 && base && i < base->n_rows; i++)
		if (!row_like(r, &base->rows[i]))
			code = drop_report(s, uid, &base->rows[i], err);
	for (size_t i = 0; code == 0 && i < r->n_rows; i++)
		if (!base || !row_same(row_like(base, &r->rows[i]), &r->rows[i]))
			code = put_report(s, uid, &r->rows[i], err);
	return code;
}

static int put_job(store *s, const record *base, const record *r, error *err)
{
	const char *uid = r->desired->job.uid;
	char *state = record_state_encode(r);
	sqlite3_stmt *st = store__statement(s, STATEMENT_JOB_PUT);
	int code;

	store__bind(st, 1, uid);
	store__bind(st, 2, r->document);
	store__bind(st, 3, state);
	sqlite3_bind_int64(st, 4, store__sum(3, uid, r->document, state));
	code = store__run(s, st, err, "store a job");
	if (code == 0)
		code = put_reports(s, uid, base, r, err);
	free(state);
	return code;
}

static int drop_keyed(store *s, enum store_statement which, const char *key, error *err)
{
	sqlite3_stmt *st = store__statement(s, which);

	store__bind(st, 1, key);
	return store__run(s, st, err, "drop a row");
}

static int put_dataset(store *s, const char *uid, const char *document, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_DATASET_PUT);

	store__bind(st, 1, uid);
	store__bind(st, 2, document);
	sqlite3_bind_int64(st, 3, store__sum(2, uid, document));
	return store__run(s, st, err, "store a dataset");
}

static sqlite3_stmt *provisional_statement(store *s, enum store_statement which, const provisional *p)
{
	sqlite3_stmt *st = store__statement(s, which);

	store__bind(st, 1, p->worker);
	store__bind(st, 2, p->ns);
	store__bind(st, 3, p->job);
	store__bind(st, 4, post_kind_word(p->kind));
	return st;
}

static int put_provisional(store *s, const provisional *p, error *err)
{
	sqlite3_stmt *st = provisional_statement(s, STATEMENT_PROVISIONAL_PUT, p);

	store__bind(st, 5, p->body);
	sqlite3_bind_int64(st, 6, p->uptime_ms);
	sqlite3_bind_int64(st, 7, store__sum(4, p->worker, p->ns, p->job, p->body));
	return store__run(s, st, err, "store a worker's result");
}

static int apply(store *s, const edge_change *c, error *err)
{
	int code;

	switch (c->kind) {
	case CHANGE_PUT_JOB:
		return put_job(s, c->base, c->record, err);
	case CHANGE_DROP_JOB:
		code = drop_keyed(s, STATEMENT_REPORT_DROP_ALL, c->uid, err);
		return code ? code : drop_keyed(s, STATEMENT_JOB_DROP, c->uid, err);
	case CHANGE_PUT_META:
		return put_meta(s, c->meta, err);
	case CHANGE_PUT_DATASET:
		return put_dataset(s, c->uid, c->text, err);
	case CHANGE_DROP_DATASET:
		return drop_keyed(s, STATEMENT_DATASET_DROP, c->uid, err);
	case CHANGE_PUT_PROVISIONAL:
		return put_provisional(s, c->provisional, err);
	case CHANGE_DROP_PROVISIONAL:
		return store__run(s, provisional_statement(s, STATEMENT_PROVISIONAL_DROP, c->provisional), err, "drop an early result");
	}
	return error_set(err, ERROR_INTERNAL, "change %d", (int)c->kind);
}

int store_commit(store *s, const edge_change *changes, size_t n, error *err)
{
	error here = {0};
	int code = store__run(s, store__statement(s, STATEMENT_BEGIN), &here, "begin");

	for (size_t i = 0; code == 0 && i < n; i++)
		code = apply(s, &changes[i], &here);
	if (code == 0)
		code = store__run(s, store__statement(s, STATEMENT_COMMIT), &here, "commit");
	/* A failed COMMIT leaves the transaction open; a full disk may have ended it already, then there is nothing to roll back. */
	if (code != 0 && !sqlite3_get_autocommit(s->db))
		store__run(s, store__statement(s, STATEMENT_ROLLBACK), NULL, "roll back");
	/* The log may be what fills the disk, and it is emptied only after a commit: give its room back, so that the next try has some. */
	if (code == ERROR_NO_SPACE)
		sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	if (code != 0 && err)
		*err = here;
	return code;
}

/* ---- restoring ---- */

static void unusable(const char *what, const char *key)
{
	log_warn("store", "a stored row cannot be used and is dropped", L_STR("what", what), L_STR("key", key));
}

static void take_list(const char *text, char ***uids, size_t *n)
{
	cJSON *list = NULL;

	if (json_parse(text, strlen(text), 1 << 20, &list, NULL) == 0 && cJSON_IsArray(list)) {
		const cJSON *item;

		*uids = mem_resize_array(NULL, (size_t)cJSON_GetArraySize(list) + 1, sizeof **uids);
		cJSON_ArrayForEach(item, list)
			if (cJSON_IsString(item))
				(*uids)[(*n)++] = mem_strdup(item->valuestring);
	}
	cJSON_Delete(list);
}

/* "EPOCH GEN" */
static bool take_stamp(const char *text, stamp *out)
{
	char *between, *end;

	out->epoch = strtoll(text, &between, 10);
	out->gen = strtoll(between, &end, 10);
	return between != text && *between == ' ' && end != between && *end == '\0';
}

static bool take_meta(store_meta *m, const char *key, const char *value)
{
	if (strcmp(key, "node") == 0)
		snprintf(m->node, sizeof m->node, "%s", value);
	else if (strcmp(key, "store") == 0)
		snprintf(m->store, sizeof m->store, "%s", value);
	else if (strcmp(key, "seq") == 0)
		m->seq = strtoll(value, NULL, 10);
	else if (strcmp(key, "confirmed") == 0)
		m->confirmed = strcmp(value, "1") == 0;
	else if (strcmp(key, "inventory") == 0)
		return take_stamp(value, &m->inventory);
	else if (strcmp(key, "jobs") == 0)
		take_list(value, &m->jobs, &m->n_jobs);
	else if (strcmp(key, "datasets") == 0)
		take_list(value, &m->datasets, &m->n_datasets);
	return true;
}

/* The store's own facts are used together or not at all: a wrong stamp could let an old document in. Without them the store counts as new. */
static int restore_meta(store *s, edge_agent *agent, error *err)
{
	store_meta m = {0};
	sqlite3_stmt *st = store__statement(s, STATEMENT_META_ALL);
	bool good = true;
	int rc, n = 0, code = 0;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *key = column(st, 0), *value = column(st, 1);

		n++;
		if (!key || !value || store__sum(2, key, value) != sqlite3_column_int64(st, 2) || !take_meta(&m, key, value)) {
			unusable("meta", key ? key : "?");
			good = false;
		}
	}
	if (rc != SQLITE_DONE)
		code = store__error(s, err, "read its own facts");
	sqlite3_reset(st);
	if (code == 0 && (!good || n == 0)) {
		store_meta_fini(&m);
		m = (store_meta){0};
		snprintf(m.node, sizeof m.node, "%s", s->node);
		clock_random_id(m.store);
		code = put_meta(s, &m, err);
	}
	if (code == 0)
		edge_agent_restore_meta(agent, &m);
	store_meta_fini(&m);
	return code;
}

static bool take_report(const char *uid, sqlite3_stmt *st, outbox_row *row, arena *mem)
{
	const char *stage = column(st, 1), *what = column(st, 2), *phase = column(st, 3), *payload = column(st, 8);

	row->position.round = sqlite3_column_int64(st, 0);
	row->seq = sqlite3_column_int64(st, 4);
	row->settled = sqlite3_column_int(st, 5) != 0;
	row->from = sqlite3_column_int64(st, 6);
	row->reason = arena_strdup(mem, column(st, 7));
	row->payload = arena_strdup(mem, payload);
	return stage && what && phase && payload && stage_parse(stage, &row->position.stage) && report_what_parse(what, &row->what) &&
		phase_parse(phase, &row->position.phase) && store__sum_report(uid, row) == sqlite3_column_int64(st, 9);
}

static int restore_reports(store *s, record *r, const char *uid, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_REPORT_OF);
	int rc, code = 0;

	r->rows = arena_alloc(r->mem, RECORD_MAX_ROWS * sizeof *r->rows);
	store__bind(st, 1, uid);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW && r->n_rows < RECORD_MAX_ROWS) {
		if (take_report(uid, st, &r->rows[r->n_rows], r->mem))
			r->n_rows++;
		else
			unusable("report", uid);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		code = store__error(s, err, "read reports");
	sqlite3_reset(st);
	return code;
}

/* A job whose document or state is damaged is forgotten with its reports, as if its store had been lost: the next document brings it back. */
static int restore_jobs(store *s, edge_agent *agent, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_JOB_ALL);
	int rc, code = 0;

	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *uid = column(st, 0), *document = column(st, 1), *state = column(st, 2);
		record *r = record_new();
		error why = {0};

		if (!uid || !document || !state || store__sum(3, uid, document, state) != sqlite3_column_int64(st, 3) ||
			record_set_document(r, document, strlen(document), &why) != 0 || record_state_decode(r, state, &why) != 0 ||
			strcmp(r->desired->job.uid, uid) != 0) {
			unusable("job", uid ? uid : "?");
			if (uid)
				code = drop_keyed(s, STATEMENT_JOB_DROP, uid, err);
			record_free(r);
			continue;
		}
		code = restore_reports(s, r, uid, err);
		if (code == 0)
			edge_agent_restore_job(agent, r);
		else
			record_free(r);
	}
	if (code == 0 && rc != SQLITE_DONE)
		code = store__error(s, err, "read jobs");
	sqlite3_reset(st);
	return code ? code : store__run(s, store__statement(s, STATEMENT_REPORT_ORPHANS), err, "drop reports of forgotten jobs");
}

static int restore_datasets(store *s, edge_agent *agent, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_DATASET_ALL);
	int rc, code = 0;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *uid = column(st, 0), *document = column(st, 1);

		if (uid && document && store__sum(2, uid, document) == sqlite3_column_int64(st, 2))
			edge_agent_restore_dataset(agent, document, strlen(document));
		else
			unusable("dataset", uid ? uid : "?");
	}
	if (rc != SQLITE_DONE)
		code = store__error(s, err, "read datasets");
	sqlite3_reset(st);
	return code;
}

static int restore_provisional(store *s, edge_agent *agent, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_PROVISIONAL_ALL);
	int rc, code = 0;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *text[4];
		bool whole = true;

		for (int i = 0; i < 4; i++) {
			text[i] = column(st, i);
			whole = whole && text[i];
		}
		if (whole && store__sum(4, text[0], text[1], text[2], text[3]) == sqlite3_column_int64(st, 5)) {
			provisional p = {.uptime_ms = sqlite3_column_int64(st, 4)};

			p.worker = mem_strdup(text[0]);
			p.ns = mem_strdup(text[1]);
			p.job = mem_strdup(text[2]);
			p.body = mem_strdup(text[3]);
			edge_agent_restore_provisional(agent, &p);
			free(p.worker);
			free(p.ns);
			free(p.job);
			free(p.body);
		} else {
			unusable("provisional", text[0] ? text[0] : "?");
		}
	}
	if (rc != SQLITE_DONE)
		code = store__error(s, err, "read early results");
	sqlite3_reset(st);
	return code;
}

int store_restore(store *s, edge_agent *agent, error *err)
{
	int code = restore_meta(s, agent, err);

	if (code == 0)
		code = restore_jobs(s, agent, err);
	if (code == 0)
		code = restore_datasets(s, agent, err);
	return code ? code : restore_provisional(s, agent, err);
}

/* ---- how far files were read ---- */

int store_scan_load(store *s, const char *url, enum dataset_format format, char **state, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_SCAN_GET);
	int rc, code = 0;

	*state = NULL;
	store__bind(st, 1, url);
	store__bind(st, 2, dataset_format_name(format));
	rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		const char *text = column(st, 0);

		if (text && store__sum(3, url, dataset_format_name(format), text) == sqlite3_column_int64(st, 1))
			*state = mem_strdup(text);
		else
			unusable("scan", url);
	} else if (rc != SQLITE_DONE) {
		code = store__error(s, err, "read how far a file was read");
	}
	sqlite3_reset(st);
	return code;
}

int store_scan_save(store *s, const char *url, enum dataset_format format, const char *state, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_SCAN_PUT);

	if (strlen(state) > SCAN_STATE_MAX)
		return error_set(err, ERROR_LIMIT, "the state of %s has over %d bytes", url, SCAN_STATE_MAX);
	store__bind(st, 1, url);
	store__bind(st, 2, dataset_format_name(format));
	store__bind(st, 3, state);
	sqlite3_bind_int64(st, 4, store__sum(3, url, dataset_format_name(format), state));
	return store__run(s, st, err, "store how far a file was read");
}

int store_scan_prune(store *s, bool (*keep)(void *ctx, const char *url, enum dataset_format format), void *ctx, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_SCAN_ALL), *drop;
	int rc, code = 0;

	while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *url = column(st, 0), *format_name = column(st, 1);
		enum dataset_format format;

		if (dataset_format_parse(format_name, &format) && keep(ctx, url, format))
			continue;
		drop = store__statement(s, STATEMENT_SCAN_DROP);
		store__bind(drop, 1, url);
		store__bind(drop, 2, format_name);
		code = store__run(s, drop, err, "forget a file");
	}
	if (code == 0 && rc != SQLITE_DONE)
		code = store__error(s, err, "list files");
	sqlite3_reset(st);
	return code;
}
