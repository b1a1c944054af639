/* What is written down of a version, a model that was deployed and is kept: `version.json`, beside the model in the version's folder.
 *
 *   {"v":1,"job":uid,"round":12,"time":…,"of"?:10,"model"?:{"name","sha256","bytes","folder"?,"format"?,"metrics"?}}
 *
 * `of` is the version that a rollback took it from. Without `model` nothing was there, which is possible for version 0 alone. It is part of what
 * makes a version whole: the folder gets its name when both are in it. It says what the model was when it was deployed; whether the model
 * still is that is for its reader to find out. Pure, but for version_read; any thread.
 */
#ifndef EDGE_STORAGE_VERSION_H
#define EDGE_STORAGE_VERSION_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

#define VERSION_FILE "version.json"
enum { VERSION_MAX = 256 * 1024 };

typedef struct version {
	cJSON *tree; /* owns the texts of one that was read; NULL otherwise */
	const char *uid;
	int64_t round;    /* whose deployment it was; 0: what was there first */
	int64_t of;       /* -1: no rollback */
	const char *name; /* of the model in the folder; NULL: there is none, and the rest says nothing */
	digest sha256;
	int64_t bytes;
	bool folder;
	const char *format;   /* NULL or "": not known */
	const cJSON *metrics; /* any JSON; NULL: not known */
} version;

/* The text of the file, to be freed. */
char *version_encode(const version *v, int64_t unix_ms);
/* INVALID if it is none, UNSUPPORTED if it is of a later kind. To be ended with version_fini, also after an error. */
int version_decode(const char *text, size_t len, version *out, error *err);
/* Of the version in this folder. NOT_FOUND: it has none. */
int version_read(const char *folder, version *out, error *err);
void version_fini(version *v);

/* The name that a model from this url or path has in its version: the last part, or another one where that is version.json's. To be freed. */
char *version_model_name(const char *from);

#endif
