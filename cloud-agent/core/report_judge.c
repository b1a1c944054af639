/* Rule 3 as a table: which report is accepted where, from which node, and what it leads to. Pure.
 *
 * Everything else is ignored: a repeat of what was applied, a report of an earlier round or of another uid, one from a node that has no say.
 * That is not an error but how reports end: the sender learns the position from the desired document. No report is refused because of its
 * store or number.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

enum who { WHO_DATASET, WHO_WORKER, WHO_WORKER_ELSE_DATASET, WHO_DEPLOY };
enum kind_of_end { ANY_END, NOT_BETTER, LOADED, LOADED_HOT };
enum { IN_WAITING = 1 << PHASE_WAITING, IN_READY = 1 << PHASE_READY, IN_STARTING = 1 << PHASE_STARTING, IN_RUNNING = 1 << PHASE_RUNNING };

static const struct row {
	bool deploy; /* else train and eval */
	enum report_what what;
	unsigned phases;
	enum who who;
	enum kind_of_end end;
	enum phase to;
} rows[] = {
	{false, REPORT_READY, IN_WAITING, WHO_DATASET, ANY_END, PHASE_READY},
	{false, REPORT_COMPLETED, IN_READY | IN_STARTING | IN_RUNNING, WHO_WORKER, ANY_END, PHASE_COMPLETED},
	{false, REPORT_FAILED, IN_WAITING, WHO_DATASET, ANY_END, PHASE_FAILED},
	{false, REPORT_FAILED, IN_READY, WHO_WORKER_ELSE_DATASET, ANY_END, PHASE_FAILED},
	{false, REPORT_FAILED, IN_STARTING | IN_RUNNING, WHO_WORKER, ANY_END, PHASE_FAILED},
	{true, REPORT_READY, IN_WAITING, WHO_DEPLOY, ANY_END, PHASE_READY},
	{true, REPORT_COMPLETED, IN_WAITING, WHO_DEPLOY, NOT_BETTER, PHASE_COMPLETED},
	{true, REPORT_WRITTEN, IN_READY, WHO_DEPLOY, ANY_END, PHASE_STARTING},
	{true, REPORT_COMPLETED, IN_READY, WHO_DEPLOY, LOADED_HOT, PHASE_COMPLETED},
	{true, REPORT_COMPLETED, IN_RUNNING, WHO_DEPLOY, LOADED, PHASE_COMPLETED},
	{true, REPORT_FAILED, IN_WAITING | IN_READY | IN_STARTING | IN_RUNNING, WHO_DEPLOY, ANY_END, PHASE_FAILED},
};

static const struct row *row_of(const report *r, enum phase phase)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].deploy == (r->position.stage == STAGE_DEPLOY) && rows[i].what == r->what && (rows[i].phases & (1u << phase)) != 0)
			return &rows[i];
	}
	return NULL;
}

static bool right_end(const struct row *row, const report *r, bool hot)
{
	bool not_better = r->reason != NULL && strcmp(r->reason, "NotBetter") == 0;
	switch (row->end) {
	case NOT_BETTER:
		return not_better;
	case LOADED:
		return !not_better;
	case LOADED_HOT:
		return hot && !not_better;
	case ANY_END:
		break;
	}
	return true;
}

static const char *node_of(const struct row *row, const judge_nodes *nodes)
{
	switch (row->who) {
	case WHO_DATASET:
		return nodes->dataset;
	case WHO_WORKER:
		return nodes->worker;
	case WHO_WORKER_ELSE_DATASET:
		return nodes->worker != NULL ? nodes->worker : nodes->dataset;
	case WHO_DEPLOY:
		break;
	}
	return nodes->deploy;
}

/* Rule 5: a round's samples begin at the cursor. What is not so was allocated from another one; the document tells the present one. */
static bool begins_elsewhere(const job_view *v, const report *r)
{
	bool takes = r->position.stage == STAGE_TRAIN && r->what == REPORT_READY;
	return takes && v->m.has_cursor && r->has_range && r->range.from != v->m.cursor.sample;
}

/* The model that it says is in place is not the one that was to be put there: it is of a deployment that never was, since the cluster was set
 * back to before it. */
static bool of_another(const job_view *v, const report *r)
{
	return r->position.stage == STAGE_DEPLOY && v->pos.phase != PHASE_WAITING && v->m.rollback.under_way && r->has_sha256 &&
		!digest_equal(&r->sha256, &v->m.rollback.sha256);
}

enum verdict report_judge(const job_view *v, bool hot, const judge_nodes *nodes, const report *r, enum phase *to, const char **why)
{
	*why = "the job has not begun";
	if (!v->started)
		return VERDICT_IGNORE;
	*why = "another round";
	if (r->position.round != v->pos.round)
		return VERDICT_IGNORE;
	*why = "another stage";
	if (r->position.stage != v->pos.stage)
		return VERDICT_IGNORE;
	const struct row *row = row_of(r, v->pos.phase);
	*why = "not in this phase";
	if (row == NULL || !right_end(row, r, hot))
		return VERDICT_IGNORE;
	const char *node_name = node_of(row, nodes);
	*why = "the node is not known yet";
	if (node_name == NULL)
		return VERDICT_IGNORE;
	*why = "another node";
	if (strcmp(node_name, r->node) != 0)
		return VERDICT_IGNORE;
	*why = "its samples do not begin at the cursor";
	if (begins_elsewhere(v, r))
		return VERDICT_IGNORE;
	*why = "it is of another deployment";
	if (of_another(v, r))
		return VERDICT_IGNORE;
	*to = row->what == REPORT_WRITTEN && hot ? PHASE_RUNNING : row->to;
	*why = "accepted";
	return VERDICT_ACCEPT;
}
