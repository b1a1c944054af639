/* See random.h. */
#include "common/random.h"

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

int64_t random_below(uint64_t *state, int64_t below)
{
	return (int64_t)(random_next(state) % (uint64_t)below);
}

int64_t random_backoff(uint64_t *state, int64_t min, int64_t max, int failures)
{
	int64_t step = min;
	for (int i = 1; i < failures && step < max; i++)
		step *= 2;
	if (step > max)
		step = max;
	return step / 2 + random_below(state, step / 2 + 1);
}
