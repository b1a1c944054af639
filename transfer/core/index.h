/* An index: which files of a folder a dataset consists of. Read in pieces of any size, so that a million names need no memory. Pure.
 *
 *   # lines before the folder that begin with '#' are for people
 *   s3://bucket/folder
 *   images/1.png images/2.png
 *   images/3.png
 *
 * The first other line is the folder (blanks around it do not count); the rest are names of files below it, separated by white space. After the
 * folder a line is a remark only if it is '#' followed by a blank, or '#' alone: "#1.png" is a file.
 */
#ifndef TRANSFER_CORE_INDEX_H
#define TRANSFER_CORE_INDEX_H

#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

enum { INDEX_WORD_MAX = 8192 };

typedef struct index_reader {
	int state;
	buf word;
	int64_t line;
} index_reader;

enum index_event {
	INDEX_MORE,   /* all of the piece is read */
	INDEX_FOLDER, /* r->word is the folder */
	INDEX_FILE    /* r->word is a name; it is safe as a path below a folder */
};

void index_init(index_reader *r);
void index_fini(index_reader *r);
/* Reads from data, sets *used. Call again with what is left until INDEX_MORE. Negative: INVALID, with the line. */
int index_next(index_reader *r, const char *data, size_t len, size_t *used, error *err);
/* The end of the file: INDEX_FOLDER or INDEX_FILE if a word ended with it, then INDEX_MORE. INVALID if there was no folder. */
int index_end(index_reader *r, error *err);

#endif
