/* Writes to the cluster on their way: planned, handed out once, answered once.
 *
 * A flight owns all that its action points to. One that was not handed out yet is taken back when its job is touched; one that was stays until
 * its answer comes, also if its job goes meanwhile: what a create answers is then an orphan like any other.
 * Nor is all handed out that was planned: see lanes.c.
 *
 * An answer to a patch is the object as it is: the position that it shows was read back. CONFLICT: the job waits for an object with another
 * resourceVersion, and tries again later and later if none comes. EXISTS is success for a pod of this uid, and a reason otherwise. All else
 * is tried again, later and later.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"
#include "cloud-agent/core/rollback.h"

flight *flight_new(controller *c, enum cloud_action_kind kind, enum object_kind object, const char *ns, const char *name,
	const char *node_name)
{
	flight *f = mem_alloc(sizeof *f);
	f->id = ++c->last_id;
	f->kind = kind;
	f->object = object;
	f->ns = mem_strdup(ns);
	f->name = mem_strdup(name);
	f->node = mem_strdup(node_name != NULL ? node_name : "");
	if (c->flights_tail != NULL)
		c->flights_tail->next = f;
	else
		c->flights = f;
	c->flights_tail = f;
	return f;
}

void flight_free(controller *c, flight *f)
{
	flight *before = NULL;
	for (flight *i = c->flights; i != f; i = i->next)
		before = i;
	*(before != NULL ? &before->next : &c->flights) = f->next;
	if (c->flights_tail == f)
		c->flights_tail = before;
	if (f->sent)
		lane_leave(c, f->node);
	free(f->node);
	free(f->ns);
	free(f->name);
	free(f->uid);
	free(f->rv);
	free(f->settles);
	free(f->reason);
	free(f->message);
	cJSON_Delete(f->body);
	free(f);
}

static pod *flight_pod(const controller *c, const flight *f)
{
	char *key = object_key(f->ns, f->name);
	pod *p = table_get(&c->pods, key);
	free(key);
	return p != NULL && p->flight == f ? p : NULL;
}

static void detach(controller *c, flight *f)
{
	pod *p = f->kind == CLOUD_DELETE_POD ? flight_pod(c, f) : NULL;
	if (p != NULL)
		p->flight = NULL;
	if (f->job != NULL)
		f->job->flight = NULL;
	if (f->write != NULL)
		f->write->flight = NULL;
}

void flight_cancel(controller *c, flight *f)
{
	detach(c, f);
	flight_free(c, f);
}

void flights_fini(controller *c)
{
	while (c->flights != NULL)
		flight_free(c, c->flights);
	table_fini(&c->lanes);
}

flight *flight_status(controller *c, job *j, cJSON *status)
{
	flight *f = flight_new(c, CLOUD_PATCH_STATUS, OBJECT_JOB, j->ns, j->name, job_facts(c, j)->dataset_node);
	f->uid = mem_strdup(j->uid);
	f->rv = mem_strdup(j->rv);
	f->body = status;
	f->job = j;
	j->flight = f;
	return f;
}

flight *flight_patch(controller *c, job *j, const change *ch)
{
	condition_limits limits = {.max = c->cfg.conditions_max, .metrics_max = c->cfg.metrics_max, .compact = j->compact};
	flight *f = flight_status(c, j, change_patch(j->view, ch, &limits, c->now.unix_ms));
	f->compact = j->compact;
	bool told_end = false;
	for (size_t i = 0; i < ch->n; i++) {
		const step *s = &ch->steps[i];
		if (s->phase == PHASE_FAILED)
			f->rounds_failed++;
		if (s->stage == STAGE_DEPLOY && s->phase == PHASE_COMPLETED)
			f->rounds_completed++;
		/* What a user looks for: the end of a stage, not the beginning of the next one; else how far it has come. */
		if (!told_end) {
			told_end = phase_ended(s->phase);
			free(f->reason);
			free(f->message);
			f->reason = mem_printf("%s%s", stage_name(s->stage), phase_name(s->phase));
			f->message = mem_printf("round %lld%s%s%s%s", (long long)s->m.round, s->reason != NULL ? ", " : "",
				s->reason != NULL ? s->reason : "", s->message != NULL ? ": " : "", s->message != NULL ? s->message : "");
			f->warning = s->phase == PHASE_FAILED;
		}
	}
	return f;
}

