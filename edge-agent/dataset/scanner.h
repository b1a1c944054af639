/* One dataset file, looked at again and again: how many samples it holds, where they end, and whether it is still the same file.
 *
 * A look checks inode, size and the last 4 KiB before the position read so far. If they fit, only what was appended is read; if not, the
 * file was replaced or started over: the generation grows by one and reading begins at byte 0. Memory does not depend on the file: a look
 * reads in pieces of 256 KiB, and no more than it is allowed, so a caller can go through a large file in slices.
 *
 * An absent or unreadable file, or one that is no file, is an error to be shown, and shows 0 samples; what was known is kept, so that the
 * same file, when it comes back, goes on where it was, as the same generation.
 *
 * A change of bytes long past (with inode, size and the last 4 KiB as they were) is not seen by a look, but by whoever reads those bytes
 * again: range and round functions return CHANGED then. The answer is scanner_forget, and to look again.
 *
 * What is known can be saved and put back after a restart: then at most 1 MiB is read again. Positions of interest (marks: cursors that
 * were located, ends of rounds) are remembered, a few of them, the least recently used going first; when a file is read from its beginning
 * again, they are checked as reading passes them, so that a cursor is located in a replaced file without reading it twice.
 *
 * Threads: blocking calls; one call at a time for a scanner, whichever thread.
 */
#ifndef EDGE_DATASET_SCANNER_H
#define EDGE_DATASET_SCANNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"
#include "proto/document.h"

typedef struct scanner scanner;

/* A place in a dataset file: after a sample, or the beginning. */
typedef struct dataset_point {
	int64_t size;    /* bytes before it */
	int64_t samples; /* samples before it */
	digest digest;   /* chain of those bytes (common/digest.h); zeros for size 0 */
} dataset_point;

typedef struct scan_view {
	bool looked;        /* false before the first look: nothing below means anything, but `more` is true */
	bool more;          /* the file holds bytes that were not read yet; look again before deciding anything */
	int64_t generation; /* from 1; the same number means the same content up to `end`, longer perhaps */
	dataset_point end;  /* after the last sample; zeros while there is an error */
	int64_t file_size;
	int64_t waiting_bytes; /* of an unterminated line at the end of the file */
	int64_t skipped;       /* lines that were too long */
	int64_t changed_ms;    /* modification time of the file, Unix milliseconds; 0 if never seen */
	int code;              /* 0, or why the file cannot be used */
	const char *error;     /* text for code, or NULL; valid until the next look */
} scan_view;

/* `path` is that of the document; line_max (bytes, > 0) usually LINE_MAX_DEFAULT. Nothing is opened yet. */
scanner *scanner_new(const char *path, enum dataset_format format, int64_t line_max);
/* Where the path is to be found (storage/rooted.h). Before the first look. */
void scanner_set_root(scanner *s, const char *root);
/* What is read is this file; `path` stays what errors speak of: for the copy of a remote dataset. Before the first look. */
void scanner_set_file(scanner *s, const char *file);
void scanner_free(scanner *s); /* NULL is fine */

/* Look at the file, reading at most about bytes_max (> 0) of it. Returns the code that the view has then; the error text is in the view. */
int scanner_look(scanner *s, int64_t bytes_max);
/* In place of a look: there is nothing to look at now, and why. What was known is kept. */
void scanner_fail(scanner *s, const error *why);
void scanner_view(const scanner *s, scan_view *out);
/* Take what is known for wrong: the next look begins at byte 0, with a new generation. */
void scanner_forget(scanner *s);

/* What is known, as text of at most a few kB for a store, and back (before the first look). The text of another format or line_max, or
 * one that cannot be read, is refused with INVALID, and the scanner begins at byte 0 as if new. Worth saving whenever view.end changed. */
void scanner_save(const scanner *s, buf *out);
int scanner_restore(scanner *s, const char *text, size_t len, error *err);

enum locate_result {
	LOCATE_MATCHED,   /* the file begins with those bytes */
	LOCATE_UNMATCHED, /* it does not (yet) */
	LOCATE_MORE       /* not known before more is read: scanner_look if view.more, then ask again */
};

/* Do the first `size` bytes of the file have this digest, and does a sample end there? Usually answered from the marks; at worst the file
 * is read up to there, at most about bytes_max a call. *out is set if matched. Errors: the view's; CHANGED: look again first. */
int scanner_locate(scanner *s, int64_t size, const digest *d, int64_t bytes_max, enum locate_result *result, dataset_point *out,
	error *err);

/* The end of what a round takes that begins at byte `offset` after `samples` samples: as many samples as fit in bytes_max (0: all), one at
 * least if there is one; *out equals the beginning if there is none. Free if all fits, else those bytes are read. CHANGED: look again. */
int scanner_range_end(scanner *s, int64_t offset, int64_t samples, int64_t bytes_max, const atomic_bool *stop, dataset_point *out,
	error *err);

#endif
