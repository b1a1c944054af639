/* Exponential back-off with full jitter: see backoff.h. */
#include "common/mqtt/backoff.h"

static uint32_t spread(uint32_t from, uint32_t to, uint32_t random)
{
	return from + (uint32_t)(((uint64_t)(to - from) * random) >> 32);
}

uint32_t backoff_next(struct backoff *b, uint32_t random)
{
	uint64_t ceiling = b->failures < 32 ? (uint64_t)b->min_ms << b->failures : b->max_ms;

	if (ceiling > b->max_ms)
		ceiling = b->max_ms;
	if (b->failures < UINT32_MAX)
		b->failures++;
	return spread(0, (uint32_t)ceiling, random);
}

uint32_t backoff_long(struct backoff *b, uint32_t random)
{
	if (b->failures < UINT32_MAX)
		b->failures++;
	return spread(b->max_ms / 2, b->max_ms, random);
}

void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}
