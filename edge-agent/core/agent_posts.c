/* Workers' posts, from arrival to answer.
 *
 * A post is answered from durable facts alone: it waits as long as its job has something to commit, and what it brings is part of that
 * commit; once the row (or the provisional result) is there, the same judgement finds it and says 200. So a repeat, a lost answer and a
 * failed commit need no cases of their own.
 *
 * Bounds: posts_max wait; the next one is told to try again.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

void edge_agent_post(edge_agent *a, uint64_t id, worker_post *body, moment now)
{
	post *p;
	size_t waiting = 0;

	(void)now;
	a->stale = true;
	a->counters.posts++;
	for (size_t i = 0; i < a->n_posts; i++)
		waiting += a->posts[i].status == 0;
	a->posts = mem_resize_array(a->posts, a->n_posts + 1, sizeof(*a->posts));
	p = &a->posts[a->n_posts++];
	*p = (post){.id = id, .body = body};
	if (waiting >= a->config.posts_max) {
		p->status = 503;
		p->message = "too many posts are waiting; try again later";
	}
}

void edge_agent_post_gone(edge_agent *a, uint64_t id)
{
	for (size_t i = 0; i < a->n_posts; i++) {
		if (a->posts[i].id == id)
			a->posts[i].gone = true;
	}
	a->stale = true;
}

/* Information that is not stored. */
static void note_information(edge_agent *a, job *j, const worker_post *body, worker_match *match, moment now)
{
	if (body->status == POST_FAILED) {
		log_warn("worker", "worker says that it failed", L_STR("namespace", body->ns), L_STR("job", body->job),
			L_STR("worker", body->worker));
		if (j != NULL && (body->kind == POST_TRAIN || body->kind == POST_EVAL)) {
			char name[WORKER_NAME_SIZE];

			worker_name(body->kind == POST_TRAIN ? WORKER_TRAIN : WORKER_EVAL, j->uid, j->rec->desired->position.round, name);
			if (strcmp(name, body->worker) == 0) {
				free(j->worker_failure);
				j->worker_failure = mem_printf("worker %s said that it failed, and reported no result", body->worker);
			}
		}
	}
	if (body->kind == POST_INFERENCE && j != NULL && judge__is_inference_worker(j->rec, body->worker, match))
		stats__note(a, j, body, now);
}

static void post_judge(edge_agent *a, post *p, moment now)
{
	job *j = agent__job_by_name(a, p->body->ns, p->body->job);
	const kept *k = provisional__find(a, p->body);
	judgement said;

	p->keep = false;
	if (j != NULL && (j->rec == NULL || j->incoming != NULL || j->draft != NULL))
		return; /* what it means is about to change */
	said = judge__result(j != NULL ? j->rec : NULL, j, p->body->kind, p->body->status, p->body->worker, &p->match);
	if (said.verdict == VERDICT_ANSWER) {
		p->status = said.status;
		p->message = said.message;
		if (said.status == 200)
			note_information(a, j, p->body, &p->match, now);
	} else if (said.verdict == VERDICT_KEEP && k != NULL && !k->dropping) {
		if (!k->putting) {
			p->status = 200;
			p->message = "OK";
		}
	} else {
		p->keep = said.verdict == VERDICT_KEEP;
	}
}

void posts__judge(edge_agent *a, moment now)
{
	for (size_t i = 0; i < a->n_posts; i++) {
		if (a->posts[i].status == 0)
			post_judge(a, &a->posts[i], now);
	}
}

static void post_remove(edge_agent *a, size_t i)
{
	worker_post_free(a->posts[i].body);
	memmove(&a->posts[i], &a->posts[i + 1], (a->n_posts - i - 1) * sizeof(*a->posts));
	a->n_posts--;
}

bool posts__reply(edge_agent *a, edge_action *out)
{
	for (size_t i = 0; i < a->n_posts;) {
		post *p = &a->posts[i];
		bool gone = p->gone;

		if (p->status == 0) {
			i++;
			continue;
		}
		a->counters.posts_refused += p->status != 200;
		if (!gone) {
			out->kind = EDGE_REPLY;
			out->reply.post = p->id;
			out->reply.status = p->status;
			out->reply.message = p->message;
		}
		post_remove(a, i);
		if (!gone)
			return true;
	}
	return false;
}

void posts__fini(edge_agent *a)
{
	for (size_t i = 0; i < a->n_posts; i++)
		worker_post_free(a->posts[i].body);
	free(a->posts);
}
