/* Deploy on the deploy node: decide, then copy, then (hot) wait until the worker has loaded the model.
 *
 * Three durable steps, so that neither a crash nor a second opinion can put a model in place that the cluster does not name: the decision is
 * committed with its report; only when a document of this session shows Deploy/Ready is anything copied (rule 15); `written` follows the
 * copy. Making the same copy again after a crash between the last two is harmless.
 *
 * What the cluster shows wins over what was decided here: NotBetter goes when Deploy/Ready is shown, because a decision that was made
 * before the store was lost has been applied.
 */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/agent_internal.h"

enum { COPY_TRIES_MAX = 10 };
static const int64_t confirm_min_ms = INT64_C(10) * 60 * 1000;
static const char not_better[] = "NotBetter";

bool deploy__in_place(const record *r)
{
	position present = r->desired->position;

	if (present.stage != STAGE_DEPLOY || phase_ended(present.phase))
		return false;
	return phase_rank(present.phase) > phase_rank(PHASE_READY) || record_row(r, present.round, STAGE_DEPLOY, REPORT_WRITTEN) != NULL;
}

bool deploy__under_way(const job *j)
{
	return j->deploying || (j->outcome.deployed && position_compare(j->outcome.at, j->rec->desired->position) == 0);
}

/* ---- the decision ---- */

static bool is_not_better(const outbox_row *row, const void *ctx)
{
	return row->position.round == *(const int64_t *)ctx && row->position.stage == STAGE_DEPLOY && row->what == REPORT_COMPLETED &&
		row->reason != NULL && strcmp(row->reason, not_better) == 0;
}

static void decide(draft *d)
{
	const desired *doc = draft__view(d)->desired;
	job *j = d->j;
	report rep = {0};
	error why = {0};
	enum trigger_answer answer;

	if (j->deploy_outside && d->now.mono_ms < j->deploy_check_at) {
		agent__wake_at(d->a, j->deploy_check_at);
		return;
	}
	answer = trigger_deploy(&doc->deploy, doc->eval_results, doc->n_eval_results, d->now.minute, &why);
	j->deploy_outside = answer == TRIGGER_OUTSIDE;
	if (answer == TRIGGER_OUTSIDE) {
		j->deploy_check_at = d->now.mono_ms + agent__period_ms(doc->deploy.check_period_s);
		agent__wake_at(d->a, j->deploy_check_at);
		return;
	}
	if (answer == TRIGGER_YES) {
		draft__report(d, &rep, STAGE_DEPLOY, REPORT_READY, -1);
		return;
	}
	rep.reason = not_better;
	rep.message = why.text;
	draft__report(d, &rep, STAGE_DEPLOY, REPORT_COMPLETED, -1);
}

static void draft_waiting(draft *d)
{
	const record *r = draft__view(d);
	int64_t round = r->desired->position.round;
	const outbox_row *completed = record_row(r, round, STAGE_DEPLOY, REPORT_COMPLETED);
	report rep = {0};

	if (record_row(r, round, STAGE_DEPLOY, REPORT_READY) != NULL || record_row(r, round, STAGE_DEPLOY, REPORT_FAILED) != NULL ||
		(completed != NULL && is_not_better(completed, &round)))
		return;
	/* The model is in place, so the answer was yes, whatever the trigger would say today: the cluster was restored to before it. */
	if (completed != NULL || record_row(r, round, STAGE_DEPLOY, REPORT_WRITTEN) != NULL)
		draft__report(d, &rep, STAGE_DEPLOY, REPORT_READY, -1);
	else
		decide(d);
}

/* ---- the copy ---- */

static void drop_refuted(draft *d)
{
	const record *r = draft__view(d);
	int64_t round = r->desired->position.round;
	const outbox_row *row = record_row(r, round, STAGE_DEPLOY, REPORT_COMPLETED);

	if (row != NULL && is_not_better(row, &round))
		record_remove_rows(draft__edit(d), is_not_better, &round);
}

