/* What the library's threads have to tell the loop: a bounded queue that wakes it.
 *
 * Invariants: events keep their order. Only messages are bounded (everything else answers something that the loop asked for, and that is
 * bounded). When it is full, the library's thread waits for the loop, which makes the broker wait through TCP; when its patience ends it
 * drops the message and counts it. That wait is why the loop must never need the library's lock (see link.h).
 *
 * Any thread, except where said.
 */
#ifndef COMMON_MQTT_INBOX_H
#define COMMON_MQTT_INBOX_H

#include <stdbool.h>
#include <uv.h>

#include "common/mqtt/message.h"

enum event_kind {
	EVENT_UP,         /* flag: session present; limits */
	EVENT_OPEN_ERROR, /* reason: MQTT's, above 0, or 0; text */
	EVENT_DOWN,       /* the same */
	EVENT_MESSAGE,    /* message; flag: it is acknowledged (QoS 1) */
	EVENT_PUBLISHED,  /* token, reason */
	EVENT_SUBSCRIBED, /* token: index of the subscription; reason */
	EVENT_PROBED,
	EVENT_CLOSED /* nothing of this attempt comes after it */
};

/* What the broker said in its CONNACK; 0: nothing. */
struct broker_limits {
	uint32_t receive_maximum, packet_size, keep_alive_s;
	bool no_retain, no_qos1;
};

struct event {
	struct event *next;
	enum event_kind kind;
	uint32_t attempt;
	int64_t token;
	int reason;
	bool flag;
	struct broker_limits limits;
	struct message *message; /* owned */
	char *text;              /* owned; NULL: none */
};

struct inbox;

/* `wake` gets uv_async_send while it is attached. */
struct inbox *inbox_new(uv_async_t *wake, size_t max_bytes, uint32_t patience_ms);
void inbox_free(struct inbox *b); /* with what is in it */
void event_free(struct event *e);

struct event *event_new(enum event_kind kind, uint32_t attempt);
/* Takes the event. */
void inbox_put(struct inbox *b, struct event *e);
/* Messages are worthless from now on (or again worth something): whoever waits for room stops waiting and drops, without counting. */
void inbox_refuse_messages(struct inbox *b, bool refuse);
/* Loop thread: all that is there, oldest first; adds what was dropped since the last time to *dropped. */
struct event *inbox_take(struct inbox *b, uint64_t *dropped);
/* Loop thread: the loop's side goes away, nothing wakes it any more. */
void inbox_detach(struct inbox *b);

#endif
