/* A disk below SQLite of which the n-th call fails, and memory of which the n-th piece is not there.
 *
 * sqlite_kit_install puts a VFS around the usual one, as the default; from then on every file of SQLite's goes through it. What is armed fails
 * as a system would let it fail: a write that finds the disk full has written half of what it was to write. Nothing here knows who uses
 * SQLite, so one kit serves both agents' stores.
 */
#ifndef TESTS_UNIT_SQLITE_KIT_H
#define TESTS_UNIT_SQLITE_KIT_H

#include <stdbool.h>

enum sqlite_call {
	SQLITE_CALL_OPEN = 1,
	SQLITE_CALL_READ = 2,
	SQLITE_CALL_WRITE = 4,
	SQLITE_CALL_SYNC = 8,
	SQLITE_CALL_TRUNCATE = 16,
	SQLITE_CALL_DELETE = 32,
	SQLITE_CALL_LOCK = 64,
	SQLITE_CALL_LOOK = 128, /* size of a file, is it there */
};

/* Call first, once. */
void sqlite_kit_install(void);

/* The n-th piece of memory that SQLite asks for from now on is not there; 0: all are. */
void sqlite_kit_arm_memory(int n);

/* Of the calls in the set `calls` the n-th from now (from 1) gives `code`, and so do the ones after it until `times` have. */
void sqlite_kit_arm(unsigned calls, int n, int times, int code);
/* While held, nothing fails and nothing is counted: to look at what is there. */
void sqlite_kit_hold(bool on);
/* True if at least one has failed; disarms. */
bool sqlite_kit_failed(void);
/* Files that are open now. */
int sqlite_kit_files(void);

/* The kinds of faults that every loop goes through, up to one whose name is NULL. */
struct sqlite_fault {
	const char *name;
	unsigned calls;
	int times, code;
};
extern const struct sqlite_fault sqlite_faults[];

#endif
