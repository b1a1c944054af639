/* Train/Waiting on the dataset node, the durable half: what is adopted, allocated, given back, and reported ready.
 *
 *     nothing → allocation (measured) → folder written or found → manifest and `ready`, one commit → outbox
 *
 * The folder is believed more than the store (rule 7): a manifest of this uid and round that begins at the cursor becomes the allocation,
 * whatever the store says, and its range is what is reported (rule 8). The cursor is believed more than both (rule 5): what begins elsewhere
 * belongs to another history of the cluster, and goes.
 *
 * Whether an allocation's samples are used is never decided here: the document's cursor says so when the round is over (rule 4).
 */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/job_train.h"

bool train__at_waiting(const record *r)
{
	return job__has_role(r, ROLE_DATASET) && r->desired->has_dataset && r->desired->position.stage == STAGE_TRAIN &&
		r->desired->position.phase == PHASE_WAITING;
}

bool train__needs_base(const record *r)
{
	return r->desired->first_sample_end && !r->desired->has_cursor && !r->has_base;
}

static bool manifest_is_of_round(const record *r, const edge_manifest *m)
{
	return strcmp(m->uid, r->desired->job.uid) == 0 && m->round == r->desired->position.round;
}

bool train__manifest_fits(const record *r, const edge_manifest *m, int64_t sample)
{
	return manifest_is_of_round(r, m) && m->range.from == sample && m->begin.sample == sample;
}

bool train__is_looked(const job *j, const record *r)
{
	return j->look.valid && j->look.round == r->desired->position.round && strcmp(j->look.output_dir, r->desired->output_dir) == 0;
}

bool train__is_measured(const job *j, const record *r)
{
	cursor at = job__cursor(r);

	return j->outcome.measured && j->located.valid && cursor_equal(&j->located.begin, &j->outcome.measured_begin) &&
		cursor_equal(&j->located.asked, &at);
}

void looked__clear(looked *l)
{
	free(l->output_dir);
	*l = (looked){0};
}

void looked__set(looked *l, int64_t round, const char *output_dir, const edge_manifest *manifest)
{
	looked__clear(l);
	l->valid = true;
	l->round = round;
	l->output_dir = mem_strdup(output_dir);
	l->found = manifest != NULL;
	if (manifest != NULL)
		l->manifest = *manifest;
}

/* A folder of this round that begins where the pool begins is the round. Equal numbers alone do not show that: after the cluster was set back
 * they may have been given to other samples. What begins elsewhere in a file is of this history only if the file was a new one as a whole. */
static bool is_adoptable(const job *j, const record *r, const cursor *at)
{
	const edge_manifest *m = &j->look.manifest;
	const located *l = &j->located;

	if (!train__is_looked(j, r) || !j->look.found || !train__manifest_fits(r, m, at->sample))
		return false;
	if (r->has_alloc && m->begin.size == r->alloc.begin.size)
		return true; /* that was found out when it was allocated */
	return m->begin.size == at->size || (l->valid && !l->matched && cursor_equal(&l->asked, at));
}

static void report_ready(draft *d, const sample_range *range)
{
	const record *r = draft__edit(d);
	model base = job__input_model(&r->desired->base);
	char file[16] = "data.";
	report rep = {.has_input = true, .has_range = true, .range = *range};
	char *data_url, *index_url, *output_dir;

	strncat(file, dataset_format_name(r->desired->dataset.format), sizeof(file) - sizeof("data."));
	data_url = job__round_url(r, "data/train", file);
	index_url = job__index_url(r, "data/train");
	output_dir = job__round_url(r, "train", NULL);
	rep.input.models = &base;
	rep.input.n_models = 1;
	rep.input.data_url = data_url;
	rep.input.data_index_url = index_url;
	rep.input.output_dir = output_dir;
	draft__report(d, &rep, STAGE_TRAIN, REPORT_READY, range->from);
	free(data_url);
	free(index_url);
	free(output_dir);
}

/* Where a job begins that does not want what was there before it: at the end of the file; unless a folder of its first round shows where
 * that was (the store that knew it is lost). */
static bool draft_base(draft *d)
{
	const job *j = d->j;
	const record *r = draft__view(d);
	const cursor *base = NULL;

	if (train__is_looked(j, r) && j->look.found && manifest_is_of_round(r, &j->look.manifest))
		base = &j->look.manifest.begin;
	else if (j->outcome.base_measured)
		base = &j->outcome.base_end;
	if (base == NULL)
		return false;
	draft__edit(d)->base = *base;
	d->next->has_base = true;
	return true;
}

static bool is_of_this_history(const outbox_row *row, const void *ctx)
{
	return row->position.round >= *(const int64_t *)ctx;
}

/* The cluster stands before this round again, with another cursor: what was done in it and later never happened. */
static void drop_history(draft *d)
{
	record *r = draft__edit(d);

	record_remove_rows(r, is_of_this_history, &r->desired->position.round);
	r->has_alloc = false;
}

static void adopt(draft *d)
{
	const edge_manifest *m = &d->j->look.manifest;
	record *r = draft__edit(d);

	r->has_alloc = true;
	r->alloc = (allocation){.round = m->round, .range = m->range, .begin = m->begin, .written = true};
	report_ready(d, &m->range);
}

static void allocate(draft *d)
{
	const outcome *o = &d->j->outcome;
	record *r = draft__edit(d);

	r->has_alloc = true;
	r->alloc = (allocation){
		.round = r->desired->position.round,
		.range = {.from = o->measured_begin.sample, .to = o->measured_end.sample, .end = o->measured_end},
		.begin = o->measured_begin,
	};
}

void train__draft(draft *d)
{
	const job *j = d->j;
	const outbox_row *ready;
	cursor at;

	if (!train__at_waiting(draft__view(d)) || (train__needs_base(draft__view(d)) && !draft_base(d)))
		return;
	at = job__cursor(draft__view(d));
	ready = record_row(draft__view(d), draft__view(d)->desired->position.round, STAGE_TRAIN, REPORT_READY);
	if (ready != NULL && ready->from == at.sample)
		return;
	if (ready != NULL)
		drop_history(d);
	if (draft__view(d)->has_alloc && (draft__view(d)->alloc.range.from != at.sample || j->outcome.alloc_gone))
		draft__edit(d)->has_alloc = false;
	if (!draft__view(d)->desired->has_base)
		return;
	if (is_adoptable(j, draft__view(d), &at))
		adopt(d);
	else if (!draft__view(d)->has_alloc && train__is_measured(j, draft__view(d)))
		allocate(d);
}
