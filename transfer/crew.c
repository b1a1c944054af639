/* See crew.h. What the threads share is the source and the first error. */
#include "transfer/crew.h"

#include <pthread.h>

#include "common/digest.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"

enum { JOBS_MAX = 64 };

typedef struct crew {
	session *s;
	const crew_task *task;
	pthread_mutex_t lock;
	bool over; /* no more is handed out */
	int code;
	error err;
} crew;

static void failed(crew *w, int code, const error *err)
{
	w->over = true;
	if (w->code == 0) {
		w->code = code;
		w->err = *err;
	}
}

static int next_item(crew *w, void *item)
{
	error err = {0};
	int got = 0;
	pthread_mutex_lock(&w->lock);
	if (!w->over && !cancelled())
		got = w->task->next(w->task->ctx, item, &err);
	if (got < 0)
		failed(w, got, &err);
	w->over = w->over || got == 0;
	pthread_mutex_unlock(&w->lock);
	return got;
}

static void *work(void *arg)
{
	crew *w = arg;
	client *c = client_new(w->s);
	for (;;) {
		_Alignas(max_align_t) char item[CREW_ITEM_MAX] = {0};
		error err = {0};
		if (next_item(w, item) <= 0)
			break;
		int code = w->task->work(w->task->ctx, c, item, &err);
		if (code != 0) {
			pthread_mutex_lock(&w->lock);
			failed(w, code, &err);
			pthread_mutex_unlock(&w->lock);
		}
		session_tick(w->s);
	}
	client_free(c);
	return NULL;
}

int crew_run(session *s, const crew_task *task, error *err)
{
	crew w = {.s = s, .task = task};
	pthread_t threads[JOBS_MAX];
	int n = 0, jobs = s->jobs < JOBS_MAX ? s->jobs : JOBS_MAX;
	if (task->item > CREW_ITEM_MAX)
		return error_set(err, ERROR_INTERNAL, "an item of %zu bytes", task->item);
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
	if (cancelled())
		return error_set(err, ERROR_CANCELLED, "stopped on request");
	return w.code == 0 ? 0 : error_set(err, w.code, "%s", w.err.text);
}
