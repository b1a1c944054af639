/* Train and Eval after Waiting: one pod, from its making to its end.
 *
 *   Ready      the pod is made, once (a template that the cluster refuses fails the stage); Starting is patched, with its uid and its node, when it has
 *              neither run nor met with trouble for a while; Starting and Running together when it has run for a moment
 *   Starting   Running follows the pod likewise; one that does not start within the limit is deleted
 *   Running    the edge agent reports the result; the pod's end alone never completes the stage
 *
 * A pod that Failed fails the stage at once, and one that the core had to delete does when it has ended. One that Succeeded or is gone has
 * ended: the document says so, and the agent of its node reports the result, or that there is none. Only when that agent cannot be there any
 * more does the cloud say so itself.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"

static enum worker_kind kind_of(const job *j)
{
	return j->view->pos.stage == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL;
}

static bool patch_phase(controller *c, job *j, enum phase phase, const char *reason, const char *message)
{
	change ch = change_begin(j->view);
	if (j->facts.worker_node != NULL)
		ch.m.node = j->facts.worker_node;
	if (phase == PHASE_FAILED)
		change_end_round(&ch, j->view->pos.stage, phase, reason, message);
	else
		change_add(&ch, j->view->pos.stage, phase, reason, message);
	flight_patch(c, j, &ch);
	change_end(&ch);
	return true;
}

/* ---- Ready ---- */

/* A worker that ends at once needs no Running of its own. Nothing rests on it: a result is taken in Ready and Starting too. */
static bool running_held(controller *c, job *j, const pod *p)
{
	int64_t end = p->ran_at + c->cfg.running_hold_ms;
	if (c->now.mono_ms >= end)
		return false;
	job_wake_at(c, j, end);
	return true;
}

/* Nor does one that starts soon, and as it should, need a Starting. It is made once all the same: a pod that is there, or that this process has
 * made, is never made again; and as long as it lives a restart finds it. Whatever else there is to be told of it is told at once. */
static bool starting_held(controller *c, job *j, const pod *p)
{
	if (p == NULL || p->terminating || p->trouble != NULL || p->restarts > 0)
		return false;
	if (p->phase == POD_RUNNING || p->phase == POD_SUCCEEDED) /* then its result is on its way */
		return running_held(c, j, p);
	int64_t end = p->seen_at + c->cfg.starting_hold_ms;
	if (p->phase != POD_PENDING || c->now.mono_ms >= end)
		return false;
	job_wake_at(c, j, end);
	return true;
}

/* The pod was made. */
static bool work_made(controller *c, job *j, const char *made_uid)
{
	const job_view *v = j->view;
	const pod *p = j->facts.worker;
	if (starting_held(c, j, p))
		return false;
	change ch = change_begin(v);
	ch.m.pod_uid = p != NULL ? p->uid : made_uid;
	ch.m.node = j->facts.worker_node;
	change_add(&ch, v->pos.stage, PHASE_STARTING, NULL, NULL);
	if (p != NULL && p->phase == POD_RUNNING && !p->terminating && !running_held(c, j, p))
		change_add(&ch, v->pos.stage, PHASE_RUNNING, NULL, NULL);
	flight_patch(c, j, &ch);
	change_end(&ch);
	return true;
}

static bool work_ready(controller *c, job *j)
{
	const job_view *v = j->view;
	const facts *f = &j->facts;
	const made_pod *made = &j->made[v->pos.stage];
	char name[POD_NAME_SIZE];
	if (f->worker != NULL || made->round == v->pos.round)
		return work_made(c, j, made->uid);
	if (j->refused != NULL && j->refused_round == v->pos.round)
		return patch_phase(c, j, PHASE_FAILED, "PodRefused", j->refused);
	if (!pod_allowed(c, j, true))
		return false;
	pod_name(kind_of(j), j->name, j->uid, v->pos.round, name);
	flight_create(c, j, kind_of(j), v->pos.round, name, pod_build(c, j, kind_of(j), v->pos.round, name));
	return true;
}

/* ---- what has to be stopped ---- */

void pod_kill(controller *c, job *j, pod *p, const char *reason, const char *message)
{
	if (j->kill_uid == NULL || strcmp(j->kill_uid, p->uid) != 0) {
		free(j->kill_uid);
		free(j->kill_message);
		j->kill_uid = mem_strdup(p->uid);
		j->kill_message = mem_strdup(message);
		j->kill_reason = reason;
		event_add(c, j, true, reason, message);
	}
	flight_delete(c, j, p);
}

