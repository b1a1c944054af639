/* What both agents' stores want of SQLite beside what it does by itself.
 *
 * Memory: SQLite's comes from mem.h's rule that an allocation does not fail. Else a column that could not be given for lack of memory would
 * look like one that is not there, and a stored row like a damaged one.
 *
 * Damage: SQLite's check of a whole file says the same of a page that is wrong and of one that could not be read just now. An error of a moment
 * must not cost a store, so damage is what is found again.
 */
#ifndef COMMON_SQLITE_H
#define COMMON_SQLITE_H

#include <sqlite3.h>

/* Before the process's first use of SQLite; again is fine. Loop thread. */
void sqlite_memory_init(void);

/* SQLITE_OK, and *damage is NULL or the first thing that is wrong with the file in each of three looks, to be freed. Else SQLite's code: it
 * could not be looked at. Every page is read, and the indexes are compared with their tables. */
int sqlite_check(sqlite3 *db, char **damage);

#endif
