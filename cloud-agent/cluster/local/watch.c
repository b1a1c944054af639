/* Watching the folder: see watch.h for the contract.
 *
 * One timer for three reasons to look, each a deadline; the nearest sets it. A notification moves its deadline on while others follow, but
 * not for ever, so a file that is always written to is looked at too.
 */
#include "cloud-agent/cluster/local/watch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cloud-agent/cluster/local/catalog.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/moment.h"

enum { SETTLE_TIMES_MAX = 10 };

struct watch {
	uv_loop_t *loop;
	char *folder;
	uv_fs_event_t event;
	uv_timer_t timer;
	int64_t settle_ms, rescan_ms;
	int64_t notified_first; /* of the changes that were not looked at yet; MOMENT_NEVER: none */
	int64_t notified_at, asked_at, rescan_at;
	bool armed;
	dev_t device; /* of the folder that is watched */
	ino_t inode;
	void (*due)(void *ctx);
	void *ctx;
	int open;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

static void on_timer(uv_timer_t *timer);

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void timer_set(watch *w)
{
	int64_t now = (int64_t)uv_now(w->loop), at = least(w->notified_at, least(w->asked_at, w->rescan_at));
	uv_timer_start(&w->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
	watch *w = timer->data;
	w->notified_first = w->notified_at = w->asked_at = MOMENT_NEVER;
	w->rescan_at = (int64_t)uv_now(w->loop) + w->rescan_ms;
	timer_set(w);
	w->due(w->ctx);
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
	watch *w = event->data;
	(void)events;
	/* Names that begin with two dots: how Kubernetes replaces the content of a mounted folder. */
	if (status == 0 && name != NULL && !catalog_is_manifest(name) && !(name[0] == '.' && name[1] == '.'))
		return;
	uv_update_time(w->loop);
	int64_t now = (int64_t)uv_now(w->loop);
	if (w->notified_first == MOMENT_NEVER)
		w->notified_first = now;
	w->notified_at = least(now + w->settle_ms, w->notified_first + SETTLE_TIMES_MAX * w->settle_ms);
	timer_set(w);
}

watch *watch_new(uv_loop_t *loop, const char *folder, int64_t settle_ms, int64_t rescan_ms, void (*due)(void *ctx), void *ctx)
{
	watch *w = mem_alloc(sizeof *w);
	w->loop = loop;
	w->folder = mem_strdup(folder);
	w->settle_ms = settle_ms;
	w->rescan_ms = rescan_ms;
	w->due = due;
	w->ctx = ctx;
	w->notified_first = w->notified_at = MOMENT_NEVER;
	uv_timer_init(loop, &w->timer);
	uv_fs_event_init(loop, &w->event);
	w->timer.data = w->event.data = w;
	w->open = 2;
	uv_update_time(loop);
	w->asked_at = (int64_t)uv_now(loop);
	w->rescan_at = w->asked_at + rescan_ms;
	timer_set(w);
	return w;
}

void watch_soon(watch *w, int64_t ms)
{
	uv_update_time(w->loop);
	w->asked_at = least(w->asked_at, (int64_t)uv_now(w->loop) + ms);
	timer_set(w);
}

void watch_arm(watch *w)
{
	struct stat st;
	bool there = stat(w->folder, &st) == 0;
	if (w->armed && there && st.st_dev == w->device && st.st_ino == w->inode)
		return;
	if (w->armed)
		uv_fs_event_stop(&w->event);
	w->armed = false;
	if (!there)
		return;
	int code = uv_fs_event_start(&w->event, on_event, w->folder, 0);
	w->armed = code == 0;
	w->device = st.st_dev;
	w->inode = st.st_ino;
	if (code != 0)
		log_warn("local", "the folder of manifests cannot be watched, so changes are noticed late", L_STR("folder", w->folder),
			L_STR("error", uv_strerror(code)));
}

static void on_closed(uv_handle_t *handle)
{
	watch *w = handle->data;
	if (--w->open > 0)
		return;
	void (*closed)(void *ctx) = w->closed;
	void *ctx = w->closed_ctx;
	free(w->folder);
	free(w);
	closed(ctx);
}

void watch_free(watch *w, void (*closed)(void *ctx), void *ctx)
{
	w->closed = closed;
	w->closed_ctx = ctx;
	uv_close((uv_handle_t *)&w->timer, on_closed);
	uv_close((uv_handle_t *)&w->event, on_closed);
}
