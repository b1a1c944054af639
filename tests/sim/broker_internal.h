/* What broker.c and client.c share: a client of the broker, as both ends see it. */
#ifndef SIM_BROKER_INTERNAL_H
#define SIM_BROKER_INTERNAL_H

#include "tests/sim/sim.h"

enum { ORDER = 256, QUEUE_MAX = 100, WILL_DELAY_MS = 30 * 1000 };

struct client {
	world *w;
	void *obj;
	const client_events *events;
	char id[NAME_SIZE];
	char **filters;
	size_t n_filters;
	bool started, network, connected, session;
	uint64_t tries; /* life of attempts to connect */
	uint64_t will_life;
	int attempts;
	msg *will;
	msg *queue[QUEUE_MAX];
	size_t n_queue;
	int64_t up_last[ORDER], down_last[ORDER];
};

/* Sure: it is not lost on the way. */
void broker__send(world *w, client *c, msg *m, bool sure);
void broker__route(world *w, msg *m);
bool broker__subscribed(const client *c, const char *name);
msg *broker__message(const char *name, const char *payload, bool retained);

void client__connect_later(world *w, client *c);
void client__disconnected(world *w, client *c, bool will);
void client__link_lost(world *w, client *c); /* tells the process, if it is there */

#endif
