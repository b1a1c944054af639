/* Pods: see pods.h for the contract. Finding those of earlier agents is in pods_adopt.c, the workers' logs in pods_logs.c.
 *
 * Durable order. Create: (1) the row, Pending; (2) the worker's folder and its supervisor (worker.c). Delete: (1) if the worker is
 * alive, deletionTimestamp in the row; (2) the worker is told, its end awaited; (3) the row is removed; (4) its folder. A stop between any
 * two of these is safe: (1) alone is carried on by the next start, and so is (3).
 */
#include "cloud-agent/cluster/local/pods.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/pods_internal.h"
#include "cloud-agent/cluster/local/podstatus.h"
#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

enum { RETRY_MAX_MS = 60000, END_LIMIT_MS = 60000 };

static const char *meta_text(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(object, "metadata"), name));
	return text != NULL ? text : "";
}

static const char *phase_of(const cJSON *status)
{
	const char *text = cJSON_GetStringValue(json_member(status, "phase"));
	return text != NULL ? text : "";
}

/* Ways to a store and its certificate are the machine's, and of what fetches alone. */
static cJSON *env_make(bool transfer)
{
	static const char *const kept[] = {"PATH", "HOME", "LANG", "TZ"},
							 *const ways[] = {"AWS_REGION", "SSL_CERT_FILE", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
								 "ALL_PROXY", "no_proxy", "NO_PROXY"};
	cJSON *env = cJSON_CreateObject();
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		json_put_string(env, kept[i], getenv(kept[i]));
	for (size_t i = 0; transfer && i < sizeof ways / sizeof ways[0]; i++)
		json_put_string(env, ways[i], getenv(ways[i]));
	if (json_member(env, "PATH") == NULL)
		json_put_string(env, "PATH", "/usr/local/bin:/usr/bin:/bin");
	return env;
}

pods *pods_new(const pods_host *host)
{
	pods *p = mem_alloc(sizeof *p);
	p->host = *host;
	p->env = env_make(false);
	p->transfer_env = env_make(true);
	p->folder = mem_printf("%s/pods", host->config->state);
	p->logs = mem_printf("%s/logs", host->config->state);
	p->retry_ms = p->host.config->retry_ms;
	p->timer_open = true;
	uv_timer_init(host->loop, &p->retry);
	p->retry.data = p;
	return p;
}

void pods_free(pods *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < sizeof p->told_jobs / sizeof p->told_jobs[0]; i++)
		free(p->told_jobs[i]);
	cJSON_Delete(p->env);
	cJSON_Delete(p->transfer_env);
	free(p->folder);
	free(p->logs);
	free(p);
}

char *pods__folder(const pods *p, const char *uid)
{
	return mem_printf("%s/%s", p->folder, uid);
}

/* ---- tracking ---- */

tracked *pods__find(pods *p, const char *uid)
{
	for (tracked *t = p->first; t != NULL; t = t->next) {
		if (strcmp(t->uid, uid) == 0)
			return t;
	}
	return NULL;
}

static tracked *tracked_new(pods *p, const cJSON *pod)
{
	tracked *t = mem_alloc(sizeof *t);
	t->owner = p;
	t->ns = mem_strdup(meta_text(pod, "namespace"));
	t->name = mem_strdup(meta_text(pod, "name"));
	t->uid = mem_strdup(meta_text(pod, "uid"));
	t->container = mem_strdup(launch_container(pod));
	t->deleting = meta_text(pod, "deletionTimestamp")[0] != '\0';
	t->next = p->first;
	p->first = t;
	return t;
}

static void tracked_free(tracked *t)
{
	tracked **at = &t->owner->first;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	worker_free(t->worker);
	free(t->ns);
	free(t->name);
	free(t->uid);
	free(t->container);
	free(t);
}

static void closed_check(pods *p)
{
	if (p->stopping && p->workers == 0 && !p->timer_open)
		p->closed(p->closed_ctx);
}

static void on_worker_closed(void *owner)
{
	pods *p = owner;
	p->workers--;
	closed_check(p);
}

static void tracked_settle(tracked *t);

static void on_changed(void *ctx)
{
	tracked_settle(ctx);
}

static bool any_alive(const pods *p)
{
	for (const tracked *t = p->first; t != NULL; t = t->next) {
		if (t->worker != NULL)
			return true;
	}
	return false;
}

static void on_gone(void *ctx)
{
	tracked *t = ctx;
	pods *p = t->owner;
	worker_free(t->worker);
	t->worker = NULL;
	tracked_settle(t);
	if (p->ending && !any_alive(p))
		pods_stop(p, false, p->closed, p->closed_ctx);
}

static worker_events events_of(tracked *t)
{
	return (worker_events){.ctx = t, .changed = on_changed, .gone = on_gone, .owner = t->owner, .closed = on_worker_closed};
}

