/* The cluster: objects with uid and resourceVersion, an API whose answers may be lost, watches that lag.
 *
 * A call reaches the API server some time after it was made, also if its caller is dead by then, and its answer comes later still, or is an
 * error although the call was done. Watches are in order for one kind of object and not between kinds. With Sedna's own resource definitions
 * a job's status keeps conditions, startTime and completionTime alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/sim.h"

enum { ANSWER_LOST_MS = 5000, STATUS_MAX = 1000 * 1000 };

typedef struct call {
	cloud *c;
	uint64_t id, life;
	enum cloud_action_kind kind;
	enum object_kind object;
	char name[NAME_MAX_NAME + 1], uid[UID_SIZE], version[24], job_uid[UID_SIZE];
	cJSON *body, *answer;
	int code, restores;
} call;

typedef struct notice {
	object *o;
	cJSON *json;
	unsigned bit;
} notice;

/* ---- objects ---- */

object *object_find(const world *w, enum object_kind kind, const char *name)
{
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->kind == kind && strcmp(o->name, name) == 0)
			return o;
	}
	return NULL;
}

object *object_uid(const world *w, const char *uid)
{
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && strcmp(o->uid, uid) == 0)
			return o;
	}
	return NULL;
}

static void put_over(cJSON *obj, const char *name, const char *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(obj, name);
	json_put_string(obj, name, value);
}

static cJSON *metadata_of(const object *o)
{
	return cJSON_GetObjectItemCaseSensitive(o->json, "metadata");
}

const char *object_version(const object *o)
{
	return json_member(metadata_of(o), "resourceVersion")->valuestring;
}

void object_changed(world *w, object *o)
{
	char version[24];

	snprintf(version, sizeof(version), "%lld", (long long)++w->rv);
	put_over(metadata_of(o), "resourceVersion", version);
	for (size_t i = 0; i < SIM_CLOUDS; i++)
		watch_send(w, &w->clouds[i], o);
}

object *object_add(world *w, enum object_kind kind, const char *name, cJSON *json)
{
	object *o = mem_alloc(sizeof(*o));
	cJSON *metadata = cJSON_GetObjectItemCaseSensitive(json, "metadata");
	char time[32];

	if (metadata == NULL)
		metadata = cJSON_AddObjectToObject(json, "metadata");
	o->kind = kind;
	o->json = json;
	strcpy(o->ns, kind == OBJECT_NODE ? "" : "default");
	strncpy(o->name, name, sizeof(o->name) - 1);
	snprintf(o->uid, sizeof(o->uid), "%c%llu-%llx", kind == OBJECT_POD ? 'p' : 'u', (unsigned long long)++w->next_uid,
		(unsigned long long)(rnd(w) & 0xffffffff));
	time_format(w->unix_base + w->now, time);
	put_over(metadata, "name", name);
	put_over(metadata, "namespace", o->ns);
	put_over(metadata, "uid", o->uid);
	put_over(metadata, "creationTimestamp", time);
	o->next = w->objects;
	w->objects = o;
	object_changed(w, o);
	return o;
}

void object_delete(world *w, object *o)
{
	say(w, "cluster: %s %s %s is gone", object_kind_name(o->kind), o->name, o->uid);
	cJSON_Delete(o->json);
	o->json = NULL;
	w->rv++;
	for (size_t i = 0; i < SIM_CLOUDS; i++)
		watch_send(w, &w->clouds[i], o);
}

/* ---- watches ---- */

static void notice_arrives(world *w, void *obj, void *data)
{
	cloud *c = obj;
	notice *n = data;
	int64_t later = c->stalled_until > w->now ? c->stalled_until : c->api_down_until > w->now ? c->api_down_until : 0;

	if (later > 0) {
		at_life(w, later + 1, notice_arrives, c, n, &c->watch_life);
		return;
	}
	n->o->known = n->json != NULL ? n->o->known | n->bit : n->o->known & ~n->bit;
	controller_object(c->c, n->o->kind, n->o->ns, n->o->name, n->json, cloud_moment(c));
	free(n);
	cloud_pump_soon(w, c);
}

void watch_send(world *w, cloud *c, object *o)
{
	notice *n;
	int64_t t, *last = &c->watch_last[o->kind];

	if (c->c == NULL)
		return;
	n = mem_alloc(sizeof(*n));
	*n = (notice){.o = o, .json = o->json != NULL ? cJSON_Duplicate(o->json, 1) : NULL, .bit = 1u << c->index};
	t = w->now + rnd_delay(w, w->k.watch_ms);
	if (t < *last)
		t = *last;
	*last = t;
	at_life(w, t, notice_arrives, c, n, &c->watch_life);
}

/* ---- calls ---- */

static void answer(world *w, void *obj, void *data)
{
	call *k = data;
	cloud *c = k->c;

	(void)obj;
	if (c->life != k->life) {
		cJSON_Delete(k->answer);
	} else if (c->stalled_until > w->now) {
		at(w, c->stalled_until + 1, answer, NULL, k);
		return;
	} else {
		controller_done(c->c, k->id, k->code, k->code != 0 ? "the API server says no" : NULL, k->answer, 0, cloud_moment(c));
		cloud_pump_soon(w, c);
	}
	free(k);
}

static bool pruned(const world *w, const object *o, const char *member)
{
	return w->sedna_crds && o->kind == OBJECT_JOB && strcmp(member, "conditions") != 0 && strcmp(member, "startTime") != 0 &&
		strcmp(member, "completionTime") != 0;
}

