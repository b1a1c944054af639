/* Pods that have to go: those whose job is gone; worker pods of no present or recent position; and those that live on although their stage
 * is over. What has ended stays until the job is two rounds further: it is the proof that the stage has run.
 */
#include "cloud-agent/core/core.h"

bool pod_removable(controller *c, job *j, const pod *p)
{
	if (p->flight != NULL)
		return false;
	if (p->remove_again < 0 || c->now.mono_ms >= p->remove_again)
		return true;
	if (j != NULL)
		job_wake_at(c, j, p->remove_again);
	else if (p->remove_again < c->orphans_at)
		c->orphans_at = p->remove_again;
	return false;
}

bool pods_reap(controller *c, job *j)
{
	const owner *o = table_get(&c->owners, j->uid);
	for (pod *p = o != NULL ? o->pods : NULL; p != NULL; p = p->next) {
		if (p->kind == WORKER_INFERENCE)
			continue;
		enum pod_place place = pod_place(j, p);
		bool due = place == PLACE_OTHER;
		if (place == PLACE_RECENT && pod_live(p)) {
			if (p->live_since < 0)
				p->live_since = c->now.mono_ms;
			due = c->now.mono_ms >= p->live_since + c->cfg.reported_running_ms;
			if (!due)
				job_wake_at(c, j, p->live_since + c->cfg.reported_running_ms);
		}
		if (due && pod_removable(c, j, p)) {
			flight_delete(c, j, p);
			return true;
		}
	}
	return false;
}

bool orphans_reap(controller *c)
{
	bool planned = false;
	c->orphans_due = false;
	c->orphans_at = MOMENT_NEVER;
	for (size_t i = 0; i < c->owners.n; i++) {
		owner *o = c->owners.entries[i].value;
		if (job_of_uid(c, o->uid) != NULL)
			continue;
		for (pod *p = o->pods; p != NULL; p = p->next) {
			if (!pod_removable(c, NULL, p))
				continue;
			flight_delete(c, NULL, p);
			planned = true;
		}
	}
	return planned;
}
