/* Fetching many objects, several at a time, into a folder. The work comes one by one from a source that is asked under a lock, so that a million
 * names need no memory. */
#ifndef TRANSFER_MANY_H
#define TRANSFER_MANY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

typedef struct many_item {
	location of;
	char *relative; /* path below the folder; checked */
	bool folder;    /* an object that only stands for a folder */
} many_item;

typedef struct many_source {
	void *ctx;
	/* 1: *item is filled, and belongs to the caller. 0: no more. Negative: an error. */
	int (*next)(void *ctx, many_item *item, error *err);
} many_source;

typedef struct many_result {
	int64_t files, missing;
} many_result;

/* Objects that are not there are counted and named, and the rest is fetched; any other error ends it. NOT_FOUND at the end if there were any. */
int many_fetch(session *s, const many_source *from, const char *folder, bool fresh, many_result *out, error *err);

/* All objects below a prefix: one with the prefix "a/" and the key "a/b/c" becomes "b/c" below the folder. */
typedef struct many_listing many_listing;
many_listing *many_listing_new(client *c, const location *of, const char *prefix);
void many_listing_free(many_listing *l);
many_source many_listing_source(many_listing *l);
/* Objects seen so far. */
int64_t many_listing_seen(const many_listing *l);

/* The files that an index names, which is a local file; `name` is for messages. */
typedef struct many_index many_index;
int many_index_new(const char *path, const char *name, many_index **out, error *err);
void many_index_free(many_index *x);
many_source many_index_source(many_index *x);

#endif