/* ---- what became of it ---- */

/* Relaxed: what power takes back is found again by what the worker's folder says (pods_adopt.c), and where it says nothing, the worker has
 * never run and is started. What the core stores because of it comes later and is flushed, this with it. */
int pods__set_status(pods *p, const char *ns, const char *name, const char *uid, cJSON *status, error *err)
{
	cJSON *was = NULL, *after = NULL;
	int code = objects_begin_relaxed(p->host.store, err);
	if (code == 0)
		code = objects_end(p->host.store, objects_patch_status(p->host.store, OBJECT_POD, ns, name, uid, NULL, status, &after, &was, err),
			err);
	if (code == 0 && was != NULL) {
		const cJSON *now = json_member(after, "status");
		if (strcmp(phase_of(was), phase_of(now)) != 0)
			pods__say_phase(name, now);
		p->stored++;
		p->host.object(p->host.ctx, ns, name, after);
		after = NULL;
	}
	cJSON_Delete(was);
	cJSON_Delete(after);
	cJSON_Delete(status);
	return code;
}

/* The row first: a folder without a row is removed at the next start, a row without its folder would have its worker run again. */
int pods__finish(pods *p, const char *ns, const char *name, const char *uid, error *err)
{
	int code = objects_remove(p->host.store, OBJECT_POD, ns, name, err);
	if (code != 0)
		return code;
	char *folder = pods__folder(p, uid);
	error tree = {0};
	/* What cannot be removed now is looked for at the next start. */
	if (file_remove_tree(folder, &tree) != 0)
		log_warn("local", "a worker's folder cannot be removed", L_STR("error", tree.text));
	free(folder);
	p->host.object(p->host.ctx, ns, name, NULL);
	return 0;
}

/* The pod's status from what its supervisor wrote; NULL: it wrote nothing yet. */
static cJSON *status_of(const tracked *t, const cJSON *written)
{
	if (written != NULL)
		return podstatus_from(written, t->worker != NULL, t->container);
	if (t->worker == NULL)
		return podstatus_failed(t->container, "StartFailed", "the worker's supervisor ended before it could start the worker");
	return NULL;
}

static void on_retry(uv_timer_t *timer)
{
	pods *p = timer->data;
	p->retry_ms = p->retry_ms * 2 < RETRY_MAX_MS ? p->retry_ms * 2 : RETRY_MAX_MS;
	for (tracked *t = p->first, *next; t != NULL; t = next) {
		next = t->next;
		if (t->dirty)
			tracked_settle(t);
	}
}

static void retry_soon(pods *p)
{
	if (p->timer_open && !uv_is_active((uv_handle_t *)&p->retry))
		uv_timer_start(&p->retry, on_retry, (uint64_t)p->retry_ms, 0);
}

/* Takes t; what launches it tracks it anew. */
static int launch_again(tracked *t, error *err)
{
	pods *p = t->owner;
	cJSON *pod = NULL;
	int code = objects_get(p->host.store, OBJECT_POD, t->ns, t->name, &pod, err);
	bool own = code == 0 && strcmp(meta_text(pod, "uid"), t->uid) == 0;
	if (code == 0 || code == ERROR_NOT_FOUND) {
		int64_t restarts = t->restarts;
		tracked_free(t);
		code = 0;
		if (own)
			pods__launch(p, pod, restarts);
	} else {
		retry_soon(p);
	}
	cJSON_Delete(pod);
	return code;
}

/* Store what is so now; when the worker is over, that is all. Of a pod that is to go only that it is gone is of interest. */
static void tracked_settle(tracked *t)
{
	pods *p = t->owner;
	error err = {0};
	cJSON *written = NULL;
	if (t->unstarted && !t->deleting) {
		if (launch_again(t, &err) != 0)
			log_error("local", "a worker could not be started; it is tried again", L_STR("error", err.text));
		return;
	}
	char *folder = pods__folder(p, t->uid);
	int code = worker_status(folder, &written, &err);
	free(folder);
	if (t->worker == NULL && t->deleting) {
		code = pods__finish(p, t->ns, t->name, t->uid, &err);
		if (code == 0)
			pods__say_ended(t, written);
	} else if (code == 0 && !t->deleting) {
		cJSON *status = status_of(t, written);
		if (status != NULL)
			code = pods__set_status(p, t->ns, t->name, t->uid, status, &err);
		if (code == ERROR_NOT_FOUND || code == ERROR_CONFLICT)
			code = 0; /* its row is gone or another's: nothing to store */
		if (code == 0)
			pods__say_again(t, written);
	}
	cJSON_Delete(written);
	t->dirty = code != 0;
	if (t->dirty) {
		log_error("local", "what became of a worker cannot be read or stored; it is tried again", L_STR("pod", t->name),
			L_STR("error", err.text));
		retry_soon(p);
		return;
	}
	p->retry_ms = p->host.config->retry_ms;
	if (t->worker == NULL)
		tracked_free(t);
}

