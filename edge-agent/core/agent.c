/* The agent as a whole: life cycle, restoring, the turn, and what can be seen from outside. See agent.h for the contract.
 *
 * The turn asks each part for something to do, in the order in which it matters: answers to workers first, then the commit, then the link,
 * then files. An action is described once and repeated by nobody: a part knows from what is under way (commit.active, running) that it has
 * to wait for edge_agent_done. While there is nothing to do, every part has said when it wants to be asked again (agent__wake_at), so an
 * agent with nothing ahead of it sleeps for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

void edge_config_init(edge_config *c)
{
	*c = (edge_config){
		.root = TOPIC_ROOT,
		.version = "",
		.session = "",
		.retry_min_ms = 2000,
		.retry_max_ms = 10 * 60 * 1000,
		.problem_min_ms = 1000,
		.problem_max_ms = 5 * 60 * 1000,
		.result_grace_ms = 60 * 1000,
		.status_interval_ms = 5000,
		.round_bytes_max = INT64_C(1024) * 1024 * 1024,
		.provisional_max = 64,
		.provisional_bytes_max = 4 * 1024 * 1024,
		.provisional_ms = INT64_C(24) * 3600 * 1000,
		.jobs_max = 1024,
		.datasets_max = 256,
		.posts_max = 64,
	};
}

edge_agent *edge_agent_new(const edge_config *config)
{
	edge_agent *a = mem_alloc(sizeof(*a));

	a->config = *config;
	a->config.node = a->node = mem_strdup(config->node);
	a->config.root = a->root = mem_strdup(config->root);
	a->config.version = a->version = mem_strdup(config->version);
	a->config.session = a->session = mem_strdup(config->session);
	if (config->n_capabilities > 0)
		a->capabilities = mem_alloc(config->n_capabilities * sizeof(*a->capabilities));
	for (size_t i = 0; i < config->n_capabilities; i++)
		a->capabilities[i] = mem_strdup(config->capabilities[i]);
	a->config.capabilities = (const char **)a->capabilities;
	a->random = config->seed;
	a->stale = true;
	return a;
}

void edge_agent_free(edge_agent *a)
{
	if (a == NULL)
		return;
	commit__fini(a);
	posts__fini(a);
	provisional__fini(a);
	for (size_t i = 0; i < a->n_running; i++)
		arena_free(a->running[i]->mem);
	free(a->running);
	while (a->n_jobs > 0)
		messages__job_free(a, a->jobs[a->n_jobs - 1]);
	while (a->n_datasets > 0)
		messages__dataset_free(a, a->datasets[a->n_datasets - 1]);
	free(a->jobs);
	free(a->datasets);
	files__fini(a);
	status__fini(a);
	credentials__fini(a);
	store_meta_fini(&a->meta);
	store_meta_fini(&a->meta_next);
	for (size_t i = 0; i < a->config.n_capabilities; i++)
		free(a->capabilities[i]);
	free(a->capabilities);
	free(a->out_topic);
	free(a->out_payload);
	free(a->out_response);
	free(a->node);
	free(a->root);
	free(a->version);
	free(a->session);
	free(a);
}

/* ---- restoring ---- */

void edge_agent_restore_meta(edge_agent *a, const store_meta *meta)
{
	store_meta_fini(&a->meta);
	store_meta_fini(&a->meta_next);
	store_meta_copy(&a->meta, meta);
	store_meta_copy(&a->meta_next, meta);
}

void edge_agent_restore_job(edge_agent *a, record *r)
{
	const job_ref *ref;

	if (r->desired == NULL || agent__job_by_uid(a, r->desired->job.uid) != NULL) {
		log_warn("store", "a stored job without a document, or stored twice, is left out");
		record_free(r);
		return;
	}
	ref = &r->desired->job;
	messages__job_new(a, ref->uid, ref->ns, ref->name)->rec = r;
}

void edge_agent_restore_dataset(edge_agent *a, const char *document, size_t len)
{
	dataset_doc *doc;
	error err;

	if (dataset_doc_decode(document, len, &doc, &err) != 0) {
		log_warn("store", "a stored dataset cannot be read and is left out", L_STR("error", err.text));
		return;
	}
	messages__dataset_new(a, &doc->dataset)->doc = doc;
}

void edge_agent_restore_provisional(edge_agent *a, const provisional *p)
{
	provisional whole = *p;
	worker_post *body;
	error err;
	int http;

	if (worker_post_decode(p->worker, p->body, strlen(p->body), &body, &http, &err) != 0) {
		log_warn("store", "a stored early result cannot be read and is left out", L_STR("worker", p->worker), L_STR("error", err.text));
		return;
	}
	whole.kind = body->kind;
	provisional__add(a, &whole, INT64_MIN, false);
	worker_post_free(body);
}

