/* An MQTT client under test that writes down what happens to it. */
#ifndef TESTS_INTEGRATION_PEER_H
#define TESTS_INTEGRATION_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/mqtt/mqtt.h"

enum { PEER_MESSAGES_MAX = 64 };

struct peer {
	uv_loop_t *loop;
	mqtt_client *client;
	int ups, downs, rooms, batches;
	bool session_present, stopped;
	char down_reason[256];
	/* on_published */
	int published, publish_refused, publish_code, publish_reason;
	int64_t last_token;
	char publish_text[256];
	/* on_refused */
	int refused_connects, refused_subscriptions, refused_reason;
	char refused_text[256], refused_topic[128];
	/* on_message: all are counted, the first ones kept */
	uint64_t received, out_of_order;
	int64_t last_number; /* of payloads that begin with one */
	struct {
		char *topic, *payload;
		char *response_topic, *correlation;
		bool retained;
	} messages[PEER_MESSAGES_MAX];
};

/* Defaults for tests: quick back-off (20 … 200 ms), a node named "edge-1", one broker, "t/#" subscribed. `url` must outlive the config. */
void peer_config(struct mqtt_config *config, const char *const *url);
void peer_start(struct peer *p, uv_loop_t *loop, const struct mqtt_config *config);
int64_t peer_publish(struct peer *p, const char *topic, const char *payload, bool retained);
void peer_stop(struct peer *p, const struct mqtt_message *last); /* and wait for it, at most 5 s */
void peer_free(struct peer *p);                                  /* stops it first, if need be */
bool peer_is_up(const struct peer *p);
/* The payload of the latest kept message on that topic, or NULL. */
const char *peer_payload(const struct peer *p, const char *topic);

#endif
