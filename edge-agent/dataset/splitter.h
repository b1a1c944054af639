/* Where the samples of a dataset file end: a splitter that is fed its bytes in pieces of any size, and gives the same answers whatever the
 * pieces.
 *
 * txt: a sample is a line, ended by '\n'. csv: a sample is a record as RFC 4180 has it: fields between commas, a field that begins with a
 * quote may hold newlines and doubled quotes, the record ends at '\n' (a '\r' before it belongs to it); the first record is the header and
 * no sample. For both:
 * - Only what is terminated counts; the rest waits.
 * - A byte order mark at the very beginning, blank lines (nothing but spaces, tabs and '\r') and lines that are too long are no samples.
 *   Their bytes lie before the next sample. So the end of a sample is a position that names exactly one number of samples.
 * - A line of more than line_max bytes (its end included) is skipped and counted. In csv it ends at the first newline past the limit, inside
 *   quotes or not, so one stray quote cannot hide all that follows. A csv header that is too long leaves a file without samples.
 *
 * No byte is copied or kept: memory is the struct, which is plain values (it can be stored and put back). Pure; one owner.
 */
#ifndef EDGE_DATASET_SPLITTER_H
#define EDGE_DATASET_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/document.h"

enum { LINE_MAX_DEFAULT = 1024 * 1024 };

enum splitter_state { /* csv: where the next byte stands */
	SPLIT_FIELD_START,
	SPLIT_FIELD,
	SPLIT_QUOTED,
	SPLIT_QUOTE_SEEN, /* after a quote inside quotes: the end of the field, or the first of two */
};

typedef struct splitter {
	enum dataset_format format;
	int64_t line_max;
	int64_t offset;                 /* bytes fed so far */
	int64_t samples;                /* that ended before offset */
	int64_t from;                   /* the sample that ended last: its first byte; it ended at `offset` as splitter_next returned it */
	int64_t line;                   /* first byte of the line that has not ended */
	int64_t skipped;                /* lines that were too long */
	int64_t header_from, header_to; /* csv: bytes of the header with its line end; both 0 until it is there */
	int bom;                        /* bytes of a byte order mark seen; BOM_DONE once that is decided */
	bool blank;                     /* the line has no visible byte so far */
	bool bad_header;                /* csv: the header is too long; no samples */
	enum splitter_state state;
} splitter;

/* line_max > 0. */
void splitter_start(splitter *s, enum dataset_format format, int64_t line_max);
/* At the end of a sample (offset > 0) or at the beginning (offset 0, samples 0) of a file. The header's place is not known then. */
void splitter_resume(splitter *s, enum dataset_format format, int64_t line_max, int64_t offset, int64_t samples);

/* Feed the next bytes. True: a sample ends after the first *used of them (s->from, s->offset say where); feed the rest after them. False:
 * all `len` bytes are used up, none ended a sample. */
bool splitter_next(splitter *s, const char *data, size_t len, size_t *used);

/* Bytes after the last line end: an unterminated line that waits. */
int64_t splitter_waiting(const splitter *s);
/* The header must have been seen (false then for csv alone). */
bool splitter_has_header(const splitter *s);

#endif