int pods__watch(pods *p, const cJSON *pod, error *err)
{
	char *folder = pods__folder(p, meta_text(pod, "uid"));
	tracked *t = tracked_new(p, pod);
	worker_events events = events_of(t);
	int code = worker_adopt(p->host.loop, folder, &events, &t->worker, err);
	if (t->worker != NULL)
		p->workers++;
	if (code != 0)
		tracked_free(t);
	else
		tracked_settle(t);
	free(folder);
	return code;
}

/* ---- creating ---- */

static void tell_ignored(pods *p, const cJSON *pod, const char *ignored)
{
	const cJSON *owner = cJSON_GetArrayItem(json_member(json_member(pod, "metadata"), "ownerReferences"), 0);
	const char *uid = cJSON_GetStringValue(json_member(owner, "uid"));
	char *what = mem_printf("%s %s", uid != NULL ? uid : "", ignored);
	size_t n = sizeof p->told_jobs / sizeof p->told_jobs[0];
	for (size_t i = 0; i < n; i++) {
		if (p->told_jobs[i] != NULL && strcmp(p->told_jobs[i], what) == 0) {
			free(what);
			return;
		}
	}
	log_info("local", "fields of a pod template have no meaning without containers and are ignored", L_STR("fields", ignored),
		L_STR("job", cJSON_GetStringValue(json_member(owner, "name"))));
	free(p->told_jobs[p->told_next]);
	p->told_jobs[p->told_next] = what;
	p->told_next = (p->told_next + 1) % n;
}

static void spec_complete(const pods *p, const cJSON *pod, int64_t restarts, cJSON *spec)
{
	const cluster_local_config *c = p->host.config;
	char *log = pods__log(p, meta_text(pod, "namespace"), meta_text(pod, "name"));
	json_put_int(spec, "v", 1);
	json_put_string(spec, "log", log);
	json_put_int(spec, "restarts", restarts);
	json_put_int(spec, "logMax", c->worker_log_max);
	json_put_int(spec, "backoffMinMs", c->restart_min_ms);
	json_put_int(spec, "backoffMaxMs", c->restart_max_ms);
	json_put_int(spec, "backoffResetMs", c->restart_reset_ms);
	free(log);
}

static void launch_later(pods *p, const cJSON *pod, int64_t restarts)
{
	tracked *t = tracked_new(p, pod);
	t->dirty = t->unstarted = true;
	t->restarts = restarts;
	retry_soon(p);
}

/* Whether the store takes it or not, the pod is not forgotten. */
static int set_own_status(pods *p, const cJSON *pod, cJSON *status)
{
	error err = {0};
	const char *name = meta_text(pod, "name");
	int code = pods__set_status(p, meta_text(pod, "namespace"), name, meta_text(pod, "uid"), status, &err);
	if (code != 0)
		log_error("local", "what became of a worker cannot be stored", L_STR("pod", name), L_STR("error", err.text));
	return code;
}

/* What cannot be run at all, its status says so. */
static void launch_refused(pods *p, const cJSON *pod, int64_t restarts, const char *reason, const error *why)
{
	log_warn("local", "a pod cannot be run", L_STR("pod", meta_text(pod, "name")), L_STR("reason", reason), L_STR("error", why->text));
	int code = set_own_status(p, pod, podstatus_failed(launch_container(pod), reason, why->text));
	if (code != 0 && code != ERROR_NOT_FOUND && code != ERROR_CONFLICT)
		launch_later(p, pod, restarts);
}

/* The machine lacks something just now: as a kubelet does, the pod is kept Pending and started again. */
static void launch_failed(pods *p, const cJSON *pod, int64_t restarts, const error *why)
{
	log_error("local", "a worker cannot be started; it is tried again", L_STR("pod", meta_text(pod, "name")), L_STR("error", why->text));
	set_own_status(p, pod, podstatus_unstarted(launch_container(pod), why->text));
	launch_later(p, pod, restarts);
}

