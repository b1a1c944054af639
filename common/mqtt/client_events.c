/* What the link tells, and what a live connection needs: the window, the watch. See client_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mqtt/client_internal.h"
#include "common/mqtt/reason.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static size_t filter_size(const mqtt_client *c, size_t index)
{
	return strlen(c->settings->subscriptions[index].filter);
}

static void subscribe(mqtt_client *c, bool again)
{
	c->subscribing = c->settings->c.n_subscriptions;
	c->subscribed_at = uv_now(c->loop);
	c->lost = false;
	for (size_t i = 0; i < c->settings->c.n_subscriptions; i++) {
		liveness_sent(&c->liveness, filter_size(c, i), c->subscribed_at);
		link_subscribe(c->link, i, again);
	}
}

/* When to subscribe again. Spaced, since all that is retained then comes at once: whoever could not keep up gets no more of it than this. */
static uint64_t resubscribe_at(const mqtt_client *c)
{
	return c->lost && c->subscribing == 0 ? c->subscribed_at + c->settings->c.resubscribe_ms : UINT64_MAX;
}

void client__watch(mqtt_client *c)
{
	uint64_t now = uv_now(c->loop), next;
	char text[100];

	if (resubscribe_at(c) <= now) {
		c->counters.resubscribes++;
		log_info("mqtt", "subscribing again, for the retained messages among those that were lost");
		subscribe(c, true);
	}
	switch (liveness_check(&c->liveness, now, &next)) {
	case LIVENESS_PROBE:
		link_probe(c->link);
		liveness_sent(&c->liveness, 0, now);
		liveness_check(&c->liveness, now, &next);
		break;
	case LIVENESS_DEAD:
		c->counters.dead_links++;
		snprintf(text, sizeof text, "the broker has not answered for %llu ms", (unsigned long long)(now - c->liveness.last_exchange));
		client__attempt_failed(c, 0, text);
		return;
	case LIVENESS_FINE:
		break;
	}
	client__arm(c, earlier(next, resubscribe_at(c)));
}

/* Something was sent, or lost: there may be something to do before the time that the timer is set to. Later times are found when it is due. */
static void watch_sooner(mqtt_client *c)
{
	uint64_t next;

	if (c->state != MQTT_UP)
		return;
	liveness_check(&c->liveness, uv_now(c->loop), &next);
	next = earlier(next, resubscribe_at(c));
	if (next < c->armed_at)
		client__arm(c, next);
}

void client__pump(mqtt_client *c)
{
	struct message *m;
	bool sent = false;

	while ((m = outgoing_next(&c->out)) != NULL) {
		size_t size = message_size(&m->m);

		c->counters.messages_out++;
		c->counters.bytes_out += size;
		if (!m->m.at_most_once) /* nobody answers it */
			liveness_sent(&c->liveness, size, uv_now(c->loop));
		link_publish(c->link, m);
		sent = true;
	}
	if (sent)
		watch_sooner(c);
}

static uint32_t lower(uint32_t ours, uint32_t theirs)
{
	return theirs > 0 && theirs < ours ? theirs : ours;
}

static void went_up(mqtt_client *c, const struct event *e)
{
	const struct mqtt_config *config = &c->settings->c;
	uint64_t now = uv_now(c->loop);

	c->state = MQTT_UP;
	c->up_since = now;
	c->failed = 0;
	c->limits = e->limits;
	c->out.window = lower(config->max_inflight, e->limits.receive_maximum);
	c->counters.connects++;
	c->problem[0] = '\0';
	liveness_init(&c->liveness, (uint64_t)lower(config->keep_alive_s, e->limits.keep_alive_s) * 1000, now);
	log_info("mqtt", "connected", L_STR("broker", e->text), L_INT("session_present", e->flag));
	if (e->limits.no_retain || e->limits.no_qos1)
		log_error("mqtt", "this broker keeps no retained messages or does no QoS 1: nothing will work with it", L_STR("broker", e->text));
	subscribe(c, false);
	client__arm(c, now);
	if (c->cb.on_up)
		c->cb.on_up(c->cb.ctx, e->flag);
}

