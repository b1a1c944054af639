/* The urls of requests to a store, written so that what is signed and what is sent are the same bytes: everything but A-Z a-z 0-9 - . _ ~ is
 * percent-encoded (in a key all but '/'), the query is sorted and each name has its '='. Pure; any thread.
 */
#ifndef TRANSFER_CORE_S3_URL_H
#define TRANSFER_CORE_S3_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "transfer/core/location.h"

typedef struct s3_query {
	const char *name, *value; /* value NULL: none */
} s3_query;

enum { S3_QUERY_MAX = 8 };

/* To be freed. `key` NULL: the bucket. Path style; host style where the endpoint is Amazon's and the bucket has no dot. */
char *s3_url(const endpoint *e, const char *bucket, const char *key, const s3_query *query, size_t n);
/* The key has a part "." or "..", which is an ordinary part of a key, but not of a path. */
bool s3_has_dots(const char *key);
/* Appends the text percent-encoded; `slash`: '/' stays. */
void s3_encode(buf *out, const char *text, bool slash);
/* Decodes "%41" and, as forms do, '+'; appends. INVALID for a '%' without two hex digits, or %00. */
int s3_decode(const char *text, buf *out);

/* Bytes of a part of an upload of `size`: 16 MiB, or what makes it at most 10,000 parts, in whole MiB. */
int64_t s3_part_size(int64_t size);

#endif
