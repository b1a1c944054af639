/* Fetching one object or page into one file, whole, or what was appended to it. One thread a client. */
#ifndef TRANSFER_DOWNLOAD_H
#define TRANSFER_DOWNLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

typedef struct download {
	const location *of;
	const char *path;
	bool fresh;          /* a part of an earlier attempt is not used */
	bool durable;        /* synced before it counts as done */
	bool etag_is_no_md5; /* of a store whose ETags only look like digests */
	const char *sha256;  /* what it has to be, lower-case hex, or NULL */
	int64_t max_size;    /* of download_file: longer is LIMIT; 0: any */

	/* Of download_rest alone. */
	const char *if_match; /* the version it must be, or NULL */
	int64_t same;         /* at most so many bytes before `from` must be those that the file ends with; 0: not looked at */

	/* What came of it. */
	int64_t size, resumed_at;
	char etag[256], modified[64];
} download;

/* Errors beside those of the server and the network: CORRUPT (length or digest), EXISTS (another process fetches the same file), CHANGED (it
 * changed again and again meanwhile), and those of writing. */
int download_file(client *c, download *d, error *err);

/* Appends to the file, which must have exactly `from` bytes and be there unless that is 0, what the source has behind them. CHANGED: it is another
 * version than if_match, shorter than `from`, or other than the file before that. UNSUPPORTED: the server sends no parts. What arrived stays, but
 * with `same` not after CHANGED: then the file is what it was. */
int download_rest(client *c, download *d, int64_t from, error *err);

#endif
