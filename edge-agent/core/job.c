/* A job: from record and memory to the next proposal, and to the next file action.
 *
 * The draft begins with the newest document, so everything after it is judged against where the job stands now, not where it stood when an
 * action was begun or a post came. A document does to a record what rules 1, 2, 4 and 5 say: rows at or before its position are settled and
 * later ones wait again, rows of rounds before the last one go, and so does an allocation whose round is over: the cursor of the document
 * says whether its samples are used. Then each stage adds what follows.
 *
 * A document with an earlier position than the one before is that of a cluster that was set back. What was reported of later stages then
 * belongs to a history that never happened, and goes: those stages will be gone through again, perhaps with other results.
 *
 * A file action starts only for a job that has nothing to commit, so it is always based on durable facts, and its result is taken only if
 * the job still stands where it stood.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"
#include "proto/url.h"

/* ---- facts ---- */

bool job__has_role(const record *r, enum role role)
{
	return (r->desired->roles & (unsigned)role) != 0;
}

cursor job__cursor(const record *r)
{
	if (r->desired->has_cursor)
		return r->desired->cursor;
	return r->has_base ? r->base : (cursor){0};
}

bool job__in_session(const edge_agent *a, const record *r)
{
	return a->in_session && stamp_compare(r->desired->stamp, a->session_stamp) > 0;
}

char *job__round_url(const record *r, const char *folder, const char *file)
{
	const char *dir = r->desired->output_dir;
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	return mem_printf("%.*s/%s/%lld%s%s", (int)len, dir, folder, (long long)r->desired->position.round, file != NULL ? "/" : "",
		file != NULL ? file : "");
}

char *job__index_url(const record *r, const char *folder)
{
	return url_is_remote(r->desired->dataset.url) ? job__round_url(r, folder, "dataIndex.txt") : NULL;
}

model job__input_model(const model *m)
{
	model copy = *m;

	copy.metrics = NULL;
	return copy;
}

/* ---- the draft ---- */

static bool is_old(const outbox_row *row, const void *ctx)
{
	return row->position.round < *(const int64_t *)ctx - 1;
}

typedef struct undoing {
	position to; /* what a stage that has ended leads to */
	bool split;  /* the samples are another node's, which may give this round others */
} undoing;

/* Ahead of where the cluster was set back to. What was reported of the present stage is needed again (rule 2). */
static bool is_undone(const outbox_row *row, const void *ctx)
{
	const undoing *u = ctx;

	if (row->position.round != u->to.round)
		return row->position.round > u->to.round;
	if (row->position.stage != u->to.stage)
		return row->position.stage > u->to.stage;
	return u->split && u->to.stage == STAGE_TRAIN && u->to.phase == PHASE_WAITING;
}

static position stage_to_come(position p)
{
	if (p.phase == PHASE_COMPLETED && p.stage != STAGE_DEPLOY)
		return (position){p.round, p.stage + 1, PHASE_WAITING};
	return phase_ended(p.phase) ? (position){p.round + 1, STAGE_TRAIN, PHASE_WAITING} : p;
}

/* The document takes the job back from where it stood in `before`. */
static void rows_undo(record *r, const record *before)
{
	undoing u = {.to = stage_to_come(r->desired->position), .split = !job__has_role(r, ROLE_DATASET)};
	bool replaced = false;

	if (before == NULL || position_compare(r->desired->position, before->desired->position) >= 0)
		return;
	for (size_t i = 0; i < r->n_rows; i++)
		replaced |= is_undone(&r->rows[i], &u) && r->rows[i].what == REPORT_WRITTEN;
	record_remove_rows(r, is_undone, &u);
	/* The model of a later round lies where an earlier one is said to be. */
	if (replaced)
		record_remove_rows(r, deploy__says_in_place, NULL);
}

static void rows_settle(const job *j, record *r)
{
	position present = r->desired->position;

	record_remove_rows(r, is_old, &present.round);
	for (size_t i = 0; i < r->n_rows; i++) {
		outbox_row *row = &r->rows[i];
		bool settled = position_compare(present, row->position) >= 0;

		if (!settled && row->settled) {
			log_info("outbox", "an earlier position came back; the report goes out again", L_STR("job", j->name),
				L_INT("round", row->position.round), L_STR("stage", stage_name(row->position.stage)));
		}
		row->settled = settled;
	}
}

static void draft_document(draft *d)
{
	record *r;

	if (d->j->incoming == NULL)
		return;
	d->next = r = record_copy_with(d->base, d->j->incoming);
	rows_undo(r, d->base);
	rows_settle(d->j, r);
	if (r->has_alloc &&
		(r->alloc.round != r->desired->position.round || position_over(r->desired->position, r->alloc.round, STAGE_TRAIN) ||
			!job__has_role(r, ROLE_DATASET)))
		r->has_alloc = false;
}

