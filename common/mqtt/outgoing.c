/* Queue and window of what is published: see outgoing.h. */
#include "common/mqtt/outgoing.h"

#include <stdlib.h>

#include "common/mem.h"

/* What a message takes of the queue: a million empty ones would fill the memory too. */
static size_t cost(const struct mqtt_message *m)
{
	return message_size(m) + sizeof(struct message);
}

void outgoing_init(struct outgoing *o, size_t max_bytes)
{
	*o = (struct outgoing){.max_bytes = max_bytes, .window = 1};
	o->last = &o->first;
}

void outgoing_fini(struct outgoing *o)
{
	outgoing_clear(o);
}

void outgoing_clear(struct outgoing *o)
{
	struct message *m;

	while ((m = o->first) != NULL) {
		o->first = m->next;
		message_free(m);
	}
	o->last = &o->first;
	while (o->n_inflight > 0)
		free(o->inflight[--o->n_inflight].topic);
	o->queued = o->queued_bytes = 0;
	o->inflight_bytes = 0;
}

int64_t outgoing_put(struct outgoing *o, const struct mqtt_message *m)
{
	size_t size = cost(m);
	struct message *copy;

	if (o->queued > 0 && (size > o->max_bytes || o->queued_bytes > o->max_bytes - size))
		return ERROR_LIMIT;
	copy = message_copy(m);
	copy->token = ++o->last_token;
	*o->last = copy;
	o->last = &copy->next;
	o->queued++;
	o->queued_bytes += size;
	return copy->token;
}

struct message *outgoing_next(struct outgoing *o)
{
	struct message *m = o->first;
	size_t size;

	if (!m || o->n_inflight >= o->window || o->n_inflight >= OUTGOING_WINDOW_MAX)
		return NULL;
	size = message_size(&m->m);
	if (o->n_inflight > 0 && o->inflight_bytes + size > OUTGOING_WINDOW_BYTES)
		return NULL;
	if (!(o->first = m->next))
		o->last = &o->first;
	m->next = NULL;
	o->queued--;
	o->queued_bytes -= cost(&m->m);
	o->inflight[o->n_inflight].token = m->token;
	o->inflight[o->n_inflight].once = m->m.at_most_once;
	o->inflight[o->n_inflight].topic = mem_strdup(m->m.topic);
	o->inflight[o->n_inflight++].size = size;
	o->inflight_bytes += size;
	return m;
}

bool outgoing_acknowledge(struct outgoing *o, int64_t token, struct outgoing_done *done)
{
	for (size_t i = 0; i < o->n_inflight; i++) {
		if (o->inflight[i].token != token)
			continue;
		*done = (struct outgoing_done){.size = o->inflight[i].size, .once = o->inflight[i].once, .topic = o->inflight[i].topic};
		o->inflight[i] = o->inflight[--o->n_inflight];
		o->inflight_bytes -= done->size;
		return true;
	}
	return false;
}

bool outgoing_has_room(const struct outgoing *o)
{
	return o->queued_bytes <= o->max_bytes / 2;
}

bool outgoing_is_low(const struct outgoing *o)
{
	return o->queued_bytes <= o->max_bytes / 4;
}

bool outgoing_is_empty(const struct outgoing *o)
{
	return !o->first && o->n_inflight == 0;
}