/* Why a live pod has to go, or NULL. */
static const char *fault_of(controller *c, job *j, const pod *p, const char **message)
{
	const facts *f = &j->facts;
	bool stuck = p->phase == POD_PENDING || p->phase == POD_UNKNOWN || p->terminating;
	*message = p->message;
	if (j->kill_uid != NULL && strcmp(j->kill_uid, p->uid) == 0) {
		*message = j->kill_message;
		return j->kill_reason;
	}
	if (p->node[0] != '\0' && f->dataset_node != NULL && f->output_dir != NULL && !url_is_remote(f->output_dir) &&
		strcmp(p->node, f->dataset_node) != 0) {
		*message = "the pod was bound to a node that does not see the output folder";
		return "LocalPathOnOtherNode";
	}
	if (c->cfg.max_restarts > 0 && p->restarts >= c->cfg.max_restarts)
		return "WorkerKeepsFailing";
	if (p->node[0] != '\0' && !node_reachable(c, p->node)) {
		char *text = mem_printf("node %s of pod %s is not ready", p->node, p->name);
		j->clock_stopped = true; /* nobody could start it */
		job_warn(c, j, "NodeUnreachable", text);
		free(text);
		return NULL;
	}
	if (!stuck)
		return NULL;
	if (j->clock_stopped)
		j->seen_at = c->now.mono_ms;
	j->clock_stopped = false;
	int64_t deadline = position_deadline(j, c->cfg.start_timeout_ms);
	if (c->now.mono_ms < deadline) {
		job_wake_at(c, j, deadline);
		if (p->trouble != NULL)
			job_wait(j, p->trouble, "%s", p->message != NULL ? p->message : "");
		return NULL;
	}
	if (p->phase == POD_UNKNOWN || p->terminating)
		return "PodLost";
	return p->trouble != NULL ? p->trouble : "StartTimeout";
}

static bool node_silent(const controller *c, job *j, const char *node_name)
{
	const node *n = node_get((controller *)c, node_name, false);
	if (c->cfg.node_silence_ms <= 0 || n == NULL || n->online || n->offline_at < 0)
		return false;
	if (c->now.mono_ms >= n->offline_at + c->cfg.node_silence_ms)
		return true;
	job_wake_at((controller *)c, j, n->offline_at + c->cfg.node_silence_ms);
	return false;
}

/* The pod has ended without a failure of its own: its node's agent knows how it went. */
static bool await_result(controller *c, job *j)
{
	const char *node_name = j->facts.worker_node;
	if (node_name == NULL)
		return patch_phase(c, j, PHASE_FAILED, "PodLost", "the pod is gone, and it is not known where it ran");
	if (node_gone(c, node_name))
		return patch_phase(c, j, PHASE_FAILED, "ResultsMissing", "the worker's node has left the cluster");
	if (node_silent(c, j, node_name))
		return patch_phase(c, j, PHASE_FAILED, "ResultsMissing", "the worker has ended and its node is silent");
	const node *n = node_get(c, node_name, false);
	bool away = n == NULL || !n->online;
	job_wait(j, away ? "WaitingForNode" : "WaitingForResult", "the worker has ended; node %s %s", node_name,
		away ? "is not connected" : "has not reported its result yet");
	return false;
}

static bool work_running(controller *c, job *j)
{
	const job_view *v = j->view;
	const facts *f = &j->facts;
	pod *p = f->worker;
	const char *message = NULL, *reason;
	if (f->worker_ended) {
		const char *uid = v->m.pod_uid;
		if (j->kill_uid != NULL && uid != NULL && strcmp(j->kill_uid, uid) == 0)
			return patch_phase(c, j, PHASE_FAILED, j->kill_reason, j->kill_message);
		if (p != NULL && p->phase == POD_FAILED)
			return patch_phase(c, j, PHASE_FAILED, "WorkerFailed", p->message);
		return await_result(c, j);
	}
	reason = fault_of(c, j, p, &message);
	if (reason != NULL) {
		if (!pod_removable(c, j, p))
			return false;
		pod_kill(c, j, p, reason, message != NULL ? message : "");
		return true;
	}
	/* A node that has still to be recorded is, at once. */
	bool node_is_news = v->m.node == NULL && f->worker_node != NULL;
	if (v->pos.phase == PHASE_STARTING && p->phase == POD_RUNNING && (node_is_news || !running_held(c, j, p)))
		return patch_phase(c, j, PHASE_RUNNING, NULL, NULL);
	if (node_is_news) {
		change ch = change_begin(v);
		ch.amend = true;
		ch.m.node = f->worker_node;
		flight_patch(c, j, &ch);
		change_end(&ch);
		return true;
	}
	return false;
}

bool stage_work(controller *c, job *j)
{
	switch (j->view->pos.phase) {
	case PHASE_READY:
		return work_ready(c, j);
	case PHASE_STARTING:
	case PHASE_RUNNING:
		return work_running(c, j);
	case PHASE_WAITING:
	case PHASE_COMPLETED:
	case PHASE_FAILED:
		break;
	}
	return false;
}
