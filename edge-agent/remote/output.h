/* An output folder at an object store: `s3://bucket/prefix`, with the same things below it as a local one (dataset/round.h).
 *
 * A round is made in a folder of this device first, with the code that makes local ones, then sent: its files, and manifest.json last and only if
 * there is none, which makes the round exist. Who finds a manifest there believes it more than what is here. The folder here is a copy: it holds the
 * rounds that the next eval data are made of, and what is missing in it is fetched again.
 *
 * Blocking; any thread that may; one call at a time for one url.
 */
#ifndef EDGE_REMOTE_OUTPUT_H
#define EDGE_REMOTE_OUTPUT_H

#include <stdint.h>

#include "common/error.h"
#include "edge-agent/dataset/eval_data.h"
#include "edge-agent/dataset/round.h"
#include "edge-agent/remote/transfer.h"

typedef struct output {
	const char *url;    /* without '/' at its end */
	const char *folder; /* here; made if it is missing */
	const transfer *transfer;
} output;

/* As round_read. */
int output_look(const output *o, int64_t round, manifest *out, error *err);
/* As round_write; the output_dir of the request counts for nothing. OFFLINE and what else transfer_run says. */
int output_write(const output *o, scanner *s, const round_request *r, enum round_outcome *outcome, manifest *out, error *err);
/* As round_window and eval_data_write; *oldest is the first round of the window. */
int output_eval(const output *o, const char *uid, int64_t round, const char *files_url, int64_t *oldest, eval_result *out, error *err);
/* As rounds_remove_before, for what is at the store. What cannot be removed stays until the next time, and is logged. */
void output_remove_before(const output *o, const char *uid, int64_t below);

#endif
