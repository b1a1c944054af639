/* Eval/Waiting on the dataset node: the eval data of the round is put together, then `ready` says where it is and which models to compare.
 * The file may be made again at any time: it is derived from the rounds' folders, which do not change. */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/agent_internal.h"

static bool at_waiting(const record *r)
{
	return job__has_role(r, ROLE_DATASET) && r->desired->has_dataset && r->desired->position.stage == STAGE_EVAL &&
		r->desired->position.phase == PHASE_WAITING && record_row(r, r->desired->position.round, STAGE_EVAL, REPORT_READY) == NULL &&
		record_row(r, r->desired->position.round, STAGE_EVAL, REPORT_FAILED) == NULL;
}

static void report_ready(draft *d)
{
	const record *r = draft__edit(d);
	size_t n = r->desired->n_eval_models;
	model *models = arena_alloc(r->mem, n * sizeof(*models));
	char file[16] = "data.";
	report rep = {.has_input = true};
	char *data_url, *index_url;

	for (size_t i = 0; i < n; i++)
		models[i] = job__input_model(&r->desired->eval_models[i]);
	strncat(file, dataset_format_name(r->desired->dataset.format), sizeof(file) - sizeof("data."));
	data_url = job__round_url(r, "data/eval", file);
	index_url = job__index_url(r, "data/eval");
	rep.input.models = models;
	rep.input.n_models = n;
	rep.input.data_url = data_url;
	rep.input.data_index_url = index_url;
	draft__report(d, &rep, STAGE_EVAL, REPORT_READY, -1);
	free(data_url);
	free(index_url);
}

void eval__draft(draft *d)
{
	const record *r = draft__view(d);

	if (!at_waiting(r) || r->desired->n_eval_models == 0 || position_compare(r->desired->position, d->j->outcome.at) != 0)
		return;
	if (d->j->outcome.eval_written)
		report_ready(d);
	else if (d->j->outcome.eval_missing)
		draft__fail(d, STAGE_EVAL, "SamplesMissing", "the samples of this round are not on the disk any more, so it cannot be evaluated");
}

bool eval__action(edge_agent *a, job *j, edge_action *out)
{
	const desired *d = j->rec->desired;
	running *run;

	if (!at_waiting(j->rec))
		return false;
	if (d->n_eval_models == 0) {
		job__complain(a, j, "the document names no models to compare");
		return false;
	}
	run = agent__run(a, j, out, EDGE_WRITE_EVAL);
	out->round.uid = run->uid;
	out->round.output_dir = run->output_dir;
	out->round.url = arena_strdup(run->mem, d->dataset.url);
	out->round.round = d->position.round;
	out->round.format = d->dataset.format;
	out->round.train_prob = d->train_prob;
	return true;
}