flight *flight_annotate(controller *c, job *j, cJSON *annotations)
{
	flight *f = flight_status(c, j, annotations);
	f->kind = CLOUD_PATCH_ANNOTATIONS;
	f->tells = TELLS_ANNOTATIONS;
	return f;
}

flight *flight_create(controller *c, job *j, enum worker_kind kind, int64_t round, const char *name, cJSON *body)
{
	flight *f = flight_new(c, CLOUD_CREATE_POD, OBJECT_POD, j->ns, name, job_facts(c, j)->dataset_node);
	f->uid = mem_strdup(j->uid);
	f->body = body;
	f->worker = kind;
	f->round = round;
	f->job = j;
	j->flight = f;
	return f;
}

/* j NULL: an orphan. */
flight *flight_delete(controller *c, job *j, pod *p)
{
	flight *f = flight_new(c, CLOUD_DELETE_POD, OBJECT_POD, p->ns, p->name, j != NULL ? job_facts(c, j)->dataset_node : p->node);
	f->uid = mem_strdup(p->uid);
	f->job = j;
	if (j != NULL)
		j->flight = f;
	p->flight = f;
	return f;
}

/* In the order in which they were planned, but for what waits for others of its own node. */
static flight *next_flight(const controller *c)
{
	flight *f = c->flights;
	while (f != NULL && (f->sent || !lane_open(c, f->node)))
		f = f->next;
	return f;
}

bool flight_waits(const controller *c)
{
	return next_flight(c) != NULL;
}

bool flight_next(controller *c, cloud_action *out)
{
	flight *f = next_flight(c);
	if (f == NULL)
		return false;
	f->sent = true;
	lane_enter(c, f->node);
	*out = (cloud_action){.kind = f->kind, .id = f->id};
	if (f->kind == CLOUD_PATCH_STATUS) {
		c->count.patches++;
		out->patch.kind = f->object;
		out->patch.ns = f->ns;
		out->patch.name = f->name;
		out->patch.uid = f->uid;
		out->patch.resource_version = f->rv;
		out->patch.status = f->body;
	} else if (f->kind == CLOUD_PATCH_ANNOTATIONS) {
		c->count.patches++;
		out->annotate.ns = f->ns;
		out->annotate.name = f->name;
		out->annotate.uid = f->uid;
		out->annotate.resource_version = f->rv;
		out->annotate.annotations = f->body;
	} else if (f->kind == CLOUD_CREATE_POD) {
		out->create.ns = f->ns;
		out->create.name = f->name;
		out->create.pod = f->body;
		out->create.job_uid = f->uid;
	} else {
		out->remove.ns = f->ns;
		out->remove.name = f->name;
		out->remove.uid = f->uid;
	}
	return true;
}

int64_t retry_delay(controller *c, int64_t *delay, int64_t retry_after_ms)
{
	*delay = *delay == 0 ? c->cfg.retry_min_ms : *delay * 2;
	if (*delay > c->cfg.retry_max_ms)
		*delay = c->cfg.retry_max_ms;
	int64_t wait = jitter(c, *delay, 0.2);
	return wait > retry_after_ms ? wait : retry_after_ms;
}

/* ---- answers ---- */

static const char *what_failed(enum cloud_action_kind kind, int code)
{
	if (kind == CLOUD_CREATE_POD)
		return "the pod cannot be created";
	if (kind == CLOUD_DELETE_POD)
		return "the pod cannot be deleted";
	return code == ERROR_LIMIT ? "the status cannot be written, since the object is as large as the cluster allows" :
								 "the status cannot be written";
}

/* It is tried again, later and later. */
static void job_failed(controller *c, job *j, enum cloud_action_kind kind, int code, const char *text, int64_t retry_after_ms)
{
	char message[CONDITION_MESSAGE_MAX + 1];
	char *whole = mem_printf("%s: %s", what_failed(kind, code), text != NULL && text[0] != '\0' ? text : error_describe(code));
	text_copy(message, sizeof message, whole);
	free(whole);
	c->count.cluster_failures++;
	j->retry_at = c->now.mono_ms + retry_delay(c, &j->retry_delay, retry_after_ms);
	job_touch(c, j);
	job_warn(c, j, code == ERROR_DENIED ? "ClusterDenied" : "ClusterFailure", message);
	if (kind == CLOUD_PATCH_STATUS)
		j->state_warns = false; /* it cannot be told there */
}

