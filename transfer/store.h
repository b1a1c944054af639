/* What is asked of a store besides the bytes of an object. One thread a client. */
#ifndef TRANSFER_STORE_H
#define TRANSFER_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

typedef struct object_head {
	bool changed; /* false: it is the version of if_none_match, and the rest is empty */
	bool not_md5; /* the ETag is no digest, the store says */
	int64_t size; /* -1: not known */
	char etag[256], modified[64];
} object_head;

/* Also of a page. What a store refuses here without a word is asked for once more in a way that gets one. */
int store_head(client *c, const location *of, const char *if_none_match, object_head *out, error *err);

/* The objects whose keys begin with `prefix`, page by page, in the order of the bytes of their keys. */
typedef struct listing {
	client *c;
	const location *of; /* whose bucket; for messages */
	char *prefix;
	bool flat; /* what has a '/' behind the prefix is told of as folders, and not with its objects */
	s3_page page;
	size_t at;
	bool begun;
} listing;

void listing_init(listing *l, client *c, const location *of, const char *prefix);
/* The next page into `page`: 1; 0: there are no more. Every key in it begins with the prefix, or it is CORRUPT. */
int listing_page(listing *l, error *err);
/* The next one; it lives until the next call. NULL at the end, with *code 0, or after an error. */
const s3_object *listing_next(listing *l, int *code, error *err);
void listing_fini(listing *l);

#endif
