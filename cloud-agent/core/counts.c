/* What inference workers count, in the status of their job: how many inferences, and how many hard examples among them.
 *
 * The topic of the job has each message as it comes. The status has the newest of them, written when it differs and at most once in a while:
 * numbers that always grow are not worth a write each. They are for people: nothing is decided by them, a write that fails is tried again later
 * and later, and a cluster that does not keep them is not asked to.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

enum { EVERY_MS = 10 * 60 * 1000 };

int counts_take(controller *c, const topic *t, const void *payload, size_t len, error *err)
{
	infer_stats *s = NULL;
	int code = infer_stats_decode(payload, len, &s, err);
	if (code == 0 && (strcmp(s->node, t->node) != 0 || strcmp(s->job.ns, t->ns) != 0 || strcmp(s->job.name, t->name) != 0))
		code = error_set(err, ERROR_INVALID, "stats: what it says it is of is not what its topic says");
	job *j = code == 0 ? job_of_uid(c, s->job.uid) : NULL;
	if (j != NULL && strcmp(j->ns, t->ns) == 0 && strcmp(j->name, t->name) == 0 &&
		(facts_roles(job_facts(c, j), s->node) & ROLE_DEPLOY) != 0) {
		j->counts.there = true;
		j->counts.inferences = s->inferences;
		j->counts.hard_examples = s->hard_examples;
		job_poke(c, j);
	}
	infer_stats_free(s);
	return code;
}

static bool is_told(const job *j)
{
	const cJSON *known = json_member(json_member(j->object, "status"), "inference");
	const cJSON *inferences = json_member(known, "inferences"), *hard = json_member(known, "hardExamples");
	return cJSON_IsNumber(inferences) && cJSON_IsNumber(hard) && (int64_t)inferences->valuedouble == j->counts.inferences &&
		(int64_t)hard->valuedouble == j->counts.hard_examples;
}

bool counts_tell(controller *c, job *j)
{
	if (!j->counts.there || !j->view->started || !j->view->has_summary || is_told(j))
		return false;
	if (c->now.mono_ms < j->counts.next_at) {
		job_wake_at(c, j, j->counts.next_at);
		return false;
	}
	char time[32];
	cJSON *status = cJSON_CreateObject(), *inference = cJSON_CreateObject();
	time_format(c->now.unix_ms, time);
	json_put_int(inference, "inferences", j->counts.inferences);
	json_put_int(inference, "hardExamples", j->counts.hard_examples);
	json_put_string(inference, "updateTime", time);
	json_put(status, "inference", inference);
	flight_status(c, j, status)->tells = TELLS_COUNTS;
	return true;
}

void counts_told(controller *c, job *j, int code, int64_t retry_after_ms)
{
	if (code == 0)
		j->counts.delay = 0;
	j->counts.next_at = c->now.mono_ms + (code == 0 ? EVERY_MS : retry_delay(c, &j->counts.delay, retry_after_ms));
}
