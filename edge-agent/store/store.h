/* The edge agent's durable memory: one SQLite file.
 *
 * Holds what edge-agent/core/record.h describes (jobs with their documents and state, the outbox, datasets, results that came too early, the
 * store's own facts) and how far each dataset file was read. One transaction per EDGE_COMMIT, durable when store_commit returns (WAL,
 * synchronous FULL). Every row carries a checksum: a row that does not match is dropped and said, as if it had been lost, which the protocol
 * allows for; a file that SQLite finds damaged is set aside and a new one begun. So is the file of another node, and of another program.
 *
 * Loop thread only. One process at a time: the file is locked.
 */
#ifndef EDGE_STORE_STORE_H
#define EDGE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "edge-agent/core/agent.h"
#include "edge-agent/core/record.h"

enum { STORE_SCHEMA = 2 };

typedef struct store store;

/* Open or make `path` for this node. A file that is damaged or was made for another node is renamed to "{path}.bad-{n}" or
 * "{path}.node-{n}" with its WAL (the last 3 are kept), logged, and a new store begun. *fresh: a new one was begun, for whatever reason; so
 * is one in a file of 0 bytes. Errors: DENIED, IO, NO_SPACE; EXISTS when another process has it open; UNSUPPORTED when a newer version of
 * this program made it (nothing is touched then). */
int store_open(const char *path, const char *node, store **out, bool *fresh, error *err);
void store_close(store *s);

/* Give all that is stored to a core that has not been started. Rows that cannot be used are dropped from the store and logged. */
int store_restore(store *s, edge_agent *agent, error *err);

/* All changes or none; durable on return. NO_SPACE and IO leave the store as it was and usable; try again later. */
int store_commit(store *s, const edge_change *changes, size_t n, error *err);

/* How far a dataset file was read, an opaque text of at most 64 kB. *state is to be freed; NULL: none. */
int store_scan_load(store *s, const char *url, enum dataset_format format, char **state, error *err);
int store_scan_save(store *s, const char *url, enum dataset_format format, const char *state, error *err);
/* Forget files other than the ones for which `keep` returns true. */
int store_scan_prune(store *s, bool (*keep)(void *ctx, const char *url, enum dataset_format format), void *ctx, error *err);

#endif
