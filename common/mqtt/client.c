/* A client's life: attempts, back-off, stopping. See mqtt.h for what it promises.
 *
 *   STOPPED -start-> WAITING -time-> CONNECTING -EVENT_UP-> UP
 *                       ^                |failed, too late    |lost, dead, taken over
 *                       +- EVENT_CLOSED - CLOSING <-----------+
 *   any -stop-> STOPPING -(last message acknowledged or given up)-> CLOSING -> STOPPED, handles closed, done()
 *
 * Invariants: at most one attempt is open at the link; the next begins only after EVENT_CLOSED of the one before, so two connections of one
 * client never fight for its session. The stop timer alone can cut that short, by abandoning the link.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <MQTTAsync.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/mqtt/client_internal.h"
#include "common/mqtt/reason.h"

/* A connection that lasted this long was a good one: the next back-off starts small. */
enum { GOOD_CONNECTION_MS = 60 * 1000 };

const char *mqtt_state_name(enum mqtt_state state)
{
	static const char *const names[] = {[MQTT_STOPPED] = "stopped",
		[MQTT_WAITING] = "waiting",
		[MQTT_CONNECTING] = "connecting",
		[MQTT_CLOSING] = "disconnecting",
		[MQTT_UP] = "up",
		[MQTT_STOPPING] = "stopping"};

	return names[state];
}

static uint32_t random_number(void)
{
	uint32_t r;

	return uv_random(NULL, NULL, &r, sizeof r, 0, NULL) ? (uint32_t)uv_hrtime() : r;
}

static void on_timer(uv_timer_t *timer);

void client__arm(mqtt_client *c, uint64_t at)
{
	uint64_t now = uv_now(c->loop);

	c->armed_at = at;
	uv_timer_start(&c->timer, on_timer, at > now ? at - now : 0, 0);
}

static void begin_attempt(mqtt_client *c)
{
	size_t n = c->settings->c.n_brokers;

	c->state = MQTT_CONNECTING;
	c->attempt++;
	c->counters.attempts++;
	client__arm(c, uv_now(c->loop) + (uint64_t)c->settings->c.connect_timeout_s * 1000);
	c->broker = c->failed % n;
	link_open(c->link, c->attempt, c->broker, c->failed / (uint32_t)n);
}

void client__end_attempt(mqtt_client *c)
{
	uv_timer_stop(&c->timer);
	c->state = MQTT_CLOSING;
	link_close(c->link);
}

void client__attempt_failed(mqtt_client *c, int reason, const char *text)
{
	bool was_up = c->state == MQTT_UP || c->state == MQTT_STOPPING;
	uint64_t now = uv_now(c->loop), wait;

	snprintf(c->problem, sizeof c->problem, "%s", text);
	if (was_up && now - c->up_since >= GOOD_CONNECTION_MS)
		backoff_reset(&c->backoff);
	if (was_up)
		c->down_since = clock_now().unix_ms;
	else
		c->failed++;
	if (reason == REASON_SESSION_TAKEN_OVER) {
		c->counters.takeovers++;
		wait = backoff_long(&c->backoff, random_number());
	} else {
		wait = backoff_next(&c->backoff, random_number());
	}
	c->retry_at = now + wait;
	outgoing_clear(&c->out);
	c->was_full = false;
	client__end_attempt(c);
	if (reason == REASON_SESSION_TAKEN_OVER)
		log_error("mqtt", "another client with the same name took the connection", L_STR("name", c->settings->c.client_id),
			L_INT("retry_ms", wait), L_STR("error", c->problem));
	else if (!c->stopping)
		log_line(!was_up && reason >= REASON_FAILURE ? LOG_ERROR : LOG_WARN, "mqtt", was_up ? "connection lost" : "cannot connect",
			L_STR("error", c->problem), L_INT("retry_ms", wait), NULL);
	if (was_up) {
		if (c->cb.on_down)
			c->cb.on_down(c->cb.ctx, c->problem);
	} else if (reason >= REASON_FAILURE) {
		c->counters.refused_connects++;
		if (c->cb.on_refused)
			c->cb.on_refused(c->cb.ctx, MQTT_REFUSED_CONNECT, NULL, reason, c->problem);
	}
	if (c->cb.on_problem)
		c->cb.on_problem(c->cb.ctx);
}

