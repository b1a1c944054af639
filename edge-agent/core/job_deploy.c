/* Deploy on the deploy node: decide, then copy, then (hot) wait until the worker has loaded the model.
 *
 * Three durable steps, so that neither a crash nor a second opinion can put a model in place that the cluster does not name: the decision is
 * committed with its report; only when a document of this session shows Deploy/Ready is anything copied (rule 15); `written` follows the
 * copy. Making the same copy again after a crash between the last two is harmless.
 *
 * A rollback skips the decision, which is the user's: the document shows Deploy/Ready, and a version to go back to. All else is the same. Each row
 * of the stage tells what it is about (`from`), since a cluster that was set back may go another way in the same round: what speaks of
 * another deployment than the document is dropped.
 *
 * What the cluster shows wins over what was decided here: NotBetter goes when Deploy/Ready is shown, because a decision that was made
 * before the store was lost has been applied.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "edge-agent/core/agent_internal.h"

enum { COPY_TRIES_MAX = 10 };
static const int64_t confirm_min_ms = INT64_C(10) * 60 * 1000;
static const char not_better[] = "NotBetter";

int64_t deploy__of(const record *r)
{
	return r->desired->has_rollback ? r->desired->rollback_round : -1;
}

bool deploy__says_in_place(const outbox_row *row, const void *ctx)
{
	(void)ctx;
	return row->what == REPORT_WRITTEN || (row->what == REPORT_COMPLETED && row->position.stage == STAGE_DEPLOY && row->reason == NULL);
}

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

/* ---- what else the rows may speak of ---- */

typedef struct deployment {
	int64_t round, of;
} deployment;

static bool is_of_another(const outbox_row *row, const void *ctx)
{
	const deployment *present = ctx;

	return row->position.round == present->round && row->position.stage == STAGE_DEPLOY && row->from != present->of;
}