static void report_remove(job *j, const report *r)
{
	for (size_t i = 0; i < j->n_reports; i++) {
		if (j->reports[i] != r)
			continue;
		report_free(j->reports[i]);
		j->n_reports--;
		memmove(&j->reports[i], &j->reports[i + 1], (j->n_reports - i) * sizeof j->reports[0]);
		return;
	}
}

static void flight_told(controller *c, job *j, const flight *f, int code, const char *text, int64_t retry_after_ms)
{
	if (f->tells == TELLS_ANNOTATIONS)
		rollback_annotated(c, j, code, text, retry_after_ms);
	else if (f->tells == TELLS_REASON)
		reason_told(c, j, code, retry_after_ms);
	else
		counts_told(c, j, code, retry_after_ms);
}

static void patch_applied(controller *c, flight *f, cJSON *object)
{
	job *j = f->job;
	if (f->tells != TELLS_POSITION)
		flight_told(c, j, f, 0, NULL, 0);
	else
		j->retry_at = j->retry_delay = 0;
	report_remove(j, f->report);
	c->count.reports_accepted += f->settles != NULL;
	c->count.rounds_completed += f->rounds_completed;
	c->count.rounds_failed += f->rounds_failed;
	c->count.deployments += f->deployments;
	if (f->reason != NULL)
		event_add(c, j, f->warning, f->reason, f->message);
	if (object != NULL)
		job_put(c, j->key, j->ns, j->name, object, true);
	if (f->settles != NULL)
		job_answer(c, j, f->settles);
}

static void conflict_met(controller *c, job *j, const char *rv, cJSON *object)
{
	c->count.conflicts++;
	if (object != NULL)
		job_put(c, j->key, j->ns, j->name, object, true);
	if (strcmp(j->rv, rv) != 0)
		return; /* a newer one is here already */
	free(j->conflict_rv);
	j->conflict_rv = mem_strdup(rv);
	j->retry_at = c->now.mono_ms + retry_delay(c, &j->retry_delay, 0); /* should the newer one never come */
}

static void patch_answered(controller *c, flight *f, int code, const char *text, cJSON *object, int64_t retry_after_ms)
{
	job *j = f->job;
	bool same = object != NULL && strcmp(object_text(object, "metadata", "uid"), f->uid) == 0;
	if (j == NULL || (object != NULL && !same)) {
		cJSON_Delete(object);
		object = NULL;
	}
	if (j == NULL)
		return;
	job_touch(c, j);
	if (code == 0) {
		patch_applied(c, f, object);
		return;
	}
	if (code == ERROR_CONFLICT) {
		conflict_met(c, j, f->rv, object);
		return;
	}
	cJSON_Delete(object);
	if (f->tells != TELLS_POSITION) {
		c->count.cluster_failures++;
		flight_told(c, j, f, code, text, retry_after_ms);
		return;
	}
	if (code == ERROR_LIMIT && !f->compact)
		j->compact = true; /* the object is too large: once more with less */
	job_failed(c, j, CLOUD_PATCH_STATUS, code, text, retry_after_ms);
}

void remember_made(job *j, enum worker_kind kind, int64_t round, const char *uid, const char *node_name)
{
	if (kind == WORKER_INFERENCE)
		return;
	made_pod *made = &j->made[kind == WORKER_TRAIN ? STAGE_TRAIN : STAGE_EVAL];
	free(made->uid);
	free(made->node);
	*made = (made_pod){.round = round, .uid = mem_strdup(uid), .node = mem_strdup(node_name)};
}

/* The watch has shown it already, and knows more of it than the answer. */
static bool pod_known(const controller *c, const flight *f, const cJSON *object)
{
	char *key = object_key(f->ns, f->name);
	const pod *p = table_get(&c->pods, key);
	free(key);
	return p != NULL && strcmp(p->uid, object_text(object, "metadata", "uid")) == 0;
}

/* A Secret that does not say where its object store is may be meant so: the template may say it, or the worker know it. It is rarely so. */
static void tell_incomplete(controller *c, job *j, const cJSON *body)
{
	const char *secret = pod_without_endpoint(body);
	if (secret == NULL)
		return;
	char *message = mem_printf("Secret %s has no annotation s3-endpoint, so S3_ENDPOINT_URL is not set where its keys are", secret);
	event_add(c, j, true, "SecretIncomplete", message);
	free(message);
}

