/* What this client publishes: a bounded queue, and the window of what was handed over and is not acknowledged yet. Pure.
 *
 * The window is kept here and not left to Paho: its send thread, once blocked by the number in flight or by a full socket buffer, sleeps
 * for a second whatever happens. So it never gets more than it can send at once: `window` messages and OUTGOING_WINDOW_BYTES (one message
 * of any size always goes). Messages keep their order. Loop thread.
 */
#ifndef COMMON_MQTT_OUTGOING_H
#define COMMON_MQTT_OUTGOING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mqtt/message.h"

enum { OUTGOING_WINDOW_BYTES = 48 * 1024, OUTGOING_WINDOW_MAX = 256 };

struct outgoing {
	struct message *first, **last;
	size_t queued, queued_bytes, max_bytes;
	uint32_t window; /* messages in flight, at most */
	struct {
		int64_t token;
		size_t size;
		bool once;
		char *topic;
	} inflight[OUTGOING_WINDOW_MAX];
	size_t n_inflight, inflight_bytes;
	int64_t last_token;
};

void outgoing_init(struct outgoing *o, size_t max_bytes);
void outgoing_fini(struct outgoing *o);
/* Nothing is queued or in flight any more (a connection ended); tokens are never given twice. */
void outgoing_clear(struct outgoing *o);
/* Queue a copy: its token, or ERROR_LIMIT if the queue is full (an empty queue takes a message of any size). */
int64_t outgoing_put(struct outgoing *o, const struct mqtt_message *m);
/* The next message, if the window lets it go; the caller owns it, it counts as in flight. Else NULL. */
struct message *outgoing_next(struct outgoing *o);
/* What is told of a message that is not in flight any more. */
struct outgoing_done {
	size_t size;
	bool once;   /* it goes out at most once, so it is only sent; else acknowledged */
	char *topic; /* to be freed */
};
/* Acknowledged, or sent. False, with *done untouched, for a token that is not in flight. */
bool outgoing_acknowledge(struct outgoing *o, int64_t token, struct outgoing_done *done);
/* At most half full. */
bool outgoing_has_room(const struct outgoing *o);
/* At most a quarter full: time to tell somebody who was refused. Told at the half, he would be told again for each message that he adds. */
bool outgoing_is_low(const struct outgoing *o);
bool outgoing_is_empty(const struct outgoing *o); /* nothing queued, nothing in flight */

#endif
