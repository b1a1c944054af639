/* What the parts of the agent share to describe actions: deadlines, jitter, publishing, and file actions under way.
 *
 * A file action owns copies of all that it was given (running.mem), because its job may be dropped or replaced while the shell is at work.
 * When it comes back, its result counts only for the job object that it was begun for; what it left on the disk is found there by the next
 * look. While it runs, no other action touches its job or its output folder, not even one of a job made again under the same name.
 */
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "edge-agent/core/agent_internal.h"

void agent__wake_at(edge_agent *a, int64_t mono_ms)
{
	if (mono_ms < a->wake)
		a->wake = mono_ms;
}

int64_t agent__random(edge_agent *a, int64_t below)
{
	return random_below(&a->random, below);
}

int64_t agent__backoff(edge_agent *a, int attempts)
{
	return random_backoff(&a->random, a->config.problem_min_ms, a->config.problem_max_ms, attempts);
}

int64_t agent__period_ms(int64_t seconds)
{
	const int64_t year = INT64_C(366) * 24 * 3600;

	return (seconds < year ? seconds : year) * 1000;
}

void agent__publish(edge_agent *a, edge_action *out, char *topic_text, char *payload, bool retained)
{
	free(a->out_topic);
	free(a->out_payload);
	a->out_topic = topic_text;
	a->out_payload = payload;
	out->kind = EDGE_PUBLISH;
	out->publish.topic = topic_text;
	out->publish.payload = payload;
	out->publish.retained = retained;
	a->counters.published++;
}

running *agent__run(edge_agent *a, job *j, edge_action *out, enum edge_action_kind kind)
{
	arena *mem = arena_new();
	running *run = arena_alloc(mem, sizeof(*run));
	bool folder = kind != EDGE_LOCATE && kind != EDGE_MEASURE;

	run->mem = mem;
	run->id = ++a->next_id;
	run->serial = j->serial;
	run->kind = kind;
	run->uid = arena_strdup(mem, j->uid);
	run->output_dir = arena_strdup(mem, folder ? j->rec->desired->output_dir : "");
	run->position = j->rec->desired->position;
	run->round = run->position.round;
	a->running = mem_resize_array(a->running, a->n_running + 1, sizeof(*a->running));
	a->running[a->n_running++] = run;
	out->kind = kind;
	out->id = run->id;
	/* What was missing in a document is there now. */
	if (j->problem.attempts == 0)
		job__problem_clear(a, j);
	return run;
}

bool agent__busy(const edge_agent *a, const job *j)
{
	for (size_t i = 0; i < a->n_running; i++) {
		const running *run = a->running[i];

		if (strcmp(run->uid, j->uid) == 0)
			return true;
		if (j->rec->desired->output_dir != NULL && strcmp(run->output_dir, j->rec->desired->output_dir) == 0)
			return true;
	}
	return false;
}

job *agent__job_by_uid(const edge_agent *a, const char *uid)
{
	for (size_t i = 0; i < a->n_jobs; i++) {
		if (strcmp(a->jobs[i]->uid, uid) == 0)
			return a->jobs[i];
	}
	return NULL;
}

job *agent__job_by_name(const edge_agent *a, const char *ns, const char *name)
{
	for (size_t i = 0; i < a->n_jobs; i++) {
		job *j = a->jobs[i];

		if (!j->drop && !j->dropping && strcmp(j->name, name) == 0 && strcmp(j->ns, ns) == 0)
			return j;
	}
	return NULL;
}

/* Out of the list; NULL if there is none with this id. */
static running *running_take(edge_agent *a, uint64_t id)
{
	for (size_t i = 0; i < a->n_running; i++) {
		running *run = a->running[i];

		if (run->id == id) {
			a->running[i] = a->running[--a->n_running];
			return run;
		}
	}
	return NULL;
}

void edge_agent_done(edge_agent *a, uint64_t id, const edge_result *result, moment now)
{
	running *run;
	job *j;

	a->stale = true;
	if (a->commit.active && a->commit.id == id) {
		commit__done(a, result, now);
		return;
	}
	if (credential_keep__done(a, id, result, now))
		return;
	run = running_take(a, id);
	if (run == NULL)
		return;
	if (result->code != 0)
		a->counters.action_failures++;
	j = agent__job_by_uid(a, run->uid);
	if (j != NULL && j->serial == run->serial && j->rec != NULL)
		job__result(a, j, run, result, now);
	arena_free(run->mem);
}
