/* ilmare-transfer as a child process: all that goes over HTTP is done there (docs/transfer.md), so this agent needs no HTTP client of its own, and
 * whatever stalls can be stopped.
 *
 * A call runs one command and waits for its end. The child's standard input is a pipe of ours: it ends with us, even if we are killed. Keys go by
 * the child's environment and nowhere else. Its log goes where ours goes. Blocking; any thread that may; not the loop's.
 */
#ifndef EDGE_REMOTE_TRANSFER_H
#define EDGE_REMOTE_TRANSFER_H

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* What is needed for all that is at this url or below it. */
typedef struct transfer_key {
	const char *url;
	bool awaited;                 /* a Secret is named, and its keys are not here yet: nothing can be done */
	bool held;                    /* these; else none are named, and the agent's own environment counts */
	char *endpoint, *id, *secret; /* endpoint may be NULL */
} transfer_key;

typedef struct transfer {
	const char *program; /* a path, or a name to be looked for in PATH */
	const transfer_key *keys;
	size_t n_keys;
	const atomic_bool *stop; /* set by another thread to give up: TIMEOUT */
} transfer;

/* Each line that the child says, but `progress` and `error`. The object is the caller's for the time of the call. */
typedef void (*transfer_event_fn)(void *ctx, const cJSON *event);

typedef struct transfer_counters { /* of this process; as they are now */
	int64_t running, begun, failed, bytes;
} transfer_counters;
void transfer_count(transfer_counters *out);

/* Run the command in args (ended by NULL) with the keys for `url`; on_event may be NULL. Errors are those that the child says (its words in *err):
 * NOT_FOUND, DENIED, NO_SPACE, OFFLINE (the server, the network, keys or the right time are away), CORRUPT, CHANGED, IO, UNSUPPORTED (the server
 * answers in a way that is not followed; or there is no such program here), LIMIT, EXISTS, CONFLICT, INVALID; TIMEOUT if told to stop, which takes
 * a few seconds at most. */
int transfer_run(const transfer *t, const char *url, const char *const *args, transfer_event_fn on_event, void *ctx, error *err);

#endif
