/* The cluster as the cloud agent sees it: one interface, two implementations (kube/, local/).
 *
 * All calls and callbacks are on the loop thread. An operation's callback comes exactly once, possibly before the call returns, never after
 * cluster_free. What an operation with an id points to is valid until its callback is called, or `stop`. Objects
 * are Kubernetes JSON, as core/controller.h says; those handed to callbacks belong to the receiver.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/core/controller.h"
#include "common/error.h"

typedef struct cluster cluster;

typedef struct cluster_events {
	void *ctx;
	void (*object)(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object); /* NULL: gone */
	/* The objects that are told between (true) and (false) changed at the same moment: nothing is to be decided on a part of them. May be NULL. */
	void (*together)(void *ctx, bool begin);
	void (*synced)(void *ctx, bool synced);
	void (*lead)(void *ctx, int64_t epoch);
	void (*resign)(void *ctx);
	void (*fence)(void *ctx, int64_t mono_ms);
} cluster_events;

/* code: 0 or a negative error_code; text: of the error; object: as it is now, or NULL; retry_after_ms: 0 if the cluster did not say. */
typedef void (*cluster_done)(void *ctx, uint64_t id, int code, const char *text, cJSON *object, int64_t retry_after_ms);

/* A Secret as it is now. code 0: `object` has its metadata; key_id and key are its values ACCESS_KEY_ID and SECRET_ACCESS_KEY, NULL if it has no
 * such value, or none that is text. All of it is the cluster's, and overwritten when this returns. */
typedef void (*cluster_secret)(void *ctx, int code, const char *text, const cJSON *object, const char *key_id, const char *key);

typedef struct cluster_ops {
	/* Begin: list, watch, lead. Events may come from inside. */
	int (*start)(cluster *c, error *err);
	/* guarded by uid and resourceVersion (CONFLICT), merge patch of .status */
	void (*patch_status)(cluster *c, uint64_t id, enum object_kind kind, const char *ns, const char *name, const char *uid,
		const char *resource_version, const cJSON *status);
	/* The same of a job's annotations: those that are named, null takes one away. */
	void (*patch_annotations)(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid, const char *resource_version,
		const cJSON *annotations);
	void (*create_pod)(cluster *c, uint64_t id, const char *ns, const char *name, const cJSON *pod);
	void (*delete_pod)(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid);
	void (*event)(cluster *c, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message);
	/* For a node that asks for its keys. `done` is called exactly once: from inside, later, or from inside `stop`. */
	void (*read_secret)(cluster *c, const char *ns, const char *name, cluster_secret done, void *ctx);
	/* See CLOUD_RAISE_EPOCH. */
	void (*raise_epoch)(cluster *c, uint64_t id, int64_t above);
	/* What keeps it from being synced, for people; NULL: nothing that is known. Valid until the loop goes on. The op itself may be NULL. */
	const char *(*trouble)(const cluster *c);
	/* Why no agent leads, for people; NULL: one does, or nothing is known to be wrong. As `trouble`. */
	const char *(*unled)(const cluster *c);
	/* Stop writing, release the leadership; `stopped` (may be NULL) is called on the loop thread when nothing of it is
	 * left there. */
	void (*stop)(cluster *c, void (*stopped)(void *ctx), void *ctx);
	void (*free)(cluster *c);
} cluster_ops;

/* Every implementation begins with this. */
struct cluster {
	const cluster_ops *ops;
	cluster_events events;
	cluster_done done;
	void *done_ctx;
};

#endif
