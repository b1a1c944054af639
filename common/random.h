/* Numbers that only have to differ, for waits that are not to fall together: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The same state
 * gives the same numbers, on every machine. Pure. Not for anything that has to be secret: see clock.h for that. */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <stdint.h>

/* The next number, evenly spread over all; any state will do to begin with. */
uint64_t random_next(uint64_t *state);
/* From 0 to below it, which is above 0. */
int64_t random_below(uint64_t *state, int64_t below);
/* What to wait after the n-th failure in a row, from 1: between half and all of min * 2^(n-1), which grows to max. */
int64_t random_backoff(uint64_t *state, int64_t min, int64_t max, int failures);

#endif
