/* See many.h. */
#include "transfer/many.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "transfer/crew.h"
#include "transfer/download.h"
#include "transfer/sink.h"

enum { MISSING_NAMED = 20 };

typedef struct fetching_many {
	session *s;
	const many_source *from;
	const char *folder;
	bool fresh;
	pthread_mutex_t lock; /* of the two below */
	many_result result;
	char *made; /* the folder that was made last */
} fetching_many;

/* Without syncing each of what may be a million folders. */
static int make_folders(const char *path, error *err)
{
	char *copy = mem_strdup(path);
	int code = 0;
	for (size_t i = 1; code == 0; i++) {
		char c = copy[i];
		if (c != '/' && c != '\0')
			continue;
		copy[i] = '\0';
		if (mkdir(copy, 0777) != 0 && errno != EEXIST)
			code = sink_errno(err, errno, copy);
		copy[i] = c;
		if (c == '\0')
			break;
	}
	free(copy);
	return code;
}

static int make_parent(fetching_many *w, const char *path, bool itself, error *err)
{
	const char *slash = strrchr(path, '/');
	char *folder = itself ? mem_strdup(path) : mem_strndup(path, (size_t)(slash - path));
	pthread_mutex_lock(&w->lock);
	bool known = w->made != NULL && strcmp(w->made, folder) == 0;
	pthread_mutex_unlock(&w->lock);
	int code = known ? 0 : make_folders(folder, err);
	pthread_mutex_lock(&w->lock);
	if (code == 0 && !known)
		mem_replace(&w->made, folder);
	pthread_mutex_unlock(&w->lock);
	free(folder);
	return code;
}

static int next_item(void *ctx, void *item, error *err)
{
	fetching_many *w = ctx;
	return w->from->next(w->from->ctx, item, err);
}

static int fetch_item(void *ctx, client *c, void *it, error *err)
{
	fetching_many *w = ctx;
	many_item *item = it;
	char *path = mem_printf("%s/%s", w->folder, item->relative);
	int code = make_parent(w, path, item->folder, err);
	if (code == 0 && !item->folder) {
		download d = {.of = &item->of, .path = path, .fresh = w->fresh};
		code = download_file(c, &d, err);
	}
	free(path);
	location_fini(&item->of);
	free(item->relative);
	if (code != 0 && code != ERROR_NOT_FOUND)
		return code;
	pthread_mutex_lock(&w->lock);
	if (code == 0) {
		w->result.files++;
		atomic_fetch_add(&w->s->files, 1);
	} else if (w->result.missing++ < MISSING_NAMED) {
		log_warn("fetch", "not there", L_STR("error", err->text));
	}
	pthread_mutex_unlock(&w->lock);
	return 0;
}

int many_fetch(session *s, const many_source *from, const char *folder, bool fresh, many_result *out, error *err)
{
	fetching_many w = {.s = s, .from = from, .folder = folder, .fresh = fresh};
	crew_task task = {.ctx = &w, .item = sizeof(many_item), .next = next_item, .work = fetch_item};
	int code = make_folders(folder, err);
	if (code != 0)
		return code;
	pthread_mutex_init(&w.lock, NULL);
	code = crew_run(s, &task, err);
	pthread_mutex_destroy(&w.lock);
	free(w.made);
	*out = w.result;
	if (code == 0 && w.result.missing > 0)
		return error_set(err, ERROR_NOT_FOUND, "%lld of %lld files are not there; the first of them are named above",
			(long long)w.result.missing, (long long)(w.result.missing + w.result.files));
	return code;
}
