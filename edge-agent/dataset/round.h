/* The folder of a round, `{outputDir}/data/train/{round}`: written once, from a range of the dataset file.
 *
 * It holds data.{format} and eval.{format} (the samples that train, and the round's own that evaluate, each byte for byte with its line
 * end, in their order; csv: with the dataset's header in both), of a remote dataset dataIndex.txt, and manifest.json. It is made as `.{round}.tmp` beside, synced, and renamed
 * without replacing anything, so a folder under the final name is always whole. While copying, the chain digest is carried on from what the
 * scanner knows: if the bytes are not those that were allocated, nothing is left behind and CHANGED says so.
 *
 * A final name that is taken: with a manifest of this job and round that begins at this sample and place, and its files there, the folder is adopted:
 * what it holds is the round, whatever was asked for. Anything else is moved aside, to `{round}.aside-{uid8}-{n}`, but only if the caller
 * says so (a worker may be reading it).
 *
 * All paths are real ones: a prefix of the node's root is in output_dir already. Blocking; any thread, one call at a time per scanner.
 */
#ifndef EDGE_DATASET_ROUND_H
#define EDGE_DATASET_ROUND_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"
#include "edge-agent/core/window.h"
#include "edge-agent/dataset/manifest.h"
#include "edge-agent/dataset/scanner.h"

typedef struct round_request {
	const char *output_dir, *uid;
	int64_t round;        /* from 1 */
	double train_prob;    /* 0 … 1 */
	int64_t from;         /* number of the first sample */
	int64_t offset, line; /* where it is in the file: bytes and samples before it */
	cursor end;           /* after the last one: end.sample > from */
	bool may_move_aside;
	const char *files_url;   /* of a remote dataset: the folder that files named by samples are in (index_file.h); NULL: no index */
	const atomic_bool *stop; /* NULL, or set by another thread to give up (TIMEOUT) */
} round_request;

enum round_outcome { ROUND_WRITTEN, ROUND_ADOPTED };

/* *out is the manifest that is in place. Errors: CHANGED (look at the file again, then locate the cursor again), CONFLICT (something else
 * has the final name and may not be moved), NO_SPACE, DENIED, IO, TIMEOUT, and the view's of a dataset that cannot be read. After an error
 * nothing of this round is left, except that a folder may have been moved aside. Leftovers of killed writes are removed.
 * Also makes `{outputDir}/train`, where the worker's models go. */
int round_write(scanner *s, const round_request *r, enum round_outcome *outcome, manifest *out, error *err);

/* The manifest of a round's folder, whosever it is. NOT_FOUND: no such folder. CORRUPT: no manifest that makes sense, or a file that it lists
 * is missing or of another size. */
int round_read(const char *output_dir, int64_t round, manifest *out, error *err);

/* The eval window of a round (core/window.h), oldest first, *n rounds; reads no more manifests than it needs. NOT_FOUND: the folder of that
 * round is not there, not whole, or not this job's. Earlier rounds of which that is so are passed over; one that cannot be read is an error. */
int round_window(const char *output_dir, const char *uid, int64_t round, int64_t out[WINDOW_MAX], size_t *n, error *err);

/* The same over round folders that are elsewhere: `all` are their numbers, highest first; `read` brings one near and tells its range (NOT_FOUND: it
 * holds no whole round of the job). */
typedef int (*round_read_fn)(void *ctx, int64_t round, window_round *out, error *err);
int round_window_of(int64_t round, const int64_t *all, size_t n, round_read_fn read, void *ctx, int64_t out[WINDOW_MAX], size_t *n_out,
	error *err);
/* A round in a folder of this machine, for that. */
int round_window_read(const char *output_dir, const char *uid, int64_t round, window_round *out, error *err);

/* "{output_dir}/data/{kind}/{round}[/{file}]" ; file may be NULL. To be freed. */
char *round_path(const char *output_dir, const char *kind, int64_t round, const char *file);

#endif
