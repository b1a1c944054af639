/* The library's side of a client: one thread that makes every call of Paho and of the resolver, so that the loop never waits for either.
 *
 * Why a thread: Paho 1.3 has one global lock, which it holds while it resolves a name, starts a connection, shakes hands, and while it
 * calls back; and destroying its last client takes up to a second and more. None of that may stop the loop, and a callback that waits
 * for room in the inbox must not end in a loop that waits for the callback.
 *
 * An attempt is link_open … EVENT_CLOSED. Each uses a Paho client of its own, destroyed at the end: nothing (queued messages, in-flight
 * messages, half-read packets, a resolved address) goes over from one to the next. Every event carries its attempt's number.
 *
 * Jobs are done in order. How many wait is bounded by the caller's window. Loop thread, all of it.
 */
#ifndef COMMON_MQTT_LINK_H
#define COMMON_MQTT_LINK_H

#include "common/mqtt/config.h"
#include "common/mqtt/inbox.h"

struct link;

/* Takes the settings. */
struct link *link_new(struct settings *settings, uv_async_t *wake);
/* Starts the thread if need be. Ends in EVENT_UP or EVENT_OPEN_ERROR, some time. `address` picks one of the name's addresses, modulo. */
void link_open(struct link *l, uint32_t attempt, size_t broker, uint32_t address);
/* -> EVENT_SUBSCRIBED. `again`: for the retained messages, which come even where the subscription wants them only if it is new. */
void link_subscribe(struct link *l, size_t index, bool again);
void link_publish(struct link *l, struct message *m); /* takes it -> EVENT_PUBLISHED */
/* Something small that every broker answers at once -> EVENT_PROBED. */
void link_probe(struct link *l);
/* Ends the attempt, in whatever state: polite to the broker if it is connected (so no will) -> EVENT_CLOSED. Once per attempt. */
void link_close(struct link *l);
struct event *link_events(struct link *l, uint64_t *dropped);
/* Nothing but a name server is being waited for: there is nothing to close politely. */
bool link_is_resolving(const struct link *l);
/* No attempt is open. Ends the thread. */
void link_free(struct link *l);
/* In any state: nothing is told any more; the thread cleans up when the library lets it. */
void link_abandon(struct link *l);

#endif
