/* A token bucket: `rate` requests a second on average, `burst` at once. Pure.
 */
#ifndef CLUSTER_KUBE_LIMITER_H
#define CLUSTER_KUBE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct limiter {
	int64_t rate, burst;
	int64_t milli; /* thousandths of a token */
	int64_t at;    /* when it held them, monotonic ms */
} limiter;

void limiter_init(limiter *l, int64_t rate, int64_t burst, int64_t mono_ms); /* full */
bool limiter_take(limiter *l, int64_t mono_ms);
int64_t limiter_next(const limiter *l); /* when the next one can be taken */
/* One can be taken and leaves half of `burst` for what is more urgent. */
bool limiter_spare(limiter *l, int64_t mono_ms);
int64_t limiter_next_spare(const limiter *l);

#endif
