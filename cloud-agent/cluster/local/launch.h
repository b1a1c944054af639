/* From a pod to what its supervisor is told: the one container's command, its environment, folder and restart policy, and what fetches the
 * remote urls that it reads.
 *
 * A pod that cannot run here is refused with a reason and a text for its status. What has no meaning without containers is left out and
 * named, so that the user can be told once. Pure.
 */
#ifndef LOCAL_LAUNCH_H
#define LOCAL_LAUNCH_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/error.h"

typedef struct launch_host {
	const cJSON *env;   /* what every worker gets first: PATH, HOME, … */
	const char *folder; /* where a worker runs unless its pod says; absolute */
	/* Of what fetches: its program, what it gets first, and the folder that is /downloads to the pod; absolute. */
	const char *transfer;
	const cJSON *transfer_env;
	const char *downloads;
	/* A Secret's values, or NULL. */
	const cJSON *(*secret)(void *ctx, const char *ns, const char *name);
	void *ctx;
} launch_host;

typedef struct launch {
	cJSON *spec;        /* command, env, folder, restartPolicy, graceMs, pod, fetch (contract.h); to be freed */
	char *ignored;      /* "image, resources", or NULL; to be freed */
	const char *reason; /* on an error: a word for the pod's status */
} launch;

int launch_make(const cJSON *pod, const launch_host *host, launch *out, error *err);
void launch_fini(launch *l);

/* The pod's container's name; "" if there is none. */
const char *launch_container(const cJSON *pod);

#endif
