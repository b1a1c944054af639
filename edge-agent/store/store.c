/* Opening the store: lock, schema, damage. What is in the rows is the matter of store_rows.c. */
#include "edge-agent/store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/file.h"
#include "common/lock_file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/sqlite.h"
#include "edge-agent/store/store_internal.h"

/* "ilme": tells a file of ours from any other SQLite database. */
enum { APPLICATION_ID = 0x696c6d65, KEEP_ASIDE = 3 };

static const char *const statement_sql[STATEMENT_COUNT] = {
#define X(id, sql) [STATEMENT_##id] = (sql),
	STORE_STATEMENTS(X)
#undef X
};

int store__error(store *s, error *err, const char *doing)
{
	int sqlite = sqlite3_extended_errcode(s->db);
	int os = sqlite3_system_errno(s->db);
	int code = ERROR_IO;

	switch (sqlite & 0xff) {
	case SQLITE_FULL:
	case SQLITE_READONLY:
		code = ERROR_NO_SPACE;
		break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		code = ERROR_CORRUPT;
		break;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		code = ERROR_EXISTS;
		break;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		code = ERROR_DENIED;
		break;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		if (os == ENOSPC || os == EDQUOT || os == EROFS)
			code = ERROR_NO_SPACE;
		else if (os == EACCES || os == EPERM)
			code = ERROR_DENIED;
		break;
	default:
		break;
	}
	/* SQLite does not say with which error a disk was full. */
	return error_set(err, code, "store %s: cannot %s: %s%s%s%s", s->path, doing, sqlite3_errmsg(s->db), os ? ": " : "",
		os ? strerror(os) : "", error_hint((sqlite & 0xff) == SQLITE_FULL ? ENOSPC : os));
}

sqlite3_stmt *store__statement(store *s, enum store_statement which)
{
	sqlite3_reset(s->statements[which]);
	sqlite3_clear_bindings(s->statements[which]);
	return s->statements[which];
}

int store__run(store *s, sqlite3_stmt *st, error *err, const char *doing)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_DONE || rc == SQLITE_ROW) {
		rc = sqlite3_reset(st);
		if (rc == SQLITE_OK)
			return 0;
	} else {
		store__error(s, err, doing);
		sqlite3_reset(st);
		return err ? err->code : ERROR_IO;
	}
	return store__error(s, err, doing);
}

void store__bind(sqlite3_stmt *st, int index, const char *text)
{
	if (text)
		sqlite3_bind_text(st, index, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(st, index);
}

int64_t store__sum(int n, ...)
{
	sha256 *s = sha256_new();
	digest d;
	int64_t sum = 0;
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < n; i++) {
		const char *text = va_arg(ap, const char *);

		/* With the NUL, so that "ab","c" and "a","bc" differ; an absent text is a lone 0xff. */
		if (text)
			sha256_add(s, text, strlen(text) + 1);
		else
			sha256_add(s, "\xff", 1);
	}
	va_end(ap);
	sha256_end(s, &d);
	sha256_free(s);
	memcpy(&sum, d.b, sizeof sum);
	return sum;
}

int64_t store__sum_report(const char *uid, const outbox_row *row)
{
	char numbers[160], where[48];

	position_format(row->position, where);
	snprintf(numbers, sizeof numbers, "%s %lld %d %lld", where, (long long)row->seq, row->settled, (long long)row->from);
	return store__sum(5, uid, report_what_word(row->what), numbers, row->reason, row->payload);
}

static int pragma_int(sqlite3 *db, const char *sql, int64_t *out)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
		*out = sqlite3_column_int64(st, 0);
	else if (rc == SQLITE_OK)
		rc = SQLITE_ERROR;
	sqlite3_finalize(st);
	return rc == SQLITE_OK ? 0 : ERROR_IO;
}

static int check_integrity(store *s, error *err)
{
	char *damage = NULL;
	int code = 0;

	if (sqlite_check(s->db, &damage) != SQLITE_OK)
		code = store__error(s, err, "check it");
	else if (damage)
		code = error_set(err, ERROR_CORRUPT, "store %s is damaged: %s", s->path, damage);
	free(damage);
	return code;
}

