/* The embedded cluster: see local.h. What is here puts the parts together and answers the operations of cluster.h.
 *
 * Life: new (configuration) → start (lock, store, epoch; then the mirror looks at the folder from the loop) → the folder is read for the first
 * time: objects, then pods are told, synced → stop (mirror and pods leave the loop, the lock is let go) → free.
 */
#include "cloud-agent/cluster/local/local.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/host.h"
#include "cloud-agent/cluster/local/mirror.h"
#include "cloud-agent/cluster/local/objects.h"
#include "cloud-agent/cluster/local/patches.h"
#include "cloud-agent/cluster/local/pods.h"
#include "common/digest.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/moment.h"

enum { EVENTS_REMEMBERED = 64, EVENT_QUIET_MS = 60000 };

typedef struct said {
	digest what;
	int64_t at;
} said;

typedef struct local {
	cluster base; /* first: a cluster * is a local * */
	uv_loop_t *loop;
	cluster_local_config config; /* its texts are owned */
	int lock;
	objects *store;
	mirror *mirror;
	pods *pods;
	patches *patches;
	bool running, stopping;
	said said[EVENTS_REMEMBERED];
	size_t said_next;
	int parts; /* of stopping, still on the loop */
	void (*stopped)(void *ctx);
	void *stopped_ctx;
} local;

/* ---- what the parts tell ---- */

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	local *l = ctx;
	if (l->stopping)
		cJSON_Delete(object);
	else
		l->base.events.object(l->base.events.ctx, kind, ns, name, object);
}

static void on_pod(void *ctx, const char *ns, const char *name, cJSON *object)
{
	on_object(ctx, OBJECT_POD, ns, name, object);
}

static void on_together(void *ctx, bool begin)
{
	local *l = ctx;
	if (!l->stopping && l->base.events.together != NULL)
		l->base.events.together(l->base.events.ctx, begin);
}

static const cJSON *on_secret(void *ctx, const char *ns, const char *name)
{
	local *l = ctx;
	return mirror_secret(l->mirror, ns, name);
}

static int on_read(void *ctx, error *err)
{
	local *l = ctx;
	int code = pods_start(l->pods, err);
	/* Nothing may be decided without knowing the workers. */
	if (code != 0)
		return error_prefix(err, "the workers of before cannot be looked at");
	l->base.events.synced(l->base.events.ctx, true);
	return 0;
}

/* ---- operations ---- */

static void done(void *ctx, uint64_t id, int code, const error *err, cJSON *object)
{
	local *l = ctx;
	l->base.done(l->base.done_ctx, id, code, code != 0 ? err->text : "", object, 0);
}

/* True, and answered, if nothing is to be done any more. */
static bool refuse(local *l, uint64_t id)
{
	error err = {0};
	if (l->running && !l->stopping)
		return false;
	error_set(&err, ERROR_OFFLINE, "the local cluster is not running");
	done(l, id, err.code, &err, NULL);
	return true;
}

static void patch_status(cluster *c, uint64_t id, enum object_kind kind, const char *ns, const char *name, const char *uid,
	const char *resource_version, const cJSON *status)
{
	local *l = (local *)c;
	if (refuse(l, id))
		return;
	patches_add(l->patches, &(patch_request){id, kind, ns, name, uid, resource_version, status});
}

static void patch_annotations(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid, const char *resource_version,
	const cJSON *annotations)
{
	local *l = (local *)c;
	error err = {0};
	cJSON *object = NULL;
	if (refuse(l, id))
		return;
	int code = objects_annotate(l->store, OBJECT_JOB, ns, name, uid, resource_version, annotations, &object, &err);
	done(l, id, code, &err, object);
}

static void create_pod(cluster *c, uint64_t id, const char *ns, const char *name, const cJSON *pod)
{
	local *l = (local *)c;
	error err = {0};
	cJSON *object = NULL;
	if (refuse(l, id))
		return;
	int code = pods_create(l->pods, ns, name, pod, &object, &err);
	done(l, id, code, &err, object);
}

static void delete_pod(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid)
{
	local *l = (local *)c;
	error err = {0};
	cJSON *object = NULL;
	if (refuse(l, id))
		return;
	int code = pods_delete(l->pods, ns, name, uid, &object, &err);
	done(l, id, code, &err, object);
}

/* The same is said once a minute at most. */
static bool said_lately(local *l, const char *ns, const char *job, const char *reason, const char *message)
{
	char *text = mem_printf("%s/%s\n%s\n%s", ns, job, reason, message);
	int64_t now = (int64_t)uv_now(l->loop);
	digest what;
	digest_of(text, strlen(text), &what);
	free(text);
	for (size_t i = 0; i < EVENTS_REMEMBERED; i++) {
		if (l->said[i].at != 0 && now - l->said[i].at < EVENT_QUIET_MS && digest_equal(&l->said[i].what, &what))
			return true;
	}
	l->said[l->said_next] = (said){what, now > 0 ? now : 1};
	l->said_next = (l->said_next + 1) % EVENTS_REMEMBERED;
	return false;
}

