/* One commit for all that a turn brought.
 *
 * Each turn makes the drafts of all jobs from what is committed and what is remembered. If a commit may go out, they and all other changes
 * become one EDGE_COMMIT, and what it holds is marked (job.draft, .dropping, .putting) until the shell says how it went. If not (one is
 * under way, or the last one failed a moment ago), the drafts only show which jobs have something to commit (job.pending), and are thrown
 * away: they will be made again from what is true then.
 *
 * Success makes the drafts the truth. Failure changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

void commit__change(edge_agent *a, edge_change change)
{
	commit *c = &a->commit;

	if (c->n == c->cap) {
		c->cap = c->cap == 0 ? 8 : 2 * c->cap;
		c->changes = mem_resize_array(c->changes, c->cap, sizeof(*c->changes));
	}
	c->changes[c->n++] = change;
}

/* ---- making ---- */

static void job_gather(edge_agent *a, job *j, moment now, bool allowed)
{
	record *next;

	if (j->draft != NULL || j->dropping) {
		j->pending = true;
		return;
	}
	if (j->drop) {
		j->pending = true;
		if (allowed) {
			j->dropping = true;
			commit__change(a, (edge_change){.kind = CHANGE_DROP_JOB, .uid = j->uid});
		}
		return;
	}
	next = job__draft(a, j, now);
	j->pending = next != NULL;
	if (next == NULL)
		return;
	if (!allowed) {
		record_free(next);
		return;
	}
	j->draft = next;
	commit__change(a, (edge_change){.kind = CHANGE_PUT_JOB, .uid = j->uid, .record = next, .base = j->rec});
}

static void dataset_gather(edge_agent *a, dataset *d)
{
	if (d->drop) {
		d->dropping = true;
		commit__change(a, (edge_change){.kind = CHANGE_DROP_DATASET, .uid = d->uid});
	} else if (d->incoming != NULL) {
		d->draft = d->incoming;
		d->draft_text = d->incoming_text;
		d->incoming = NULL;
		d->incoming_text = NULL;
		commit__change(a, (edge_change){.kind = CHANGE_PUT_DATASET, .uid = d->uid, .text = d->draft_text});
	}
}

static void meta_gather(edge_agent *a)
{
	commit *c = &a->commit;

	if (c->seq == a->meta.seq && a->meta_version == a->meta_committed)
		return;
	store_meta_copy(&c->meta, &a->meta_next);
	c->meta.seq = c->seq;
	c->has_meta = true;
	c->meta_version = a->meta_version;
	commit__change(a, (edge_change){.kind = CHANGE_PUT_META, .meta = &c->meta});
}

bool commit__gather(edge_agent *a, moment now, edge_action *out)
{
	commit *c = &a->commit;
	bool allowed = !c->active && now.mono_ms >= c->retry_at;

	if (!c->active) {
		c->n = 0;
		if (!allowed)
			agent__wake_at(a, c->retry_at);
	}
	c->seq = a->meta.seq;
	provisional__begin(a);
	for (size_t i = 0; i < a->n_jobs; i++)
		job_gather(a, a->jobs[i], now, allowed);
	provisional__gather(a, now, allowed);
	if (!allowed)
		return false;
	for (size_t i = 0; i < a->n_datasets; i++)
		dataset_gather(a, a->datasets[i]);
	meta_gather(a);
	if (c->n == 0)
		return false;
	c->active = true;
	c->id = ++a->next_id;
	out->kind = EDGE_COMMIT;
	out->id = c->id;
	out->commit.changes = c->changes;
	out->commit.n = c->n;
	return true;
}

/* ---- the outcome ---- */

static void job_restart(edge_agent *a, job *j)
{
	/* The job left and came back while the store was at work: it begins anew, with the document that came. */
	job *fresh = messages__job_new(a, j->uid, j->ns, j->name);

	fresh->incoming = j->incoming;
	j->incoming = NULL;
	messages__job_free(a, j);
}

