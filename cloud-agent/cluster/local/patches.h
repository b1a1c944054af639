/* Status patches that come together are one transaction: a sync of the disk for all that one turn of the loop brings, not one for each.
 *
 * A patch is done in the turn after it, and answered when it is committed. What other operations do meanwhile is not delayed. Where the whole
 * cannot be committed each is done by itself, so that each has an answer of its own. Loop thread.
 */
#ifndef LOCAL_PATCHES_H
#define LOCAL_PATCHES_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <uv.h>

#include "cloud-agent/cluster/local/objects.h"

typedef struct patches patches;

typedef struct patch_request { /* what it points to is valid until it is answered */
	uint64_t id;
	enum object_kind kind;
	const char *ns, *name, *uid, *version;
	const cJSON *status;
} patch_request;

/* Takes the object. Never called from inside patches_add. */
typedef void (*patch_answer)(void *ctx, uint64_t id, int code, const error *err, cJSON *object);

patches *patches_new(uv_loop_t *loop, objects *store, patch_answer answer, void *ctx);
void patches_add(patches *p, const patch_request *request);
/* Do and answer what waits, from inside; then it goes, and `closed` is called from the loop. */
void patches_free(patches *p, void (*closed)(void *ctx), void *ctx);

#endif
