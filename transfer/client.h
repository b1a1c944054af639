/* One connection at a time to one server after the other: requests over libcurl, one thread, with attempts, waits and a corrected clock.
 *
 * Requests to the store are signed anew at each attempt (AWS Signature Version 4) and never redirected. Plain http(s) requests only read, carry
 * no credentials, and follow a few redirects, never from https to http. A request that stalls is given up, one that is slow is not. Everything
 * ends at once when the program is cancelled, but for a client that is told to finish (client_finish).
 */
#ifndef TRANSFER_CLIENT_H
#define TRANSFER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"
#include "transfer/core/location.h"
#include "transfer/core/s3_reply.h"
#include "transfer/core/s3_url.h"
#include "transfer/session.h"

typedef struct client client;

typedef struct reply {
	int status;                      /* 0: no answer */
	int64_t length;                  /* Content-Length, -1 without one */
	int64_t from, total;             /* Content-Range; -1 */
	bool chunked, of_store, not_md5; /* of_store: an S3 store says it; not_md5: the ETag of an encrypted object is no digest */
	char etag[256], modified[64], date[64], retry_after[64], type[128], region[64];
	buf body;       /* of all but what on_data took */
	s3_error error; /* of the store; code "" without one */
} reply;

typedef struct request {
	const char *method; /* GET, HEAD, PUT, POST, DELETE */
	const location *of; /* the object, the bucket, or the page */
	bool once;          /* on a connection of its own: on one that rested, the library makes a lost request again by itself, unseen */
	bool bucket;        /* of the bucket itself */
	const s3_query *query;
	size_t n_query;
	int64_t from;                         /* above 0: from this byte */
	const char *if_match, *if_none_match; /* or NULL */
	const char *copy_source;              /* "/bucket/key", percent-encoded, or NULL */
	const char *content_md5;              /* Base64, or NULL */
	size_t body_max;                      /* of an answer that on_data does not take */
	const char *permission;               /* for who is denied */
	int64_t work; /* bytes that the server moves by itself before it answers, in silence: it gets a second more for 10 MB */

	/* What is sent: `len` bytes at `offset` of a file, or of memory. */
	bool has_body, counts; /* counts: its bytes are the session's progress, as long as it does not fail */
	int fd;                /* -1: memory */
	const char *memory;
	int64_t offset, len;
	char sha256[DIGEST_HEX_SIZE]; /* of it; "" for nothing sent */

	/* The body of an answer with status 200 or 206. on_head comes once before the first on_data, also where the body is empty. A negative code ends
	 * the request with it. */
	void *ctx;
	int (*on_head)(void *ctx, const reply *r, error *err);
	int (*on_data)(void *ctx, const char *data, size_t len, error *err);
} request;

#define REQUEST(m, l) ((request){.method = (m), .of = (l), .fd = -1, .body_max = S3_ERROR_MAX})

client *client_new(session *s);
void client_free(client *c);
session *client_session(client *c);
/* From now on requests are made although the program is cancelled, within this time, without waits: to clean up. */
void client_finish(client *c, int64_t ms);

/* Failures in a row. `{0}` at the beginning; back to that when there was progress. */
typedef struct attempts {
	int failures, corrections;
} attempts;

/* One attempt. 0: the server answered with 2xx. Else the code and what to say; *retry: it may be otherwise later. An answer with another status
 * is in `r`, too. r is to be given to reply_fini always. */
int client_once(client *c, const request *q, reply *r, bool *retry, error *err);
/* After a failure: waits as long as it makes sense; true if it is to be tried again. `r` may hold Retry-After, or the server's date, by which the
 * clock is corrected at most once. */
bool client_again(client *c, attempts *a, int code, bool retry, const reply *r, const error *err);
/* As often as is allowed. a may be NULL; else it tells how many attempts failed. */
int client_call(client *c, const request *q, reply *r, attempts *a, error *err);
void reply_fini(reply *r);

#endif
