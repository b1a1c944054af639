/* What the local backend knows, in SQLite: the objects of the manifests, the pods, and the epoch of the leadership.
 *
 * An object is found by kind, namespace and name; its uid is made when it is first seen and goes with it when it is removed, so a name that
 * comes back is another object. resourceVersion is one counter for all; each change of anything takes the next. Every function is one
 * transaction, committed with an fsync before it returns, except between objects_begin and objects_end. Values of Secrets are never
 * stored, only their metadata and a digest, with a salt of this store, by which it is seen that one was changed. Objects that are handed out are Kubernetes JSON and belong to the caller. Loop thread.
 */
#ifndef LOCAL_OBJECTS_H
#define LOCAL_OBJECTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/cluster/local/manifests.h"
#include "common/error.h"

typedef struct objects objects;

/* Open, or make. A file that is damaged is renamed to `{path}.bad-N`, said in the log, and a new one begun. A file of a newer version of
 * this program is refused (UNSUPPORTED). */
int objects_open(const char *path, objects **out, error *err);
void objects_close(objects *o); /* NULL is fine */

/* Store and give max(the one stored + 1, at_least). */
int objects_next_epoch(objects *o, int64_t at_least, int64_t *epoch, error *err);

/* Make several calls one transaction. objects_end commits if `code` is 0 and the commit works, else takes all back; gives what became of it. */
int objects_begin(objects *o, error *err);
int objects_end(objects *o, int code, error *err);
/* The same, but if it is the outermost one its commit is not flushed to the disk: a power failure may take it back, with all after it up to
 * the next one that is. For what is written down elsewhere too. */
int objects_begin_relaxed(objects *o, error *err);

/* Make the object what the manifest says; `source` is the file's name. *changed is the object as it is now, or NULL if nothing is new. */
int objects_apply(objects *o, const manifest *m, const char *source, cJSON **changed, error *err);
int objects_remove(objects *o, enum object_kind kind, const char *ns, const char *name, error *err); /* 0 too if it is not there */
int objects_get(objects *o, enum object_kind kind, const char *ns, const char *name, cJSON **out, error *err);

typedef struct object_key {
	enum object_kind kind;
	char *ns, *name, *source; /* source: "" for pods */
} object_key;
/* All keys but those of pods, or those of pods alone, in the order of kind, namespace, name. */
int objects_keys(objects *o, bool pods, object_key **keys, size_t *n, error *err);
void object_keys_free(object_key *keys, size_t n);
int object_key_compare(enum object_kind kind_a, const char *ns_a, const char *name_a, enum object_kind kind_b, const char *ns_b,
	const char *name_b);

/* Merge patch of the status. CONFLICT, with *out as it is, unless both guards hold (a NULL guard always does); NOT_FOUND. A patch that
 * changes nothing takes no new resourceVersion. *was (may be NULL): the status before, if it was changed, else NULL. */
int objects_patch_status(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *patch, cJSON **out, cJSON **was, error *err);

/* Set annotations (a text) and take them away (null), guarded as above. The manifest is the user's and stays as it is: what is taken away of it
 * does not count until the manifest has another value, or none, for a while; what is set is beside it. */
int objects_annotate(objects *o, enum object_kind kind, const char *ns, const char *name, const char *uid, const char *version,
	const cJSON *annotations, cJSON **out, error *err);

/* `pod` as it was asked for; its uid and creation time are made here, unless its metadata names a uid. EXISTS with *out as it is. */
int objects_add_pod(objects *o, const char *ns, const char *name, const cJSON *pod, cJSON **out, error *err);
/* Set deletionTimestamp, if there is none yet. */
int objects_mark_deleting(objects *o, const char *ns, const char *name, cJSON **out, error *err);

/* A random (version 4) uid. */
void uid_make(char out[37]);
/* "2026-11-30T04:00:00Z" */
void stamp_make(char out[32]);

#endif
