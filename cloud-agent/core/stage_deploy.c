/* Deploy after the edge agent has written the model, and what follows the end of a stage.
 *
 * The patch that applied `written` names the deployed model; nothing takes that back. Starting (cold): the serving pod is replaced, and the round
 * is complete when the new one runs, or when it had its time. Running (hot): the worker says that it has loaded the model, or had its time.
 * Which of the two it is was settled with `written` and does not change with the spec.
 *
 * After a failure the back-off is spent in Failed. It began when the condition was written, by the wall clock, but no jump of that clock makes
 * it longer than it is.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

enum { CONFIRM_POLLS = 10, CONFIRM_MIN_MS = 10 * 60 * 1000 };

static bool complete(controller *c, job *j, const char *reason, const char *message)
{
	change ch = change_begin(j->view);
	change_end_round(&ch, STAGE_DEPLOY, PHASE_COMPLETED, reason, message);
	next_round_add(c, j, &ch);
	flight_patch(c, j, &ch);
	change_end(&ch);
	return true;
}

static bool serving_runs(const job *j)
{
	const pod *p = j->facts.inference;
	return p != NULL && p->phase == POD_RUNNING && !p->terminating && p->round == j->view->m.deployed.round;
}

bool stage_deploy(controller *c, job *j)
{
	const job_view *v = j->view;
	if (v->pos.phase == PHASE_STARTING) {
		int64_t deadline = position_deadline(j, c->cfg.start_timeout_ms);
		if (serving_runs(j))
			return complete(c, j, NULL, NULL);
		if (c->now.mono_ms >= deadline)
			return complete(c, j, "InferenceNotRunning", "the model is in place, but the inference pod did not run in time");
		job_wake_at(c, j, deadline);
	} else if (v->pos.phase == PHASE_RUNNING) {
		int64_t limit = v->spec_error == NULL ? v->poll_s * 1000 * CONFIRM_POLLS : 0;
		int64_t deadline = position_deadline(j, limit > CONFIRM_MIN_MS ? limit : CONFIRM_MIN_MS);
		if (c->now.mono_ms >= deadline)
			return complete(c, j, "NotConfirmed", "the model is in place, but the worker did not say that it has loaded it");
		job_wake_at(c, j, deadline);
	} else if (j->facts.deploy_node == NULL) {
		job_wait(j, "WaitingForNode", "the node that deploys is not known yet");
	}
	return false;
}

static int64_t backoff_end(const controller *c, const job *j)
{
	int64_t backoff = c->cfg.backoff_min_ms, spent = j->seen_unix - j->view->since_unix;
	for (int64_t i = 1; i < j->view->m.failures && backoff < c->cfg.backoff_max_ms; i++)
		backoff *= 2;
	if (backoff > c->cfg.backoff_max_ms)
		backoff = c->cfg.backoff_max_ms;
	int64_t left = backoff - spent;
	return j->seen_at + (left < 0 ? 0 : left > backoff ? backoff : left);
}

bool stage_over(controller *c, job *j)
{
	const job_view *v = j->view;
	bool planned = true;
	if (v->pos.phase == PHASE_FAILED && c->now.mono_ms < backoff_end(c, j)) {
		job_wake_at(c, j, backoff_end(c, j));
		return false;
	}
	change ch = change_begin(v);
	if (v->pos.phase == PHASE_COMPLETED && v->pos.stage != STAGE_DEPLOY) {
		ch.m.pod_uid = NULL;
		if (v->pos.stage == STAGE_TRAIN)
			ch.m.node = NULL;
		change_add(&ch, v->pos.stage == STAGE_TRAIN ? STAGE_EVAL : STAGE_DEPLOY, PHASE_WAITING, NULL, NULL);
	} else {
		planned = next_round_add(c, j, &ch);
	}
	if (planned)
		flight_patch(c, j, &ch);
	change_end(&ch);
	return planned;
}
