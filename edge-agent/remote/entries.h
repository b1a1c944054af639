/* What is below a prefix of an object store, as far as its names are numbers. Any thread that may block. */
#ifndef EDGE_REMOTE_ENTRIES_H
#define EDGE_REMOTE_ENTRIES_H

#include <stdint.h>

#include "common/error.h"
#include "edge-agent/remote/transfer.h"

typedef struct entry_numbers {
	int64_t *at; /* highest first; to be freed, also after an error */
	size_t n;
} entry_numbers;

/* The folders right below `url`, which ends in '/'. */
int entry_numbers_list(const transfer *t, const char *url, entry_numbers *out, error *err);

#endif
