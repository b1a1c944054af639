/* The mirror: see mirror.h for the contract.
 *
 * One look: read the folder (catalog.c), and if anything may be different, walk the files' objects and the store's, both in the same order,
 * in one transaction; what changed is told after the commit. Whatever fails is tried again with a back-off, the whole look anew.
 */
#include "cloud-agent/cluster/local/mirror.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/catalog.h"
#include "cloud-agent/cluster/local/watch.h"
#include "common/log.h"
#include "common/mem.h"

enum { RETRY_MAX_MS = 60000 };

/* An object whose document is missing, and since when. */
typedef struct missing {
	enum object_kind kind;
	char *ns, *name;
	int64_t since;
} missing;

typedef struct told {
	enum object_kind kind;
	char *ns, *name;
	cJSON *object;
	bool gone;
} told;

struct mirror {
	mirror_host host;
	catalog *catalog;
	watch *watch;
	missing *missing;
	size_t n_missing;
	told *tell; /* after the commit */
	size_t n_tell;
	char *error_told; /* the last failure, so that it is said once */
	int64_t retry_ms;
	bool again; /* apply at the next look even if no file changed */
	bool read;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

static int64_t now_ms(const mirror *m)
{
	uv_update_time(m->host.loop);
	return (int64_t)uv_now(m->host.loop);
}

/* ---- what is to be told ---- */

static void tell_add(mirror *m, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	if ((m->n_tell & (m->n_tell - 1)) == 0)
		m->tell = mem_resize_array(m->tell, m->n_tell > 0 ? m->n_tell * 2 : 1, sizeof *m->tell);
	m->tell[m->n_tell++] = (told){kind, mem_strdup(ns), mem_strdup(name), object, object == NULL};
}

static void tell_one(mirror *m, told *t)
{
	m->host.object(m->host.ctx, t->kind, t->ns, t->name, t->object);
	t->object = NULL;
}

/* What a job names is there before the job, and goes after it. */
static void tell_in_order(mirror *m, told *tell, size_t n)
{
	static const enum object_kind order[] = {OBJECT_SECRET, OBJECT_DATASET, OBJECT_MODEL, OBJECT_JOB};
	enum { KINDS = sizeof order / sizeof order[0] };
	m->host.together(m->host.ctx, true);
	for (size_t k = 0; k < KINDS; k++) {
		for (size_t i = 0; i < n; i++) {
			if (!tell[i].gone && tell[i].kind == order[k])
				tell_one(m, &tell[i]);
		}
	}
	for (size_t k = KINDS; k-- > 0;) {
		for (size_t i = 0; i < n; i++) {
			if (tell[i].gone && tell[i].kind == order[k])
				tell_one(m, &tell[i]);
		}
	}
	m->host.together(m->host.ctx, false);
}

/* Taken out first: whoever is told may do anything. */
static void tell_all(mirror *m, bool say)
{
	told *tell = m->tell;
	size_t n = m->n_tell;
	m->tell = NULL;
	m->n_tell = 0;
	if (say && n > 0)
		tell_in_order(m, tell, n);
	for (size_t i = 0; i < n; i++) {
		cJSON_Delete(tell[i].object);
		free(tell[i].ns);
		free(tell[i].name);
	}
	free(tell);
}

/* ---- what is missing ---- */

static void missing_free(missing *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].ns);
		free(list[i].name);
	}
	free(list);
}

static int64_t missing_since(const mirror *m, const object_key *key, int64_t now)
{
	for (size_t i = 0; i < m->n_missing; i++) {
		const missing *x = &m->missing[i];
		if (object_key_compare(x->kind, x->ns, x->name, key->kind, key->ns, key->name) == 0)
			return x->since;
	}
	return now;
}

static void missing_add(missing **list, size_t *n, const object_key *key, int64_t since)
{
	*list = mem_resize_array(*list, *n + 1, sizeof **list);
	(*list)[(*n)++] = (missing){key->kind, mem_strdup(key->ns), mem_strdup(key->name), since};
}

/* ---- applying ---- */

/* An object of the store for which no document is there. */
static int apply_absent(mirror *m, const object_key *key, int64_t now, missing **left, size_t *n_left, error *err)
{
	if (catalog_keeps(m->catalog, key->kind, key->ns, key->name, key->source))
		return 0;
	int64_t since = missing_since(m, key, now);
	if (now - since < m->host.config->remove_ms) {
		missing_add(left, n_left, key, since);
		return 0;
	}
	int code = objects_remove(m->host.store, key->kind, key->ns, key->name, err);
	if (code == 0)
		tell_add(m, key->kind, key->ns, key->name, NULL);
	return code;
}

static int apply_present(mirror *m, const catalog_entry *entry, error *err)
{
	const manifest *doc = entry->manifest;
	cJSON *changed = NULL;
	int code = objects_apply(m->host.store, doc, entry->source, &changed, err);
	if (code == 0 && changed != NULL)
		tell_add(m, doc->kind, doc->ns, doc->name, changed);
	return code;
}

