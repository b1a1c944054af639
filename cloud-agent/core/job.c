/* The jobs: their newest objects, and the memory beside them.
 *
 * A fed object, the answer to our own patch and every change of what a job refers to touch it; job_look then decides anew. The watch may lag
 * behind an answer to our own patch: until it has caught up, what it shows and is older is passed over, so that no position goes back.
 * A job made again under its name has another uid and begins from nothing; the pods of the one before are orphans then.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"

job *job_of_uid(const controller *c, const char *uid)
{
	return table_get(&c->uids, uid);
}

void job_touch(controller *c, job *j)
{
	j->stale = true;
	job_poke(c, j);
}

void job_changed(controller *c, job *j)
{
	j->version++;
	job_touch(c, j);
}

void job_poke(controller *c, job *j)
{
	if (j->dirty)
		return;
	j->dirty = true;
	j->dirty_next = NULL;
	if (c->dirty_tail != NULL)
		c->dirty_tail->dirty_next = j;
	else
		c->dirty_head = j;
	c->dirty_tail = j;
}

void jobs_touch_all(controller *c)
{
	for (size_t i = 0; i < c->jobs.n; i++)
		job_changed(c, c->jobs.entries[i].value);
}

void job_wake_at(controller *c, job *j, int64_t mono_ms)
{
	if (mono_ms < j->wake)
		j->wake = mono_ms;
	if (mono_ms < c->due)
		c->due = mono_ms;
}

static void untouch(controller *c, job *j)
{
	job *before = NULL;
	for (job *i = c->dirty_head; i != NULL; before = i, i = i->dirty_next) {
		if (i != j)
			continue;
		*(before != NULL ? &before->dirty_next : &c->dirty_head) = j->dirty_next;
		if (c->dirty_tail == j)
			c->dirty_tail = before;
		return;
	}
}

/* Jobs that share a folder with this one may go on, or have to stop. */
static void touch_sharers(controller *c, const job *j)
{
	if (folder_alone(c, j))
		return;
	for (size_t i = 0; i < c->jobs.n; i++) {
		job *other = c->jobs.entries[i].value;
		if (other != j && folder_shared(c, j, other))
			job_changed(c, other);
	}
}

static void job_free(controller *c, job *j)
{
	if (j->dirty)
		untouch(c, j);
	if (j->flight != NULL) {
		j->flight->job = NULL;
		j->flight->report = NULL;
		if (!j->flight->sent)
			flight_cancel(c, j->flight);
	}
	for (size_t i = 0; i < j->n_reports; i++)
		report_free(j->reports[i]);
	for (size_t i = 0; i < sizeof j->made / sizeof j->made[0]; i++) {
		free(j->made[i].uid);
		free(j->made[i].node);
	}
	folder_count(c, j->view, false);
	job_view_free(j->view);
	data_cache_fini(&j->cache);
	cJSON_Delete(j->object);
	free(j->ns);
	free(j->name);
	free(j->key);
	free(j->uid);
	free(j->rv);
	free(j->answered_rv);
	free(j->conflict_rv);
	free(j->kill_uid);
	free(j->kill_message);
	free(j->refused);
	free(j->inference_refused);
	free(j->annotate_error);
	free(j->refusal_said);
	free(j->event_seen);
	free(j);
}

void job_drop(controller *c, job *j)
{
	table_remove(&c->jobs, j->key);
	table_remove(&c->uids, j->uid);
	job_unpublish(c, j);
	touch_sharers(c, j);
	c->orphans_due = true;
	job_free(c, j);
}

