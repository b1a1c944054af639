/* What the files of the store share: the connection, its statements (all SQL of the store stands here), and row checksums. */
#ifndef EDGE_STORE_STORE_INTERNAL_H
#define EDGE_STORE_STORE_INTERNAL_H

#include <sqlite3.h>
#include <stdint.h>

#include "edge-agent/store/store.h"

/* The tables, as of STORE_SCHEMA 2. `sum` is a checksum over the other columns (store__sum); the kind of an early result is in its body, too, and not
 * counted twice. */
#define STORE_TABLE_PROVISIONAL                                                                                                            \
	"CREATE TABLE provisional(worker TEXT, namespace TEXT, job TEXT, kind TEXT, body TEXT NOT NULL, uptime INTEGER NOT NULL,"              \
	" sum INTEGER NOT NULL, PRIMARY KEY(worker, namespace, job, kind));"
#define STORE_TABLES                                                                                                                       \
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;"                                    \
	"CREATE TABLE job(uid TEXT PRIMARY KEY, document TEXT NOT NULL, state TEXT NOT NULL, sum INTEGER NOT NULL);"                           \
	"CREATE TABLE report(uid TEXT, round INTEGER, stage TEXT, what TEXT, phase TEXT NOT NULL, seq INTEGER NOT NULL,"                       \
	" settled INTEGER NOT NULL, first INTEGER NOT NULL, reason TEXT, payload TEXT NOT NULL, sum INTEGER NOT NULL,"                         \
	" PRIMARY KEY(uid, round, stage, what));"                                                                                              \
	"CREATE TABLE dataset(uid TEXT PRIMARY KEY, document TEXT NOT NULL, sum INTEGER NOT NULL);" STORE_TABLE_PROVISIONAL                    \
	"CREATE TABLE scan(url TEXT, format TEXT, state TEXT NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY(url, format));"

/* Schema 1 kept one early result for each worker's name. */
#define STORE_UPGRADE_2                                                                                                                    \
	"ALTER TABLE provisional RENAME TO provisional_1;" STORE_TABLE_PROVISIONAL                                                             \
	"INSERT INTO provisional SELECT worker, namespace, job, CASE WHEN json_valid(body) THEN json_extract(body, '$.kind') END, body,"       \
	" uptime, sum FROM provisional_1; DROP TABLE provisional_1;"

/* An UPDATE of a row with what is in it already writes pages for nothing: hence the WHERE of each. */
#define STORE_STATEMENTS(X)                                                                                                                \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                                                            \
	X(COMMIT, "COMMIT")                                                                                                                    \
	X(ROLLBACK, "ROLLBACK")                                                                                                                \
	X(META_ALL, "SELECT key, value, sum FROM meta")                                                                                        \
	X(META_PUT, "INSERT INTO meta VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE SET value = ?2, sum = ?3 WHERE (value, sum) IS NOT (?2, ?3)")   \
	X(JOB_ALL, "SELECT uid, document, state, sum FROM job ORDER BY uid")                                                                   \
	X(JOB_PUT,                                                                                                                             \
		"INSERT INTO job VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET document = ?2, state = ?3, sum = ?4"                             \
		" WHERE (document, state, sum) IS NOT (?2, ?3, ?4)")                                                                               \
	X(JOB_DROP, "DELETE FROM job WHERE uid = ?1")                                                                                          \
	X(REPORT_OF,                                                                                                                           \
		"SELECT round, stage, what, phase, seq, settled, first, reason, payload, sum, rowid FROM report WHERE uid = ?1 ORDER BY seq")      \
	X(REPORT_PUT,                                                                                                                          \
		"INSERT INTO report VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO UPDATE SET phase = ?5, seq = ?6,"          \
		" settled = ?7, first = ?8, reason = ?9, payload = ?10, sum = ?11"                                                                 \
		" WHERE (phase, seq, settled, first, reason, payload, sum) IS NOT (?5, ?6, ?7, ?8, ?9, ?10, ?11)")                                 \
	X(REPORT_DROP, "DELETE FROM report WHERE uid = ?1 AND round = ?2 AND stage = ?3 AND what = ?4")                                        \
	X(REPORT_DROP_ALL, "DELETE FROM report WHERE uid = ?1")                                                                                \
	X(REPORT_ORPHANS, "DELETE FROM report WHERE uid NOT IN (SELECT uid FROM job)")                                                         \
	X(DATASET_ALL, "SELECT uid, document, sum FROM dataset ORDER BY uid")                                                                  \
	X(DATASET_PUT,                                                                                                                         \
		"INSERT INTO dataset VALUES(?1, ?2, ?3) ON CONFLICT DO UPDATE SET document = ?2, sum = ?3"                                         \
		" WHERE (document, sum) IS NOT (?2, ?3)")                                                                                          \
	X(DATASET_DROP, "DELETE FROM dataset WHERE uid = ?1")                                                                                  \
	X(PROVISIONAL_ALL, "SELECT worker, namespace, job, body, uptime, sum FROM provisional ORDER BY worker, namespace, job, kind")          \
	X(PROVISIONAL_PUT, "INSERT OR REPLACE INTO provisional VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                            \
	X(PROVISIONAL_DROP, "DELETE FROM provisional WHERE worker = ?1 AND namespace = ?2 AND job = ?3 AND kind = ?4")                         \
	X(SCAN_ALL, "SELECT url, format FROM scan")                                                                                            \
	X(SCAN_GET, "SELECT state, sum FROM scan WHERE url = ?1 AND format = ?2")                                                              \
	X(SCAN_PUT, "INSERT OR REPLACE INTO scan VALUES(?1, ?2, ?3, ?4)")                                                                      \
	X(SCAN_DROP, "DELETE FROM scan WHERE url = ?1 AND format = ?2")

enum store_statement {
#define X(id, sql) STATEMENT_##id,
	STORE_STATEMENTS(X)
#undef X
		STATEMENT_COUNT
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENT_COUNT];
	char *path, *node;
	bool made; /* this open made the tables */
	int lock;  /* descriptor of "{path}.lock" */
};

/* sqlite's last error as ours: FULL, READONLY and disk I/O caused by ENOSPC -> NO_SPACE, CORRUPT/NOTADB -> CORRUPT, BUSY/LOCKED -> EXISTS, else IO. */
int store__error(store *s, error *err, const char *doing);
/* Reset and unbind, ready to bind. */
sqlite3_stmt *store__statement(store *s, enum store_statement which);
/* Run a statement that gives no rows: 0 or an error. */
int store__run(store *s, sqlite3_stmt *st, error *err, const char *doing);
void store__bind(sqlite3_stmt *st, int index, const char *text); /* NULL binds NULL; the text must live until the step */

/* A checksum over texts and numbers: store__sum(2, "a", NULL) and so on; the count first, then texts. */
int64_t store__sum(int n, ...);
int64_t store__sum_report(const char *uid, const outbox_row *row);

#endif