static int apply_in(mirror *m, const object_key *keys, size_t n_keys, int64_t now, missing **left, size_t *n_left, error *err)
{
	const catalog_entry *entries = NULL;
	size_t n = catalog_entries(m->catalog, &entries), i = 0, k = 0;
	int code = 0;
	while (code == 0 && (i < n || k < n_keys)) {
		int order = i == n ? 1 : k == n_keys ? -1 : 0;
		if (order == 0)
			order = object_key_compare(entries[i].manifest->kind, entries[i].manifest->ns, entries[i].manifest->name, keys[k].kind,
				keys[k].ns, keys[k].name);
		if (order > 0) {
			code = apply_absent(m, &keys[k++], now, left, n_left, err);
		} else {
			code = apply_present(m, &entries[i++], err);
			k += order == 0;
		}
	}
	return code;
}

static int apply(mirror *m, error *err)
{
	object_key *keys = NULL;
	size_t n_keys = 0, n_left = 0;
	missing *left = NULL;
	int64_t now = now_ms(m);
	int code = objects_keys(m->host.store, false, &keys, &n_keys, err);
	if (code == 0)
		code = objects_begin(m->host.store, err);
	if (code == 0)
		code = objects_end(m->host.store, apply_in(m, keys, n_keys, now, &left, &n_left, err), err);
	object_keys_free(keys, n_keys);
	if (code != 0) {
		missing_free(left, n_left);
		tell_all(m, false);
		return code;
	}
	missing_free(m->missing, m->n_missing);
	m->missing = left;
	m->n_missing = n_left;
	for (size_t i = 0; i < n_left; i++)
		watch_soon(m->watch, left[i].since + m->host.config->remove_ms - now);
	m->again = n_left > 0;
	return 0;
}

/* The first time everything is told, not only what is new. */
static int tell_everything(mirror *m, error *err)
{
	object_key *keys = NULL;
	size_t n = 0;
	tell_all(m, false);
	int code = objects_keys(m->host.store, false, &keys, &n, err);
	for (size_t i = 0; i < n && code == 0; i++) {
		cJSON *object = NULL;
		code = objects_get(m->host.store, keys[i].kind, keys[i].ns, keys[i].name, &object, err);
		if (code == 0)
			tell_add(m, keys[i].kind, keys[i].ns, keys[i].name, object);
	}
	object_keys_free(keys, n);
	if (code != 0)
		tell_all(m, false);
	return code;
}

/* ---- looking ---- */

static void retry_soon(mirror *m)
{
	watch_soon(m->watch, m->retry_ms);
	m->retry_ms = m->retry_ms * 2 < RETRY_MAX_MS ? m->retry_ms * 2 : RETRY_MAX_MS;
}

static void failed(mirror *m, const error *err)
{
	if (strcmp(m->error_told, err->text) != 0)
		log_error("local", "the manifests cannot be taken over; what is known stays as it is", L_STR("error", err->text));
	free(m->error_told);
	m->error_told = mem_strdup(err->text);
	m->again = true;
	retry_soon(m);
}

static int look(mirror *m, error *err)
{
	bool changed = false;
	watch_arm(m->watch);
	int code = catalog_look(m->catalog, &changed, err);
	if (code != 0)
		return code;
	if (changed || m->again)
		code = apply(m, err);
	if (code != 0 || m->read)
		return code;
	char *unread = catalog_unread(m->catalog);
	if (unread != NULL)
		code = error_set(err, ERROR_IO, "nothing begins before all manifests could be read: %s", unread);
	free(unread);
	return code != 0 ? code : tell_everything(m, err);
}

static void on_due(void *ctx)
{
	mirror *m = ctx;
	error err = {0};
	int code = look(m, &err);
	/* What was applied before a failure is in the store; before the first complete list it is told with the rest. */
	tell_all(m, m->read || code == 0);
	if (code == 0 && !m->read)
		code = m->host.read(m->host.ctx, &err);
	if (code != 0) {
		failed(m, &err);
		return;
	}
	m->read = true;
	if (m->error_told[0] != '\0')
		log_info("local", "the manifests are read again");
	m->error_told[0] = '\0';
	/* Nobody tells that a file can be read again. */
	if (catalog_failing(m->catalog))
		retry_soon(m);
	else
		m->retry_ms = m->host.config->retry_ms;
}

mirror *mirror_new(const mirror_host *host)
{
	mirror *m = mem_alloc(sizeof *m);
	const cluster_local_config *c = host->config;
	m->host = *host;
	m->catalog = catalog_new(c->manifests);
	m->watch = watch_new(host->loop, c->manifests, c->settle_ms, c->rescan_ms, on_due, m);
	m->error_told = mem_strdup("");
	m->retry_ms = m->host.config->retry_ms;
	m->again = true;
	return m;
}

const cJSON *mirror_secret(const mirror *m, const char *ns, const char *name)
{
	return catalog_secret(m->catalog, ns, name);
}

const char *mirror_trouble(const mirror *m)
{
	return m->error_told[0] != '\0' ? m->error_told : NULL;
}

static void on_watch_closed(void *ctx)
{
	mirror *m = ctx;
	void (*closed)(void *ctx) = m->closed;
	void *closed_ctx = m->closed_ctx;
	tell_all(m, false);
	missing_free(m->missing, m->n_missing);
	catalog_free(m->catalog);
	free(m->error_told);
	free(m);
	closed(closed_ctx);
}

void mirror_free(mirror *m, void (*closed)(void *ctx), void *ctx)
{
	m->closed = closed;
	m->closed_ctx = ctx;
	watch_free(m->watch, on_watch_closed, m);
}
