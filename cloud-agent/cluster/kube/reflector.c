/* See reflector.h for the contract. */
#include "cloud-agent/cluster/kube/reflector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/resource.h"
#include "cloud-agent/cluster/kube/slim.h"
#include "cloud-agent/core/table.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/random.h"

enum { PAGE = 200, WATCH_MIN_S = 240, WATCH_MAX_S = 300, WATCH_MARGIN_S = 30, BACKOFF_MIN_MS = 1000, BACKOFF_MAX_MS = 30 * 1000 };
enum { SHORT_WATCH_MS = 1000, WATCHES_IN_VAIN = 3 };

typedef struct known {
	char *version;
	uint64_t seen; /* the last list that had it */
} known;

struct reflector {
	enum object_kind kind;
	char *ns;
	reflector_object object;
	void *ctx;
	uint64_t random;

	table known; /* "ns/name" -> known */
	bool synced, listing, watching, busy;
	bool whole;    /* the next list in one page: its token has expired twice */
	char *token;   /* of the next page */
	char *version; /* of the list, then of the last event */
	uint64_t list; /* number of the list */
	int expired;   /* tokens in a row */
	int failures;  /* requests in a row */
	int in_vain;   /* watches in a row that ended with an error and brought nothing */
	bool brought;  /* this watch brought something */
	int64_t began_at, retry_at;
	char *problem;
};

reflector *reflector_new(enum object_kind kind, const char *ns, uint64_t seed, reflector_object object, void *ctx)
{
	reflector *r = mem_alloc(sizeof *r);

	r->kind = kind;
	r->ns = mem_strdup(ns);
	r->object = object;
	r->ctx = ctx;
	r->random = seed;
	r->listing = true;
	r->problem = mem_strdup("");
	return r;
}

static void known_free(known *k)
{
	free(k->version);
	free(k);
}

void reflector_free(reflector *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < r->known.n; i++)
		known_free(r->known.entries[i].value);
	table_fini(&r->known);
	free(r->ns);
	free(r->token);
	free(r->version);
	free(r->problem);
	free(r);
}

/* ---- what comes next ---- */

void reflector_relist(reflector *r, moment now)
{
	r->synced = r->watching = r->busy = false;
	r->listing = true;
	r->retry_at = now.mono_ms;
	mem_replace(&r->token, NULL);
}

enum reflector_step reflector_next(reflector *r, moment now, reflector_request *out)
{
	int seconds;

	if (r->busy || now.mono_ms < r->retry_at)
		return REFLECTOR_WAIT;
	r->busy = true;
	r->brought = false;
	r->began_at = now.mono_ms;
	if (r->listing) {
		if (r->token == NULL)
			r->list++;
		*out = (reflector_request){.path = resource_list_path(r->kind, r->ns, r->whole ? 0 : PAGE, r->token)};
		return REFLECTOR_LIST;
	}
	seconds = WATCH_MIN_S + (int)random_below(&r->random, WATCH_MAX_S - WATCH_MIN_S + 1);
	r->watching = true;
	*out = (reflector_request){
		.path = resource_watch_path(r->kind, r->ns, r->version, seconds), .idle_ms = (seconds + WATCH_MARGIN_S) * INT64_C(1000)};
	return REFLECTOR_WATCH;
}

int64_t reflector_wake(const reflector *r)
{
	return r->busy ? MOMENT_NEVER : r->retry_at;
}

bool reflector_synced(const reflector *r)
{
	return r->synced;
}

const char *reflector_problem(const reflector *r)
{
	return r->problem;
}

/* ---- objects ---- */

static const char *meta(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(object, "metadata"), name));

	return text != NULL ? text : "";
}

static char *key_of(const cJSON *object)
{
	return mem_printf("%s/%s", meta(object, "namespace"), meta(object, "name"));
}

/* True if this version is news; then it is the known one. */
static bool learn(reflector *r, const char *key, const char *version)
{
	known *k = table_get(&r->known, key);

	if (k == NULL) {
		k = mem_alloc(sizeof *k);
		table_put(&r->known, key, k);
	} else if (!resource_newer(version, k->version)) {
		k->seen = r->list;
		return false;
	}
	mem_replace(&k->version, version);
	k->seen = r->list;
	return true;
}

static void forget(reflector *r, const char *key)
{
	known *k = table_remove(&r->known, key);
	char *ns, *name;

	if (k == NULL)
		return;
	known_free(k);
	ns = mem_strdup(key);
	name = strchr(ns, '/');
	*name++ = 0;
	r->object(r->ctx, r->kind, ns, name, NULL);
	free(ns);
}

static void put(reflector *r, cJSON *object)
{
	char *key = key_of(object);

	object_slim(object);
	if (learn(r, key, meta(object, "resourceVersion")))
		r->object(r->ctx, r->kind, meta(object, "namespace"), meta(object, "name"), object);
	else
		cJSON_Delete(object);
	free(key);
}

static bool is_object(const cJSON *object)
{
	return meta(object, "name")[0] != 0 && meta(object, "resourceVersion")[0] != 0;
}

void reflector_wrote(reflector *r, const cJSON *object)
{
	char *key = key_of(object);

	/* Also while a list is read that may be older: it is not one of those that are gone. */
	if (is_object(object))
		learn(r, key, meta(object, "resourceVersion"));
	free(key);
}