void edge_agent_start(edge_agent *a, moment now)
{
	for (size_t i = 0; i < a->n_kept; i++)
		a->kept[i]->since = now.mono_ms;
	for (size_t i = 0; i < a->n_jobs; i++)
		outbox__sync(a->jobs[i], now);
	files__refresh(a);
	credentials__refresh(a, now);
	a->stale = true;
}

/* ---- the turn ---- */

void edge_agent_link(edge_agent *a, bool up, moment now)
{
	a->linked = up;
	a->stale = true;
	credentials__link(a, now);
	if (!up)
		return;
	a->birth_due = true;
	a->birth_attempts = 0;
	for (size_t i = 0; i < a->n_jobs; i++)
		outbox__link_up(a->jobs[i], now);
	status__link_up(a);
}

void edge_agent_room(edge_agent *a, bool room)
{
	a->full = !room;
}

static bool birth_publish(edge_agent *a, moment now, edge_action *out)
{
	char ts[32];

	if (!a->birth_due && a->in_session)
		return false;
	/* No single message may be load-bearing: a birth that nobody has answered goes out again. */
	if (!a->birth_due && now.mono_ms < a->birth_at) {
		agent__wake_at(a, a->birth_at);
		return false;
	}
	a->birth_due = false;
	a->birth_at = now.mono_ms + outbox__delay(a, a->birth_attempts++);
	time_format(now.unix_ms, ts);
	agent__publish(a, out, presence__topic(a), presence__payload(a, true, ts), true);
	return true;
}

static bool publish(edge_agent *a, moment now, edge_action *out)
{
	return a->linked && !a->full &&
		(birth_publish(a, now, out) || outbox__publish(a, now, out) || status__publish(a, now, out) || stats__publish(a, now, out) ||
			credentials__ask(a, now, out));
}

/* What is over the limit is begun when one of those under way comes back. */
static bool file_action(edge_agent *a, moment now, edge_action *out)
{
	for (size_t i = 0; i < a->n_jobs && a->n_running < RUNNING_MAX; i++) {
		if (job__action(a, a->jobs[i], now, out))
			return true;
	}
	return false;
}

static bool judge(edge_agent *a, moment now, edge_action *out)
{
	posts__judge(a, now);
	/* Making the commit may find out that there is no room for a post. */
	return posts__reply(a, out) || commit__gather(a, now, out) || posts__reply(a, out);
}

bool edge_agent_next(edge_agent *a, moment now, edge_action *out)
{
	/* A message that goes out changes nothing that posts and drafts are judged by: with a thousand to publish, they are not judged as often. */
	bool judged = a->judged && !a->stale && now.mono_ms < a->judged_wake;

	a->stale = a->judged = false;
	a->wake = judged ? a->judged_wake : MOMENT_NEVER;
	*out = (edge_action){0};
	if (!judged && judge(a, now, out))
		return true;
	a->judged_wake = a->wake;
	a->judged = publish(a, now, out);
	return a->judged || credential_keep__next(a, now, out) || file_action(a, now, out);
}

int64_t edge_agent_wake(const edge_agent *a)
{
	return a->stale ? 0 : a->wake;
}

/* ---- to be seen ---- */

static int64_t rows_unsettled(const edge_agent *a)
{
	int64_t n = 0;

	for (size_t i = 0; i < a->n_jobs; i++) {
		const record *r = a->jobs[i]->rec;

		for (size_t k = 0; r != NULL && k < r->n_rows; k++)
			n += !r->rows[k].settled;
	}
	return n;
}

void edge_agent_counters(const edge_agent *a, edge_counters *out)
{
	*out = a->counters;
	out->jobs = out->datasets = out->provisional = 0;
	for (size_t i = 0; i < a->n_jobs; i++) {
		const infer_stats *s = a->jobs[i]->stats.newest;

		out->jobs += a->jobs[i]->rec != NULL;
		out->inferences += s != NULL ? s->inferences : 0;
		out->hard_examples += s != NULL ? s->hard_examples : 0;
	}
	for (size_t i = 0; i < a->n_datasets; i++)
		out->datasets += a->datasets[i]->doc != NULL;
	for (size_t i = 0; i < a->n_kept; i++)
		out->provisional += !a->kept[i]->putting;
	out->unsettled = rows_unsettled(a);
	credentials__count(a, out);
}

const record *edge_agent_record(const edge_agent *a, const char *uid)
{
	const job *j = agent__job_by_uid(a, uid);

	return j != NULL ? j->rec : NULL;
}

bool edge_agent_in_session(const edge_agent *a)
{
	return a->in_session;
}