static void draft_removed(draft *d)
{
	d->j->removed_draft = d->j->removed;
	if (d->j->removed > 0)
		draft__edit(d)->removed += d->j->removed;
}

record *job__draft(edge_agent *a, job *j, moment now)
{
	draft d = {.a = a, .j = j, .base = j->rec, .now = now};

	draft_document(&d);
	if (draft__view(&d) == NULL)
		return NULL;
	train__draft(&d);
	eval__draft(&d);
	deploy__draft(&d);
	result__draft(&d);
	draft_removed(&d);
	return d.next;
}

/* ---- after the commit ---- */

void job__outcome_clear(job *j)
{
	free(j->outcome.deploy_error);
	if (j->outcome.versions_mem != NULL)
		arena_free(j->outcome.versions_mem);
	j->outcome = (outcome){0};
}

void job__problem_clear(edge_agent *a, job *j)
{
	bool shown = j->problem.text != NULL;

	free(j->problem.text);
	j->problem = (problem){0};
	if (shown && j->rec != NULL && j->rec->desired->has_dataset)
		status__dirty(a, j->rec->desired->dataset.uid);
}

static bool is_same_position(position x, position y)
{
	return x.round == y.round && x.stage == y.stage && x.phase == y.phase;
}

static void position_changed(edge_agent *a, job *j, position before)
{
	position present = j->rec->desired->position;

	job__problem_clear(a, j);
	job__outcome_clear(j);
	if (before.round == present.round && before.stage == present.stage)
		return;
	free(j->worker_failure);
	j->worker_failure = NULL;
	looked__clear(&j->look);
	looked__clear(&j->result_look);
}

static void document_changed(edge_agent *a, job *j, const record *before)
{
	bool was_in_session = before != NULL && job__in_session(a, before);

	j->fired = false;
	j->check_dirty = true;
	j->deploy_outside = false;
	if (before == NULL || !is_same_position(before->desired->position, j->rec->desired->position))
		position_changed(a, j, before != NULL ? before->desired->position : (position){0});
	else if (!was_in_session && job__in_session(a, j->rec))
		job__problem_clear(a, j); /* what was refused without a session may be allowed now */
}

static void rows_count(edge_agent *a, const job *j, const record *before)
{
	for (size_t i = 0; i < j->rec->n_rows; i++) {
		const outbox_row *row = &j->rec->rows[i];
		const outbox_row *old = before != NULL ? record_row(before, row->position.round, row->position.stage, row->what) : NULL;

		if (row->settled && old != NULL && !old->settled)
			a->counters.settled++;
		if (old != NULL && old->seq == row->seq)
			continue;
		a->counters.deployments += row->what == REPORT_WRITTEN;
		log_info("job", "report stored", L_STR("namespace", j->ns), L_STR("job", j->name), L_INT("round", row->position.round),
			L_STR("stage", stage_name(row->position.stage)), L_STR("what", report_what_word(row->what)),
			L_STR("reason", row->reason != NULL ? row->reason : ""));
	}
}

static void alloc_count(edge_agent *a, job *j, const record *before)
{
	const record *r = j->rec;

	if (!r->has_alloc || !r->alloc.written || (before != NULL && before->has_alloc && before->alloc.written))
		return;
	if (j->look.just_written && before != NULL && before->has_alloc && before->alloc.range.to == r->alloc.range.to)
		a->counters.rounds_written++;
	else
		a->counters.rounds_adopted++;
}

/* What outcomes of actions led to is in the record now; others may have come while the commit was under way, and stay. */
static void outcome_consumed(job *j)
{
	const record *r = j->rec;
	int64_t round = r->desired->position.round;
	outcome *o = &j->outcome;

	o->base_measured &= train__needs_base(r);
	if (r->has_alloc)
		o->measured = j->fired = false;
	else
		o->alloc_gone = false;
	if (record_row(r, round, STAGE_EVAL, REPORT_READY) != NULL)
		o->eval_written = o->eval_missing = false;
	if (record_row(r, round, STAGE_DEPLOY, REPORT_WRITTEN) != NULL || record_end_row(r, round, STAGE_DEPLOY) != NULL) {
		o->deployed = false;
		o->deploy_failed = 0;
	}
}