static void draft_copied(draft *d)
{
	const outcome *o = &d->j->outcome;
	report rep = {0};

	if (o->deployed) {
		rep.has_sha256 = true;
		rep.sha256 = o->deployed_sha256;
		draft__report(d, &rep, STAGE_DEPLOY, REPORT_WRITTEN, -1);
		return;
	}
	switch (o->deploy_failed) {
	case ERROR_NOT_FOUND:
		draft__fail(d, STAGE_DEPLOY, "ModelMissing", o->deploy_error);
		break;
	case ERROR_INVALID:
	case ERROR_UNSUPPORTED:
		draft__fail(d, STAGE_DEPLOY, "DeployFailed", o->deploy_error);
		break;
	case ERROR_DENIED:
	case ERROR_IO:
		/* May pass, but a person has to see it some time. A full disk or a network that is away passes by itself. */
		if (d->j->problem.attempts >= COPY_TRIES_MAX)
			draft__fail(d, STAGE_DEPLOY, "DeployFailed", o->deploy_error);
		break;
	default:
		break;
	}
}

static bool needs_copy(const record *r)
{
	position present = r->desired->position;

	return job__has_role(r, ROLE_DEPLOY) && present.stage == STAGE_DEPLOY && present.phase == PHASE_READY &&
		record_row(r, present.round, STAGE_DEPLOY, REPORT_WRITTEN) == NULL && record_end_row(r, present.round, STAGE_DEPLOY) == NULL;
}

/* ---- hot update: has the worker loaded it? ---- */

static void draft_unconfirmed(draft *d)
{
	const record *r = draft__view(d);
	job *j = d->j;
	int64_t round = r->desired->position.round;
	int64_t limit = agent__period_ms(r->desired->poll_period_s) * 10;
	report rep = {.reason = "NotConfirmed", .message = "the model is in place, but no worker said that it has loaded it"};

	if (!r->desired->hot_update || !deploy__in_place(r) || record_end_row(r, round, STAGE_DEPLOY) != NULL) {
		j->loaded_round = 0;
		return;
	}
	if (j->loaded_round != round) {
		j->loaded_round = round;
		j->loaded_since = d->now.mono_ms;
	}
	if (limit < confirm_min_ms)
		limit = confirm_min_ms;
	if (d->now.mono_ms - j->loaded_since < limit)
		agent__wake_at(d->a, j->loaded_since + limit);
	else
		draft__report(d, &rep, STAGE_DEPLOY, REPORT_COMPLETED, -1);
}

void deploy__draft(draft *d)
{
	position present = draft__view(d)->desired->position;

	if (!job__has_role(draft__view(d), ROLE_DEPLOY) || present.stage != STAGE_DEPLOY || phase_ended(present.phase)) {
		d->j->loaded_round = 0;
		return;
	}
	if (present.phase == PHASE_WAITING) {
		draft_waiting(d);
		return;
	}
	drop_refuted(d);
	if (needs_copy(draft__view(d)) && position_compare(present, d->j->outcome.at) == 0)
		draft_copied(d);
	draft_unconfirmed(d);
}

bool deploy__action(edge_agent *a, job *j, edge_action *out)
{
	const desired *d = j->rec->desired;
	deploy_copy *copies;
	running *run;

	/* Without a document of this session the position may be one that the cluster left long ago. */
	if (!needs_copy(j->rec) || !job__in_session(a, j->rec))
		return false;
	if (d->n_copies == 0) {
		job__complain(a, j, "the document names no model to deploy");
		return false;
	}
	j->deploying = true;
	run = agent__run(a, j, out, EDGE_DEPLOY);
	copies = arena_alloc(run->mem, d->n_copies * sizeof(*copies));
	for (size_t i = 0; i < d->n_copies; i++) {
		copies[i].from.format = arena_strdup(run->mem, d->copies[i].from.format);
		copies[i].from.url = arena_strdup(run->mem, d->copies[i].from.url);
		copies[i].to.format = arena_strdup(run->mem, d->copies[i].to.format);
		copies[i].to.url = arena_strdup(run->mem, d->copies[i].to.url);
	}
	out->deploy.uid = run->uid;
	out->deploy.ns = arena_strdup(run->mem, j->ns);
	out->deploy.job = arena_strdup(run->mem, j->name);
	out->deploy.output_dir = run->output_dir;
	out->deploy.round = run->round;
	out->deploy.copies = copies;
	out->deploy.n = d->n_copies;
	out->deploy.hot = d->hot_update;
	return true;
}