/* In one transaction: these statements, and then the present version. */
static int change_tables(store *s, const char *statements, error *err)
{
	char sql[64];
	int code = 0;

	if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return store__error(s, err, "begin to make its tables");
	snprintf(sql, sizeof sql, "PRAGMA application_id = %d", APPLICATION_ID);
	if (sqlite3_exec(s->db, statements, NULL, NULL, NULL) != SQLITE_OK || sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		code = store__error(s, err, "make its tables");
	snprintf(sql, sizeof sql, "PRAGMA user_version = %d", STORE_SCHEMA);
	if (code == 0 && sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		code = store__error(s, err, "set its version");
	if (code == 0 && sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		code = store__error(s, err, "commit its tables");
	if (code != 0)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return code;
}

static int upgrade(store *s, error *err)
{
	int64_t version = 0, application = 0, tables = 0;

	if (pragma_int(s->db, "PRAGMA user_version", &version) != 0 || pragma_int(s->db, "PRAGMA application_id", &application) != 0 ||
		pragma_int(s->db, "SELECT count(*) FROM sqlite_master", &tables) != 0)
		return store__error(s, err, "read its version");
	/* Also a file of 0 bytes that was there: nothing was ever stored in it. */
	s->made = tables == 0 && application == 0 && version == 0;
	if (s->made)
		return change_tables(s, STORE_TABLES, err);
	if (application != APPLICATION_ID)
		return error_set(err, ERROR_CORRUPT, "store %s is a database of another program", s->path);
	if (version > STORE_SCHEMA)
		return error_set(err, ERROR_UNSUPPORTED,
			"store %s has schema %lld, this program knows up to %d: install the newer ilmare-edge again, or move the file away "
			"(the state is then rebuilt from the cloud agent's documents and the files on this device)",
			s->path, (long long)version, STORE_SCHEMA);
	if (version < 1)
		return error_set(err, ERROR_CORRUPT, "store %s has schema %lld", s->path, (long long)version);
	return version == 1 ? change_tables(s, STORE_UPGRADE_2, err) : 0;
}

static int configure(store *s, error *err)
{
	/* Little memory (a page cache of 256 kB), and a WAL that never grows large: on a full disk its pages could not be moved to where they
	 * belong, and all the room that becomes free would go to it. */
	static const char sql[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
							  "PRAGMA cache_size = -256; PRAGMA wal_autocheckpoint = 64; PRAGMA journal_size_limit = 262144;"
							  "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF";

	sqlite3_busy_timeout(s->db, 2000);
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store__error(s, err, "configure it");
	return 0;
}

static void close_database(store *s)
{
	for (int i = 0; i < STATEMENT_COUNT; i++) {
		sqlite3_finalize(s->statements[i]);
		s->statements[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

static int open_database(store *s, error *err)
{
	int code;

	sqlite_memory_init();
	if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
		code = store__error(s, err, "open it");
		goto fail;
	}
	sqlite3_extended_result_codes(s->db, 1);
	code = configure(s, err);
	if (code == 0)
		code = check_integrity(s, err);
	if (code == 0)
		code = upgrade(s, err);
	for (int i = 0; code == 0 && i < STATEMENT_COUNT; i++)
		if (sqlite3_prepare_v3(s->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL) != SQLITE_OK)
			code = store__error(s, err, "prepare a statement");
	if (code == 0)
		return 0;
fail:
	close_database(s);
	return code;
}

/* 1: the file's node is `node`, or it has none yet; 0: another's; negative: error. */
static int node_matches(store *s, const char *node, error *err)
{
	sqlite3_stmt *st = store__statement(s, STATEMENT_META_ALL);
	int matches = 1, rc;

	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		if (strcmp((const char *)sqlite3_column_text(st, 0), "node") == 0)
			matches = strcmp((const char *)sqlite3_column_text(st, 1), node) == 0;
	if (rc != SQLITE_DONE)
		matches = store__error(s, err, "read whose it is");
	sqlite3_reset(st);
	return matches;
}

/* Rename the file and what SQLite keeps beside it to "{path}.{why}-{n}", n = 1 … KEEP_ASIDE, the oldest replaced. */
static int set_aside(store *s, const char *why, error *err)
{
	static const char *const parts[] = {"", "-wal", "-shm"};
	int n = 1;

	for (; n < KEEP_ASIDE; n++) {
		char *name = mem_printf("%s.%s-%d", s->path, why, n);
		bool free_name = access(name, F_OK) != 0;

		free(name);
		if (free_name)
			break;
	}
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		char *from = mem_printf("%s%s", s->path, parts[i]);
		char *to = mem_printf("%s.%s-%d%s", s->path, why, n, parts[i]);
		int failed = rename(from, to) != 0 && errno != ENOENT ? errno : 0;

		if (failed)
			error_errno(err, failed, "cannot move the store %s aside to %s", from, to);
		else if (i == 0)
			log_warn("store", "moved aside; a new one is begun", L_STR("from", from), L_STR("to", to));
		free(from);
		free(to);
		if (failed)
			return err ? err->code : ERROR_IO;
	}
	return 0;
}

static int take_lock(store *s, error *err)
{
	char *name = mem_printf("%s.lock", s->path), *what = mem_printf("the store %s", s->path);
	int code = lock_file_take(name, what, &s->lock, err);

	free(what);
	free(name);
	return code;
}

int store_open(const char *path, const char *node, store **out, bool *fresh, error *err)
{
	store *s = mem_alloc(sizeof *s);
	const char *why = NULL;
	error first = {0};
	int code;

	s->path = mem_strdup(path);
	s->node = mem_strdup(node);
	s->lock = -1;
	code = take_lock(s, err);
	if (code != 0)
		goto fail;
	code = open_database(s, &first);
	if (code == ERROR_CORRUPT) {
		log_error("store", "damaged; the state will be rebuilt from documents and files", L_STR("error", first.text));
		why = "bad";
	} else if (code == 0) {
		int matches = node_matches(s, node, &first);

		code = matches < 0 ? matches : 0;
		if (matches == 0) {
			log_warn("store", "was made for another node", L_STR("path", path), L_STR("node", node));
			why = "node";
		}
	}
	if (why) {
		close_database(s);
		code = set_aside(s, why, &first);
		if (code == 0)
			code = open_database(s, &first);
	}
	if (code != 0) {
		if (err)
			*err = first;
		goto fail;
	}
	*out = s;
	*fresh = s->made;
	return 0;
fail:
	store_close(s);
	return code;
}

void store_close(store *s)
{
	if (!s)
		return;
	close_database(s);
	if (s->lock >= 0)
		close(s->lock);
	free(s->path);
	free(s->node);
	free(s);
}
