/* A deployment: the model of a round is put where it is served from, and versions are kept to go back to.
 *
 * In this order, each durable before the next:
 *   1. What is served now is kept as `{outputDir}/deployed/0/{name}`, once: if `deployed/0` is not there. If nothing is served yet, a
 *      `deployed/0` without a model says so.
 *   2. The new model is kept as `{outputDir}/deployed/{round}/{name}`. What there is to know of a version is beside its model (version.h).
 *   3. The steps, as given: each copies a model (model.h) or writes a small file.
 *   4. Of the versions beside 0, all but the newest ones of this job, this round's, and the one that a rollback goes back to are removed: those
 *      of a job that had the folder before go first.
 * A rollback is a deployment whose model is a version's: first of all its digest has to be the one that was recorded (else CHANGED); it stays a
 * version itself, so that it is there if this has to be run again.
 * Before all that: where a file would take a folder's place, or a folder a file's, the deployment is refused (INVALID) and nothing is touched,
 * but for what one of the versions beside 0 holds as well, which a deployment before has put there.
 * Running it again, after it was killed anywhere, gives the same result. Paths are real ones. Blocking; any thread; one at a time for one
 * output folder and for one target.
 */
#ifndef EDGE_STORAGE_DEPLOY_H
#define EDGE_STORAGE_DEPLOY_H

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "edge-agent/storage/model.h"

enum { DEPLOY_KEEP_DEFAULT = 3 };

typedef struct deploy_step {
	const char *to;
	const char *from; /* the model to copy; NULL: write `text` */
	const char *text;
	bool remote; /* `to` is not of this machine: plan->remote puts it there */
} deploy_step;

/* What is done with things that are not of this machine. */
typedef struct deploy_remote {
	void *ctx;
	int (*kept)(void *ctx, error *err); /* the versions are in output_dir; before any step */
	int (*put)(void *ctx, const deploy_step *step, error *err);
} deploy_remote;

typedef struct deploy_back { /* a rollback */
	int64_t of;              /* the version */
	digest sha256;
} deploy_back;

typedef struct deploy_plan {
	const char *output_dir; /* NULL: keep no versions (1, 2 and 4 are left out) */
	int64_t round;          /* from 1 */
	const deploy_step *steps;
	size_t n;
	size_t main;                 /* the step whose target is the one that serves: its model is the one that is kept and told */
	const char *uid;             /* of the job; this and the next two are for people who read a version. NULL: not known */
	const char *format;          /* of the main step's model; with `back` what its version says counts */
	const cJSON *metrics;        /* the same */
	const deploy_back *back;     /* NULL: the model is new */
	size_t keep;                 /* versions beside 0; 0 counts as DEPLOY_KEEP_DEFAULT */
	const char *served;          /* a copy of what is served now; NULL: look at the main step's target */
	const deploy_remote *remote; /* NULL: all is of this machine */
	const atomic_bool *stop;     /* NULL, or set by another thread to give up (TIMEOUT) */
} deploy_plan;

/* *out: the model that is now at the main step's target. After an error each target holds its old model or its new one; run it again. */
int deploy_run(const deploy_plan *plan, model_info *out, error *err);

typedef struct deploy_found {
	int64_t round;
	bool foreign; /* of another job, which had this folder before */
	bool superfluous;
} deploy_found;
/* Which of the versions (highest number first) go: foreign ones before our own. */
void deploy_superfluous(const deploy_plan *plan, deploy_found *all, size_t n);

typedef struct deploy_version {
	int64_t round;
	char *name;
	digest sha256;
} deploy_version;
/* The versions below an output folder that hold a model and tell what it is, newest first. None is no error. uid: of this job alone, and what
 * was there first; NULL: of any. */
int deploy_versions(const char *output_dir, const char *uid, deploy_version **all, size_t *n, error *err);
void deploy_versions_free(deploy_version *all, size_t n);

#endif
