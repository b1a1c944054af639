/* How many requests are let in: a bound for all, and one for each address below it, so that a single stranger does not shut out everybody else.
 *
 * Addresses share CROWD_SHARES buckets, by a digest with a seed that nobody knows: no list grows, and nobody can choose whom they share with. Of an
 * IPv6 address its first 64 bits count, as the rest is its owner's to choose; "::ffff:10.0.0.1" is 10.0.0.1. Devices behind one translated address
 * are one. Pure.
 */
#ifndef ENROLMENT_CROWD_H
#define ENROLMENT_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/cluster/kube/limiter.h"

enum { CROWD_SHARES = 256, CROWD_PER_SECOND = 20, CROWD_BURST = 100, CROWD_ONE_PER_SECOND = 10, CROWD_ONE_BURST = 50 };

typedef struct crowd {
	uint64_t seed;
	limiter all, shares[CROWD_SHARES];
} crowd;

void crowd_init(crowd *c, uint64_t seed, int64_t mono_ms);
/* One more from this numeric address, "" if it is not known. */
bool crowd_take(crowd *c, const char *address, int64_t mono_ms);

#endif
