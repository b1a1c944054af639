/* What both sides know about workers: their names, and the body that they post. Pure.
 *
 * A worker belongs to (uid, round, stage): suffix = first 10 characters of base32(SHA-256("uid/round/stage")), so that both agents compute
 * the same names and a pod can be made at most once. An inference worker is named after (uid, round of the model that it serves, 0 at first).
 */
#ifndef PROTO_WORKER_H
#define PROTO_WORKER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/mem.h"
#include "proto/document.h"
#include "proto/position.h"

enum { WORKER_BODY_MAX = 1024 * 1024, WORKER_NAME_SIZE = 64, POD_NAME_SIZE = 64 };

enum worker_kind { WORKER_TRAIN, WORKER_EVAL, WORKER_INFERENCE };
const char *worker_kind_word(enum worker_kind k); /* "train", "eval", "inference": label worker-type, pod names */
bool worker_kind_parse(const char *word, enum worker_kind *out);

/* "train-worker-xxxxxxxxxx", "eval-worker-…", "inferworker-…". The stage word in the hash is train, eval, inference. */
void worker_name(enum worker_kind k, const char *uid, int64_t round, char out[WORKER_NAME_SIZE]);
/* First 40 characters of the job's name, cut to end in a letter or digit, + "-train-" + suffix. */
void pod_name(enum worker_kind k, const char *job, const char *uid, int64_t round, char out[POD_NAME_SIZE]);
/* A label's value: over 63 characters the first 52, cut likewise, + "-" + 10 characters of base32 SHA-256 of the whole. */
void label_value(const char *text, char out[64]);

enum post_kind { POST_TRAIN, POST_EVAL, POST_DEPLOY, POST_INFERENCE };
const char *post_kind_word(enum post_kind k); /* as in the body: "train", "eval", "deploy", "inference" */
enum post_status { POST_NO_STATUS, POST_RUNNING, POST_COMPLETED, POST_FAILED };

/* The body of POST /sedna/workers/{worker}/info. */
typedef struct worker_post {
	arena *mem;
	const char *worker, *ns, *job;
	enum post_kind kind;
	enum post_status status; /* NO_STATUS: only with POST_INFERENCE */
	model *results;          /* in the order posted; without url they are left out */
	size_t n_results;
	const cJSON *owner_info; /* an object, or NULL */
} worker_post;
/* `worker` is the name in the path. On failure *http is 400 (not JSON, wrong types, names differ), 413 or 422 (unknown ownerKind or kind;
 * completed without a usable result) and err says why, for the answer's Message. */
int worker_post_decode(const char *worker, const char *data, size_t len, worker_post **out, int *http, error *err);
/* Compact JSON of a post, such that decoding gives it back (for the provisional store). */
char *worker_post_encode(const worker_post *p);
void worker_post_free(worker_post *p);

#endif
