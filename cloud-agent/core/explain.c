/* Why a job stands still although nothing is wrong with its objects: what the state topic says when no look had a reason to give.
 *
 * In this order: the node that is to act is not there (NodeOffline); its agent cannot do what it is to do (DatasetProblem: what it says of
 * the dataset); a worker that keeps ending (WorkerRestarting); a pod that is to serve and does not start (ImagePull, Unschedulable). Each text
 * changes with what it tells of and not by itself, so it costs a message only when there is news. The reason of an ended stage is left as it is.
 *
 * A node of which there is no presence is said to be missing only a while after a connect: what is retained comes a little later.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

enum { ARRIVAL_MS = 5 * 1000, CALM_MS = 10 * 60 * 1000 };

/* Whose turn it is, where that is an edge agent's; NULL: nobody's. */
static const char *acting_node(const job *j)
{
	const job_view *v = j->view;
	if (v->pos.stage != STAGE_DEPLOY)
		return v->pos.phase == PHASE_WAITING ? j->facts.dataset_node : NULL;
	return v->pos.phase == PHASE_WAITING || v->pos.phase == PHASE_READY ? j->facts.deploy_node : NULL;
}

static bool is_away(controller *c, job *j, const char *name)
{
	const node *n = node_get(c, name, false);
	int64_t at = c->linked_at + ARRIVAL_MS;
	if (n != NULL && n->present) {
		if (!n->online)
			job_wait(j, "NodeOffline", "node %s is not connected", name);
		return !n->online;
	}
	if (!c->link)
		return false;
	if (c->now.mono_ms < at) {
		job_wake_at(c, j, at);
		return false;
	}
	job_wait(j, "NodeOffline", "node %s has not been seen", name);
	return true;
}

static bool has_problem(const controller *c, job *j, const char *name)
{
	const dataset *d = j->facts.dataset;
	const edge_status *s = d != NULL ? dataset_status_of(c, d) : NULL;
	if (s == NULL || s->error == NULL || strcmp(s->node, name) != 0)
		return false;
	job_wait(j, "DatasetProblem", "%s", s->error);
	return true;
}

static bool restarts(controller *c, job *j, const pod *p)
{
	static const char *const kinds[] = {"train", "eval", "inference"};
	if (p == NULL || p->restarted_at < 0 || !pod_live(p) || p->terminating)
		return false;
	if (c->now.mono_ms >= p->restarted_at + CALM_MS)
		return false;
	job_wake_at(c, j, p->restarted_at + CALM_MS);
	job_wait(j, "WorkerRestarting", "%s worker restarted %lld time%s%s%s", kinds[p->kind], (long long)p->restarts,
		p->restarts == 1 ? "" : "s", p->message != NULL && p->message[0] != '\0' ? "; last: " : "", p->message != NULL ? p->message : "");
	return true;
}

/* Of a worker's pod the stage says so. The cluster's words change with each try; the pod has them. */
static bool does_not_start(job *j, const pod *p)
{
	if (p == NULL || p->phase != POD_PENDING || p->terminating || p->trouble == NULL)
		return false;
	job_wait(j, p->trouble, "pod %s, which is to serve, does not start", p->name);
	return true;
}

void job_explain(controller *c, job *j)
{
	const job_view *v = j->view;
	if (j->state_reason[0] != '\0' || !v->started || v->spec_error != NULL || v->deleting)
		return;
	const char *name = acting_node(j);
	if (name != NULL && (is_away(c, j, name) || has_problem(c, j, name)))
		return;
	if (phase_ended(v->pos.phase) && v->reason[0] != '\0')
		return;
	if (!restarts(c, j, j->facts.worker) && !restarts(c, j, j->facts.inference))
		does_not_start(j, j->facts.inference);
}