/* The same template would be refused again: the round fails with the words of the cluster, and what serves waits for another template. */
static void refused(controller *c, job *j, const flight *f, const char *text, int64_t retry_after_ms)
{
	c->count.cluster_failures++;
	if (f->worker != WORKER_INFERENCE) {
		free(j->refused);
		j->refused = mem_strdup(text != NULL ? text : "");
		j->refused_round = f->round;
		return;
	}
	free(j->inference_refused);
	j->inference_refused = mem_printf("the pod that is to serve cannot be created: %s", text != NULL ? text : "");
	j->inference_retry_at = c->now.mono_ms + retry_delay(c, &j->inference_delay, retry_after_ms);
}

static void create_answered(controller *c, flight *f, int code, const char *text, cJSON *object, int64_t retry_after_ms)
{
	job *j = f->job;
	bool there = code == 0 || code == ERROR_EXISTS;
	bool ours = object != NULL ? pod_owned_by(object, f->uid) : code == 0;
	if (there && object != NULL && !f->vanished && !pod_known(c, f, object))
		pod_put(c, f->ns, f->name, object);
	if (j == NULL) {
		cJSON_Delete(object);
		return;
	}
	job_touch(c, j);
	if (there && ours) {
		j->retry_at = j->retry_delay = 0;
		if (f->worker == WORKER_INFERENCE) {
			free(j->inference_refused);
			j->inference_refused = NULL;
		}
		if (code == 0)
			c->count.pods_created++;
		remember_made(j, f->worker, f->round, object != NULL ? object_text(object, "metadata", "uid") : NULL,
			object_text(object != NULL ? object : f->body, "spec", "nodeName"));
		char *message = mem_printf("%s for round %lld", f->name, (long long)f->round);
		if (code == 0) {
			event_add(c, j, false, "PodCreated", message);
			tell_incomplete(c, j, f->body);
		}
		free(message);
	} else if (code == ERROR_EXISTS && object != NULL) {
		char *message = mem_printf("pod %s exists and belongs to something else", f->name);
		j->retry_at = c->now.mono_ms + c->cfg.retry_max_ms;
		job_warn(c, j, "PodNameTaken", message);
		free(message);
	} else if (code == ERROR_INVALID) {
		refused(c, j, f, text, retry_after_ms);
	} else {
		job_failed(c, j, CLOUD_CREATE_POD, code, text, retry_after_ms);
	}
	cJSON_Delete(object);
}

static void delete_answered(controller *c, flight *f, pod *p, int code, const char *text, int64_t retry_after_ms)
{
	job *j = f->job;
	bool done = code == 0 || code == ERROR_NOT_FOUND || code == ERROR_CONFLICT;
	if (done)
		c->count.pods_deleted += code == 0;
	if (p != NULL) {
		int64_t wait = done ? c->cfg.start_timeout_ms : retry_delay(c, &p->remove_delay, retry_after_ms);
		p->remove_again = c->now.mono_ms + wait;
	}
	if (j == NULL) {
		c->orphans_due = true; /* it is asked again if it does not go */
		if (!done)
			c->count.cluster_failures++;
		return;
	}
	job_touch(c, j);
	if (done)
		j->retry_at = j->retry_delay = 0;
	else
		job_failed(c, j, CLOUD_DELETE_POD, code, text, retry_after_ms);
}

void controller_done(controller *c, uint64_t id, int code, const char *text, cJSON *object, int64_t retry_after_ms, moment now)
{
	c->now = now;
	if (id == c->raise_id && id != 0) {
		c->raise_id = 0;
		cJSON_Delete(object);
		if (code != 0 || c->epoch <= c->seen_epoch)
			c->raise_at = now.mono_ms + retry_delay(c, &c->raise_delay, retry_after_ms);
		else
			c->raise_delay = 0;
		return;
	}
	flight *f = c->flights;
	while (f != NULL && (f->id != id || !f->sent))
		f = f->next;
	if (f == NULL) {
		cJSON_Delete(object);
		return;
	}
	pod *p = f->kind == CLOUD_DELETE_POD ? flight_pod(c, f) : NULL;
	detach(c, f);
	if (f->kind == CLOUD_CREATE_POD) {
		create_answered(c, f, code, text, object, retry_after_ms);
	} else if (f->kind == CLOUD_DELETE_POD) {
		cJSON_Delete(object);
		delete_answered(c, f, p, code, text, retry_after_ms);
	} else if (f->object == OBJECT_JOB) {
		patch_answered(c, f, code, text, object, retry_after_ms);
	} else {
		status_write_answered(c, f, code, object, retry_after_ms);
	}
	flight_free(c, f);
}
