/* The eval data of a round, `{outputDir}/data/eval/{round}/data.{format}`: the eval files of the window's rounds, one after the other, the
 * oldest first (csv: one header). Made by temp + sync + rename, and may be made again at any time. Blocking; any thread.
 */
#ifndef EDGE_DATASET_EVAL_DATA_H
#define EDGE_DATASET_EVAL_DATA_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "edge-agent/dataset/round.h"

typedef struct eval_result {
	int64_t samples, bytes;
	digest sha256;
	size_t rounds;     /* that are in it */
	char skipped[160]; /* earlier rounds that are not, and why; "" if there are none */
} eval_result;

/* The rounds as round_window gives them: oldest first, the round itself last. An earlier round whose folder is gone or damaged, or which has
 * another csv header, is left out and named in `skipped`; for the round itself that is an error (NOT_FOUND, CORRUPT). `stop` and
 * `files_url` (then dataIndex.txt is beside the data, and in place before them) as in round_request. An error leaves what was there before. */
int eval_data_write(const char *output_dir, const int64_t *rounds, size_t n, const char *files_url, const atomic_bool *stop,
	eval_result *out, error *err);

#endif