static void event(cluster *c, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message)
{
	local *l = (local *)c;
	(void)uid;
	if (said_lately(l, ns, job, reason, message))
		return;
	char *whole = mem_printf("%s/%s", ns, job);
	log_line(warning ? LOG_WARN : LOG_INFO, "job", "event", L_STR("job", whole), L_STR("reason", reason), L_STR("message", message), NULL);
	free(whole);
}

static void raise_epoch(cluster *c, uint64_t id, int64_t above)
{
	local *l = (local *)c;
	error err = {0};
	int64_t epoch = 0;
	if (refuse(l, id))
		return;
	/* The state folder's lock is ours, so the leadership is. */
	int code = objects_next_epoch(l->store, above + 1, &epoch, &err);
	if (code == 0)
		l->base.events.lead(l->base.events.ctx, epoch);
	done(l, id, code, &err, NULL);
}

static void read_secret(cluster *c, const char *ns, const char *name, cluster_secret done_cb, void *ctx)
{
	local *l = (local *)c;
	error err = {0};
	cJSON *object = NULL;
	const cJSON *values = l->mirror != NULL ? mirror_secret(l->mirror, ns, name) : NULL;
	int code = values == NULL ? error_set(&err, ERROR_NOT_FOUND, "there is no Secret %s/%s", ns, name) :
								objects_get(l->store, OBJECT_SECRET, ns, name, &object, &err);
	done_cb(ctx, code, code != 0 ? err.text : "", object, cJSON_GetStringValue(json_member(values, "ACCESS_KEY_ID")),
		cJSON_GetStringValue(json_member(values, "SECRET_ACCESS_KEY")));
	cJSON_Delete(object);
}

static const char *trouble(const cluster *c)
{
	const local *l = (const local *)c;
	return l->mirror != NULL ? mirror_trouble(l->mirror) : NULL;
}

/* ---- life ---- */

static int open_state(local *l, int64_t *epoch, error *err)
{
	char *path = mem_printf("%s/cluster.db", l->config.state);
	int code = file_make_dirs(l->config.state, 0700, err);
	if (code == 0)
		code = host_lock(l->config.state, &l->lock, err);
	if (code == 0)
		code = objects_open(path, &l->store, err);
	if (code == 0)
		code = objects_next_epoch(l->store, (int64_t)time(NULL), epoch, err);
	free(path);
	return code;
}

static void close_state(local *l)
{
	objects_close(l->store);
	l->store = NULL;
	if (l->lock >= 0)
		close(l->lock);
	l->lock = -1;
}

static int start(cluster *c, error *err)
{
	local *l = (local *)c;
	int64_t epoch = 0;
	int code = open_state(l, &epoch, err);
	if (code != 0) {
		close_state(l);
		return code;
	}
	l->running = true;
	l->pods =
		pods_new(&(pods_host){.loop = l->loop, .store = l->store, .config = &l->config, .object = on_pod, .secret = on_secret, .ctx = l});
	l->patches = patches_new(l->loop, l->store, done, l);
	l->mirror = mirror_new(&(mirror_host){
		.loop = l->loop, .store = l->store, .config = &l->config, .object = on_object, .together = on_together, .read = on_read, .ctx = l});
	l->base.events.fence(l->base.events.ctx, MOMENT_NEVER);
	l->base.events.lead(l->base.events.ctx, epoch);
	return 0;
}

static void on_part_closed(void *ctx)
{
	local *l = ctx;
	if (--l->parts > 0)
		return;
	pods_free(l->pods);
	l->pods = NULL;
	close_state(l);
	l->running = false;
	if (l->stopped)
		l->stopped(l->stopped_ctx);
}

static void stop(cluster *c, void (*stopped)(void *ctx), void *ctx)
{
	local *l = (local *)c;
	if (!l->running || l->stopping) {
		if (stopped)
			stopped(ctx);
		return;
	}
	l->stopping = true;
	l->stopped = stopped;
	l->stopped_ctx = ctx;
	l->parts = 3;
	patches_free(l->patches, on_part_closed, l);
	l->patches = NULL;
	mirror_free(l->mirror, on_part_closed, l);
	l->mirror = NULL;
	pods_stop(l->pods, l->config.stop_workers, on_part_closed, l);
}

static void local_free(cluster *c)
{
	local *l = (local *)c;
	close_state(l);
	host_config_fini(&l->config);
	free(l);
}

static const cluster_ops ops = {.start = start,
	.patch_status = patch_status,
	.patch_annotations = patch_annotations,
	.create_pod = create_pod,
	.delete_pod = delete_pod,
	.event = event,
	.read_secret = read_secret,
	.raise_epoch = raise_epoch,
	.trouble = trouble,
	.stop = stop,
	.free = local_free};

cluster *cluster_local_new(uv_loop_t *loop, const cluster_local_config *config, const cluster_events *events, cluster_done done_cb,
	void *done_ctx, error *err)
{
	local *l = mem_alloc(sizeof *l);
	l->base = (cluster){.ops = &ops, .events = *events, .done = done_cb, .done_ctx = done_ctx};
	l->loop = loop;
	l->lock = -1;
	if (host_config_init(config, &l->config, err) != 0) {
		local_free(&l->base);
		return NULL;
	}
	return &l->base;
}
