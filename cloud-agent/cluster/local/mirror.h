/* The folder of manifests, mirrored into the store of objects.
 *
 * Something new or changed takes effect at once; something that is no longer there is removed only when it has been missing for a while,
 * since editors and version control take a file away for a moment before they put the new one there. A folder that cannot be read changes
 * nothing. What one look finds is told together: what jobs name before the jobs, and what is gone after that, jobs first. Loop thread.
 */
#ifndef LOCAL_MIRROR_H
#define LOCAL_MIRROR_H

#include <uv.h>

#include "cloud-agent/cluster/local/local.h"
#include "cloud-agent/cluster/local/objects.h"

typedef struct mirror mirror;

typedef struct mirror_host {
	uv_loop_t *loop;
	objects *store;
	const cluster_local_config *config;
	/* An object is like this now, or (NULL) gone. Takes the object. */
	void (*object)(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object);
	/* Around the objects of one look at the folder. */
	void (*together)(void *ctx, bool begin);
	/* The folder has been read completely for the first time, and all objects were told. If it fails all of that comes again. */
	int (*read)(void *ctx, error *err);
	void *ctx;
} mirror_host;

/* Looks at the folder from the loop. */
mirror *mirror_new(const mirror_host *host);
const cJSON *mirror_secret(const mirror *m, const char *ns, const char *name); /* a Secret's values, or NULL */
/* Why the folder could not be taken over at the last look, or NULL; until the next look. */
const char *mirror_trouble(const mirror *m);
/* `closed` is called from the loop when nothing is left there; the mirror is freed by then. */
void mirror_free(mirror *m, void (*closed)(void *ctx), void *ctx);

#endif