void pods__launch(pods *p, const cJSON *pod, int64_t restarts)
{
	const char *name = meta_text(pod, "name");
	char *folder = pods__folder(p, meta_text(pod, "uid")), *downloads = mem_printf("%s/" WORKER_DOWNLOADS, folder);
	launch_host host = {.env = p->env,
		.folder = p->host.config->manifests,
		.transfer = p->host.config->transfer,
		.transfer_env = p->transfer_env,
		.downloads = downloads,
		.secret = p->host.secret,
		.ctx = p->host.ctx};
	launch l;
	error why = {0};
	int code = launch_make(pod, &host, &l, &why);
	free(downloads);
	if (code != 0) {
		launch_refused(p, pod, restarts, l.reason, &why);
		free(folder);
		return;
	}
	if (l.ignored != NULL)
		tell_ignored(p, pod, l.ignored);
	spec_complete(p, pod, restarts, l.spec);
	log_info("local", "worker starts", L_STR("pod", name), L_STR("log", cJSON_GetStringValue(json_member(l.spec, "log"))));
	tracked *t = tracked_new(p, pod);
	worker_events events = events_of(t);
	code = worker_start(p->host.loop, p->host.config->supervisor, folder, l.spec, &events, &t->worker, &why);
	if (t->worker != NULL)
		p->workers++;
	if (code != 0) {
		tracked_free(t);
		launch_failed(p, pod, restarts, &why);
	}
	free(folder);
	launch_fini(&l);
}

int pods_create(pods *p, const char *ns, const char *name, const cJSON *pod, cJSON **out, error *err)
{
	cJSON *asked = cJSON_Duplicate(pod, 1), *made = NULL;
	*out = NULL;
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(asked, "metadata"), "uid");
	cJSON_DeleteItemFromObjectCaseSensitive(asked, "status");
	json_put(asked, "status", podstatus_pending(launch_container(pod)));
	int code = objects_add_pod(p->host.store, ns, name, asked, &made, err);
	cJSON_Delete(asked);
	if (code != 0) {
		*out = made;
		return code;
	}
	pods__logs_trim(p);
	unsigned stored = p->stored;
	/* From here on the pod exists; what goes wrong shows in its status. */
	pods__launch(p, made, 0);
	if (p->stored != stored && objects_get(p->host.store, OBJECT_POD, ns, name, out, NULL) == 0)
		cJSON_Delete(made);
	else
		*out = made;
	return 0;
}

/* ---- deleting ---- */

/* Its worker is alive: it is marked, so that its end is awaited whatever comes, and asked to end. */
static int delete_begin(pods *p, tracked *t, bool first, error *err)
{
	cJSON *pod = NULL;
	int code = first ? objects_mark_deleting(p->host.store, t->ns, t->name, &pod, err) : 0;
	if (code != 0)
		return code;
	t->deleting = true;
	char *folder = pods__folder(p, t->uid);
	code = worker_end(folder, err);
	free(folder);
	if (pod != NULL)
		p->host.object(p->host.ctx, t->ns, t->name, pod);
	return code;
}

int pods_delete(pods *p, const char *ns, const char *name, const char *uid, cJSON **out, error *err)
{
	int code = objects_get(p->host.store, OBJECT_POD, ns, name, out, err);
	if (code != 0)
		return code;
	if (uid != NULL && strcmp(meta_text(*out, "uid"), uid) != 0)
		return error_set(err, ERROR_CONFLICT, "the pod %s/%s is another one by now", ns, name);
	char *own = mem_strdup(meta_text(*out, "uid"));
	bool first = meta_text(*out, "deletionTimestamp")[0] == '\0';
	cJSON_Delete(*out);
	*out = NULL;
	tracked *t = pods__find(p, own);
	if (t != NULL && t->worker != NULL) {
		code = delete_begin(p, t, first, err);
	} else if (t != NULL) {
		t->deleting = true;
		tracked_settle(t);
	} else {
		code = pods__finish(p, ns, name, own, err);
	}
	free(own);
	return code;
}

/* ---- stopping ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	pods *p = handle->data;
	p->timer_open = false;
	closed_check(p);
}

static void on_end_limit(uv_timer_t *timer)
{
	pods *p = timer->data;
	log_warn("local", "some workers do not end; they are left to their supervisors");
	pods_stop(p, false, p->closed, p->closed_ctx);
}

void pods_stop(pods *p, bool end_workers, void (*closed)(void *ctx), void *ctx)
{
	p->closed = closed;
	p->closed_ctx = ctx;
	if (end_workers && any_alive(p)) {
		p->ending = true;
		for (tracked *t = p->first; t != NULL; t = t->next) {
			error err = {0};
			char *folder = pods__folder(p, t->uid);
			if (worker_end(folder, &err) != 0)
				log_error("local", "a worker cannot be told to end", L_STR("pod", t->name), L_STR("error", err.text));
			free(folder);
		}
		uv_timer_start(&p->retry, on_end_limit, END_LIMIT_MS, 0);
		return;
	}
	p->ending = false;
	for (tracked *t = p->first, *next; t != NULL; t = next) {
		next = t->next;
		tracked_free(t);
	}
	p->stopping = true;
	uv_close((uv_handle_t *)&p->retry, on_timer_closed);
}