/* The patch gives its parts away. */
static void merge_status(world *w, object *o, cJSON *patch)
{
	cJSON *status = cJSON_GetObjectItemCaseSensitive(o->json, "status"), *part;

	if (status == NULL)
		status = cJSON_AddObjectToObject(o->json, "status");
	while ((part = cJSON_DetachItemFromArray(patch, 0)) != NULL) {
		if (pruned(w, o, part->string)) {
			cJSON_Delete(part);
			continue;
		}
		cJSON_DeleteItemFromObjectCaseSensitive(status, part->string);
		cJSON_AddItemToArray(status, part); /* which keeps its name */
	}
}

static void do_patch(world *w, call *k)
{
	object *o = object_find(w, k->object, k->name);

	if (o == NULL) {
		k->code = ERROR_NOT_FOUND;
	} else if (strcmp(o->uid, k->uid) != 0 || strcmp(object_version(o), k->version) != 0) {
		k->code = ERROR_CONFLICT;
	} else {
		merge_status(w, o, k->body);
		object_changed(w, o);
		track_status(w, o);
		k->answer = cJSON_Duplicate(o->json, 1);
	}
	cJSON_Delete(k->body);
}

static void do_annotate(world *w, call *k)
{
	object *o = object_find(w, OBJECT_JOB, k->name);
	cJSON *annotations, *part;

	if (o == NULL) {
		k->code = ERROR_NOT_FOUND;
	} else if (strcmp(o->uid, k->uid) != 0 || strcmp(object_version(o), k->version) != 0) {
		k->code = ERROR_CONFLICT;
	} else {
		annotations = cJSON_GetObjectItemCaseSensitive(metadata_of(o), "annotations");
		cJSON_ArrayForEach(part, k->body) {
			cJSON_DeleteItemFromObjectCaseSensitive(annotations, part->string);
			if (cJSON_IsString(part))
				json_put_string(annotations, part->string, part->valuestring);
		}
		say(w, "cluster: annotations of %s are changed by %s", o->name, k->c->name);
		object_changed(w, o);
		k->answer = cJSON_Duplicate(o->json, 1);
	}
	cJSON_Delete(k->body);
}

static void do_create(world *w, call *k)
{
	object *o = object_find(w, OBJECT_POD, k->name);

	if (o != NULL) {
		k->code = ERROR_EXISTS;
		cJSON_Delete(k->body);
	} else {
		o = object_add(w, OBJECT_POD, k->name, k->body);
		o->pod = pod_new(w, o);
		say(w, "cluster: pod %s created by %s", o->name, k->c->name);
		track_create(w, k->c, o->pod);
		object_changed(w, o);
	}
	k->answer = cJSON_Duplicate(o->json, 1);
}

static void do_delete(world *w, call *k)
{
	object *o = object_find(w, OBJECT_POD, k->name);

	if (o == NULL) {
		k->code = ERROR_NOT_FOUND;
	} else if (strcmp(o->uid, k->uid) != 0) {
		k->code = ERROR_CONFLICT;
	} else {
		say(w, "cluster: pod %s deleted by %s", o->name, k->c->name);
		pod_delete(w, o->pod);
	}
}

static void perform(world *w, void *obj, void *data)
{
	call *k = data;

	(void)obj;
	if (k->c->api_down_until > w->now || k->restores != w->restores) {
		k->code = ERROR_OFFLINE;
		cJSON_Delete(k->body);
	} else if (chance(w, w->k.api_fail)) {
		k->code = ERROR_TIMEOUT;
		cJSON_Delete(k->body);
	} else {
		if (k->kind == CLOUD_PATCH_STATUS)
			do_patch(w, k);
		else if (k->kind == CLOUD_PATCH_ANNOTATIONS)
			do_annotate(w, k);
		else if (k->kind == CLOUD_CREATE_POD)
			do_create(w, k);
		else
			do_delete(w, k);
		if (chance(w, w->k.api_lost)) {
			say(w, "an answer of the API server is lost");
			cJSON_Delete(k->answer);
			k->answer = NULL;
			k->code = ERROR_TIMEOUT;
		}
	}
	at(w, w->now + (k->code == ERROR_TIMEOUT || k->code == ERROR_OFFLINE ? rnd_range(w, 10, ANSWER_LOST_MS) : rnd_delay(w, w->k.api_ms)),
		answer, NULL, k);
}

static void begin(world *w, cloud *c, const cloud_action *a, const char *name, const char *uid, const char *version, const cJSON *body)
{
	call *k = mem_alloc(sizeof(*k));

	*k = (call){.c = c, .id = a->id, .life = c->life, .kind = a->kind, .restores = w->restores};
	k->body = body != NULL ? cJSON_Duplicate(body, 1) : NULL;
	strncpy(k->name, name, sizeof(k->name) - 1);
	if (uid != NULL)
		strncpy(k->uid, uid, sizeof(k->uid) - 1);
	if (version != NULL)
		strncpy(k->version, version, sizeof(k->version) - 1);
	if (a->kind == CLOUD_PATCH_STATUS)
		k->object = a->patch.kind;
	at(w, w->now + rnd_delay(w, w->k.api_ms), perform, NULL, k);
}

void api_patch(world *w, cloud *c, const cloud_action *a)
{
	begin(w, c, a, a->patch.name, a->patch.uid, a->patch.resource_version, a->patch.status);
}

void api_annotate(world *w, cloud *c, const cloud_action *a)
{
	begin(w, c, a, a->annotate.name, a->annotate.uid, a->annotate.resource_version, a->annotate.annotations);
}

void api_create(world *w, cloud *c, const cloud_action *a)
{
	begin(w, c, a, a->create.name, NULL, NULL, a->create.pod);
}

void api_delete(world *w, cloud *c, const cloud_action *a)
{
	begin(w, c, a, a->remove.name, a->remove.uid, NULL, NULL);
}
