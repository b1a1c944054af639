/* What is written: one queue, in the order in which it was asked for, with a limit of requests a second.
 *
 * Nothing is sent past the fence; what waits then is answered as failed, and the core asks again when there is a leader. Where the server said
 * when to come again, requests of that kind wait; others go on. A pod that is there already is fetched, since the core has to see whose it is.
 * Events come last: one at a time, when nothing else waits and half of the burst is there, and only now and then while a write is under way, so
 * that they cost a busy server little.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/credentials.h"
#include "cloud-agent/cluster/kube/kube_internal.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "cloud-agent/cluster/kube/slim.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

/* At the same time: more make no server faster, and each costs memory. */
enum { UNDER_WAY_MAX = 64 };
/* Between Events while writes are under way. */
enum { EVENT_BUSY_MS = 250 };

struct kube_write {
	kube *k;
	kube_write *next;
	uint64_t id;
	enum object_kind kind;
	enum kube_verb verb;
	char *ns, *path;
	/* The body is made when it is sent: of what waits, thousands perhaps, there is no copy. These are the caller's until it is answered. */
	const cJSON *status, *annotations, *pod;
	const char *uid, *version;
	cJSON *filled;        /* the pod with a Secret's keys in it */
	transport_call *call; /* NULL: waits */
	int exists;           /* a create that found a pod: its error, while the pod is fetched */
	char *exists_text;
};

static void set_call(kube_write *w, transport_call *call)
{
	w->k->under_way += (call != NULL) - (w->call != NULL);
	w->call = call;
}

static void write_free(kube_write *w)
{
	kube *k = w->k;
	kube_write *before = NULL;

	for (kube_write *i = k->first; i != w; i = i->next)
		before = i;
	*(before ? &before->next : &k->first) = w->next;
	if (k->last == w)
		k->last = before;
	if (w->filled)
		credentials_wipe(w->filled);
	cJSON_Delete(w->filled);
	free(w->ns);
	free(w->path);
	free(w->exists_text);
	free(w);
}

static kube_write *write_new(kube *k, uint64_t id, enum object_kind kind, enum kube_verb verb, const char *ns)
{
	kube_write *w = mem_alloc(sizeof *w);

	w->k = k;
	w->id = id;
	w->kind = kind;
	w->verb = verb;
	w->ns = mem_strdup(ns);
	*(k->last ? &k->last->next : &k->first) = w;
	k->last = w;
	return w;
}

void kube__write_fini(kube *k)
{
	while (k->first) {
		if (k->first->call)
			transport_cancel(k->first->call);
		set_call(k->first, NULL);
		write_free(k->first);
	}
	if (k->event_call)
		transport_cancel(k->event_call);
	k->event_call = NULL;
}

/* ---- asked for ---- */

void kube__patch_status(cluster *c, uint64_t id, enum object_kind kind, const char *ns, const char *name, const char *uid,
	const char *resource_version, const cJSON *status)
{
	kube *k = (kube *)c;
	kube_write *w = write_new(k, id, kind, KUBE_PATCH, ns);

	w->path = resource_path(kind, ns, name, "status");
	w->status = status;
	w->uid = uid;
	w->version = resource_version;
	kube__go(k);
}

void kube__patch_annotations(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid, const char *resource_version,
	const cJSON *annotations)
{
	kube *k = (kube *)c;
	kube_write *w = write_new(k, id, OBJECT_JOB, KUBE_ANNOTATE, ns);

	w->path = resource_path(OBJECT_JOB, ns, name, NULL);
	w->annotations = annotations;
	w->uid = uid;
	w->version = resource_version;
	kube__go(k);
}

void kube__create_pod(cluster *c, uint64_t id, const char *ns, const char *name, const cJSON *pod)
{
	kube *k = (kube *)c;
	kube_write *w = write_new(k, id, OBJECT_POD, KUBE_CREATE, ns);

	(void)name;
	w->path = resource_path(OBJECT_POD, ns, NULL, NULL);
	w->pod = pod;
	kube__go(k);
}

void kube__delete_pod(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid)
{
	kube *k = (kube *)c;
	kube_write *w = write_new(k, id, OBJECT_POD, KUBE_DELETE, ns);

	w->path = resource_path(OBJECT_POD, ns, name, NULL);
	w->uid = uid;
	kube__go(k);
}

void kube__event(cluster *c, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message)
{
	kube *k = (kube *)c;

	recorder_say(k->recorder, ns, job, uid, warning, reason, message, clock_now());
	kube__go(k);
}

/* ---- answered ---- */

