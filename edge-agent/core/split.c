/* The split as an accumulator, like the one that draws a line on a grid: with n p + 1e-9 = whole + rest, sample n trains exactly when rest
 * and p together reach 1. All numbers are integers in units of 10^-15, so nothing is ever rounded. Products of two 50-bit numbers do not fit
 * in 64 bits, and 128-bit integers are missing on 32-bit machines, so the start value is made bit by bit.
 */
#include "edge-agent/core/split.h"

static const uint64_t ONE = UINT64_C(1000000000000000); /* 1.0 */
static const uint64_t NUDGE = 1000000;                  /* 1e-9 */

static uint64_t share_of(double p)
{
	if (!(p > 0))
		return 0; /* not a number included */
	if (p >= 1)
		return ONE;
	return (uint64_t)(p * (double)ONE + 0.5);
}

/* The whole part of n p + 1e-9; what is over goes to *rest. Invariant: whole * ONE + left = (bits of n so far) * share. */
static uint64_t whole_of(uint64_t n, uint64_t share, uint64_t *rest)
{
	uint64_t whole = 0, left = 0;
	for (int bit = 63; bit >= 0; bit--) {
		whole *= 2;
		left *= 2;
		if (left >= ONE) {
			left -= ONE;
			whole++;
		}
		if ((n >> bit & 1) == 0)
			continue;
		left += share;
		if (left >= ONE) {
			left -= ONE;
			whole++;
		}
	}
	left += NUDGE;
	if (left >= ONE) {
		left -= ONE;
		whole++;
	}
	*rest = left;
	return whole;
}

void split_start(split *s, int64_t n, double p)
{
	s->share = share_of(p);
	(void)whole_of((uint64_t)n, s->share, &s->rest);
}

bool split_next(split *s)
{
	s->rest += s->share;
	if (s->rest < ONE)
		return false;
	s->rest -= ONE;
	return true;
}

bool split_trains(int64_t n, double p)
{
	split s;
	split_start(&s, n, p);
	return split_next(&s);
}

int64_t split_count(int64_t from, int64_t to, double p)
{
	uint64_t rest, share = share_of(p);
	if (to <= from)
		return 0;
	return (int64_t)(whole_of((uint64_t)to, share, &rest) - whole_of((uint64_t)from, share, &rest));
}
