/* One kind's objects (of one namespace, or of all) as the API server holds them: a consistent list, then a watch from where it ended, for ever.
 *
 * Says which request comes next and takes what it brings; sends nothing itself. Whoever owns it hears of each object once per version, in order,
 * and of each that is gone. What our own writes are answered counts too (reflector_wrote), so that an event from before them is not news.
 *
 * A list is read in pages, without a version, so that it is what the server holds now. Relisted is after 410 in an answer or in the stream, after
 * several watches in a row that brought nothing but errors, and when asked. While a list is incomplete nothing counts as gone. Pure.
 */
#ifndef CLUSTER_KUBE_REFLECTOR_H
#define CLUSTER_KUBE_REFLECTOR_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/cluster/kube/watch_lines.h"
#include "cloud-agent/core/controller.h"
#include "common/moment.h"

typedef struct reflector reflector;

/* object: taken; NULL: gone. */
typedef void (*reflector_object)(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object);

/* ns NULL: of all namespaces. */
reflector *reflector_new(enum object_kind kind, const char *ns, uint64_t seed, reflector_object object, void *ctx);
void reflector_free(reflector *r);

enum reflector_step { REFLECTOR_WAIT, REFLECTOR_LIST, REFLECTOR_WATCH };
typedef struct reflector_request {
	char *path;      /* to be freed */
	int64_t idle_ms; /* watch: the server ends it before; a stream that is silent for so long is dead */
} reflector_request;

/* What to send now. If a request of this reflector is under way, the new one takes its place: it is to be cancelled. */
enum reflector_step reflector_next(reflector *r, moment now, reflector_request *out);
/* When to ask again without anything having happened. */
int64_t reflector_wake(const reflector *r);

void reflector_page(reflector *r, cJSON *page, moment now);                          /* a list's answer; taken */
void reflector_event(reflector *r, enum watch_type type, cJSON *object, moment now); /* taken */
/* The request has ended: a list that failed, or a watch, code 0 if as it should. */
void reflector_ended(reflector *r, int code, const char *text, int64_t retry_after_ms, moment now);
/* What a write of ours was answered with. */
void reflector_wrote(reflector *r, const cJSON *object);

void reflector_relist(reflector *r, moment now);
bool reflector_synced(const reflector *r);         /* the list is complete, and the watch goes on from it */
const char *reflector_problem(const reflector *r); /* why nothing comes; "" if all is well */

#endif
