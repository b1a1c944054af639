/* The pod that serves: there is one, named after the round whose model it serves (0: what was there first).
 *
 * A pod under another name serves another model and goes first; the new one is made when it has ended. Except with hot update: a pod that
 * loads models by itself stays whatever it is named after. A pod that ended, or is gone, is made again, later and later if it keeps ending, or if
 * the cluster refuses it; neither holds up the rounds.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

/* Pods that must not serve any more; *left: one is still there. */
static bool remove_others(controller *c, job *j, int64_t wanted, bool *left)
{
	const owner *o = table_get(&c->owners, j->uid);
	bool hot = serves_hot(&j->facts, j->view);
	*left = false;
	for (pod *p = o != NULL ? o->pods : NULL; p != NULL; p = p->next) {
		if (p->kind != WORKER_INFERENCE || p->round == wanted || (hot && p == j->facts.inference))
			continue;
		*left = true;
		if (pod_removable(c, j, p)) {
			flight_delete(c, j, p);
			return true;
		}
	}
	return false;
}

static bool make(controller *c, job *j, int64_t round)
{
	char name[POD_NAME_SIZE];
	if (c->now.mono_ms < j->inference_retry_at) {
		if (j->inference_refused != NULL)
			job_warn(c, j, "PodRefused", j->inference_refused);
		job_wake_at(c, j, j->inference_retry_at);
		return false;
	}
	if (!pod_allowed(c, j, false))
		return false;
	pod_name(WORKER_INFERENCE, j->name, j->uid, round, name);
	flight_create(c, j, WORKER_INFERENCE, round, name, pod_build(c, j, WORKER_INFERENCE, round, name));
	return true;
}

bool inference_ensure(controller *c, job *j)
{
	const job_view *v = j->view;
	int64_t round = v->m.has_deployed ? v->m.deployed.round : 0;
	bool left;
	if (j->facts.blocked)
		return false;
	if (remove_others(c, j, round, &left))
		return true;
	pod *p = j->facts.inference;
	if (left || serves_hot(&j->facts, v))
		return false;
	if (p == NULL || p->round != round)
		return make(c, j, round);
	if (pod_live(p)) {
		if (p->phase == POD_RUNNING && !p->terminating)
			j->inference_delay = 0;
		return false;
	}
	if (!pod_removable(c, j, p))
		return false;
	j->inference_retry_at = c->now.mono_ms + retry_delay(c, &j->inference_delay, c->cfg.backoff_min_ms);
	flight_delete(c, j, p);
	return true;
}
