/* dataIndex.txt: which files the samples of a remote dataset name, so that who fetches the samples can fetch these too.
 *
 * The first line is the folder of the dataset's url; then each word of the samples that looks like the name of a file below it, one a line, in their
 * order (not again if it is the one before). A word is what white space separates, in csv commas and quotes too. It looks like a file if its last part
 * has an extension of letters and digits, at most 16, the word is no number, and it may be joined to a folder (no absolute path, no "..", no url).
 * Who reads it: transfer/core/index.h. Any thread; one owner.
 */
#ifndef EDGE_DATASET_INDEX_FILE_H
#define EDGE_DATASET_INDEX_FILE_H

#include "common/error.h"
#include "edge-agent/dataset/manifest.h"

#define INDEX_FILE_NAME "dataIndex.txt"

typedef struct index_file index_file;

/* The file must not exist. */
int index_file_new(index_file **out, const char *path, const char *folder_url, enum dataset_format format, error *err);
/* Samples, in pieces of any size; not the header of a csv. */
int index_file_add(index_file *f, const char *data, size_t len, error *err);
/* Durable; *out is named, and its samples are 0: they are in the other files. */
int index_file_end(index_file *f, manifest_file *out, error *err);
void index_file_free(index_file *f); /* NULL is fine */

/* The word decides; `len` bytes. */
bool index_word_is_file(const char *word, size_t len);

#endif