static void got_message(mqtt_client *c, const struct event *e)
{
	c->counters.messages_in++;
	c->counters.bytes_in += message_size(&e->message->m);
	if (e->flag)
		liveness_heard(&c->liveness, uv_now(c->loop));
	if (c->cb.on_message)
		c->cb.on_message(c->cb.ctx, &e->message->m);
}

static void got_published(mqtt_client *c, const struct event *e)
{
	struct outgoing_done done;
	char text[256] = "";

	if (!outgoing_acknowledge(&c->out, e->token, &done))
		return;
	if (!done.once)
		liveness_answered(&c->liveness, done.size, uv_now(c->loop));
	if (e->reason >= REASON_FAILURE) {
		c->counters.refused_publishes++;
		reason_text(e->reason, "the publish", text, sizeof text);
		log_error("mqtt", "publish refused", L_STR("topic", done.topic), L_STR("error", text));
	} else {
		c->counters.published++;
	}
	free(done.topic);
	client__pump(c);
	if (c->cb.on_published && c->state == MQTT_UP)
		c->cb.on_published(c->cb.ctx, e->token, reason_error(e->reason), e->reason, text);
	if (c->was_full && c->state == MQTT_UP && outgoing_is_low(&c->out)) {
		c->was_full = false;
		if (c->cb.on_room)
			c->cb.on_room(c->cb.ctx);
	}
	if (c->state == MQTT_STOPPING && outgoing_is_empty(&c->out))
		client__end_attempt(c);
}

static void got_subscribed(mqtt_client *c, const struct event *e)
{
	const char *filter = c->settings->subscriptions[e->token].filter;
	char text[256];

	liveness_answered(&c->liveness, filter_size(c, (size_t)e->token), uv_now(c->loop));
	if (--c->subscribing == 0)
		watch_sooner(c);
	if (e->reason < REASON_FAILURE)
		return;
	c->counters.refused_subscriptions++;
	reason_text(e->reason, "the subscription", text, sizeof text);
	log_error("mqtt", "subscription refused", L_STR("topic", filter), L_STR("error", text));
	if (c->cb.on_refused)
		c->cb.on_refused(c->cb.ctx, MQTT_REFUSED_SUBSCRIBE, filter, e->reason, text);
}

static void handle_connected(mqtt_client *c, const struct event *e)
{
	switch (e->kind) {
	case EVENT_DOWN:
		client__attempt_failed(c, e->reason, e->text);
		break;
	case EVENT_MESSAGE:
		got_message(c, e);
		break;
	case EVENT_PUBLISHED:
		got_published(c, e);
		break;
	case EVENT_SUBSCRIBED:
		got_subscribed(c, e);
		break;
	case EVENT_PROBED:
		liveness_answered(&c->liveness, 0, uv_now(c->loop));
		break;
	case EVENT_UP:
	case EVENT_OPEN_ERROR:
	case EVENT_CLOSED:
		break;
	}
}

static void handle(mqtt_client *c, const struct event *e)
{
	if (e->attempt != c->attempt)
		return;
	switch (c->state) {
	case MQTT_CONNECTING:
		if (e->kind == EVENT_UP)
			went_up(c, e);
		else if (e->kind == EVENT_OPEN_ERROR || e->kind == EVENT_DOWN)
			client__attempt_failed(c, e->reason, e->text);
		break;
	case MQTT_UP:
	case MQTT_STOPPING:
		handle_connected(c, e);
		break;
	case MQTT_CLOSING:
		if (e->kind == EVENT_CLOSED)
			client__closed(c);
		break;
	case MQTT_STOPPED:
	case MQTT_WAITING:
		break;
	}
}

void client__take_events(mqtt_client *c)
{
	struct event *e, *list;
	uint64_t dropped = 0, received = c->counters.messages_in;

	if (!c->link)
		return;
	list = link_events(c->link, &dropped);
	while ((e = list) != NULL) {
		list = e->next;
		handle(c, e);
		event_free(e);
	}
	if (c->counters.messages_in != received && c->cb.on_batch)
		c->cb.on_batch(c->cb.ctx);
	if (dropped == 0)
		return;
	c->counters.dropped_in += dropped;
	log_error("mqtt", "messages lost: they came faster than they were taken", L_INT("dropped", dropped));
	if (c->state == MQTT_UP) { /* every connect subscribes anyway */
		c->lost = true;
		watch_sooner(c);
	}
}
