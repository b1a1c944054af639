/* One piece of file work, as it runs in the pool: a blocking function over copies of what it needs. files.c makes and schedules them. */
#ifndef EDGE_FILE_WORK_H
#define EDGE_FILE_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "common/mem.h"
#include "edge-agent/core/agent.h"
#include "edge-agent/dataset/scanner.h"
#include "edge-agent/remote/transfer.h"

typedef struct file_work {
	arena *mem;
	bool look;          /* look at the dataset; no action */
	edge_action action; /* else: copied */
	scanner *scanner;   /* of the dataset; NULL where none is needed */
	const atomic_bool *stop;
	transfer transfer;      /* for what is remote */
	const char *remote_dir; /* where what stands for remote things is kept here (remote/folders.h) */
	const char *mirror;     /* look: the dataset's url is remote, and this is its copy; NULL: it is local */
	const char *url;        /* of the dataset that is looked at */
	const char *scratch;    /* DEPLOY: for what is fetched */
	int64_t rounds_kept;    /* 0: all */
	int deployed_kept;
	const char *root_dir; /* "", or where the node's file system is mounted (storage/rooted.h) */
	edge_result result;
	error err;
} file_work;

/* Runs it; the result is in w->result, its text in w->err. Any thread, one at a time per scanner. */
void file_work_run(file_work *w);

/* It is about this remote url too; the keys for it are copied. Before it runs. */
void file_work_add_key(file_work *w, const char *url, enum credential_state state, const credential_keys *keys);
/* Overwrites them. */
void file_work_forget_keys(file_work *w);

/* The folder of this device that stands for something of an output folder (a url, or a path): rounds on their way to an object store, or what a
 * deployment of its job has fetched. */
#define FOLDER_OUTPUTS "outputs"
#define FOLDER_DEPLOYS "deploys"
const char *file_work_folder(arena *mem, const char *remote_dir, const char *of, const char *output_dir);

/* The path of this machine for one of a document, in place; urls of object stores stay. */
int file_work_path(file_work *w, const char **url);

/* Take the prefix of the node's root out of a text that may be sent: paths read as in the documents then. In place; any thread. */
void file_work_hide_root(const char *root_dir, char *text);

#endif