static void job_committed(edge_agent *a, job *j, moment now)
{
	record *before = j->rec;

	j->rec = j->draft;
	j->draft = NULL;
	if (j->incoming != NULL && stamp_compare(j->incoming->desired->stamp, j->rec->desired->stamp) <= 0) {
		record_document_release(j->incoming);
		j->incoming = NULL;
	}
	job__committed(a, j, before, now);
	record_free(before);
}

static void jobs_committed(edge_agent *a, moment now)
{
	for (size_t i = a->n_jobs; i-- > 0;) {
		job *j = a->jobs[i];

		if (j->dropping && j->incoming != NULL)
			job_restart(a, j);
		else if (j->dropping)
			messages__job_free(a, j);
		else if (j->draft != NULL)
			job_committed(a, j, now);
	}
}

static void datasets_committed(edge_agent *a)
{
	for (size_t i = a->n_datasets; i-- > 0;) {
		dataset *d = a->datasets[i];

		if (d->dropping && d->incoming == NULL) {
			status__left(a, d);
			messages__dataset_free(a, d);
			continue;
		}
		if (!d->dropping && d->draft == NULL)
			continue;
		/* One that left and came back meanwhile has nothing in the store now. */
		dataset_doc_free(d->doc);
		free(d->draft_text);
		d->doc = d->draft;
		d->draft = NULL;
		d->draft_text = NULL;
		d->dropping = false;
		d->dirty = true;
		status__held(a, d);
	}
}

static void meta_committed(edge_agent *a)
{
	commit *c = &a->commit;

	if (!c->has_meta)
		return;
	store_meta_fini(&a->meta);
	a->meta = c->meta;
	a->meta_committed = c->meta_version;
	c->has_meta = false;
}

static void committed(edge_agent *a, moment now)
{
	commit *c = &a->commit;

	a->counters.commits++;
	if (c->attempts > 0)
		log_info("commit", "the store takes changes again", L_INT("attempts", c->attempts));
	c->attempts = 0;
	c->retry_at = INT64_MIN;
	free(c->error);
	c->error = NULL;
	jobs_committed(a, now);
	datasets_committed(a);
	provisional__committed(a);
	meta_committed(a);
	files__refresh(a);
	credentials__refresh(a, now);
}

/* What was to be stored is to be stored again, unless something newer came. */
static void dataset_failed(dataset *d)
{
	d->dropping = false;
	if (d->incoming == NULL && !d->drop) {
		d->incoming = d->draft;
		d->incoming_text = d->draft_text;
	} else {
		dataset_doc_free(d->draft);
		free(d->draft_text);
	}
	d->draft = NULL;
	d->draft_text = NULL;
}

static void failed(edge_agent *a, const edge_result *result, moment now)
{
	commit *c = &a->commit;
	const char *text = result->text != NULL ? result->text : error_describe(result->code);

	a->counters.commit_failures++;
	c->attempts++;
	c->retry_at = now.mono_ms + agent__backoff(a, c->attempts);
	if (c->error == NULL || strcmp(c->error, text) != 0) {
		free(c->error);
		c->error = mem_strdup(text);
		log_error("commit", "the store does not take changes; they are tried again, and nothing is lost", L_STR("error", text));
	}
	for (size_t i = 0; i < a->n_jobs; i++) {
		record_free(a->jobs[i]->draft);
		a->jobs[i]->draft = NULL;
		a->jobs[i]->dropping = false;
	}
	for (size_t i = 0; i < a->n_datasets; i++)
		dataset_failed(a->datasets[i]);
	provisional__failed(a);
	if (c->has_meta)
		store_meta_fini(&c->meta);
	c->has_meta = false;
}

void commit__done(edge_agent *a, const edge_result *result, moment now)
{
	a->commit.active = false;
	a->commit.n = 0;
	if (result->code == 0)
		committed(a, now);
	else
		failed(a, result, now);
}

void commit__fini(edge_agent *a)
{
	if (a->commit.has_meta)
		store_meta_fini(&a->commit.meta);
	free(a->commit.changes);
	free(a->commit.error);
}