void job__committed(edge_agent *a, job *j, const record *before, moment now)
{
	rows_count(a, j, before);
	alloc_count(a, j, before);
	if (before == NULL || stamp_compare(before->desired->stamp, j->rec->desired->stamp) != 0)
		document_changed(a, j, before);
	outcome_consumed(j);
	if (j->removed_draft > 0 && j->rec->desired->has_dataset)
		status__dirty(a, j->rec->desired->dataset.uid);
	j->removed -= j->removed_draft;
	j->removed_draft = 0;
	if (record_end_row(j->rec, j->rec->desired->position.round, j->rec->desired->position.stage) != NULL)
		looked__clear(&j->result_look);
	outbox__sync(j, now);
}

void job__memory_fini(job *j)
{
	free(j->problem.text);
	free(j->worker_failure);
	looked__clear(&j->look);
	looked__clear(&j->result_look);
	job__outcome_clear(j);
	infer_stats_free(j->stats.newest);
}

/* ---- actions ---- */

void job__complain(edge_agent *a, job *j, const char *text)
{
	if (text == NULL ? j->problem.text == NULL : j->problem.text != NULL && strcmp(j->problem.text, text) == 0)
		return;
	free(j->problem.text);
	j->problem.text = mem_strdup(text);
	if (text != NULL) {
		position p = j->rec->desired->position;

		log_warn("job", "job cannot go on; it is tried again", L_STR("namespace", j->ns), L_STR("job", j->name), L_INT("round", p.round),
			L_STR("stage", stage_name(p.stage)), L_STR("error", text));
	}
	if (j->rec->desired->has_dataset)
		status__dirty(a, j->rec->desired->dataset.uid);
}

bool job__action(edge_agent *a, job *j, moment now, edge_action *out)
{
	if (j->rec == NULL || j->pending || j->drop || agent__busy(a, j))
		return false;
	if (now.mono_ms < j->problem.retry_at) {
		agent__wake_at(a, j->problem.retry_at);
		return false;
	}
	if (j->result_needs_look) {
		train__look(a, j, out, true);
		return true;
	}
	return train__action(a, j, now, out) || eval__action(a, j, out) || deploy__action(a, j, out);
}

static void action_failed(edge_agent *a, job *j, const running *run, const edge_result *result, moment now)
{
	problem *p = &j->problem;
	const char *text = result->text != NULL ? result->text : error_describe(result->code);

	if (p->attempts > 0 && p->kind != run->kind)
		p->attempts = 0;
	p->kind = run->kind;
	p->attempts++;
	p->retry_at = now.mono_ms + agent__backoff(a, p->attempts);
	/* A file that is being changed is no fault; it is only not the time for it. */
	if (result->code != ERROR_CHANGED)
		job__complain(a, j, text);
}

/* A manifest that cannot be read is as good as none; one that is of something else was not what was asked for. */
static edge_result result_checked(const job *j, const running *run, const edge_result *result)
{
	edge_result checked = *result;

	if (run->kind == EDGE_LOOK && (result->code == ERROR_NOT_FOUND || result->code == ERROR_CORRUPT || result->code == ERROR_INVALID)) {
		checked = (edge_result){0};
	} else if (run->kind == EDGE_WRITE && result->code == 0 && j->rec->has_alloc &&
		!train__manifest_fits(j->rec, &result->round.manifest, j->rec->alloc.range.from)) {
		checked.code = ERROR_INTERNAL;
		checked.text = "the round's folder holds something else than what was to be written";
	}
	return checked;
}

void job__result(edge_agent *a, job *j, const running *run, const edge_result *told, moment now)
{
	const edge_result checked = result_checked(j, run, told);
	const edge_result *result = &checked;

	if (run->kind == EDGE_DEPLOY)
		j->deploying = false;
	if (result->code != 0)
		action_failed(a, j, run, result, now);
	else if (j->problem.attempts > 0 && j->problem.kind == run->kind)
		job__problem_clear(a, j);
	if (run->for_result) {
		train__result(a, j, run, result, now);
		return;
	}
	/* The job has moved meanwhile: what was done is found on the disk if it matters, and done again if it has to be. */
	if (!is_same_position(run->position, j->rec->desired->position))
		return;
	switch (run->kind) {
	case EDGE_LOCATE:
	case EDGE_MEASURE:
	case EDGE_LOOK:
	case EDGE_WRITE:
		train__result(a, j, run, result, now);
		break;
	case EDGE_WRITE_EVAL:
		j->outcome.at = run->position;
		j->outcome.eval_written = result->code == 0;
		j->outcome.eval_missing = result->code == ERROR_NOT_FOUND;
		break;
	case EDGE_DEPLOY:
		deploy__result(j, run, result);
		break;
	case EDGE_COMMIT:
	case EDGE_REPLY:
	case EDGE_PUBLISH:
	case EDGE_ASK:
	case EDGE_KEEP:
		break;
	}
}
