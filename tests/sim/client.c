/* The clients of the broker: connecting, again and again, and what happens when a link breaks. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/broker_internal.h"

client *client_new(world *w, const char *id, void *obj, const client_events *events)
{
	client *c = mem_alloc(sizeof(*c));

	c->w = w;
	c->obj = obj;
	c->events = events;
	strncpy(c->id, id, sizeof(c->id) - 1);
	c->network = true;
	w->broker.clients = mem_resize_array(w->broker.clients, w->broker.n_clients + 1, sizeof(*w->broker.clients));
	w->broker.clients[w->broker.n_clients++] = c;
	return c;
}

void client_filters(client *c, char **filters, size_t n)
{
	c->filters = filters;
	c->n_filters = n;
}

bool client_up(const client *c)
{
	return c->connected;
}

static void try_connect(world *w, void *obj, void *data);

void client__connect_later(world *w, client *c)
{
	int64_t wait = c->attempts == 0 ? 10 : rnd_delay(w, SECONDS(1) << (c->attempts < 5 ? c->attempts : 5));

	c->attempts++;
	at_life(w, w->now + wait, try_connect, c, NULL, &c->tries);
}

static void try_connect(world *w, void *obj, void *data)
{
	client *c = obj;

	(void)data;
	if (!c->started || c->connected || !c->network || !w->broker.up)
		return; /* whoever comes back begins again */
	c->connected = true;
	c->attempts = 0;
	c->will_life++;
	c->session = true;
	say(w, "connected: %s", c->id);
	c->events->up(w, c->obj);
	for (size_t i = 0; i < c->n_queue; i++) {
		broker__send(w, c, c->queue[i], false);
		msg_drop(c->queue[i]);
	}
	c->n_queue = 0;
	for (size_t i = 0; i < w->broker.n_retained; i++) {
		if (broker__subscribed(c, w->broker.retained[i]->topic))
			broker__send(w, c, w->broker.retained[i], true);
	}
}

static void will_due(world *w, void *obj, void *data)
{
	client *c = obj;

	(void)data;
	if (c->will == NULL || !w->broker.up)
		return;
	say(w, "will of %s", c->id);
	broker__route(w, c->will);
}

void client__disconnected(world *w, client *c, bool will)
{
	c->tries++;
	if (!c->connected)
		return;
	c->connected = false;
	say(w, "disconnected: %s", c->id);
	if (will)
		at_life(w, w->now + WILL_DELAY_MS, will_due, c, NULL, &c->will_life);
}

void client_start(world *w, client *c, char *will_topic, char *will)
{
	msg_drop(c->will);
	c->will = broker__message(will_topic, will, true);
	free(will_topic);
	free(will);
	c->started = true;
	c->attempts = 0;
	client__connect_later(w, c);
}

void client_stop(world *w, client *c, bool clean)
{
	c->started = false;
	client__disconnected(w, c, !clean);
}

void client__link_lost(world *w, client *c)
{
	if (c->started && !c->connected)
		c->events->down(w, c->obj);
}

void client_network(world *w, client *c, bool up)
{
	if (c->network == up)
		return;
	c->network = up;
	if (!up) {
		client__disconnected(w, c, true);
		client__link_lost(w, c);
	} else if (c->started) {
		c->attempts = 0;
		client__connect_later(w, c);
	}
}
