/* One piece of file work, as it runs in the pool: a blocking function over copies of what it needs. files.c makes and schedules them. */
#ifndef EDGE_FILE_WORK_H
#define EDGE_FILE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"
#include "edge-agent/core/agent.h"
#include "edge-agent/dataset/scanner.h"

typedef struct file_work {
	arena *mem;
	bool look;          /* look at the dataset; no action */
	edge_action action; /* else: copied */
	scanner *scanner;   /* of the dataset; NULL where none is needed */
	const atomic_bool *stop;
	int64_t rounds_kept; /* 0: all */
	int deployed_kept;
	const char *root_dir; /* "", or where the node's file system is mounted (storage/rooted.h) */
	edge_result result;
	error err;
} file_work;

/* Runs it; the result is in w->result, its text in w->err. Any thread, one at a time per scanner. */
void file_work_run(file_work *w);

/* Take the prefix of the node's root out of a text that may be sent: paths read as in the documents then. In place; any thread. */
void file_work_hide_root(const char *root_dir, char *text);

#endif
