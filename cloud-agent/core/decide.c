/* A look at one job: at most one write, and when to look again.
 *
 * Order: the beginning; a rollback that was asked for; what a report leads to; what the pods of the present stage lead to; pods that have to go; the pod that serves. A
 * job that is being deleted gets nothing any more: no pod, no patch; its documents stay until the object is gone, so that devices drop it
 * when there is nothing left to come back.
 *
 * Folder and name have one writer: a worker's pod is made only when no other worker pod of this job, of an earlier job of this name, or of a
 * job with the same folder is alive.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"
#include "cloud-agent/core/rollback.h"

int64_t position_deadline(const job *j, int64_t limit_ms)
{
	return j->seen_at + limit_ms;
}

void change_end_round(change *ch, enum stage stage, enum phase phase, const char *reason, const char *message)
{
	ch->m.failures = phase == PHASE_FAILED ? ch->m.failures + 1 : 0;
	if (ch->m.rollback.under_way && phase == PHASE_COMPLETED && reason == NULL) {
		reason = "RolledBack";
		message = rollback_message(ch->mem, &ch->m);
	}
	change_add(ch, stage, phase, reason, message);
}

static const pod *live_worker(const controller *c, const char *uid, const pod *except)
{
	const owner *o = table_get(&c->owners, uid);
	for (const pod *p = o != NULL ? o->pods : NULL; p != NULL; p = p->next) {
		if (p != except && p->kind != WORKER_INFERENCE && pod_live(p))
			return p;
	}
	return NULL;
}

bool next_round_add(controller *c, job *j, change *ch)
{
	const pod *busy = live_worker(c, j->uid, NULL);
	if (job_facts(c, j)->blocked)
		return false;
	if (busy != NULL) {
		job_wait(j, "WaitingForWorker", "pod %s has not ended", busy->name);
		return false;
	}
	const step *last = ch->n > 0 ? &ch->steps[ch->n - 1] : NULL;
	position ended = {.round = ch->m.round,
		.stage = last != NULL ? last->stage : j->view->pos.stage,
		.phase = last != NULL ? last->phase : j->view->pos.phase};
	const char *message =
		ended_message(ch->mem, ended, last != NULL ? last->reason : j->view->reason, last != NULL ? last->message : j->view->message);
	ch->m.round++;
	ch->m.node = ch->m.pod_uid = ch->m.dataset = NULL;
	ch->m.rollback.under_way = false;
	change_add(ch, STAGE_TRAIN, PHASE_WAITING, NULL, message);
	return true;
}

/* ---- may a pod be made ---- */

static bool secret_there(controller *c, job *j, const char *name)
{
	if (name == NULL || name[0] == '\0')
		return true;
	char *key = object_key(j->ns, name);
	bool there = table_get(&c->secrets, key) != NULL;
	free(key);
	if (there)
		return true;
	char *message = mem_printf("there is no Secret %s in namespace %s", name, j->ns);
	job_warn(c, j, "MissingSecret", message);
	free(message);
	return false;
}

/* A pod of an earlier job of this name. */
static const pod *namesake_pod(const controller *c, const job *j)
{
	for (size_t i = 0; i < c->owners.n; i++) {
		const owner *o = c->owners.entries[i].value;
		if (strcmp(o->uid, j->uid) == 0 || strcmp(o->ns, j->ns) != 0 || strcmp(o->job, j->name) != 0)
			continue;
		for (const pod *p = o->pods; p != NULL; p = p->next) {
			if (pod_live(p))
				return p;
		}
	}
	return NULL;
}

static const pod *sharer_pod(const controller *c, const job *j)
{
	if (folder_alone(c, j))
		return NULL;
	for (size_t i = 0; i < c->jobs.n; i++) {
		const job *other = c->jobs.entries[i].value;
		const pod *p = other != j && folder_shared(c, j, other) ? live_worker(c, other->uid, NULL) : NULL;
		if (p != NULL)
			return p;
	}
	return NULL;
}

static bool no_pod(controller *c, job *j, const pod *p, const char *reason, const char *what)
{
	char *message = mem_printf("pod %s of %s has not ended", p->name, what);
	job_warn(c, j, reason, message);
	free(message);
	return false;
}

/* Of the job, its dataset and its models. In place a model's url may be a path of this machine, which needs none. */
static bool secrets_there(controller *c, job *j)
{
	const job_view *v = j->view;
	const char *models[] = {v->initial_model, v->eval_model, v->deploy_model};
	if (!secret_there(c, j, v->credential) || !secret_there(c, j, j->facts.dataset->credential))
		return false;
	for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
		const model_object *m = models[i] != NULL ? model_find(c, j->ns, models[i]) : NULL;
		bool needed = m != NULL && (!c->cfg.workers_in_place || (m->wrong == NULL && url_is_remote(m->m.url)));
		if (needed && !secret_there(c, j, m->credential))
			return false;
	}
	return true;
}

bool pod_allowed(controller *c, job *j, bool worker)
{
	const facts *f = job_facts(c, j);
	const pod *p;
	if (f->blocked)
		return false;
	if (!secrets_there(c, j))
		return false;
	if ((p = namesake_pod(c, j)) != NULL)
		return no_pod(c, j, p, "WaitingForEarlierJob", "an earlier job of this name");
	if (!worker)
		return true;
	if ((p = live_worker(c, j->uid, NULL)) != NULL) {
		job_wait(j, "WaitingForWorker", "pod %s has not ended", p->name);
		return false;
	}
	if ((p = sharer_pod(c, j)) != NULL)
		return no_pod(c, j, p, "OutputDirInUse", "a job with the same output folder");
	return true;
}

/* ---- the look ---- */

static bool begin(controller *c, job *j)
{
	if (j->facts.blocked)
		return false;
	change ch = change_begin(j->view);
	ch.m = (member){.round = j->view->first_round};
	change_add(&ch, STAGE_TRAIN, PHASE_WAITING, NULL, NULL);
	flight_patch(c, j, &ch);
	change_end(&ch);
	return true;
}

static bool plan_stage(controller *c, job *j)
{
	const job_view *v = j->view;
	if (phase_ended(v->pos.phase))
		return stage_over(c, j);
	return v->pos.stage == STAGE_DEPLOY ? stage_deploy(c, j) : stage_work(c, j);
}

static void plan(controller *c, job *j)
{
	if (!j->view->started) {
		begin(c, j);
		return;
	}
	if (rollback_plan(c, j) || reports_apply(c, j) || plan_stage(c, j) || pods_reap(c, j))
		return;
	inference_ensure(c, j);
}

void job_look(controller *c, job *j)
{
	int64_t now = c->now.mono_ms;
	bool waits = j->retry_at > now;
	if (j->flight != NULL && !j->flight->sent)
		flight_cancel(c, j->flight);
	j->wake = MOMENT_NEVER;
	if (waits)
		job_wake_at(c, j, j->retry_at);
	else if (j->flight == NULL)
		job_wait(j, "", "%s", "");
	const facts *f = job_facts(c, j);
	if (f->problem != NULL)
		job_warn(c, j, f->problem, j->problem_text);
	if (may_write(c) && j->flight == NULL && !j->view->deleting) {
		if (!waits)
			plan(c, j);
		if (j->flight == NULL && (!waits || j->conflict_rv == NULL))
			(void)(reason_tell(c, j) || counts_tell(c, j));
	}
	models_wish(c, j);
	job_explain(c, j);
	if (j->state_reason[0] == '\0') {
		free(j->event_seen);
		j->event_seen = NULL;
	}
	job_publish(c, j);
}
