/* manifest.json of a round's folder: which samples are in it, cut out of which file, and what its files hold. It makes the folder a round:
 * who finds it needs no store to know what was taken.
 *
 *   {"v":1,"uid":"…","round":12,"format":"txt","from":300,"to":400,
 *    "before":{"sample":300,"size":8192,"digest":"<hex>"},"after":{"sample":400,"size":12000,"digest":"<hex>"},
 *    "trainProb":0.8,"train":80,"eval":20,"files":{"data.txt":{"samples":80,"bytes":3000,"sha256":"<hex>"},…}}
 *
 * Pure; any thread.
 */
#ifndef EDGE_DATASET_MANIFEST_H
#define EDGE_DATASET_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "proto/document.h"

enum { MANIFEST_VERSION = 1, MANIFEST_BYTES_MAX = 16 * 1024, MANIFEST_FILES_MAX = 8, MANIFEST_NAME_MAX = 63 };

typedef struct manifest_file {
	char name[MANIFEST_NAME_MAX + 1]; /* in the folder itself: no '/', no leading '.' */
	int64_t samples, bytes;
	digest sha256;
} manifest_file;

typedef struct manifest {
	char uid[TEXT_MAX_UID + 1]; /* of the job */
	int64_t round;              /* from 1 */
	enum dataset_format format;
	int64_t from, to;     /* samples [from, to) */
	cursor before, after; /* where they were in the dataset file; before.sample == from, after.sample == to */
	double train_prob;
	int64_t train, eval; /* how many went where; train + eval == to - from */
	manifest_file files[MANIFEST_FILES_MAX];
	size_t n_files;
} manifest;

/* To be freed. */
char *manifest_encode(const manifest *m);
/* INVALID for what is malformed or contradicts itself, UNSUPPORTED for another version. Members that it does not know are ignored. */
int manifest_decode(const char *data, size_t len, manifest *out, error *err);
const manifest_file *manifest_find(const manifest *m, const char *name); /* NULL: not listed */

#endif
