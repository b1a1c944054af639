/* The client's struct, for client.c (attempts and their end) and client_events.c (what comes from the link). Loop thread. */
#ifndef COMMON_MQTT_CLIENT_INTERNAL_H
#define COMMON_MQTT_CLIENT_INTERNAL_H

#include "common/mqtt/backoff.h"
#include "common/mqtt/config.h"
#include "common/mqtt/link.h"
#include "common/mqtt/liveness.h"
#include "common/mqtt/outgoing.h"

struct mqtt_client {
	uv_loop_t *loop;
	struct settings *settings; /* without the password: that one is the link's alone */
	struct mqtt_callbacks cb;
	struct link *link;
	uv_async_t wake;
	uv_timer_t timer; /* what the state waits for: the next attempt, the end of this one, the next look at the connection */
	uv_timer_t stop_timer;
	int open_handles;

	enum mqtt_state state;
	uint32_t attempt; /* number of the present one; events of others are old */
	uint32_t failed;  /* attempts in a row: picks broker and address */
	size_t broker;    /* of the present attempt */
	struct backoff backoff;
	uint64_t retry_at, up_since, armed_at;
	int64_t down_since; /* wall clock */

	struct broker_limits limits;
	struct liveness liveness;
	struct outgoing out;
	bool was_full; /* somebody was refused and waits for on_room */

	size_t subscribing;     /* subscriptions that wait for their answer */
	uint64_t subscribed_at; /* all of them, the last time */
	bool lost;              /* messages since then: subscribe again */

	bool started, stopping, free_when_closed;
	void (*done)(void *ctx);
	void *done_ctx;

	struct mqtt_counters counters;
	char problem[400];
};

/* client.c */
void client__arm(mqtt_client *c, uint64_t at);
void client__end_attempt(mqtt_client *c); /* -> CLOSING */
void client__attempt_failed(mqtt_client *c, int reason, const char *text);
void client__closed(mqtt_client *c);
/* client_events.c */
void client__take_events(mqtt_client *c);
void client__pump(mqtt_client *c);  /* hand over what the window lets go */
void client__watch(mqtt_client *c); /* probe, give up or subscribe again, and come back at the next time for it */

#endif
