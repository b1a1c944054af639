/* A disk whose power is cut: what a folder may hold afterwards, for code that syncs and renames.
 *
 * A function runs in a process of its own. What is below the folder then counts as being on the disk as far as it was synced: of a file the
 * bytes that it had at its last fsync, of a folder the names that it had at its own. Before each fsync, fdatasync, rename and renameat2 the
 * power may go, and once more after the function's end. The folder is then what a disk may have kept, by one of three rules that file systems
 * leave open:
 *   POWER_SYNCED  nothing that was not synced: a name of which the folder was not synced is gone, however much was synced in what it names
 *   POWER_EMPTY   all names, but of files only the synced bytes; one that was never synced is empty
 *   POWER_TORN    all names; of files that were not synced the first half of the new bytes is there, the rest as before
 *
 * A test links with SOURCES power_kit.c and WRAP fsync rename renameat2, and so does SQLite's library, whose fdatasync comes here too.
 */
#ifndef TESTS_UNIT_POWER_KIT_H
#define TESTS_UNIT_POWER_KIT_H

#include <stdbool.h>

enum power_rule { POWER_SYNCED, POWER_EMPTY, POWER_TORN, POWER_RULES };

/* Run f(arg), with the power cut before its n-th call (from 1), and leave in `folder` what the disk has kept. True: f had ended before, and the
 * power went right after. Files that f keeps open are its own. */
bool power_cut(const char *folder, enum power_rule rule, int n, void (*f)(void *), void *arg);

/* Inside f: the n-th call from now on fails with EIO. True from power_failed: it has. */
void power_fail(int n);
bool power_failed(void);

#endif
