/* See many.h. Threads, each with a client of its own: what they share is the source, the first error, and the counts. */
#include "transfer/many.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
#include "transfer/download.h"
#include "transfer/sink.h"

enum { JOBS_MAX = 64, MISSING_NAMED = 20 };

typedef struct crew {
	session *s;
	const many_source *from;
	const char *folder;
	bool fresh;
	pthread_mutex_t lock;
	bool over; /* no more is handed out */
	int code;
	error err;
	many_result result;
	char *made; /* the folder that was made last */
} crew;

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

static int make_parent(crew *w, const char *path, bool itself, error *err)
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

static int fetch_item(crew *w, client *c, const many_item *item, error *err)
{
	char *path = mem_printf("%s/%s", w->folder, item->relative);
	int code = make_parent(w, path, item->folder, err);
	if (code == 0 && !item->folder) {
		download d = {.of = &item->of, .path = path, .fresh = w->fresh};
		code = download_file(c, &d, err);
	}
	free(path);
	return code;
}

static int next_item(crew *w, many_item *item)
{
	error err = {0};
	int got = 0;
	pthread_mutex_lock(&w->lock);
	if (!w->over && !cancelled())
		got = w->from->next(w->from->ctx, item, &err);
	if (got <= 0)
		w->over = true;
	if (got < 0 && w->code == 0) {
		w->code = got;
		w->err = err;
	}
	pthread_mutex_unlock(&w->lock);
	return got;
}

static void item_done(crew *w, int code, const error *err)
{
	pthread_mutex_lock(&w->lock);
	if (code == 0) {
		w->result.files++;
		atomic_fetch_add(&w->s->files, 1);
	} else if (code == ERROR_NOT_FOUND) {
		if (w->result.missing++ < MISSING_NAMED)
			log_warn("fetch", "not there", L_STR("error", err->text));
	} else {
		w->over = true;
		if (w->code == 0) {
			w->code = code;
			w->err = *err;
		}
	}
	pthread_mutex_unlock(&w->lock);
}

static void *work(void *arg)
{
	crew *w = arg;
	client *c = client_new(w->s);
	for (;;) {
		many_item item = {0};
		error err = {0};
		if (next_item(w, &item) <= 0)
			break;
		int code = fetch_item(w, c, &item, &err);
		location_fini(&item.of);
		free(item.relative);
		item_done(w, code, &err);
		session_tick(w->s);
	}
	client_free(c);
	return NULL;
}

int many_fetch(session *s, const many_source *from, const char *folder, bool fresh, many_result *out, error *err)
{
	crew w = {.s = s, .from = from, .folder = folder, .fresh = fresh, .code = make_folders(folder, err)};
	pthread_t threads[JOBS_MAX];
	int n = 0, jobs = s->jobs < JOBS_MAX ? s->jobs : JOBS_MAX;
	if (w.code != 0)
		return w.code;
	/* What is found out once is found out before there are threads. */
	digest ignored;
	digest_of("", 0, &ignored);
	pthread_mutex_init(&w.lock, NULL);
	while (n < jobs - 1 && pthread_create(&threads[n], NULL, work, &w) == 0)
		n++;
	work(&w); /* this thread too, so that one is there whatever the system says */
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&w.lock);
	free(w.made);
	*out = w.result;
	if (cancelled())
		return error_set(err, ERROR_CANCELLED, "stopped on request");
	if (w.code != 0)
		return error_set(err, w.code, "%s", w.err.text);
	if (w.result.missing > 0)
		return error_set(err, ERROR_NOT_FOUND, "%lld of %lld files are not there; the first of them are named above",
			(long long)w.result.missing, (long long)(w.result.missing + w.result.files));
	return 0;
}
