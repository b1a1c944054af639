/* A broker and the way to it: QoS 1, retained messages, sessions with queues, wills with a delay, and all that may happen on the way.
 *
 * A message travels twice: to the broker, and on to each subscriber. Each way it may be late, lost, or arrive twice; on one topic the order
 * stays (except for repeats), between topics it does not. What was on its way when a link broke may come much later, or never. What could
 * not be delivered waits in the session, which is bounded, and is lost with the broker's state.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/broker_internal.h"

typedef struct travel {
	msg *m;
	client *from, *to;
	bool sure; /* never lost: retained messages that answer a subscription do not come again */
} travel;

static bool matches(const char *filter, const char *name)
{
	for (; *filter != '\0' && *filter != '#'; filter++, name++) {
		if (*filter == '+') {
			name += strcspn(name, "/");
			name--;
		} else if (*filter != *name) {
			return filter[0] == '/' && filter[1] == '#' && *name == '\0';
		}
	}
	return *filter == '#' || *name == '\0';
}

/* ---- messages ---- */

msg *broker__message(const char *name, const char *payload, bool retained)
{
	msg *m = mem_alloc(sizeof(*m));

	m->refs = 1;
	m->topic = mem_strdup(name);
	m->payload = mem_strdup(payload);
	m->len = strlen(payload);
	m->retained = retained;
	return m;
}

static msg *msg_hold(msg *m)
{
	m->refs++;
	return m;
}

void msg_drop(msg *m)
{
	if (m == NULL || --m->refs > 0)
		return;
	free(m->topic);
	free(m->payload);
	free(m);
}

static size_t topic_slot(const char *name)
{
	uint64_t h = 1469598103934665603u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 1099511628211u;
	return (size_t)(h >> 32) % ORDER;
}

static int64_t travel_time(world *w)
{
	if (chance(w, w->k.slow))
		return rnd_range(w, 0, w->k.slow_ms);
	return rnd_delay(w, w->k.delay_ms);
}

/* ---- holding back ---- */

static bool held(world *w, client *from, client *to, msg *m)
{
	for (size_t i = 0; i < sizeof(w->broker.holds) / sizeof(w->broker.holds[0]); i++) {
		hold *h = &w->broker.holds[i];

		if (!h->active || (h->from != NULL && h->from != from) || (h->to != NULL && h->to != to) || strstr(m->topic, h->part) == NULL ||
			(h->text[0] != '\0' && strstr(m->payload, h->text) == NULL))
			continue;
		h->held = mem_resize_array(h->held, h->n + 1, sizeof(*h->held));
		h->dest = mem_resize_array(h->dest, h->n + 1, sizeof(*h->dest));
		h->src = mem_resize_array(h->src, h->n + 1, sizeof(*h->src));
		h->held[h->n] = msg_hold(m);
		h->src[h->n] = from;
		h->dest[h->n++] = to;
		say(w, "held: %s", m->topic);
		return true;
	}
	return false;
}

hold *broker_hold(world *w, client *from, client *to, const char *part, const char *text)
{
	for (size_t i = 0; i < sizeof(w->broker.holds) / sizeof(w->broker.holds[0]); i++) {
		hold *h = &w->broker.holds[i];

		if (h->active)
			continue;
		*h = (hold){.active = true, .from = from, .to = to};
		strncpy(h->part, part, sizeof(h->part) - 1);
		strncpy(h->text, text, sizeof(h->text) - 1);
		return h;
	}
	violated(w, 0, "too many holds");
}

static void arrive(world *w, void *obj, void *data);
static void deliver(world *w, void *obj, void *data);

static void travel_surely(world *w, int64_t t, msg *m, client *from, client *to, bool sure)
{
	travel *v = mem_alloc(sizeof(*v));

	*v = (travel){.m = m, .from = from, .to = to, .sure = sure};
	at(w, t, to != NULL ? deliver : arrive, w, v);
}

static void travel_on(world *w, int64_t t, msg *m, client *from, client *to)
{
	travel_surely(w, t, m, from, to, false);
}

void broker_release(world *w, hold *h)
{
	h->active = false;
	for (size_t i = 0; i < h->n; i++)
		travel_on(w, w->now, h->held[i], h->src[i], h->dest[i]);
	free(h->held);
	free(h->dest);
	free(h->src);
	h->n = 0;
}

void broker_release_first(world *w, hold *h)
{
	if (h->n == 0)
		return;
	travel_on(w, w->now, h->held[0], h->src[0], h->dest[0]);
	h->n--;
	memmove(&h->held[0], &h->held[1], h->n * sizeof(h->held[0]));
	memmove(&h->src[0], &h->src[1], h->n * sizeof(h->src[0]));
	memmove(&h->dest[0], &h->dest[1], h->n * sizeof(h->dest[0]));
}

void broker_lose(world *w, hold *h)
{
	(void)w;
	h->active = false;
	for (size_t i = 0; i < h->n; i++)
		msg_drop(h->held[i]);
	free(h->held);
	free(h->dest);
	free(h->src);
	h->n = 0;
}

/* ---- from the broker ---- */

void broker__send(world *w, client *c, msg *m, bool sure)
{
	int64_t t, *last = &c->down_last[topic_slot(m->topic)];

	if (held(w, NULL, c, m))
		return;
	t = w->now + travel_time(w);
	if (t < *last)
		t = *last;
	*last = t;
	travel_surely(w, t, msg_hold(m), NULL, c, sure);
	if (chance(w, w->k.repeat))
		travel_on(w, t + travel_time(w), msg_hold(m), NULL, c);
}