/* The server's words name the rule that is missing. Once, until it is there. */
static void note_denied(bool *denied, int code, const char *text)
{
	if (code == ERROR_DENIED && !*denied)
		log_warn("kube", "a request is not allowed", L_STR("error", text));
	if (code == ERROR_DENIED || code == 0)
		*denied = code != 0;
}

static void answered(kube_write *w, int code, const char *text, cJSON *object, int64_t retry_after_ms)
{
	kube *k = w->k;
	uint64_t id = w->id;

	k->churn++;
	if (object) {
		object_slim(object);
		kube__read_wrote(k, w->kind, w->ns, object);
	}
	write_free(w);
	k->base.done(k->base.done_ctx, id, code, text, object, retry_after_ms);
	kube__go(k);
}

static void on_fetched(void *ctx, const transport_answer *answer)
{
	kube_write *w = ctx;
	error err = {0};
	cJSON *object = NULL;

	int code = kube__answer(answer, &object, &err);

	set_call(w, NULL);
	note_denied(&w->k->denied[w->kind][KUBE_GET], code, err.text);
	if (code == 0) {
		char *text = w->exists_text;

		w->exists_text = NULL;
		answered(w, w->exists, text, object, 0);
		free(text);
	} else {
		/* Gone again, or not to be had: all is open. */
		answered(w, ERROR_OFFLINE, err.text, NULL, answer->retry_after_ms);
	}
}

static void get(kube_write *w, enum object_kind kind, const char *name, void (*done)(void *ctx, const transport_answer *answer))
{
	transport_request request = {.method = "GET", .total_ms = w->k->write_ms, .ctx = w, .done = done};
	char *path = resource_path(kind, w->ns, name, NULL);

	request.path = path;
	set_call(w, transport_begin(w->k->transport, &request));
	free(path);
}

static void fetch(kube_write *w, const error *exists)
{
	const char *name = cJSON_GetStringValue(json_member(json_member(w->pod, "metadata"), "name"));

	w->exists = exists->code;
	w->exists_text = mem_strdup(exists->text);
	get(w, OBJECT_POD, name ? name : "", on_fetched);
}

static void on_answer(void *ctx, const transport_answer *answer)
{
	kube_write *w = ctx;
	error err = {0};
	cJSON *object = NULL;
	int code = kube__answer(answer, &object, &err);

	set_call(w, NULL);
	note_denied(&w->k->denied[w->kind][w->verb], code, err.text);
	if (answer->retry_after_ms > 0 && code != 0)
		w->k->blocked_until[w->kind][w->verb] = clock_now().mono_ms + answer->retry_after_ms;
	if (w->verb == KUBE_CREATE && code == ERROR_EXISTS) {
		fetch(w, &err);
		return;
	}
	if (w->verb == KUBE_DELETE) {
		/* The pod, or a Status: what becomes of it comes with the watch. */
		cJSON_Delete(object);
		object = NULL;
	}
	answered(w, code, err.text, object, answer->retry_after_ms);
}

static void on_event_answer(void *ctx, const transport_answer *answer)
{
	kube *k = ctx;
	error err = {0};
	int code = kube__answer(answer, NULL, &err);

	k->event_call = NULL;
	note_denied(&k->event_denied, code, err.text);
	recorder_answer(k->recorder, k->event_id, code);
	kube__go(k);
}

/* ---- sent ---- */

static void request_send(kube_write *w, const char *body)
{
	static const char *const methods[] = {
		[KUBE_PATCH] = "PATCH", [KUBE_ANNOTATE] = "PATCH", [KUBE_CREATE] = "POST", [KUBE_DELETE] = "DELETE"};
	transport_request request = {.method = methods[w->verb],
		.path = w->path,
		.body = body,
		.content_type = w->verb == KUBE_PATCH || w->verb == KUBE_ANNOTATE ? "application/merge-patch+json" : "application/json",
		.total_ms = w->k->write_ms,
		.ctx = w,
		.done = on_answer};

	set_call(w, transport_begin(w->k->transport, &request));
}

static void write_send(kube_write *w);

static char *patch_body(const kube_write *w)
{
	cJSON *patch = cJSON_CreateObject(), *metadata = cJSON_CreateObject();
	char *text;

	/* With the version in it, it is refused if anything was changed meanwhile. */
	json_put_string(metadata, "uid", w->uid);
	json_put_string(metadata, "resourceVersion", w->version);
	json_put(patch, "metadata", metadata);
	if (w->annotations)
		cJSON_AddItemReferenceToObject(metadata, "annotations", (cJSON *)(uintptr_t)w->annotations);
	else
		cJSON_AddItemReferenceToObject(patch, "status", (cJSON *)(uintptr_t)w->status);
	text = json_print(patch);
	cJSON_Delete(patch);
	return text;
}

