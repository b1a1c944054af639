/* What a worker's post means for a job as it stands: a table over (kind, round and stage of the worker, position, rows).
 *
 *     kind        worker of                  rows              answer
 *     train/eval  the present stage          completed         200, a repeat
 *                                            failed            409: the round was given up
 *                                            none              store it; without the role for the stage keep it: the document may come
 *                 a stage that is over       completed         200
 *                                            else              409
 *                 a stage still ahead        -                 keep
 *                 nobody that is known       -                 keep
 *     deploy      the inference worker, hot, after `written`   none: store it; else 200
 *                 the same, while the copy is made or stored   wait: it may have loaded already what the row will say
 *                 all else                                     200, counted
 *     inference   anybody                                      200
 *
 * `running`, and `failed` of train and eval, are information: 200. A stage fails when its pod ends, not because of what its worker says,
 * since it may be restarted in place and succeed.
 */
#include <string.h>

#include "edge-agent/core/agent_internal.h"

enum {
	ROUNDS_BACK = 64,
	ROUNDS_AHEAD = 8,
	/* An inference worker keeps its name through hot updates, so it may be that of a model of long ago. */
	INFERENCE_ROUNDS_BACK = 4096,
};

static const judgement taken = {VERDICT_ANSWER, 200, "OK"};
static const judgement refused = {VERDICT_ANSWER, 409, "this worker's round is over"};

static bool is_worker(enum worker_kind kind, const char *uid, int64_t round, const char *worker)
{
	char name[WORKER_NAME_SIZE];

	worker_name(kind, uid, round, name);
	return strcmp(name, worker) == 0;
}

/* Remember the outcome of a search, for this job at this round. */
static bool match_begin(worker_match *m, const record *r)
{
	if (m->round == r->desired->position.round && strcmp(m->uid, r->desired->job.uid) == 0)
		return false;
	*m = (worker_match){.round = r->desired->position.round};
	strncpy(m->uid, r->desired->job.uid, sizeof(m->uid) - 1);
	return true;
}

static bool match_found(worker_match *m, int64_t round)
{
	m->found = true;
	m->worker_round = round;
	return true;
}

static bool worker_find(const record *r, enum worker_kind kind, const char *worker, worker_match *m)
{
	const char *uid = r->desired->job.uid;
	int64_t present = r->desired->position.round;

	if (!match_begin(m, r))
		return m->found;
	for (int64_t round = present; round >= 1 && round >= present - ROUNDS_BACK; round--) {
		if (is_worker(kind, uid, round, worker))
			return match_found(m, round);
	}
	for (int64_t round = present + 1; round <= present + ROUNDS_AHEAD; round++) {
		if (is_worker(kind, uid, round, worker))
			return match_found(m, round);
	}
	return false;
}

bool judge__is_inference_worker(const record *r, const char *worker, worker_match *m)
{
	const desired *d = r->desired;
	int64_t present = d->position.round;

	if (!match_begin(m, r))
		return m->found;
	if (is_worker(WORKER_INFERENCE, d->job.uid, 0, worker))
		return match_found(m, 0);
	if (d->has_deployed && is_worker(WORKER_INFERENCE, d->job.uid, d->deployed_round, worker))
		return match_found(m, d->deployed_round);
	for (int64_t round = present; round >= 1 && round >= present - INFERENCE_ROUNDS_BACK; round--) {
		if (is_worker(WORKER_INFERENCE, d->job.uid, round, worker))
			return match_found(m, round);
	}
	return false;
}

static judgement judge_model_result(const record *r, const job *j, enum stage stage, const char *worker, worker_match *m)
{
	const judgement keep = {.verdict = VERDICT_KEEP};
	position present = r->desired->position;
	int64_t round;

	if (!worker_find(r, stage == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL, worker, m))
		return keep;
	round = m->worker_round;
	if (record_row(r, round, stage, REPORT_COMPLETED) != NULL)
		return taken;
	if (position_over(present, round, stage) || record_row(r, round, stage, REPORT_FAILED) != NULL)
		return refused;
	if (round != present.round || stage != present.stage || !job__has_role(r, stage == STAGE_TRAIN ? ROLE_TRAIN : ROLE_EVAL))
		return keep;
	/* Rule 8: the dataset node says which samples were trained, and says it from the folder that the worker has read. */
	if (stage == STAGE_TRAIN && job__has_role(r, ROLE_DATASET) && !(j->result_look.valid && j->result_look.round == round))
		return (judgement){.verdict = VERDICT_LOOK};
	return (judgement){.verdict = VERDICT_STORE};
}

static judgement judge_load(const record *r, const job *j, const char *worker, worker_match *m)
{
	position present = r->desired->position;
	bool in_place = deploy__in_place(r);

	if (present.stage != STAGE_DEPLOY || phase_ended(present.phase) || !r->desired->hot_update || !job__has_role(r, ROLE_DEPLOY))
		return taken;
	if (!in_place && !deploy__under_way(j))
		return taken;
	if (record_end_row(r, present.round, STAGE_DEPLOY) != NULL || !judge__is_inference_worker(r, worker, m))
		return taken;
	if (!in_place)
		return (judgement){.verdict = VERDICT_WAIT};
	return (judgement){.verdict = VERDICT_STORE};
}

judgement judge__result(const record *r, const job *j, enum post_kind kind, enum post_status status, const char *worker,
	worker_match *match)
{
	switch (kind) {
	case POST_TRAIN:
	case POST_EVAL:
		if (status != POST_COMPLETED)
			return taken;
		if (r == NULL)
			return (judgement){.verdict = VERDICT_KEEP};
		return judge_model_result(r, j, kind == POST_TRAIN ? STAGE_TRAIN : STAGE_EVAL, worker, match);
	case POST_DEPLOY:
		if (r == NULL || (status != POST_COMPLETED && status != POST_FAILED))
			return taken;
		return judge_load(r, j, worker, match);
	case POST_INFERENCE:
		break;
	}
	return taken;
}
