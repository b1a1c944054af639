/* Events from the library's threads to the loop: see inbox.h. */
#include "common/mqtt/inbox.h"

#include <stdlib.h>

#include "common/mem.h"

struct inbox {
	uv_mutex_t lock;
	uv_cond_t room;
	uv_async_t *wake; /* NULL: detached */
	struct event *first, **last;
	size_t bytes, max_bytes;
	uint32_t patience_ms;
	uint64_t dropped;
	bool refusing;
};

struct inbox *inbox_new(uv_async_t *wake, size_t max_bytes, uint32_t patience_ms)
{
	struct inbox *b = mem_alloc(sizeof *b);

	if (uv_mutex_init(&b->lock) || uv_cond_init(&b->room))
		abort();
	b->wake = wake;
	b->max_bytes = max_bytes;
	b->patience_ms = patience_ms;
	b->last = &b->first;
	return b;
}

void inbox_free(struct inbox *b)
{
	struct event *e;

	if (!b)
		return;
	while ((e = b->first) != NULL) {
		b->first = e->next;
		event_free(e);
	}
	uv_cond_destroy(&b->room);
	uv_mutex_destroy(&b->lock);
	free(b);
}

struct event *event_new(enum event_kind kind, uint32_t attempt)
{
	struct event *e = mem_alloc(sizeof *e);

	e->kind = kind;
	e->attempt = attempt;
	return e;
}

void event_free(struct event *e)
{
	message_free(e->message);
	free(e->text);
	free(e);
}

/* With the lock held: false if the message has to go. */
static bool wait_for_room(struct inbox *b, size_t size)
{
	uint64_t deadline = uv_hrtime() + (uint64_t)b->patience_ms * 1000000;

	while (!b->refusing && b->bytes > 0 && (size > b->max_bytes || b->bytes > b->max_bytes - size)) {
		uint64_t now = uv_hrtime();

		if (now >= deadline || uv_cond_timedwait(&b->room, &b->lock, deadline - now) == UV_ETIMEDOUT) {
			b->dropped++;
			return false;
		}
	}
	return !b->refusing;
}

void inbox_put(struct inbox *b, struct event *e)
{
	size_t size = e->message ? sizeof *e + sizeof *e->message + message_size(&e->message->m) : 0;
	bool taken;

	uv_mutex_lock(&b->lock);
	taken = !e->message || wait_for_room(b, size);
	if (taken) {
		b->bytes += size;
		*b->last = e;
		b->last = &e->next;
	}
	if (b->wake)
		uv_async_send(b->wake);
	uv_mutex_unlock(&b->lock);
	if (!taken)
		event_free(e);
}

void inbox_refuse_messages(struct inbox *b, bool refuse)
{
	uv_mutex_lock(&b->lock);
	b->refusing = refuse;
	uv_cond_broadcast(&b->room);
	uv_mutex_unlock(&b->lock);
}

struct event *inbox_take(struct inbox *b, uint64_t *dropped)
{
	struct event *all;

	uv_mutex_lock(&b->lock);
	all = b->first;
	b->first = NULL;
	b->last = &b->first;
	b->bytes = 0;
	*dropped += b->dropped;
	b->dropped = 0;
	uv_cond_broadcast(&b->room);
	uv_mutex_unlock(&b->lock);
	return all;
}

void inbox_detach(struct inbox *b)
{
	uv_mutex_lock(&b->lock);
	b->wake = NULL;
	b->refusing = true;
	uv_cond_broadcast(&b->room);
	uv_mutex_unlock(&b->lock);
}
