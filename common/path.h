/* The rule for folders that are written below: one for whoever accepts the name and for whoever writes. Pure. */
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <stdbool.h>

/* An absolute path without empty, "." or ".." parts, without control characters or a blank at its end, of at most 4,095 bytes. NULL is none. */
bool path_is_clean(const char *path);

#endif
