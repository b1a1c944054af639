/* When to ask and when to give up on a connection: see liveness.h. */
#include "common/mqtt/liveness.h"

void liveness_init(struct liveness *l, uint64_t keep_alive_ms, uint64_t now)
{
	*l = (struct liveness){.keep_alive_ms = keep_alive_ms, .last_exchange = now};
}

void liveness_sent(struct liveness *l, size_t bytes, uint64_t now)
{
	if (l->waiting++ == 0)
		l->waiting_since = now;
	l->waiting_bytes += bytes;
}

void liveness_answered(struct liveness *l, size_t bytes, uint64_t now)
{
	l->last_exchange = now;
	if (l->waiting > 0)
		l->waiting--;
	l->waiting_bytes = l->waiting == 0 || bytes > l->waiting_bytes ? 0 : l->waiting_bytes - bytes;
}

void liveness_heard(struct liveness *l, uint64_t now)
{
	l->last_exchange = now;
}

enum liveness_verdict liveness_check(const struct liveness *l, uint64_t now, uint64_t *next)
{
	enum liveness_verdict then = LIVENESS_PROBE;

	if (l->waiting == 0) {
		*next = l->last_exchange + l->keep_alive_ms * 9 / 10;
	} else {
		uint64_t from = l->waiting_since > l->last_exchange ? l->waiting_since : l->last_exchange;

		*next = from + l->keep_alive_ms / 2 + l->waiting_bytes / LIVENESS_BYTES_PER_MS;
		then = LIVENESS_DEAD;
	}
	return now >= *next ? then : LIVENESS_FINE;
}
