/* A file being written: buffered, digested, counted, durable when ended. Internal to this folder. Any thread; one owner. */
#ifndef EDGE_DATASET_SINK_H
#define EDGE_DATASET_SINK_H

#include "common/digest.h"
#include "common/error.h"
#include "edge-agent/dataset/manifest.h"

typedef struct sink sink;

/* The file must not exist. */
int sink_new(sink **out, const char *path, error *err);
int sink_add(sink *s, const char *data, size_t len, error *err);
/* Flush, sync and close, and tell what is in the file (name and samples are the caller's to fill). */
int sink_end(sink *s, manifest_file *out, error *err);
/* NULL is fine; an unfinished file stays for the caller to remove. */
void sink_free(sink *s);

#endif
