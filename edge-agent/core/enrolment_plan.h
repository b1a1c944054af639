/* When to ask for a certificate, and how to prove who we are. Pure.
 *
 * Asked for is one that is missing or over, and a new one when a third of the time of the present one is left, by this machine's clock, which may
 * jump: what is judged is the moment, never what a moment before said. By a clock that stands before the certificate's beginning nothing is asked,
 * since no endpoint's certificate would be valid by it either.
 *
 * The present certificate proves it, as long as it is valid; the token does, where there is none, or where the certificate was refused. At most
 * one attempt is under way. Failures: 1 s to 10 min between two, growing, with jitter; refusals: about 10 min. A clock that is set ends the wait
 * after a failure: a device whose clock begins in 1970 fails until then, and only because of it.
 */
#ifndef EDGE_CORE_ENROLMENT_PLAN_H
#define EDGE_CORE_ENROLMENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/moment.h"

enum {
	ENROLMENT_WAIT_MIN_MS = 1000,
	ENROLMENT_WAIT_MAX_MS = 10 * 60 * 1000,
	ENROLMENT_LOOK_MS = 60 * 1000, /* at least so often the clock, the files and the certificate are looked at again */
	ENROLMENT_SOON_MS = 5 * 1000,  /* the same while a token, the right time or the next attempt is waited for */
	ENROLMENT_JUMP_MS = 60 * 1000  /* a clock that has gone further than time did was set */
};

typedef struct enrolment_certificate {
	bool there;
	int64_t begins_ms, ends_ms; /* since 1970 */
} enrolment_certificate;

enum enrolment_need {
	ENROLMENT_NO_NEED,
	ENROLMENT_FIRST /* none that is valid */,
	ENROLMENT_RENEWAL,
	ENROLMENT_CLOCK /* it is not valid yet */
};
enum enrolment_way { ENROLMENT_WAIT, ENROLMENT_BY_TOKEN, ENROLMENT_BY_CERTIFICATE };
enum enrolment_outcome { ENROLMENT_DONE, ENROLMENT_FAILED, ENROLMENT_REFUSED };

typedef struct enrolment_plan {
	uint64_t random;
	enum enrolment_way running; /* WAIT: nothing is under way */
	bool certificate_refused;
	int failures;       /* in a row */
	int64_t not_before; /* monotonic */
	bool failed;        /* the last attempt did, without having been refused */
	int64_t clock_ms;   /* then: the wall clock less the monotonic one */
	int64_t ended_ms;   /* the end of the certificate that there was when the attempt began */
} enrolment_plan;

void enrolment_plan_init(enrolment_plan *p, uint64_t seed);
enum enrolment_need enrolment_need(const enrolment_certificate *c, int64_t unix_ms);
/* What to begin now, if anything; *wake: when to ask again, monotonic. token: there is one to be read. */
enum enrolment_way enrolment_plan_next(enrolment_plan *p, const enrolment_certificate *c, bool token, moment now, int64_t *wake);
/* The attempt is over; `c`: what there is now. One that brought nothing better has failed: then the authority itself ends. */
void enrolment_plan_ended(enrolment_plan *p, enum enrolment_outcome outcome, const enrolment_certificate *c, bool token, moment now);

#endif
