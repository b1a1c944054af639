/* Which samples train and which evaluate.
 *
 * Sample n (from 0) trains if floor((n + 1) p + 1e-9) > floor(n p + 1e-9), so among the first n samples floor(n p + 1e-9) train, whatever
 * the batches they arrived in, and a sample that goes back to the pool keeps its side.
 *
 * p is taken as a decimal number of 15 places, which is what people write (0.29 is 29/100, although no double is), and all else is done in
 * integers: so the rule is exact and monotone for every n up to 2^53 and the same on every machine. p below 0 or not a number counts as 0,
 * above 1 as 1. Pure; any thread.
 */
#ifndef EDGE_CORE_SPLIT_H
#define EDGE_CORE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

/* Walks over consecutive samples at the cost of an addition each. */
typedef struct split {
	uint64_t share; /* p in units of 10^-15 */
	uint64_t rest;  /* the fraction of n p + 1e-9, in the same units */
} split;

/* The next sample that split_next speaks of is number n >= 0. */
void split_start(split *s, int64_t n, double p);
/* True if that sample trains; steps to the next one. */
bool split_next(split *s);

bool split_trains(int64_t n, double p);
/* How many of the samples [from, to) train; 0 if the range is empty. 0 <= from. */
int64_t split_count(int64_t from, int64_t to, double p);

#endif