static void on_timer(uv_timer_t *timer)
{
	mqtt_client *c = timer->data;
	char text[100];

	/* A loop that was busy for long finds its timers due and the answers unread: read them first, then judge. */
	client__take_events(c);
	if (uv_is_active((uv_handle_t *)timer)) /* they changed what there is to wait for */
		return;
	switch (c->state) {
	case MQTT_WAITING:
		begin_attempt(c);
		break;
	case MQTT_CONNECTING:
		snprintf(text, sizeof text, "no answer from the broker within %u s", c->settings->c.connect_timeout_s);
		client__attempt_failed(c, 0, text);
		break;
	case MQTT_UP:
		client__watch(c);
		break;
	case MQTT_STOPPING:
		log_warn("mqtt", "stopping before everything was acknowledged", L_INT("in_flight", c->out.n_inflight),
			L_INT("queued", c->out.queued));
		client__end_attempt(c);
		break;
	case MQTT_STOPPED:
	case MQTT_CLOSING:
		break;
	}
}

static void on_wake(uv_async_t *wake)
{
	client__take_events(wake->data);
}

static void destroy(mqtt_client *c)
{
	outgoing_fini(&c->out);
	settings_free(c->settings);
	free(c);
}

static void on_handle_closed(uv_handle_t *handle)
{
	mqtt_client *c = handle->data;

	if (--c->open_handles > 0)
		return;
	c->state = MQTT_STOPPED;
	if (c->free_when_closed)
		destroy(c);
	else if (c->done)
		c->done(c->done_ctx);
}

static void close_handles(mqtt_client *c)
{
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->stop_timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->wake, on_handle_closed);
}

static void finish(mqtt_client *c, bool abandon)
{
	struct link *l = c->link;

	if (!l)
		return;
	c->link = NULL;
	c->state = MQTT_CLOSING;
	if (abandon)
		link_abandon(l);
	else
		link_free(l);
	outgoing_clear(&c->out);
	close_handles(c);
}

void client__closed(mqtt_client *c)
{
	if (c->stopping) {
		finish(c, false);
		return;
	}
	c->state = MQTT_WAITING;
	client__arm(c, c->retry_at);
}

/* Paho sends plain MQTT through these, and knows no no_proxy. Under the other names curl still finds the second, and who wants the first can
 * ask for it. */
static void hide_proxies(void)
{
	static const char *const names[][2] = {{"http_proxy", "HTTP_PROXY"}, {"https_proxy", "HTTPS_PROXY"}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i][0]);

		if (!value)
			continue;
		setenv(names[i][1], value, 0);
		unsetenv(names[i][0]);
	}
}

/* OpenSSL 3 sets itself up when it is first used; the library's own way loads all of its texts, used or not. */
static void library_init(void)
{
	static bool done;
	MQTTAsync_init_options options = MQTTAsync_init_options_initializer;

	if (done)
		return;
	done = true;
	hide_proxies();
	options.do_openssl_init = 0;
	MQTTAsync_global_init(&options);
	MQTTAsync_setTraceLevel(MQTTASYNC_TRACE_ERROR);
}

mqtt_client *mqtt_client_new(uv_loop_t *loop, const struct mqtt_config *config, const struct mqtt_callbacks *callbacks, error *err)
{
	mqtt_client *c;
	struct mqtt_config without_password = *config;

	if (mqtt_config_check(config, err))
		return NULL;
	library_init();
	c = mem_alloc(sizeof *c);
	c->loop = loop;
	c->cb = *callbacks;
	without_password.password = NULL;
	c->settings = settings_new(&without_password);
	c->backoff = (struct backoff){.min_ms = config->backoff_min_ms, .max_ms = config->backoff_max_ms};
	outgoing_init(&c->out, config->queue_bytes);
	if (uv_async_init(loop, &c->wake, on_wake) || uv_timer_init(loop, &c->timer) || uv_timer_init(loop, &c->stop_timer)) {
		fprintf(stderr, "mqtt: the event loop has no descriptors left\n");
		exit(EXIT_FAILURE);
	}
	c->wake.data = c->timer.data = c->stop_timer.data = c;
	c->open_handles = 3;
	c->link = link_new(settings_new(config), &c->wake);
	return c;
}

void mqtt_client_start(mqtt_client *c)
{
	if (c->started || c->stopping)
		return;
	c->started = true;
	c->down_since = clock_now().unix_ms;
	for (size_t i = 0; i < c->settings->c.n_brokers; i++)
		if (!c->settings->brokers[i].tls && !c->settings->brokers[i].loopback)
			log_warn("mqtt", "insecure: this broker is reached without TLS, anyone on the way can read and change everything",
				L_STR("broker", c->settings->c.brokers[i]));
	c->state = MQTT_WAITING;
	client__arm(c, uv_now(c->loop));
}

