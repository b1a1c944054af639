/* What is fetched or written: s3://BUCKET/KEY or http(s)://…, and the address of the store. Pure; any thread.
 *
 * The key is what stands behind the bucket, byte for byte: nothing of it is decoded, so "%2F", "+", "#" and "?" are characters of the key.
 * An http url is kept as it stands, but what may not stand in one (blanks, bytes above 127, quotes) is percent-encoded. The name of the local
 * file is the text behind the last '/', as written: a worker's variable holds the same text.
 */
#ifndef TRANSFER_CORE_LOCATION_H
#define TRANSFER_CORE_LOCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

enum { LOCATION_MAX = 8192, KEY_MAX = 1024 };

enum location_kind { LOCATION_S3, LOCATION_HTTP };

typedef struct location {
	enum location_kind kind;
	char *text;   /* as it was given */
	char *bucket; /* S3 */
	char *key;    /* S3; may be empty: the bucket itself */
	char *url;    /* HTTP: for the request */
	char *shown;  /* for messages: without a query, at most about 200 bytes */
} location;

/* INVALID: what cannot be one, with a text that never holds a user name, a password or a query. `out` is to be given to location_fini also
 * after an error. */
int location_parse(const char *text, location *out, error *err);
void location_fini(location *l);
/* An object of a store. */
int location_object(const char *bucket, const char *key, location *out, error *err);
/* What is behind the last '/', as written; "" for a folder. */
const char *location_name(const location *l);
/* Shortened for a message; to be freed. */
char *location_shorten(const char *text);

typedef struct endpoint {
	bool https;
	char *authority; /* host[:port], an IPv6 address in brackets */
	bool amazon;     /* of amazonaws.com: buckets without dots are part of the host's name */
	char *region;    /* what requests are signed for */
} endpoint;

/* A url or host[:port], as operators write it: https unless it begins with http://, a '/' at its end is no harm. `text` NULL or "": Amazon's.
 * `region` NULL or "": that of Amazon's host name, else us-east-1. */
int endpoint_parse(const char *text, const char *region, endpoint *out, error *err);
void endpoint_fini(endpoint *e);

#endif