/* What did not reach a subscriber waits for it, the oldest go first. */
static void enqueue(client *c, msg *m)
{
	if (!c->session) {
		msg_drop(m);
		return;
	}
	if (c->n_queue == QUEUE_MAX) {
		msg_drop(c->queue[0]);
		memmove(&c->queue[0], &c->queue[1], (QUEUE_MAX - 1) * sizeof(c->queue[0]));
		c->n_queue--;
	}
	c->queue[c->n_queue++] = m;
}

static void deliver(world *w, void *obj, void *data)
{
	travel *v = data;
	client *c = v->to;

	(void)obj;
	if (!c->connected) {
		enqueue(c, v->m);
	} else if (!v->sure && chance(w, w->k.drop)) {
		say(w, "lost on the way to %s: %s", c->id, v->m->topic);
		msg_drop(v->m);
	} else {
		c->events->message(w, c->obj, v->m);
		msg_drop(v->m);
	}
	free(v);
}

bool broker__subscribed(const client *c, const char *name)
{
	for (size_t i = 0; i < c->n_filters; i++) {
		if (matches(c->filters[i], name))
			return true;
	}
	return false;
}

static void retain(broker *b, msg *m)
{
	size_t i = 0;

	while (i < b->n_retained && strcmp(b->retained[i]->topic, m->topic) != 0)
		i++;
	if (i < b->n_retained) {
		msg_drop(b->retained[i]);
		if (m->len > 0)
			b->retained[i] = msg_hold(m);
		else
			b->retained[i] = b->retained[--b->n_retained];
	} else if (m->len > 0) {
		b->retained = mem_resize_array(b->retained, b->n_retained + 1, sizeof(*b->retained));
		b->retained[b->n_retained++] = msg_hold(m);
	}
}

void broker__route(world *w, msg *m)
{
	broker *b = &w->broker;

	if (m->retained)
		retain(b, m);
	for (size_t i = 0; i < b->n_clients; i++) {
		client *c = b->clients[i];

		if (!c->session || !broker__subscribed(c, m->topic))
			continue;
		if (c->connected)
			broker__send(w, c, m, false);
		else
			enqueue(c, msg_hold(m));
	}
}

const msg *broker_retained(const world *w, const char *name)
{
	for (size_t i = 0; i < w->broker.n_retained; i++) {
		if (strcmp(w->broker.retained[i]->topic, name) == 0)
			return w->broker.retained[i];
	}
	return NULL;
}

/* ---- to the broker ---- */

static void arrive(world *w, void *obj, void *data)
{
	travel *v = data;

	(void)obj;
	if (!w->broker.up || (v->from != NULL && !v->from->connected && !w->script)) {
		/* The link broke under it: gone, or sent again by the library some time later. */
		if (w->quiet || chance(w, 0.5)) {
			say(w, "lost with the link: %s", v->m->topic);
			msg_drop(v->m);
		} else {
			travel_on(w, w->now + rnd_range(w, 1000, MINUTES(5)), v->m, NULL, NULL);
		}
	} else {
		broker__route(w, v->m);
		msg_drop(v->m);
	}
	free(v);
}

void client_publish(world *w, client *c, const char *name, const char *payload, bool retained)
{
	int64_t t, *last = &c->up_last[topic_slot(name)];
	msg *m;

	if (!c->connected)
		return;
	if (chance(w, w->k.drop)) {
		say(w, "lost on the way from %s: %s", c->id, name);
		return;
	}
	m = broker__message(name, payload, retained);
	if (!held(w, c, NULL, m)) {
		t = w->now + travel_time(w);
		if (t < *last)
			t = *last;
		*last = t;
		travel_on(w, t, msg_hold(m), c, NULL);
		if (chance(w, w->k.repeat))
			travel_on(w, t + travel_time(w), msg_hold(m), c, NULL);
	}
	msg_drop(m);
}

void broker_put(world *w, const char *name, const char *payload)
{
	msg *m = broker__message(name, payload, true);

	broker__route(w, m);
	msg_drop(m);
}

/* ---- the broker's own faults ---- */

static msg **copy_retained(msg **from, size_t n)
{
	msg **to = mem_alloc((n + 1) * sizeof(*to));

	for (size_t i = 0; i < n; i++)
		to[i] = msg_hold(from[i]);
	return to;
}

static void drop_retained(msg **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		msg_drop(list[i]);
	free(list);
}

void broker_save(world *w)
{
	broker *b = &w->broker;

	drop_retained(b->backup, b->n_backup);
	b->backup = copy_retained(b->retained, b->n_retained);
	b->n_backup = b->n_retained;
}

static void broker_back(world *w, void *obj, void *data)
{
	broker *b = &w->broker;

	(void)obj;
	(void)data;
	b->up = true;
	for (size_t i = 0; i < b->n_clients; i++) {
		if (b->clients[i]->started)
			client__connect_later(w, b->clients[i]);
	}
}

void broker_restart(world *w, int kept)
{
	broker *b = &w->broker;

	say(w, "broker restarts, %s", kept == 2 ? "with its state" : kept == 1 ? "with an older state" : "with nothing");
	if (!b->up)
		return;
	b->up = false;
	for (size_t i = 0; i < b->n_clients; i++) {
		client *c = b->clients[i];

		client__disconnected(w, c, false);
		client__link_lost(w, c);
		if (kept < 2) {
			c->session = kept == 1 && c->session;
			for (size_t k = 0; k < c->n_queue; k++)
				msg_drop(c->queue[k]);
			c->n_queue = 0;
		}
	}
	if (kept < 2) {
		drop_retained(b->retained, b->n_retained);
		b->retained = kept == 1 ? copy_retained(b->backup, b->n_backup) : NULL;
		b->n_retained = kept == 1 ? b->n_backup : 0;
	}
	at(w, w->now + (w->script ? 1000 : rnd_range(w, 500, SECONDS(20))), broker_back, w, NULL);
}
