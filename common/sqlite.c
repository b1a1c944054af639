/* SQLite's memory, and what counts as damage: see sqlite.h for the contract. */
#include "common/sqlite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { LOOKS = 3 };

static sqlite3_mem_methods usual;

static void *memory_get(int size)
{
	void *p = usual.xMalloc(size);
	if (p == NULL)
		mem_fail();
	return p;
}

static void *memory_resize(void *old, int size)
{
	void *p = usual.xRealloc(old, size);
	if (p == NULL)
		mem_fail();
	return p;
}

void sqlite_memory_init(void)
{
	if (usual.xMalloc != NULL || sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual) != SQLITE_OK)
		return;
	sqlite3_mem_methods ours = usual;
	ours.xMalloc = memory_get;
	ours.xRealloc = memory_resize;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
}

static int look(sqlite3 *db, char **damage)
{
	sqlite3_stmt *s = NULL;
	int code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &s, NULL);
	if (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(s, 0);
		code = SQLITE_OK;
		if (text == NULL || strcmp(text, "ok") != 0)
			*damage = mem_strdup(text != NULL ? text : "?");
	}
	sqlite3_finalize(s);
	return code;
}

int sqlite_check(sqlite3 *db, char **damage)
{
	int code = SQLITE_OK;
	*damage = NULL;
	for (int i = 0; i < LOOKS; i++) {
		free(*damage);
		*damage = NULL;
		code = look(db, damage);
		if (*damage == NULL)
			break;
	}
	return code;
}