/* ---- lists ---- */

static void list_complete(reflector *r)
{
	r->listing = r->whole = false;
	r->expired = 0;
	/* From the end: forgetting takes entries out. */
	for (size_t i = r->known.n; i-- > 0;) {
		const known *k = r->known.entries[i].value;

		if (k->seen != r->list) {
			char *key = mem_strdup(r->known.entries[i].key);

			forget(r, key);
			free(key);
		}
	}
	r->synced = true;
}

void reflector_page(reflector *r, cJSON *page, moment now)
{
	const char *token = meta(page, "continue"), *version = meta(page, "resourceVersion");
	cJSON *items = cJSON_DetachItemFromObjectCaseSensitive(page, "items");

	/* null stands for none. */
	if ((items != NULL && !cJSON_IsArray(items) && !cJSON_IsNull(items)) || version[0] == 0) {
		cJSON_Delete(items);
		cJSON_Delete(page);
		reflector_ended(r, ERROR_INVALID, "the answer is no list", 0, now);
		return;
	}
	r->busy = false;
	r->failures = 0;
	r->retry_at = now.mono_ms;
	mem_replace(&r->problem, "");
	mem_replace(&r->version, version);
	mem_replace(&r->token, token[0] != 0 ? token : NULL);
	for (cJSON *item = items != NULL ? items->child : NULL, *next; item != NULL; item = next) {
		next = item->next;
		if (is_object(item))
			put(r, cJSON_DetachItemViaPointer(items, item));
	}
	cJSON_Delete(items);
	cJSON_Delete(page);
	if (r->token == NULL)
		list_complete(r);
}

/* ---- watches ---- */

void reflector_event(reflector *r, enum watch_type type, cJSON *object, moment now)
{
	error err = {0};
	char *key;

	if (!r->watching) {
		cJSON_Delete(object);
		return;
	}
	if (type == WATCH_ERROR) {
		int code = resource_status_error(0, object, &err);

		cJSON_Delete(object);
		reflector_ended(r, code, err.text, 0, now);
		return;
	}
	r->brought = true;
	r->failures = 0;
	if (meta(object, "resourceVersion")[0] != 0)
		mem_replace(&r->version, meta(object, "resourceVersion"));
	if (type == WATCH_BOOKMARK || !is_object(object)) {
		cJSON_Delete(object);
		return;
	}
	if (type != WATCH_DELETED) {
		put(r, object);
		return;
	}
	key = key_of(object);
	if (table_get(&r->known, key) != NULL && learn(r, key, meta(object, "resourceVersion")))
		forget(r, key);
	free(key);
	cJSON_Delete(object);
}

/* ---- when things go wrong ---- */

static char *explain(const reflector *r, int code, const char *text)
{
	const resource *what = resource_of(r->kind);
	const char *where = r->ns != NULL ? r->ns : "all namespaces";

	if (code == ERROR_DENIED && resource_stranger(text) != NULL)
		return mem_printf("%s of %s cannot be read: %s. %s", what->plural, where, text, resource_stranger(text));
	if (code == ERROR_DENIED)
		return mem_printf("%s of %s cannot be read: %s. Needed are the verbs list and watch for %s in API group \"%s\"", what->plural,
			where, text, what->plural, what->group);
	if (code == ERROR_NOT_FOUND && what->custom)
		return mem_printf(
			"%s cannot be read: the API server does not know them. Install the custom resources: kubectl apply -f helm/ilmare/crds/",
			what->plural);
	return mem_printf("%s of %s cannot be read: %s", what->plural, where, text);
}

static void complain(reflector *r, int code, const char *text)
{
	char *said = explain(r, code, text);

	if (strcmp(said, r->problem) != 0)
		log_warn("kube", "nothing comes; tried again", L_STR("error", said));
	free(r->problem);
	r->problem = said;
}

static void list_failed(reflector *r, int code)
{
	if (code != ERROR_CHANGED || r->token == NULL)
		return;
	/* The token has expired: from the beginning, and if that happens again without pages. */
	mem_replace(&r->token, NULL);
	r->whole = ++r->expired > 1;
}

static void watch_ended(reflector *r, int code, moment now)
{
	r->watching = false;
	r->in_vain = code == 0 || r->brought ? 0 : r->in_vain + 1;
	if (code == ERROR_CHANGED || r->in_vain >= WATCHES_IN_VAIN) {
		r->in_vain = 0;
		reflector_relist(r, now);
	}
}

void reflector_ended(reflector *r, int code, const char *text, int64_t retry_after_ms, moment now)
{
	bool listed = r->listing, late = now.mono_ms - r->began_at >= SHORT_WATCH_MS;
	int64_t wait = 0;

	r->busy = false;
	if (listed)
		list_failed(r, code);
	else
		watch_ended(r, code, now);
	if (code == 0 || code == ERROR_CHANGED) {
		/* As it should be, but for a server that ends each watch at once. */
		r->failures = late || r->brought ? 0 : r->failures + 1;
		if (code == 0)
			mem_replace(&r->problem, "");
	} else {
		r->failures++;
		complain(r, code, text);
	}
	if (r->failures > 0)
		wait = random_backoff(&r->random, BACKOFF_MIN_MS, BACKOFF_MAX_MS, r->failures);
	r->retry_at = now.mono_ms + (wait > retry_after_ms ? wait : retry_after_ms);
}
