/* Results of workers that no document expects yet.
 *
 * A good result must not be lost because the document that announces its worker is late, so it is stored, bounded in number, bytes and
 * time, and answered 200. It becomes a row when a document expects its worker (result__draft), and goes when the worker is known to be over
 * or when it has been kept for too long. That time counts only while the agent runs and begins anew at what was stored, so a restart can
 * only lengthen it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

/* What a post would be kept as, but for its body; points into it. */
static provisional of_post(const worker_post *body)
{
	return (provisional){.worker = (char *)(uintptr_t)body->worker,
		.ns = (char *)(uintptr_t)body->ns,
		.job = (char *)(uintptr_t)body->job,
		.kind = body->kind};
}

kept *provisional__find(const edge_agent *a, const worker_post *body)
{
	const provisional sought = of_post(body);

	for (size_t i = 0; i < a->n_kept; i++) {
		if (provisional_same(&a->kept[i]->p, &sought))
			return a->kept[i];
	}
	return NULL;
}

void provisional__add(edge_agent *a, const provisional *p, int64_t since, bool putting)
{
	kept *k = mem_alloc(sizeof(*k));

	k->p.worker = mem_strdup(p->worker);
	k->p.ns = mem_strdup(p->ns);
	k->p.job = mem_strdup(p->job);
	k->p.body = mem_strdup(p->body);
	k->p.uptime_ms = p->uptime_ms;
	k->p.kind = p->kind;
	k->since = since;
	k->putting = putting;
	k->bytes = strlen(p->worker) + strlen(p->ns) + strlen(p->job) + strlen(p->body);
	a->kept = mem_resize_array(a->kept, a->n_kept + 1, sizeof(kept *));
	a->kept[a->n_kept++] = k;
}

static void kept_free(kept *k)
{
	free(k->p.worker);
	free(k->p.ns);
	free(k->p.job);
	free(k->p.body);
	free(k);
}

static void remove_where(edge_agent *a, bool (*unwanted)(const kept *k))
{
	size_t left = 0;

	for (size_t i = 0; i < a->n_kept; i++) {
		if (unwanted(a->kept[i]))
			kept_free(a->kept[i]);
		else
			a->kept[left++] = a->kept[i];
	}
	a->n_kept = left;
}

static bool is_full(const edge_agent *a, size_t more)
{
	size_t bytes = more;

	for (size_t i = 0; i < a->n_kept; i++)
		bytes += a->kept[i]->bytes; /* NOLINT(clang-analyzer-core.NullDereference): what is kept is there */
	return a->n_kept >= a->config.provisional_max || bytes > a->config.provisional_bytes_max;
}

/* Too old? Else say when it will be. */
static bool is_expired(edge_agent *a, const kept *k, moment now)
{
	int64_t left = a->config.provisional_ms - k->p.uptime_ms - (now.mono_ms - k->since);

	if (left > 0)
		agent__wake_at(a, now.mono_ms + left);
	return left <= 0;
}

/* A post that is to be kept: into the list, marked as not durable yet; or the answer that there is no room. */
static bool post_keep(edge_agent *a, post *p, moment now, bool allowed)
{
	provisional fresh = of_post(p->body);
	size_t before = a->n_kept;

	if (provisional__find(a, p->body) != NULL)
		return false; /* the same, posted twice, is on its way: judged again after it */
	fresh.body = worker_post_encode(p->body);
	if (is_full(a, strlen(fresh.worker) + strlen(fresh.ns) + strlen(fresh.job) + strlen(fresh.body))) {
		p->status = 503;
		p->message = "there is no more room for results of workers that are not known yet; try again later";
	} else if (allowed) {
		provisional__add(a, &fresh, now.mono_ms, true);
	}
	free(fresh.body);
	return a->n_kept > before;
}

void provisional__begin(edge_agent *a)
{
	for (size_t i = 0; i < a->n_kept; i++)
		a->kept[i]->drop = false;
}

bool provisional__gather(edge_agent *a, moment now, bool allowed)
{
	bool any = false;

	for (size_t i = 0; i < a->n_kept; i++) {
		kept *k = a->kept[i];

		if (k->putting || k->dropping || (!k->drop && !is_expired(a, k, now)))
			continue;
		any = true;
		if (allowed) {
			k->dropping = true;
			commit__change(a, (edge_change){.kind = CHANGE_DROP_PROVISIONAL, .provisional = &k->p});
		}
	}
	for (size_t i = 0; i < a->n_posts; i++) {
		if (a->posts[i].status == 0 && a->posts[i].keep && post_keep(a, &a->posts[i], now, allowed)) {
			any = true;
			commit__change(a, (edge_change){.kind = CHANGE_PUT_PROVISIONAL, .provisional = &a->kept[a->n_kept - 1]->p});
		}
	}
	return any;
}

static bool is_dropped(const kept *k)
{
	return k->dropping;
}

static bool is_put(const kept *k)
{
	return k->putting;
}

void provisional__committed(edge_agent *a)
{
	remove_where(a, is_dropped);
	for (size_t i = 0; i < a->n_kept; i++) {
		if (a->kept[i]->putting) {
			a->kept[i]->putting = false;
			a->counters.posts_stored++;
			log_info("worker", "result of a worker that is not known yet stored", L_STR("worker", a->kept[i]->p.worker));
		}
	}
}

void provisional__failed(edge_agent *a)
{
	remove_where(a, is_put);
	for (size_t i = 0; i < a->n_kept; i++)
		a->kept[i]->dropping = false;
}

void provisional__fini(edge_agent *a)
{
	for (size_t i = 0; i < a->n_kept; i++)
		kept_free(a->kept[i]);
	free(a->kept);
}
