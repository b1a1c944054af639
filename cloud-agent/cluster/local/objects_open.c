/* Opening the store of objects: schema, versions, and what to do with a file that is damaged.
 *
 * A damaged file is set aside, never deleted or repaired: its rows cannot be trusted, and what it held is known elsewhere (the manifests,
 * the workers' folders), save the uids and statuses, which begin anew.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/objects_internal.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/sqlite.h"

enum { SCHEMA = 2, BAD_MAX = 1000, BUSY_MS = 2000 };

static const char schema_sql[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE objects ("
	" kind INTEGER NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, version INTEGER NOT NULL,"
	" generation INTEGER NOT NULL, created TEXT NOT NULL, deleting TEXT, meta TEXT, spec TEXT, status TEXT,"
	" source TEXT NOT NULL, PRIMARY KEY (kind, ns, name));"
	"PRAGMA user_version = 1;"
	"COMMIT;";

static const char notes_sql[] = "BEGIN IMMEDIATE;"
								"ALTER TABLE objects ADD COLUMN notes TEXT;"
								"PRAGMA user_version = 2;"
								"COMMIT;";

static int read_version(objects *o, int64_t *version, error *err)
{
	sqlite3_stmt *s = NULL;
	int code = 0;
	if (sqlite3_prepare_v2(o->db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
		code = objects__error(o, err, "read it");
	else
		*version = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return code;
}

static int check_sound(objects *o, error *err)
{
	char *damage = NULL;
	if (sqlite_check(o->db, &damage) != SQLITE_OK)
		return objects__error(o, err, "check it");
	if (damage == NULL)
		return 0;
	int code = error_set(err, ERROR_CORRUPT, "%s is damaged: %s", o->path, damage);
	free(damage);
	return code;
}

static int check_schema(objects *o, error *err)
{
	int64_t version = 0;
	int code = read_version(o, &version, err);
	if (code != 0)
		return code;
	if (version > SCHEMA)
		return error_set(err, ERROR_UNSUPPORTED,
			"%s has schema %lld, this program knows up to %d: install the newer ilmare-cloud again, or move the file away (all jobs then "
			"begin "
			"anew, with new uids)",
			o->path, (long long)version, SCHEMA);
	code = check_sound(o, err);
	if (code == 0 && version == 0 && sqlite3_exec(o->db, schema_sql, NULL, NULL, NULL) != SQLITE_OK)
		code = objects__error(o, err, "make its tables");
	if (code == 0 && version < 2 && sqlite3_exec(o->db, notes_sql, NULL, NULL, NULL) != SQLITE_OK)
		code = objects__error(o, err, "bring its tables up to date");
	return code;
}

static int open_once(objects *o, error *err)
{
	static const char pragmas[] =
		"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	sqlite_memory_init();
	if (sqlite3_open_v2(o->path, &o->db, flags, NULL) != SQLITE_OK)
		return objects__error(o, err, "open it");
	sqlite3_busy_timeout(o->db, BUSY_MS);
	sqlite3_extended_result_codes(o->db, 0);
	if (sqlite3_exec(o->db, pragmas, NULL, NULL, NULL) != SQLITE_OK)
		return objects__error(o, err, "open it");
	int code = check_schema(o, err);
	return code != 0 ? code : objects__prepare(o, err);
}

static void close_db(objects *o)
{
	for (size_t i = 0; i < OBJECTS_STATEMENTS; i++) {
		sqlite3_finalize(o->statements[i]);
		o->statements[i] = NULL;
	}
	sqlite3_close(o->db);
	o->db = NULL;
}

static int set_aside(const char *path, error *err)
{
	static const char *const parts[] = {"-wal", "-shm"};
	for (int i = 1; i < BAD_MAX; i++) {
		char *bad = mem_printf("%s.bad-%d", path, i);
		int code = file_rename_new(path, bad, err);
		if (code == 0) {
			for (size_t k = 0; k < 2; k++) {
				char *from = mem_printf("%s%s", path, parts[k]), *to = mem_printf("%s%s", bad, parts[k]);
				if (rename(from, to) != 0 && errno != ENOENT)
					code = error_errno(err, errno, "cannot rename %s", from);
				free(from);
				free(to);
			}
			log_error("local", "the store of objects was damaged and is set aside; all objects begin anew, with new uids",
				L_STR("file", path), L_STR("now", bad));
		}
		free(bad);
		if (code != ERROR_EXISTS)
			return code;
	}
	return error_set(err, ERROR_LIMIT, "%s is damaged, and so were %d before it: remove those", path, BAD_MAX);
}

int objects_open(const char *path, objects **out, error *err)
{
	objects *o = mem_alloc(sizeof *o);
	o->path = mem_strdup(path);
	int code = open_once(o, err);
	if (code == ERROR_CORRUPT) {
		log_error("local", "cannot read the store of objects", L_STR("error", err != NULL ? err->text : NULL));
		close_db(o);
		code = set_aside(path, err);
		if (code == 0)
			code = open_once(o, err);
	}
	if (code != 0) {
		objects_close(o);
		o = NULL;
	}
	*out = o;
	return code;
}

void objects_close(objects *o)
{
	if (o == NULL)
		return;
	close_db(o);
	free(o->path);
	free(o);
}
