/* A file that one process at a time has, until it ends. Any thread that may block for a moment. */
#ifndef COMMON_LOCK_FILE_H
#define COMMON_LOCK_FILE_H

#include "common/error.h"

/* *fd keeps it, until it is closed; the process's number is in the file, for people. EXISTS, in the words "{what} is in use by another agent (process
 * 123)", if another process has it. Of one that was killed while it started a child, the child has the file until its program runs: that instant is
 * waited for. */
int lock_file_take(const char *path, const char *what, int *fd, error *err);

#endif
