/* Who leads: one Lease object, held by one agent at a time.
 *
 * Says which request comes next and takes its answer; sends nothing itself. Whoever holds the Lease renews it; the others watch its version,
 * and take it when it has not changed for as long as it says, or when it was given back. Times of other machines are never compared: what counts
 * is how long we have seen the same version.
 *
 * The epoch of the leadership is in the annotation `ilmare/epoch`; it is written with the Lease, before anything is done by it: each time the
 * Lease is taken, and when a higher one was seen elsewhere (lease_raise). Above all that was there, and at least the seconds since 1970.
 *
 * Given back, it has no holder, and another may take it at once. The last request of an agent that stops may be one that takes or renews the
 * Lease; only when its answer is known is there a version that can be written over.
 *
 * The fence: a leader may write until `renew_ms` after it *asked for* its last successful renewal; others cannot have taken the Lease before
 * `duration_ms` have passed, and what was sent before the fence has the difference to arrive. Pure.
 */
#ifndef CLUSTER_KUBE_LEASE_H
#define CLUSTER_KUBE_LEASE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/moment.h"

typedef struct lease_config {
	const char *ns, *name, *identity;
	int64_t duration_ms, renew_ms, retry_ms; /* 15, 10, 2 s */
	uint64_t seed;
} lease_config;

typedef struct lease lease;

lease *lease_new(const lease_config *config); /* copies */
void lease_free(lease *l);

typedef struct lease_request {
	const char *method; /* GET, POST, PUT */
	char *path;         /* to be freed */
	char *body;         /* to be freed; NULL: none */
} lease_request;

/* The next request, or false. One at a time: after it lease_answer is due. */
bool lease_next(lease *l, moment now, lease_request *out);
int64_t lease_timeout(const lease *l); /* of a request, so that after one that is lost there is time for another before the fence */
/* code: 0, or an error_code with its text; object: the Lease as answered (not taken), or NULL. */
void lease_answer(lease *l, int code, const char *text, const cJSON *object, moment now);
int64_t lease_wake(const lease *l);

/* An epoch above `above` is wanted by the leader; known when lease_epoch says so, or when the lead is lost. */
void lease_raise(lease *l, int64_t above);
/* It is to be given back: lease_next says what that takes until lease_over. A request that is under way is waited for, since nothing could be
 * written over what it may have done; if it was lost, the Lease is read first. */
void lease_release(lease *l);
/* Nothing more is to be asked: it is given back, or held by somebody else, or cannot be had within a few requests. */
bool lease_over(const lease *l);
bool lease_released(const lease *l); /* given back by us */

bool lease_leads(const lease *l);         /* not once it is to be given back */
int64_t lease_epoch(const lease *l);      /* while it leads */
int64_t lease_fence(const lease *l);      /* monotonic ms */
const char *lease_holder(const lease *l); /* of another; "" if nobody or unknown */
/* Why nobody leads, as far as is known here: the last answer's words; "" if somebody does, or nothing is wrong. */
const char *lease_trouble(const lease *l, moment now);

#endif