static char *delete_body(const kube_write *w)
{
	cJSON *options = cJSON_CreateObject(), *preconditions = cJSON_CreateObject();
	char *text;

	json_put_string(options, "apiVersion", "v1");
	json_put_string(options, "kind", "DeleteOptions");
	json_put_string(preconditions, "uid", w->uid);
	json_put(options, "preconditions", preconditions);
	text = json_print(options);
	cJSON_Delete(options);
	return text;
}

static void body_send(kube_write *w)
{
	char *body;

	if (w->verb == KUBE_PATCH || w->verb == KUBE_ANNOTATE)
		body = patch_body(w);
	else if (w->verb == KUBE_DELETE)
		body = delete_body(w);
	else
		body = json_print(w->filled ? w->filled : w->pod);
	request_send(w, body);
	explicit_bzero(body, strlen(body)); /* there may be keys in it */
	free(body);
}

static void on_secret(void *ctx, const transport_answer *answer)
{
	kube_write *w = ctx;
	error err = {0};
	cJSON *object = NULL;
	int code = kube__answer(answer, &object, &err);

	set_call(w, NULL);
	if (code == 0)
		code = credentials_put(w->filled, credentials_needed(w->filled), object, &err);
	else
		error_prefix(&err, "the Secret %s cannot be read", credentials_needed(w->filled));
	cJSON_Delete(object);
	if (code == 0)
		write_send(w);
	else
		answered(w, code, err.text, NULL, answer->retry_after_ms);
}

static void write_send(kube_write *w)
{
	if (w->pod && w->k->credentials_by_value && !w->filled)
		w->filled = cJSON_Duplicate(w->pod, 1);
	if (w->filled && credentials_needed(w->filled))
		get(w, OBJECT_SECRET, credentials_needed(w->filled), on_secret);
	else
		body_send(w);
}

static bool blocked(const kube *k, const kube_write *w, int64_t now)
{
	return now < k->blocked_until[w->kind][w->verb];
}

static kube_write *next_to_send(const kube *k, int64_t now)
{
	if (k->under_way == UNDER_WAY_MAX)
		return NULL;
	for (kube_write *w = k->first; w; w = w->next)
		if (!w->call && !blocked(k, w, now)) /* NOLINT(clang-analyzer-unix.Malloc): what was freed has left the list */
			return w;
	return NULL;
}

static int64_t event_due_at(const kube *k)
{
	int64_t spare_at = limiter_next_spare(&k->limiter);

	return k->under_way > 0 && k->event_at > spare_at ? k->event_at : spare_at;
}

static void event_send(kube *k, int64_t now)
{
	recorder_request wanted;
	transport_request request = {.total_ms = k->write_ms, .ctx = k, .done = on_event_answer};

	if (k->event_call || k->under_way == UNDER_WAY_MAX || !limiter_spare(&k->limiter, now) || now < event_due_at(k) ||
		!recorder_next(k->recorder, clock_now(), &wanted))
		return;
	limiter_take(&k->limiter, now);
	k->event_at = now + EVENT_BUSY_MS;
	k->event_id = wanted.id;
	request.method = wanted.method;
	request.path = wanted.path;
	request.body = wanted.body;
	request.content_type = wanted.content_type;
	k->event_call = transport_begin(k->transport, &request);
	free(wanted.path);
	free(wanted.body);
}

void kube__write_act(kube *k)
{
	kube_write *w;
	int64_t now = clock_now().mono_ms;

	while ((w = next_to_send(k, now)) != NULL) {
		if (!k->leading || now >= k->fence)
			answered(w, ERROR_OFFLINE, "this agent does not lead now", NULL, 0);
		else if (limiter_take(&k->limiter, now))
			write_send(w);
		else
			break;
	}
	if (!w && k->leading)
		event_send(k, now);
}

int64_t kube__write_wake(const kube *k)
{
	int64_t at = MOMENT_NEVER, token_at = limiter_next(&k->limiter);

	if (k->under_way == UNDER_WAY_MAX)
		return at;
	for (const kube_write *w = k->first; w && at > token_at; w = w->next) {
		int64_t free_at = k->blocked_until[w->kind][w->verb];

		if (w->call)
			continue;
		if (token_at > free_at)
			free_at = token_at;
		if (free_at < at)
			at = free_at;
	}
	if (k->leading && !k->event_call && recorder_due(k->recorder) && event_due_at(k) < at)
		at = event_due_at(k);
	return at;
}
