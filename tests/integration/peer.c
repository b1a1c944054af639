/* A client that writes down what happens to it: see peer.h. */
#include "tests/integration/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "tests/integration/loop.h"

static void on_up(void *ctx, bool session_present)
{
	struct peer *p = ctx;

	p->ups++;
	p->session_present = session_present;
}

static void on_down(void *ctx, const char *reason)
{
	struct peer *p = ctx;

	p->downs++;
	snprintf(p->down_reason, sizeof p->down_reason, "%s", reason);
}

static void on_message(void *ctx, const struct mqtt_message *m)
{
	struct peer *p = ctx;
	uint64_t i = p->received++;
	int64_t number;

	assert_true(p->ups > 0);
	assert_int_equal(((const char *)m->payload)[m->len], '\0');
	number = strtoll(m->payload, NULL, 10);
	if (number < p->last_number)
		p->out_of_order++;
	p->last_number = number;
	if (i >= PEER_MESSAGES_MAX)
		return;
	p->messages[i].topic = mem_strdup(m->topic);
	p->messages[i].payload = mem_strndup(m->payload, m->len);
	p->messages[i].response_topic = mem_strdup(m->response_topic);
	p->messages[i].correlation = m->correlation ? mem_strndup(m->correlation, m->correlation_len) : NULL;
	p->messages[i].retained = m->retained;
}

static void on_batch(void *ctx)
{
	((struct peer *)ctx)->batches++;
}

static void on_published(void *ctx, int64_t token, int code, int reason, const char *text)
{
	struct peer *p = ctx;

	p->last_token = token;
	p->publish_code = code;
	p->publish_reason = reason;
	snprintf(p->publish_text, sizeof p->publish_text, "%s", text);
	if (code)
		p->publish_refused++;
	else
		p->published++;
}

static void on_room(void *ctx)
{
	((struct peer *)ctx)->rooms++;
}

static void on_refused(void *ctx, enum mqtt_refusal what, const char *topic, int reason, const char *text)
{
	struct peer *p = ctx;

	if (what == MQTT_REFUSED_CONNECT)
		p->refused_connects++;
	else
		p->refused_subscriptions++;
	p->refused_reason = reason;
	snprintf(p->refused_text, sizeof p->refused_text, "%s", text);
	snprintf(p->refused_topic, sizeof p->refused_topic, "%s", topic ? topic : "");
}

void peer_config(struct mqtt_config *config, const char *const *url)
{
	static const struct mqtt_subscription all = {.filter = "t/#", .qos = 1};

	mqtt_config_init(config);
	config->brokers = url;
	config->n_brokers = 1;
	config->client_id = "edge-1";
	config->backoff_min_ms = 20;
	config->backoff_max_ms = 200;
	config->subscriptions = &all;
	config->n_subscriptions = 1;
}

void peer_start(struct peer *p, uv_loop_t *loop, const struct mqtt_config *config)
{
	const struct mqtt_callbacks callbacks = {
		.ctx = p,
		.on_up = on_up,
		.on_down = on_down,
		.on_message = on_message,
		.on_batch = on_batch,
		.on_published = on_published,
		.on_room = on_room,
		.on_refused = on_refused,
	};
	error err;

	*p = (struct peer){.loop = loop};
	p->client = mqtt_client_new(loop, config, &callbacks, &err);
	if (!p->client)
		fail_msg("%s", err.text);
	mqtt_client_start(p->client);
}

int64_t peer_publish(struct peer *p, const char *topic, const char *payload, bool retained)
{
	const struct mqtt_message m = {.topic = topic, .payload = payload, .len = strlen(payload), .retained = retained};

	return mqtt_client_publish(p->client, &m, NULL);
}

static void on_stopped(void *ctx)
{
	((struct peer *)ctx)->stopped = true;
}

void peer_stop(struct peer *p, const struct mqtt_message *last)
{
	mqtt_client_stop(p->client, last, on_stopped, p);
	loop_until(p->loop, p->stopped, 5000);
}

void peer_free(struct peer *p)
{
	if (!p->stopped)
		peer_stop(p, NULL);
	mqtt_client_free(p->client);
	for (int i = 0; i < PEER_MESSAGES_MAX; i++) {
		free(p->messages[i].topic);
		free(p->messages[i].payload);
		free(p->messages[i].response_topic);
		free(p->messages[i].correlation);
	}
}

bool peer_is_up(const struct peer *p)
{
	return mqtt_client_state(p->client) == MQTT_UP;
}

const char *peer_payload(const struct peer *p, const char *topic)
{
	for (uint64_t i = p->received < PEER_MESSAGES_MAX ? p->received : PEER_MESSAGES_MAX; i-- > 0;)
		if (!strcmp(p->messages[i].topic, topic))
			return p->messages[i].payload;
	return NULL;
}