static void drop_others(draft *d)
{
	const record *r = draft__view(d);
	deployment present = {.round = r->desired->position.round, .of = deploy__of(r)};
	bool any = false, replaced = false;

	for (size_t i = 0; i < r->n_rows; i++) {
		if (!is_of_another(&r->rows[i], &present))
			continue;
		any = true;
		replaced |= deploy__says_in_place(&r->rows[i], NULL);
	}
	if (any)
		record_remove_rows(draft__edit(d), is_of_another, &present);
	/* Its model lies where others are said to be. */
	if (replaced)
		record_remove_rows(draft__edit(d), deploy__says_in_place, NULL);
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
	int64_t of = deploy__of(draft__view(d));
	report rep = {0};

	if (o->deployed) {
		rep.has_sha256 = rep.has_versions = true;
		rep.sha256 = o->deployed_sha256;
		rep.versions = o->versions;
		rep.n_versions = o->n_versions;
		draft__report(d, &rep, STAGE_DEPLOY, REPORT_WRITTEN, of);
		return;
	}
	switch (o->deploy_failed) {
	case ERROR_NOT_FOUND:
		draft__fail(d, STAGE_DEPLOY, of < 0 ? "ModelMissing" : "VersionMissing", o->deploy_error);
		break;
	case ERROR_CHANGED:
		/* What is being trained or written to may be whole in a while; a version that is not what was deployed stays so. */
		if (of >= 0)
			draft__fail(d, STAGE_DEPLOY, "VersionDamaged", o->deploy_error);
		break;
	case ERROR_INVALID:
	case ERROR_UNSUPPORTED:
		draft__fail(d, STAGE_DEPLOY, "DeployFailed", o->deploy_error);
		break;
	case ERROR_CORRUPT:
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

/* Should this report overtake `written`, it says all that `written` did. */
void deploy__report_end(draft *d, enum report_what what, const char *reason, const char *message)
{
	const record *r = draft__view(d);
	const outbox_row *row = record_row(r, r->desired->position.round, STAGE_DEPLOY, REPORT_WRITTEN);
	report rep = {.reason = reason, .message = message}, *written = NULL;

	if (row != NULL && report_decode(row->payload, strlen(row->payload), STAGE_DEPLOY, REPORT_WRITTEN, &written, NULL) == 0) {
		rep.has_sha256 = written->has_sha256;
		rep.sha256 = written->sha256;
		rep.has_versions = written->has_versions;
		rep.versions = written->versions;
		rep.n_versions = written->n_versions;
	}
	draft__report(d, &rep, STAGE_DEPLOY, what, deploy__of(r));
	report_free(written);
}

static void draft_unconfirmed(draft *d)
{
	const record *r = draft__view(d);
	job *j = d->j;
	int64_t round = r->desired->position.round;
	int64_t limit = agent__period_ms(r->desired->poll_period_s) * 10;

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
		deploy__report_end(d, REPORT_COMPLETED, "NotConfirmed", "the model is in place, but no worker said that it has loaded it");
}

void deploy__draft(draft *d)
{
	position present = draft__view(d)->desired->position;

	if (!job__has_role(draft__view(d), ROLE_DEPLOY) || present.stage != STAGE_DEPLOY || phase_ended(present.phase)) {
		d->j->loaded_round = 0;
		return;
	}
	drop_others(d);
	if (present.phase == PHASE_WAITING) {
		draft_waiting(d);
		return;
	}
	drop_refuted(d);
	if (needs_copy(draft__view(d)) && position_compare(present, d->j->outcome.at) == 0)
		draft_copied(d);
	draft_unconfirmed(d);
}

/* A document can hold it: one that cannot be told is not worth a report that nobody takes. */
static bool url_tellable(const char *url)
{
	for (const char *c = url; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	}
	return strlen(url) <= TEXT_MAX_URL;
}

/* Newest first; if there are too many to tell, the oldest but version 0 are left out. */
static void keep_versions(outcome *o, const running *run, const edge_result *result)
{
	const edge_version *v = result->deploy.versions;
	size_t n = result->deploy.n_versions, len = strlen(run->output_dir);

	o->versions_mem = arena_new();
	o->versions = arena_alloc(o->versions_mem, DOCUMENT_MAX_VERSIONS * sizeof(*o->versions));
	while (len > 1 && run->output_dir[len - 1] == '/')
		len--;
	for (size_t i = 0; i < n; i++) {
		char *url = arena_printf(o->versions_mem, "%.*s/deployed/%lld/%s", (int)len, run->output_dir, (long long)v[i].round, v[i].name);
		size_t room = DOCUMENT_MAX_VERSIONS - o->n_versions;

		if (url_tellable(url) && room > (i + 1 < n ? 1 : 0))
			o->versions[o->n_versions++] = (model_version){.round = v[i].round, .sha256 = v[i].sha256, .url = url};
	}
}

void deploy__result(job *j, const running *run, const edge_result *result)
{
	outcome *o = &j->outcome;

	if (run->of != deploy__of(j->rec))
		return;
	job__outcome_clear(j);
	o->at = run->position;
	o->deployed = result->code == 0;
	o->deploy_failed = result->code;
	if (result->code == 0) {
		o->deployed_sha256 = result->deploy.sha256;
		keep_versions(o, run, result);
	} else {
		o->deploy_error = mem_strdup(result->text != NULL ? result->text : error_describe(result->code));
	}
}

static const char *metrics_text(arena *mem, const desired *d)
{
	char *text = d->n_eval_results > 0 && d->eval_results[0].metrics != NULL ? json_print(d->eval_results[0].metrics) : NULL;
	const char *copy = arena_strdup(mem, text);

	free(text);
	return copy;
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
	out->deploy.metrics = metrics_text(run->mem, d);
	run->of = out->deploy.of = deploy__of(j->rec);
	out->deploy.back = d->has_rollback;
	out->deploy.of_sha256 = d->rollback_sha256;
	return true;
}
