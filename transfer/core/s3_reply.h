/* What a store answers in XML: errors, pages of lists, ids of uploads. All of it comes from outside: strict, bounded. Pure. */
#ifndef TRANSFER_CORE_S3_REPLY_H
#define TRANSFER_CORE_S3_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

enum { S3_ERROR_MAX = 64 * 1024, S3_PAGE_MAX = 16 * 1024 * 1024, S3_PAGE_ITEMS = 1000 };

typedef struct s3_error {
	char code[64], message[256], region[64];
} s3_error;

/* true if the body is an error document; it may come with status 200. Texts are cut; control characters become blanks. */
bool s3_error_parse(const char *data, size_t len, s3_error *out);

typedef struct s3_object {
	char *key;
	int64_t size;
	char *etag; /* NULL: not given */
} s3_object;

typedef struct s3_page {
	s3_object *items;
	size_t n;
	char **folders; /* asked with a delimiter: what is before it, with it */
	size_t n_folders;
	char *next; /* token of the next page; NULL: this was the last */
} s3_page;

/* ListObjectsV2. CORRUPT if it is no such document, or one with more than S3_PAGE_ITEMS objects or folders, or truncated without a token. */
int s3_page_parse(const char *data, size_t len, s3_page *out, error *err);
void s3_page_fini(s3_page *p);

/* The id of an upload that has begun; to be freed. */
int s3_upload_parse(const char *data, size_t len, char **id, error *err);
/* The answer to the last step of an upload, which may say an error with status 200. `etag` (of at least 2 bytes) is cut. */
int s3_completed_parse(const char *data, size_t len, char *etag, size_t room, error *err);

/* The answer to a copy; it may say an error with status 200. */
int s3_copied_parse(const char *data, size_t len, char *etag, size_t room, error *err);

/* The answer to DeleteObjects that was asked to be quiet: of the first object that was not removed (an object that is not there is none), *key, to
 * be freed, and why; else *key is NULL. */
int s3_removed_parse(const char *data, size_t len, char **key, s3_error *why, error *err);
/* A key can be told in XML: UTF-8 without control characters, and without a blank at its ends, which some reader may take away. */
bool s3_key_fits_xml(const char *key);
/* Appends text, escaped. */
void s3_put_xml(buf *out, const char *text);

typedef struct s3_upload {
	char *key, *id;
	char begun[32]; /* "2026-11-30T04:00:00.000Z" */
} s3_upload;

typedef struct s3_uploads {
	s3_upload *items;
	size_t n;
} s3_uploads;

/* ListMultipartUploads, one page. */
int s3_uploads_parse(const char *data, size_t len, s3_uploads *out, error *err);
void s3_uploads_fini(s3_uploads *u);

#endif
