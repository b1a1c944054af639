/* Manifests: the bytes of a YAML file become objects, and a list of all that is wrong with it.
 *
 * Kinds: Dataset, Model, IncrementalLearningJob (sedna.io/v1alpha1) and Secret (v1), several documents a file. A document with a mistake is
 * left out whole; the others of its file are taken, and the file is marked `broken`, so that its reader can keep what it had before. A job that
 * is well-formed, but whose pods could not be run, is taken with the annotation ANNOTATION_REFUSED, so that it can show why. Pure.
 */
#ifndef LOCAL_MANIFESTS_H
#define LOCAL_MANIFESTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "cloud-agent/core/controller.h"

enum { MANIFEST_FILE_MAX = 1024 * 1024, MANIFEST_DOCUMENTS_MAX = 256, MANIFEST_PROBLEMS_MAX = 32 };

typedef struct manifest {
	enum object_kind kind; /* OBJECT_JOB, OBJECT_DATASET, OBJECT_MODEL, OBJECT_SECRET */
	char *ns, *name;
	int line;    /* where the document begins */
	cJSON *meta; /* "labels" and "annotations", as far as they are there */
	cJSON *spec; /* NULL for a Secret */
	cJSON *data; /* Secret: {key: text}; wiped when freed. NULL for all else */
} manifest;

typedef struct manifest_problem {
	bool warning; /* nothing is left out but what it names */
	bool refused; /* the job is taken, to be shown, not to be run */
	char *text;   /* "jobs.yaml:12: spec.dataset.name: is missing" */
} manifest_problem;

typedef struct manifest_file {
	manifest *items;
	size_t n;
	manifest_problem *problems; /* at most MANIFEST_PROBLEMS_MAX, the last of them then says that there are more */
	size_t n_problems;
	bool broken; /* there is an error among the problems */
} manifest_file;

/* `name` begins every text. Always leaves a valid *out, to be emptied with manifest_file_fini. */
void manifest_parse(const char *name, const char *data, size_t len, manifest_file *out);
void manifest_file_fini(manifest_file *file);

/* "sedna.io/v1alpha1", "v1"; "Dataset" … for all kinds that the local backend holds, pods included. */
const char *manifest_api_version(enum object_kind kind);
const char *manifest_kind(enum object_kind kind);

/* Free, after overwriting every text in it. */
void secret_delete(cJSON *data);

#endif
