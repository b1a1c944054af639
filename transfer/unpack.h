/* Archives that come from outside: tar, gzipped tar and zip, into a folder, never out of it. */
#ifndef TRANSFER_UNPACK_H
#define TRANSFER_UNPACK_H

#include <stdint.h>

#include "common/error.h"
#include "transfer/core/relative.h"

enum { UNPACK_ENTRIES_MAX = 1000000 };

/* Takes the archive at `path` away and unpacks it below `folder`. Files that are there are replaced. Refused with CORRUPT, and with the rest not
 * unpacked: absolute paths, "..", links that lead out of the folder, devices, pipes and sockets, and what is damaged. LIMIT: more than
 * UNPACK_ENTRIES_MAX entries, or more than 1 GiB and a hundred times the archive. Owners, special bits and extended attributes are not taken over.
 * Changes the working folder meanwhile: no other thread may use relative paths. */
int unpack(enum archive_kind kind, const char *path, const char *folder, int64_t *entries, error *err);

#endif
