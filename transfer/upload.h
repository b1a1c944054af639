/* Sending one file to one object. One thread a client. */
#ifndef TRANSFER_UPLOAD_H
#define TRANSFER_UPLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

typedef struct upload {
	const char *path;
	const location *to; /* S3, with a key */
	bool only_new;      /* EXISTS if there is such an object */

	/* What came of it. */
	int64_t size;
	int parts; /* 0: sent in one piece */
	char etag[256];
} upload;

/* The object is what it was before, or all of the new one. Above 16 MiB it is sent in parts; what is left of them is removed at the store after any
 * failure and when cancelled, and what a killed upload of the same object left behind more than a day ago, too. CHANGED: the file changed
 * while it was read. */
int upload_file(client *c, upload *u, error *err);

#endif
