/* Kubernetes Events of what happens to jobs, for `kubectl describe`: one object for the same thing said again, with a count.
 *
 * Says which request comes next; sends nothing itself. What cannot be sent in time is dropped, and counted: Events are news, no record. Pure.
 */
#ifndef CLUSTER_KUBE_RECORDER_H
#define CLUSTER_KUBE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/moment.h"

typedef struct recorder recorder;

/* component: who says it ("ilmare-cloud"); instance: which of them. */
recorder *recorder_new(const char *component, const char *instance, uint64_t seed);
void recorder_free(recorder *r);

/* About a job. The newest 256 different ones are remembered. */
void recorder_say(recorder *r, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message,
	moment now);

typedef struct recorder_request {
	const char *method; /* POST, PATCH */
	char *path, *body;  /* to be freed */
	const char *content_type;
	uint64_t id;
} recorder_request;

/* One at a time: after it recorder_answer is due. */
bool recorder_next(recorder *r, moment now, recorder_request *out);
/* code: 0 or an error_code. A count whose Event has expired is begun anew; all else is given up. */
void recorder_answer(recorder *r, uint64_t id, int code);
bool recorder_due(const recorder *r); /* recorder_next has something */
int64_t recorder_dropped(const recorder *r);

#endif
