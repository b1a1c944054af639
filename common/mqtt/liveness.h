/* Is the other end still there? Decides when to ask (a probe) and when to give up. Pure: the caller brings the time and does both.
 *
 * A cut without a reset leaves a socket that looks connected for ever, and the library finds that out only after two and a half
 * keep-alives, if at all. So: when nothing was exchanged for 0.9 keep-alives, ask; when something waits for an answer and nothing came for
 * 0.5 keep-alives, plus the time that the waiting bytes take at LIVENESS_BYTES_PER_MS, it is dead. Idle that makes 1.4 keep-alives.
 * An exchange is an answer to something sent, or a message that we acknowledge: both ways were open. Times are in milliseconds of one
 * monotonic clock.
 */
#ifndef COMMON_MQTT_LIVENESS_H
#define COMMON_MQTT_LIVENESS_H

#include <stddef.h>
#include <stdint.h>

enum { LIVENESS_BYTES_PER_MS = 4 };

enum liveness_verdict { LIVENESS_FINE, LIVENESS_PROBE, LIVENESS_DEAD };

struct liveness {
	uint64_t keep_alive_ms;
	uint64_t last_exchange;
	uint64_t waiting_since; /* when `waiting` left 0; means nothing while it is 0 */
	size_t waiting, waiting_bytes;
};

void liveness_init(struct liveness *l, uint64_t keep_alive_ms, uint64_t now);
/* Something that has to be answered was sent: a publish, a subscription, a probe. */
void liveness_sent(struct liveness *l, size_t bytes, uint64_t now);
/* It was answered. */
void liveness_answered(struct liveness *l, size_t bytes, uint64_t now);
/* A message came that gets acknowledged. */
void liveness_heard(struct liveness *l, uint64_t now);
/* `*next`: when to look again, always after `now` unless the verdict asks for something to be done. */
enum liveness_verdict liveness_check(const struct liveness *l, uint64_t now, uint64_t *next);

#endif