static void on_stop_timeout(uv_timer_t *timer)
{
	mqtt_client *c = timer->data;

	log_warn("mqtt", "the MQTT library did not let go in time", L_STR("state", mqtt_state_name(c->state)));
	finish(c, true);
}

static void stop_up(mqtt_client *c, const struct mqtt_message *last)
{
	c->state = MQTT_STOPPING;
	if (last && outgoing_put(&c->out, last) < 0)
		log_warn("mqtt", "the queue is full, the last message is not sent", L_STR("topic", last->topic));
	client__pump(c);
	if (outgoing_is_empty(&c->out))
		client__end_attempt(c);
	else
		client__arm(c, uv_now(c->loop) + c->settings->c.stop_timeout_ms / 2);
}

void mqtt_client_stop(mqtt_client *c, const struct mqtt_message *last, void (*done)(void *ctx), void *ctx)
{
	if (c->stopping)
		return;
	c->stopping = true;
	c->done = done;
	c->done_ctx = ctx;
	uv_timer_start(&c->stop_timer, on_stop_timeout, c->settings->c.stop_timeout_ms, 0);
	switch (c->state) {
	case MQTT_STOPPED:
	case MQTT_WAITING:
		finish(c, false);
		break;
	case MQTT_CONNECTING:
		if (link_is_resolving(c->link))
			finish(c, true);
		else
			client__end_attempt(c);
		break;
	case MQTT_UP:
		stop_up(c, last);
		break;
	case MQTT_CLOSING:
		if (link_is_resolving(c->link))
			finish(c, true);
		break;
	case MQTT_STOPPING:
		break;
	}
}

void mqtt_client_free(mqtt_client *c)
{
	if (!c)
		return;
	if (c->open_handles == 0) {
		destroy(c);
		return;
	}
	c->free_when_closed = true;
	c->stopping = true;
	finish(c, c->started);
}

int64_t mqtt_client_publish(mqtt_client *c, const struct mqtt_message *m, error *err)
{
	int64_t token;
	int rc;

	if ((rc = message_topic_check(m->topic, err)) != 0)
		return rc;
	if (c->state != MQTT_UP)
		return error_set(err, ERROR_OFFLINE, "not connected to the broker: %s", *c->problem ? c->problem : mqtt_state_name(c->state));
	if (m->len > c->settings->c.max_payload)
		rc = error_set(err, ERROR_LIMIT, "the message for %.200s has %zu bytes; at most %zu are allowed", m->topic, m->len,
			c->settings->c.max_payload);
	else if (c->limits.packet_size && message_overhead(m) + m->len > c->limits.packet_size)
		rc = error_set(err, ERROR_LIMIT, "the message for %.200s has %zu bytes; the broker takes packets of %u (its max_packet_size)",
			m->topic, m->len, c->limits.packet_size);
	if (rc) {
		c->counters.limited++;
		return rc;
	}
	if ((token = outgoing_put(&c->out, m)) < 0) {
		c->counters.limited++;
		c->was_full = true;
		return error_set(err, ERROR_LIMIT, "%zu messages wait to be sent already", c->out.queued);
	}
	client__pump(c);
	return token;
}

bool mqtt_client_has_room(mqtt_client *c)
{
	bool room = c->state != MQTT_UP || outgoing_has_room(&c->out);

	if (!room)
		c->was_full = true;
	return room;
}

void mqtt_client_yield(mqtt_client *c, const char *why)
{
	if (c->state == MQTT_UP)
		client__attempt_failed(c, REASON_SESSION_TAKEN_OVER, why);
}

void mqtt_client_retry(mqtt_client *c)
{
	if (c->stopping || c->state == MQTT_UP)
		return;
	backoff_reset(&c->backoff);
	c->retry_at = uv_now(c->loop);
	if (c->state == MQTT_WAITING)
		client__arm(c, c->retry_at);
}

enum mqtt_state mqtt_client_state(const mqtt_client *c)
{
	return c->state;
}

bool mqtt_client_is_secure(const mqtt_client *c)
{
	return c->state == MQTT_UP && c->settings->brokers[c->broker].tls;
}

const char *mqtt_client_problem(const mqtt_client *c)
{
	return c->problem;
}

const char *mqtt_client_broker(const mqtt_client *c)
{
	return c->settings->c.brokers[c->broker];
}

int64_t mqtt_client_down_since(const mqtt_client *c)
{
	return c->down_since;
}

const struct mqtt_counters *mqtt_client_counters(const mqtt_client *c)
{
	return &c->counters;
}
