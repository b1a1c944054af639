/* See recorder.h for the contract. */
#include "cloud-agent/cluster/kube/recorder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/json.h"
#include "common/mem.h"
#include "proto/document.h"

/* The API server takes messages of at most 1,024 bytes. */
enum { REMEMBERED = 256, MESSAGE_MAX = 1000 };

typedef struct said {
	uint64_t id;
	char *ns, *job, *uid, *reason, *message, *name;
	bool warning, there, due;
	int64_t count, first_ms, last_ms;
} said;

struct recorder {
	char *component, *instance;
	uint64_t random, last_id;
	said *all[REMEMBERED]; /* the oldest first */
	size_t n;
	bool busy;
	int64_t dropped;
};

recorder *recorder_new(const char *component, const char *instance, uint64_t seed)
{
	recorder *r = mem_alloc(sizeof *r);

	r->component = mem_strdup(component);
	r->instance = mem_strdup(instance);
	r->random = seed;
	return r;
}

static void said_free(said *s)
{
	free(s->ns);
	free(s->job);
	free(s->uid);
	free(s->reason);
	free(s->message);
	free(s->name);
	free(s);
}

void recorder_free(recorder *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < r->n; i++)
		said_free(r->all[i]);
	free(r->component);
	free(r->instance);
	free(r);
}

int64_t recorder_dropped(const recorder *r)
{
	return r->dropped;
}

bool recorder_due(const recorder *r)
{
	for (size_t i = 0; !r->busy && i < r->n; i++)
		if (r->all[i]->due)
			return true;
	return false;
}

/* Cut where a character ends. */
static char *cut(const char *text)
{
	size_t len = strlen(text);

	if (len > MESSAGE_MAX) {
		len = MESSAGE_MAX;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	return mem_printf("%.*s", (int)len, text);
}

static void move_to_end(recorder *r, size_t i)
{
	said *s = r->all[i];

	memmove(&r->all[i], &r->all[i + 1], (r->n - i - 1) * sizeof r->all[0]);
	r->all[r->n - 1] = s;
}

static void forget_oldest(recorder *r)
{
	if (r->all[0]->due)
		r->dropped++;
	said_free(r->all[0]);
	memmove(&r->all[0], &r->all[1], (--r->n) * sizeof r->all[0]);
}

void recorder_say(recorder *r, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message,
	moment now)
{
	char *text = cut(message);
	said *s = NULL;

	for (size_t i = 0; i < r->n && s == NULL; i++) {
		if (strcmp(r->all[i]->uid, uid) == 0 && strcmp(r->all[i]->reason, reason) == 0 && strcmp(r->all[i]->message, text) == 0) {
			s = r->all[i];
			move_to_end(r, i);
		}
	}
	if (s == NULL) {
		if (r->n == REMEMBERED)
			forget_oldest(r);
		s = mem_alloc(sizeof *s);
		s->id = ++r->last_id;
		s->ns = mem_strdup(ns);
		s->job = mem_strdup(job);
		s->uid = mem_strdup(uid);
		s->reason = mem_strdup(reason);
		s->message = mem_strdup(text);
		/* As others name theirs: the object's name, a point, something of our own. */
		s->name = mem_printf("%.200s.%016" PRIx64, job, (uint64_t)now.unix_ms * UINT64_C(0x9E3779B97F4A7C15) ^ (r->random + s->id));
		s->first_ms = now.unix_ms;
		r->all[r->n++] = s;
	}
	s->warning = warning;
	s->count++;
	s->last_ms = now.unix_ms;
	s->due = true;
	free(text);
}

static void put_time(cJSON *event, const char *name, int64_t unix_ms)
{
	char text[32], whole[40];

	time_format(unix_ms, text);
	/* Without the fraction, which this type does not have. */
	snprintf(whole, sizeof whole, "%.*sZ", (int)strcspn(text, ".Z"), text);
	json_put_string(event, name, whole);
}

static char *body_of(const recorder *r, const said *s)
{
	cJSON *event = cJSON_CreateObject(), *part = cJSON_CreateObject();
	char *text;

	if (!s->there) {
		json_put_string(event, "apiVersion", "v1");
		json_put_string(event, "kind", "Event");
		json_put_string(part, "namespace", s->ns);
		json_put_string(part, "name", s->name);
		json_put(event, "metadata", part);
		part = cJSON_CreateObject();
		json_put_string(part, "apiVersion", "sedna.io/v1alpha1");
		json_put_string(part, "kind", "IncrementalLearningJob");
		json_put_string(part, "namespace", s->ns);
		json_put_string(part, "name", s->job);
		json_put_string(part, "uid", s->uid);
		json_put(event, "involvedObject", part);
		part = cJSON_CreateObject();
		json_put_string(part, "component", r->component);
		json_put_string(event, "type", s->warning ? "Warning" : "Normal");
		json_put_string(event, "reason", s->reason);
		json_put_string(event, "message", s->message);
		json_put_string(event, "reportingComponent", r->component);
		json_put_string(event, "reportingInstance", r->instance);
		put_time(event, "firstTimestamp", s->first_ms);
		json_put(event, "source", part);
	} else {
		cJSON_Delete(part);
	}
	put_time(event, "lastTimestamp", s->last_ms);
	json_put_int(event, "count", s->count);
	text = json_print(event);
	cJSON_Delete(event);
	return text;
}

bool recorder_next(recorder *r, moment now, recorder_request *out)
{
	(void)now;
	for (size_t i = 0; !r->busy && i < r->n; i++) {
		said *s = r->all[i];

		if (!s->due)
			continue;
		r->busy = true;
		s->due = false;
		*out = (recorder_request){.id = s->id,
			.method = s->there ? "PATCH" : "POST",
			.content_type = s->there ? "application/merge-patch+json" : "application/json",
			.path = mem_printf("/api/v1/namespaces/%s/events%s%s", s->ns, s->there ? "/" : "", s->there ? s->name : ""),
			.body = body_of(r, s)};
		return true;
	}
	return false;
}

void recorder_answer(recorder *r, uint64_t id, int code)
{
	r->busy = false;
	for (size_t i = 0; i < r->n; i++) {
		said *s = r->all[i];

		if (s->id != id)
			continue;
		if (s->there && code == ERROR_NOT_FOUND) {
			s->there = false;
			s->due = true;
		} else if (code == 0 || code == ERROR_EXISTS) {
			s->there = true;
		} else {
			r->dropped++;
		}
		return;
	}
}
