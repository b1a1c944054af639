/* What both agents do with their client in the same way: start it from their options, with a presence; say what their core wants said; leave.
 * Loop thread.
 *
 * Nobody has to log for the link: the client says when it connects, loses the connection, is refused, or loses messages.
 */
#ifndef COMMON_MQTT_AGENT_H
#define COMMON_MQTT_AGENT_H

#include "common/mqtt/options.h"

/* All of it is copied. */
typedef struct mqtt_agent {
	const char *client_id;
	const char *certificate_name; /* as in struct mqtt_config, and so is the next */
	bool other_name_refused;
	const char *presence, *will; /* topic, and what is published there if the agent dies */
	const struct mqtt_subscription *subscriptions;
	size_t n_subscriptions;
} mqtt_agent;

/* A client that has been started; NULL: `err` says what is wrong with the options. */
mqtt_client *mqtt_agent_start(uv_loop_t *loop, const mqtt_options *options, const mqtt_agent *agent, const struct mqtt_callbacks *callbacks,
	error *err);
/* What cannot go is logged, except that the link is down: the cores say again what matters. */
void mqtt_agent_say(mqtt_client *client, const char *topic, const char *text, bool retained);
/* A request or its answer: QoS 0, not retained, and not worth anything after a while. */
void mqtt_agent_once(mqtt_client *client, struct mqtt_message m);
/* How the link is doing, in words that people and ilmare-enroll read, into out[size]: "connected to URL", "connecting to URL" (at first), or
 * "not connected since TIME: REASON". */
void mqtt_agent_words(const mqtt_client *client, char *out, size_t size);
/* A last word at `topic`, retained, and the end of the client; see mqtt_client_stop. */
void mqtt_agent_stop(mqtt_client *client, const char *topic, const char *text);

#endif
