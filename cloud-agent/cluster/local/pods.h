/* Pods of the local backend: rows in the store of objects, run as workers.
 *
 * The row is committed before anything else happens, and says what became of the worker: Pending, Running, Succeeded, Failed. Loop thread.
 */
#ifndef LOCAL_PODS_H
#define LOCAL_PODS_H

#include <uv.h>

#include "cloud-agent/cluster/local/launch.h"
#include "cloud-agent/cluster/local/local.h"
#include "cloud-agent/cluster/local/objects.h"

typedef struct pods pods;

typedef struct pods_host {
	uv_loop_t *loop;
	objects *store;
	const cluster_local_config *config; /* with all defaults filled in; paths absolute */
	/* A pod is like this now, or (NULL) gone. Takes the object. */
	void (*object)(void *ctx, const char *ns, const char *name, cJSON *object);
	const cJSON *(*secret)(void *ctx, const char *ns, const char *name);
	void *ctx;
} pods_host;

pods *pods_new(const pods_host *host);
/* Find what earlier agents left: `object` is called for every pod. When Secrets can be answered for; again if it fails. */
int pods_start(pods *p, error *err);
/* *out: the pod as it is (EXISTS: the one that is there). A pod that cannot be run is created and Failed, with the reason in its status. */
int pods_create(pods *p, const char *ns, const char *name, const cJSON *pod, cJSON **out, error *err);
/* It goes as soon as its worker has ended; `object` tells both. CONFLICT, with *out as it is, if the uid is another's; NOT_FOUND. */
int pods_delete(pods *p, const char *ns, const char *name, const char *uid, cJSON **out, error *err);
/* `closed` is called from the loop, or from inside, when nothing is left there; with end_workers every worker is ended first. */
void pods_stop(pods *p, bool end_workers, void (*closed)(void *ctx), void *ctx);
void pods_free(pods *p); /* never started, or closed. NULL is fine */

#endif
