/* See watch.h. libuv watches a folder by its inode; if the folder was replaced, its events say nothing about the new one. So the inode is
 * remembered, and compared when an event is about the folder itself and at each watch_rearm.
 */
#include "edge-agent/dataset/watch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/mem.h"
#include "edge-agent/storage/rooted.h"

struct watch {
	uv_fs_event_t event;
	uv_timer_t pause; /* runs for one interval after a call back */
	int open_handles;
	uint64_t interval_ms;
	watch_fn fn;
	void *arg;
	char *root, *path;
	char *folder, *name; /* what is watched: the folder, and the file's name in it */
	bool armed, pending, closing;
	dev_t device; /* of the watched folder */
	ino_t inode;
};

static void tell(watch *w);

static void on_pause_over(uv_timer_t *timer)
{
	watch *w = timer->data;
	if (w->pending)
		tell(w);
}

static void tell(watch *w)
{
	w->pending = false;
	uv_timer_start(&w->pause, on_pause_over, w->interval_ms, 0);
	w->fn(w->arg);
}

static void event_seen(watch *w)
{
	if (uv_is_active((uv_handle_t *)&w->pause))
		w->pending = true;
	else
		tell(w);
}

/* Folder and name of the file that the path leads to now. */
static void resolve(const watch *w, char **folder, char **name)
{
	char *rooted = NULL, *real = rooted_path(w->root, w->path, &rooted, NULL) == 0 ? realpath(rooted, NULL) : NULL;
	const char *path = real != NULL ? real : rooted != NULL ? rooted : w->path, *slash = strrchr(path, '/');
	*folder = file_parent(path);
	*name = mem_strdup(slash != NULL ? slash + 1 : path);
	free(real);
	free(rooted);
}

static bool still_there(const watch *w)
{
	struct stat st;
	return w->armed && stat(w->folder, &st) == 0 && st.st_dev == w->device && st.st_ino == w->inode;
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
	watch *w = event->data;
	(void)events;
	if (status == 0 && name != NULL && strcmp(name, w->name) != 0) {
		/* Another file's event, or one about the folder itself, which carries the folder's name. */
		const char *slash = strrchr(w->folder, '/');
		if (strcmp(name, slash != NULL ? slash + 1 : w->folder) != 0 || still_there(w))
			return;
	}
	if (!still_there(w))
		(void)watch_rearm(w);
	event_seen(w);
}

static void disarm(watch *w)
{
	uv_fs_event_stop(&w->event);
	w->armed = false;
}

bool watch_rearm(watch *w)
{
	char *folder, *name;
	struct stat st;
	resolve(w, &folder, &name);
	if (still_there(w) && strcmp(folder, w->folder) == 0 && strcmp(name, w->name) == 0) {
		free(folder);
		free(name);
		return true;
	}
	disarm(w);
	free(w->folder);
	free(w->name);
	w->folder = folder;
	w->name = name;
	/* The inode is read first: should the folder be replaced in between, the next comparison finds out. */
	if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
		return false;
	w->device = st.st_dev;
	w->inode = st.st_ino;
	w->armed = uv_fs_event_start(&w->event, on_event, folder, 0) == 0;
	return w->armed;
}

bool watch_armed(const watch *w)
{
	return w->armed;
}

watch *watch_new(uv_loop_t *loop, const char *root, const char *path, uint64_t interval_ms, watch_fn fn, void *arg)
{
	watch *w = mem_alloc(sizeof *w);
	w->interval_ms = interval_ms;
	w->fn = fn;
	w->arg = arg;
	w->root = mem_strdup(root);
	w->path = mem_strdup(path);
	w->open_handles = 2;
	uv_fs_event_init(loop, &w->event);
	uv_timer_init(loop, &w->pause);
	w->event.data = w;
	w->pause.data = w;
	(void)watch_rearm(w);
	return w;
}

static void on_closed(uv_handle_t *handle)
{
	watch *w = handle->data;
	if (--w->open_handles > 0)
		return;
	free(w->folder);
	free(w->name);
	free(w->path);
	free(w->root);
	free(w);
}

void watch_free(watch *w)
{
	if (w == NULL || w->closing)
		return;
	w->closing = true;
	uv_close((uv_handle_t *)&w->event, on_closed);
	uv_close((uv_handle_t *)&w->pause, on_closed);
}
