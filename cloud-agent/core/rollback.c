/* Rollback: an annotation of the job, `ilmare/rollback-to: "<round>"`, makes the model serve that this round deployed.
 *
 * It is taken while the job waits, in whatever stage: then no worker runs, and nothing half done is thrown away. The round ends there, and goes to
 * Deploy/Ready with a version to go back to; from there on it is a deployment as any other.
 *
 * Exactly once, whoever crashes when. Three guarded writes, each of which shows what has been done before it:
 *
 *   1. take      annotations: `rollback-to` goes, `ilmare/rollback: "<id>:<round>"` comes, in one write. The id is the resourceVersion at which it
 *                was taken: never the same for two of them. From now on a `rollback-to` on the object is another wish, even for the same round.
 *   2. decide    conditions: Deploy/Ready, or why not; and the id, so that it is not decided again
 *   3. clean     annotations: `ilmare/rollback` goes, once its id is in the conditions. A refusal is said as an Event before that.
 *
 * (With the conditions written first, somebody who sets the annotation anew between that and its removal, in the moment of a crash, could
 * not be told from somebody who has set it once.)
 *
 * When the cluster does not let us write annotations the job goes on without the rollback, and says so.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"

enum { VALUE_SHOWN = 40, ROUND_DIGITS_MAX = 15 };

/* ---- the annotations ---- */

static void annotate(controller *c, job *j, const char *taken, bool ask_too)
{
	cJSON *annotations = cJSON_CreateObject();
	if (ask_too)
		json_put(annotations, ANNOTATION_ROLLBACK, cJSON_CreateNull());
	json_put(annotations, ANNOTATION_TAKEN, taken != NULL ? cJSON_CreateString(taken) : cJSON_CreateNull());
	flight_annotate(c, j, annotations);
}

/* False: not before the time that is over then, and why. */
static bool may_annotate(controller *c, job *j)
{
	if (c->now.mono_ms >= j->annotate_at)
		return true;
	job_wake_at(c, j, j->annotate_at);
	if (j->annotate_error != NULL)
		job_warn(c, j, j->annotate_denied ? "ClusterDenied" : "ClusterFailure", j->annotate_error);
	return false;
}

void rollback_annotated(controller *c, job *j, int code, const char *text, int64_t retry_after_ms)
{
	free(j->annotate_error);
	j->annotate_error = NULL;
	if (code == 0) {
		j->annotate_at = j->annotate_delay = 0;
		return;
	}
	j->annotate_at = c->now.mono_ms + retry_delay(c, &j->annotate_delay, retry_after_ms);
	j->annotate_denied = code == ERROR_DENIED;
	j->annotate_error =
		mem_printf("annotation " ANNOTATION_ROLLBACK " cannot be taken: %s", text != NULL && text[0] != '\0' ? text : error_describe(code));
}

static bool take(controller *c, job *j)
{
	if (!may_annotate(c, j))
		return false;
	char value[VALUE_SHOWN + 1];
	text_copy(value, sizeof value, j->view->rollback_to);
	char *taken = mem_printf("%s:%s", j->rv, value);
	annotate(c, j, taken, true);
	free(taken);
	return true;
}

/* An Event more than once is better than none: it is on its way before the annotation goes. False: not yet. */
static bool refusal_told(controller *c, job *j)
{
	const member *m = &j->view->m;
	if (m->rollback.refused == NULL)
		return true;
	if (j->refusal_said == NULL || strcmp(j->refusal_said, m->rollback.id) != 0) {
		event_add(c, j, true, "RollbackRefused", m->rollback.refused);
		free(j->refusal_said);
		j->refusal_said = mem_strdup(m->rollback.id);
		j->refusal_said_at = c->now.mono_ms;
	}
	if (c->now.mono_ms > j->refusal_said_at)
		return true;
	job_wake_at(c, j, j->refusal_said_at + 1);
	return false;
}

static bool clean(controller *c, job *j)
{
	if (!refusal_told(c, j) || !may_annotate(c, j))
		return false;
	annotate(c, j, NULL, false);
	return true;
}

/* ---- the decision ---- */

static bool parse_round(const char *text, int64_t *out)
{
	size_t len = strlen(text);
	if (len == 0 || len > ROUND_DIGITS_MAX || strspn(text, "0123456789") != len)
		return false;
	*out = strtoll(text, NULL, 10);
	return true;
}

static bool serves(const member *m, const kept_version *v)
{
	return m->has_deployed && (m->deployed.round == v->round || (m->deployed.has_sha256 && digest_equal(&m->deployed.sha256, &v->sha256)));
}

/* NULL: there is a reason not to, in mem. */
static const kept_version *choose(arena *mem, const member *m, const char *value, const char **why)
{
	int64_t round;
	const char *all = versions_text(mem, m), *kept = all[0] != '\0' ? all : "none";
	if (!parse_round(value, &round)) {
		*why = arena_printf(mem, "'%.*s' is not the number of a round; kept: %s", VALUE_SHOWN, value, kept);
		return NULL;
	}
	const kept_version *v = version_find(m, round);
	if (v == NULL)
		*why = arena_printf(mem, "no model of round %lld is kept; kept: %s", (long long)round, kept);
	else if (serves(m, v))
		*why = arena_printf(mem, "the model of round %lld is the one that serves; kept: %s", (long long)round, kept);
	else
		return v;
	return NULL;
}

static bool decide(controller *c, job *j, const char *id, const char *value)
{
	const char *why = NULL;
	change ch = change_begin(j->view);
	const kept_version *to = choose(ch.mem, &ch.m, value, &why);
	ch.m.rollback.id = id;
	ch.m.rollback.refused = why;
	if (to == NULL) {
		ch.amend = true;
	} else {
		ch.m.rollback.under_way = true;
		ch.m.rollback.to = to->round;
		ch.m.rollback.sha256 = to->sha256;
		ch.m.node = j->facts.deploy_node;
		ch.m.pod_uid = NULL;
		change_add(&ch, STAGE_DEPLOY, PHASE_READY, NULL, rollback_message(ch.mem, &ch.m));
	}
	flight_patch(c, j, &ch);
	change_end(&ch);
	return true;
}

const char *rollback_message(arena *mem, const member *m)
{
	return arena_printf(mem, "back to the model of round %lld", (long long)m->rollback.to);
}

bool rollback_plan(controller *c, job *j)
{
	const job_view *v = j->view;
	const char *taken = v->rollback_taken, *colon = taken != NULL ? strchr(taken, ':') : NULL;
	bool decided = false, waits = v->started && v->pos.phase == PHASE_WAITING;
	if (!v->started || (taken == NULL && v->rollback_to == NULL))
		return false;
	char *id = colon != NULL ? mem_strndup(taken, (size_t)(colon - taken)) : NULL;
	bool known = taken != NULL && (id == NULL || (v->m.rollback.id != NULL && strcmp(v->m.rollback.id, id) == 0));
	if (known) /* what is not ours goes, too */
		decided = clean(c, j);
	else if (waits && job_facts(c, j)->deploy_node == NULL)
		job_wait(j, "WaitingForNode", "the node that deploys is not known yet");
	else if (waits && !j->facts.blocked)
		decided = taken != NULL ? decide(c, j, id, colon + 1) : take(c, j);
	free(id);
	return decided;
}
