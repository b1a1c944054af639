/* Messages that own what they point to, in one block, so that they can be handed from thread to thread.
 *
 * The strings and bytes of `m` lie behind the struct itself; the payload is followed by a NUL that does not count.
 */
#ifndef COMMON_MQTT_MESSAGE_H
#define COMMON_MQTT_MESSAGE_H

#include <stdbool.h>

#include "common/error.h"
#include "common/mqtt/mqtt.h"

#define MESSAGE_CONTENT_TYPE "application/json"

struct message {
	struct message *next;
	int64_t token;
	struct mqtt_message m;
};

struct message *message_copy(const struct mqtt_message *m);
/* NULL is fine. A secret one is overwritten before. */
void message_free(struct message *m);
/* What it counts for in queues and counters: topic and payload, without overhead. */
size_t message_size(const struct mqtt_message *m);
/* Bytes of the PUBLISH packet around a payload for `topic`, at most. */
size_t message_overhead(const struct mqtt_message *m);
/* A topic to publish on: not empty, no wildcards, no control characters, at most 65535 bytes. 0 or ERROR_INVALID. */
int message_topic_check(const char *topic, error *err);

#endif
