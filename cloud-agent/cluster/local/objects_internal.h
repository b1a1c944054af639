/* Shared by the objects*.c alone. */
#ifndef LOCAL_OBJECTS_INTERNAL_H
#define LOCAL_OBJECTS_INTERNAL_H

#include <cjson/cJSON.h>
#include <sqlite3.h>
#include <stdint.h>

#include "cloud-agent/cluster/local/objects.h"

enum {
	SQL_BEGIN,
	SQL_COMMIT,
	SQL_ROLLBACK,
	SQL_COUNTER_GET,
	SQL_COUNTER_SET,
	SQL_GET,
	SQL_PUT,
	SQL_PUT_STATUS,
	SQL_REMOVE,
	SQL_KEYS,
	OBJECTS_STATEMENTS
};

enum { OBJECTS_PART_MAX = 4 * 1024 * 1024 };

struct objects {
	char *path;
	sqlite3 *db;
	sqlite3_stmt *statements[OBJECTS_STATEMENTS];
	int depth; /* of objects_begin */
	bool relaxed;
};

typedef struct object_row {
	char uid[64];
	int64_t version, generation;
	char *created, *deleting, *source;
	cJSON *meta, *spec, *status;
	cJSON *notes; /* objects_notes.c; NULL: none */
} object_row;

int objects__error(objects *o, error *err, const char *what);
int objects__counter_get(objects *o, const char *name, int64_t *value, error *err); /* 0 if it was never set */
int objects__counter_set(objects *o, const char *name, int64_t value, error *err);
/* objects_secret.c: what is stored of a Secret's values, to be freed. Within a transaction. */
int objects__secret_spec(objects *o, const cJSON *values, cJSON **spec, error *err);
int objects__row_get(objects *o, enum object_kind kind, const char *ns, const char *name, object_row *row, error *err);
int objects__row_put(objects *o, enum object_kind kind, const char *ns, const char *name, object_row *row, error *err);
cJSON *objects__row_object(enum object_kind kind, const char *ns, const char *name, object_row *row);
void objects__row_fini(object_row *row);
/* objects_notes.c: the manifest has `meta` now: what was taken of it and is another there counts again. */
void objects__notes_keep(object_row *row, const cJSON *meta);
/* The annotations of `meta`, as they are with the notes. */
void objects__notes_apply(const cJSON *notes, cJSON *meta);
int objects__prepare(objects *o, error *err);

#endif
