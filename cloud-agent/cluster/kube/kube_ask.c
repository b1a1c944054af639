/* One request of somebody else's (enrolment, or a Secret that is read), beside what is followed and written: it is not limited here, waits for no
 * leadership, and its answer is overwritten where it was. How many are under way is the caller's to bound. */
#include <stdlib.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "common/json.h"
#include "common/mem.h"

enum { ASK_MS = 10 * 1000 };

struct kube_asked {
	kube *k;
	kube_asked *next;
	transport_call *call;
	cluster_kube_answer done;
	void *ctx;
};

static void asked_free(kube_asked *a)
{
	kube_asked **link = &a->k->asked;

	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	free(a);
}

static void on_answer(void *ctx, const transport_answer *answer)
{
	kube_asked *a = ctx;
	cluster_kube_answer done = a->done;
	void *done_ctx = a->ctx;
	error err = {0};
	cJSON *object = NULL;
	int code = kube__answer(answer, &object, &err);

	asked_free(a);
	done(done_ctx, code, err.text, object);
	json_wipe(object);
}

void cluster_kube_ask(cluster *c, const cluster_kube_question *q, cluster_kube_answer done, void *ctx)
{
	kube *k = (kube *)c;
	kube_asked *a;
	transport_request request = {.method = q->method,
		.path = q->path,
		.content_type = q->content_type,
		.body = q->body,
		.secret = true,
		.total_ms = q->total_ms != 0 ? q->total_ms : ASK_MS,
		.done = on_answer};

	if (!k->started) {
		done(ctx, ERROR_OFFLINE, "the cluster is not followed", NULL);
		return;
	}
	a = mem_alloc(sizeof *a);
	*a = (kube_asked){.k = k, .next = k->asked, .done = done, .ctx = ctx};
	k->asked = a;
	request.ctx = a;
	a->call = transport_begin(k->transport, &request);
}

const char *cluster_kube_namespace(const cluster *c)
{
	return access_namespace(((const kube *)c)->access);
}

void kube__asked_fini(kube *k)
{
	while (k->asked) {
		kube_asked *a = k->asked;
		cluster_kube_answer done = a->done;
		void *ctx = a->ctx;

		k->asked = a->next;
		transport_cancel(a->call);
		free(a);
		done(ctx, ERROR_OFFLINE, "the cluster is not followed any more", NULL);
	}
}
