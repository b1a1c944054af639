/* The rounds whose eval samples a round is evaluated with: its own and those of the five latest earlier rounds whose training completed.
 *
 * Which earlier rounds completed is read from the ranges of samples alone, without asking anybody: a round that failed gave its samples
 * back, so the round after it begins where it began. Hence the completed round before one that begins at sample F is the highest earlier
 * round that ends at F, and so on backwards. Empty ranges are passed over. Pure; any thread.
 */
#ifndef EDGE_CORE_WINDOW_H
#define EDGE_CORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINDOW_MAX = 6 };

typedef struct window_round { /* of one job: round `round` holds the samples [from, to) */
	int64_t round, from, to;
} window_round;

typedef struct window {
	int64_t rounds[WINDOW_MAX]; /* newest first */
	size_t n;
	int64_t last, from; /* the oldest round taken, and its first sample */
} window;

/* Step by step, so that who reads manifests from a disk need not read more of them than it takes. */
void window_start(window *w, const window_round *present);
/* Offer the rounds below the present one, highest first. False once no more can be taken. */
bool window_offer(window *w, const window_round *r);

#endif