static bool decimal(const char *text)
{
	return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* resourceVersions are compared where they are decimal numbers, as Kubernetes allows; others are taken as newer. */
bool version_older(const char *a, const char *b)
{
	if (!decimal(a) || !decimal(b))
		return false;
	size_t len_a = strlen(a), len_b = strlen(b);
	return len_a != len_b ? len_a < len_b : strcmp(a, b) < 0;
}

/* The watch shows what was before our own patch. */
static bool watch_lags(controller *c, job *j, const char *rv)
{
	if (j->answered_rv == NULL)
		return false;
	if (c->synced && version_older(rv, j->answered_rv))
		return true;
	free(j->answered_rv);
	j->answered_rv = NULL;
	return false;
}

static job *job_new(controller *c, const char *key, const char *ns, const char *name, const char *uid)
{
	job *j = mem_alloc(sizeof *j);
	j->ns = mem_strdup(ns);
	j->name = mem_strdup(name);
	j->key = mem_strdup(key);
	j->uid = mem_strdup(uid);
	j->wake = MOMENT_NEVER;
	j->answered_at = j->tell_since = -1;
	table_put(&c->jobs, key, j);
	table_put(&c->uids, uid, j);
	return j;
}

static bool text_differs(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

/* Grows with each change of the spec, where the cluster counts them. */
static double generation(const cJSON *object)
{
	const cJSON *number = json_member(json_member(object, "metadata"), "generation");
	return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static void take_object(controller *c, job *j, cJSON *object)
{
	job_view *before = j->view;
	cJSON *object_before = j->object;
	if (object_before != NULL && generation(object) > generation(object_before)) {
		/* Whatever was refused before may have been mended: once more, at once. */
		j->retry_at = j->retry_delay = j->inference_retry_at = j->inference_delay = 0;
		j->compact = false;
		free(j->inference_refused);
		j->inference_refused = NULL;
	}
	free(j->rv);
	j->rv = mem_strdup(object_text(object, "metadata", "resourceVersion"));
	j->object = object;
	folder_count(c, j->view, false);
	j->view = job_view_new(object, &j->cache);
	folder_count(c, j->view, true);
	const job_view *v = j->view;
	if (before == NULL || v->started != before->started || position_compare(v->pos, j->seen) != 0 || v->pos.phase != j->seen.phase) {
		j->seen = v->pos;
		j->seen_at = c->now.mono_ms;
		j->seen_unix = c->now.unix_ms;
		j->clock_stopped = false;
	}
	if (j->conflict_rv != NULL && strcmp(j->conflict_rv, j->rv) != 0) {
		free(j->conflict_rv);
		j->conflict_rv = NULL;
		j->retry_at = 0;
	}
	if (before == NULL || text_differs(before->output_dir, v->output_dir) || text_differs(before->round_dir, v->round_dir))
		touch_sharers(c, j);
	job_view_free(before);
	data_cache_sweep(&j->cache);
	cJSON_Delete(object_before);
	job_changed(c, j);
}

void job_put(controller *c, const char *key, const char *ns, const char *name, cJSON *object, bool answer)
{
	const char *uid = object_text(object, "metadata", "uid"), *rv = object_text(object, "metadata", "resourceVersion");
	job *j = table_get(&c->jobs, key);
	if (j != NULL && strcmp(j->uid, uid) != 0) {
		job_drop(c, j);
		j = NULL;
	}
	if (j == NULL)
		j = job_new(c, key, ns, name, uid);
	if (answer && j->rv != NULL && version_older(rv, j->rv)) {
		cJSON_Delete(object); /* the watch was faster than the answer */
		return;
	}
	if (answer) {
		free(j->answered_rv);
		j->answered_rv = mem_strdup(rv);
	} else if (watch_lags(c, j, rv)) {
		cJSON_Delete(object);
		return;
	}
	if (j->rv != NULL && j->rv[0] != '\0' && strcmp(j->rv, rv) == 0) {
		cJSON_Delete(object);
		return;
	}
	take_object(c, j, object);
}

void job_wait(job *j, const char *reason, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	text_copy(j->state_reason, sizeof j->state_reason, reason);
	text_vprint(j->state_message, sizeof j->state_message, fmt, args);
	va_end(args);
	j->state_warns = false;
}

void job_warn(controller *c, job *j, const char *reason, const char *message)
{
	char *said = mem_printf("%s: %s", reason, message);
	job_wait(j, reason, "%s", message);
	j->state_warns = true;
	if (j->event_seen == NULL || strcmp(j->event_seen, said) != 0) {
		event_add(c, j, true, reason, message);
		free(j->event_seen);
		j->event_seen = mem_strdup(said);
	}
	free(said);
}

void jobs_fini(controller *c)
{
	while (c->jobs.n > 0) {
		job *j = c->jobs.entries[0].value;
		table_remove(&c->uids, j->uid);
		table_remove(&c->jobs, j->key);
		job_free(c, j);
	}
	table_fini(&c->jobs);
	table_fini(&c->folders);
	table_fini(&c->uids);
}
