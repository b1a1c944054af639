/* Several threads, each with a client of its own, that do what one after the other takes from a source: so that a million items need no memory. */
#ifndef TRANSFER_CREW_H
#define TRANSFER_CREW_H

#include <stddef.h>

#include "common/error.h"
#include "transfer/client.h"

enum { CREW_ITEM_MAX = 256 };

typedef struct crew_task {
	void *ctx;
	size_t item; /* bytes of an item, at most CREW_ITEM_MAX */
	/* Under a lock. 1: *item, which was zeroed, is filled. 0: no more. Negative: an error, which ends it. */
	int (*next)(void *ctx, void *item, error *err);
	/* Any thread, several at a time. Frees what is in the item. Negative: an error, which ends it. */
	int (*work)(void *ctx, client *c, void *item, error *err);
} crew_task;

/* The first error, or CANCELLED; all threads have ended then. */
int crew_run(session *s, const crew_task *task, error *err);

#endif
