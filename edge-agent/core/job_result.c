/* What workers bring, and what is said when they bring nothing.
 *
 * Posts that wait and provisional results are judged against the draft, document included: what is expected now becomes the one row that
 * ends the stage on this node; what is known to be over goes. When a document says that the worker has ended and the grace period passes
 * without a result, ResultsMissing is committed, and from then on the same row refuses that worker: the side that sees the outbox decides.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

/* The manifest of the folder that a train worker has read, where this node has it; NULL: it has not. */
static const edge_manifest *manifest_read(const draft *d, enum stage stage)
{
	const record *r = draft__view(d);
	const looked *look = &d->j->result_look;
	bool here = stage == STAGE_TRAIN && job__has_role(r, ROLE_DATASET) && look->valid && look->found;

	return here && look->round == r->desired->position.round ? &look->manifest : NULL;
}

static void report_completed(draft *d, const worker_post *p, enum stage stage)
{
	const record *r = draft__view(d);
	const edge_manifest *m = manifest_read(d, stage);
	report rep = {.has_output = true};

	/* A job of this name came between, and the cluster was set back to before it: which samples were trained cannot be told. */
	if (m != NULL && (strcmp(m->uid, r->desired->job.uid) != 0 || m->round != r->desired->position.round)) {
		draft__fail(d, stage, "SamplesReplaced", "the folder of this round holds samples of something else");
		return;
	}
	rep.output.models = p->results;
	rep.output.n_models = p->n_results;
	rep.output.owner_info = p->owner_info;
	if (m != NULL) {
		rep.has_range = true;
		rep.range = m->range;
	}
	draft__report(d, &rep, stage, REPORT_COMPLETED, -1);
}

static void report_loaded(draft *d, const worker_post *p)
{
	if (p->status == POST_FAILED)
		deploy__report_end(d, REPORT_FAILED, "LoadFailed", "the worker said that it could not load the new model");
	else
		deploy__report_end(d, REPORT_COMPLETED, NULL, NULL);
}

static void store(draft *d, const worker_post *p)
{
	if (p->kind == POST_DEPLOY)
		report_loaded(d, p);
	else
		report_completed(d, p, p->kind == POST_TRAIN ? STAGE_TRAIN : STAGE_EVAL);
}

static bool is_of(const job *j, const char *ns, const char *name)
{
	return strcmp(j->name, name) == 0 && strcmp(j->ns, ns) == 0;
}

static void draft_posts(draft *d)
{
	for (size_t i = 0; i < d->a->n_posts; i++) {
		post *p = &d->a->posts[i];
		judgement said;

		if (p->status != 0 || !is_of(d->j, p->body->ns, p->body->job))
			continue;
		said = judge__result(draft__view(d), d->j, p->body->kind, p->body->status, p->body->worker, &p->match);
		d->j->result_needs_look |= said.verdict == VERDICT_LOOK;
		if (said.verdict == VERDICT_STORE)
			store(d, p->body);
	}
}

static void store_kept(draft *d, kept *k)
{
	worker_post *p;
	error err;
	int http;

	k->drop = true;
	if (worker_post_decode(k->p.worker, k->p.body, strlen(k->p.body), &p, &http, &err) != 0) {
		log_error("worker", "a stored early result cannot be read back", L_STR("worker", k->p.worker), L_STR("error", err.text));
		return;
	}
	store(d, p);
	worker_post_free(p);
}

static void draft_kept(draft *d)
{
	for (size_t i = 0; i < d->a->n_kept; i++) {
		kept *k = d->a->kept[i];
		judgement said;

		if (k->putting || k->dropping || !is_of(d->j, k->p.ns, k->p.job))
			continue;
		said = judge__result(draft__view(d), d->j, k->p.kind, POST_COMPLETED, k->p.worker, &k->match);
		d->j->result_needs_look |= said.verdict == VERDICT_LOOK;
		if (said.verdict == VERDICT_STORE)
			store_kept(d, k);
		else if (said.verdict == VERDICT_ANSWER)
			k->drop = true;
	}
}

static void draft_missing(draft *d)
{
	const record *r = draft__view(d);
	position present = r->desired->position;
	job *j = d->j;
	bool here = present.stage == STAGE_TRAIN ? job__has_role(r, ROLE_TRAIN) : present.stage == STAGE_EVAL && job__has_role(r, ROLE_EVAL);
	bool running_phase = present.phase == PHASE_READY || present.phase == PHASE_STARTING || present.phase == PHASE_RUNNING;
	int64_t limit = d->a->config.result_grace_ms;

	if (!here || !running_phase || !r->desired->worker_ended || record_end_row(r, present.round, present.stage) != NULL) {
		j->ended_at = (position){0};
		return;
	}
	if (j->ended_at.round != present.round || j->ended_at.stage != present.stage) {
		j->ended_at = present;
		j->ended_since = d->now.mono_ms;
	}
	/* A result that is here but cannot be stored yet is not missing. */
	if (j->result_needs_look)
		return;
	if (d->now.mono_ms - j->ended_since < limit) {
		agent__wake_at(d->a, j->ended_since + limit);
		return;
	}
	draft__fail(d, present.stage, "ResultsMissing",
		j->worker_failure != NULL ? j->worker_failure : "the worker has ended, and reported no result to this node");
}

void result__draft(draft *d)
{
	d->j->result_needs_look = false;
	draft_kept(d);
	draft_posts(d);
	draft_missing(d);
}
