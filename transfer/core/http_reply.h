/* What a status and a few headers of an answer mean. Pure. */
#ifndef TRANSFER_CORE_HTTP_REPLY_H
#define TRANSFER_CORE_HTTP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Codes of this program besides those of common/error.h. */
enum {
	ERROR_CLOCK = -101,    /* the store says that our clock is wrong, also after it was corrected */
	ERROR_CANCELLED = -102 /* told to stop */
};

typedef struct verdict {
	int code;        /* 0, or an error code */
	bool retry;      /* may be otherwise the next time */
	const char *say; /* what a person can do, or "" */
} verdict;

/* `s3_code`: of the error document, "" without one. 2xx is 0; 304 is CHANGED without retry, like all that is conditional: the caller asks for it. */
verdict reply_judge(int status, const char *s3_code);

/* "Sun, 06 Nov 1994 08:49:37 GMT" in seconds since 1970; false if it is not one. */
bool reply_date(const char *text, int64_t *out);
/* "2026-11-30T04:00:00.000Z" likewise. */
bool reply_date_iso(const char *text, int64_t *out);
/* The reverse, as X-Amz-Date wants it: "20261130T040000Z". */
void reply_date_amz(int64_t seconds, char out[17]);
/* Retry-After: seconds, or a date of which `now` is subtracted; -1 if it is neither. At most 24 h. */
int64_t reply_retry_after(const char *text, int64_t now);
/* "bytes 5-9/10": from 5, total 10 (-1 for '*'). "bytes *" + "/10" (of status 416): from -1. */
bool reply_content_range(const char *text, int64_t *from, int64_t *total);
/* Content-Length: digits alone. */
bool reply_length(const char *text, int64_t *out);
/* A strong validator: what If-Match can be asked with. */
bool reply_etag_strong(const char *etag);
/* The MD5 that an ETag of S3 is, if it looks like one: 32 lower-case hex digits. */
bool reply_etag_md5(const char *etag, char out[33]);

#endif
