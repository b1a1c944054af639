/* The way of a worker's post: to the agent of its node, which may be down, and of the answer back to the worker, if it is still there. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

typedef struct answer {
	pod *p;
	uint64_t life;
	int status;
} answer;

static void answered(world *w, void *obj, void *data)
{
	answer *a = data;

	(void)obj;
	worker_answer(w, a->p, a->life, a->status);
	free(a);
}

static void answer_later(world *w, const post_wait *p, int status)
{
	answer *a = mem_alloc(sizeof(*a));

	*a = (answer){.p = p->p, .life = p->pod_life, .status = status};
	at(w, w->now + 1, answered, w, a);
}

bool device_post(world *w, device *d, pod *p, worker_post *body)
{
	if (d->agent == NULL || d->n_posts == sizeof(d->posts) / sizeof(d->posts[0])) {
		worker_post_free(body);
		return false;
	}
	d->posts[d->n_posts++] = (post_wait){.id = ++w->next_post, .p = p, .pod_life = p->life};
	edge_agent_post(d->agent, w->next_post, body, device_moment(d));
	device_pump_soon(w, d);
	return true;
}

void device_posts_lost(world *w, device *d)
{
	for (size_t i = 0; i < d->n_posts; i++)
		answer_later(w, &d->posts[i], 0);
	d->n_posts = 0;
}

void device_reply(world *w, device *d, uint64_t id, int status, const char *message)
{
	for (size_t i = 0; i < d->n_posts; i++) {
		if (d->posts[i].id != id)
			continue;
		say(w, "%s: answers %s with %d %s", d->name, d->posts[i].p->worker, status, message);
		answer_later(w, &d->posts[i], status);
		d->posts[i] = d->posts[--d->n_posts];
		return;
	}
	violated(w, 0, "%s: a second reply to one post", d->name);
}
