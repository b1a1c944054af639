/* How long to wait before the next attempt: exponential, with full jitter, so that a thousand devices which lost one broker at the same
 * moment do not come back at the same moment. Pure; the caller brings the random number.
 */
#ifndef COMMON_MQTT_BACKOFF_H
#define COMMON_MQTT_BACKOFF_H

#include <stdint.h>

struct backoff {
	uint32_t min_ms, max_ms; /* 0 < min_ms <= max_ms */
	uint32_t failures;       /* in a row */
};

/* Counts a failure. The n-th wait (from 0) is evenly spread over 0 … min(max_ms, min_ms * 2^n). `random` is evenly spread over all values. */
uint32_t backoff_next(struct backoff *b, uint32_t random);
/* For a conflict that a retry would only repeat: spread over max_ms / 2 … max_ms. Counts a failure. */
uint32_t backoff_long(struct backoff *b, uint32_t random);
void backoff_reset(struct backoff *b);

#endif
