/* Reading one Secret, for a node that asks for its keys: the only request whose answer holds values. They are overwritten where they were: in
 * the answer, in its tree, and decoded.
 *
 * Not part of the queue of writes: it changes nothing, and who asks waits for it. How many are under way is the caller's to bound. */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "common/base64.h"
#include "common/json.h"
#include "common/mem.h"

struct kube_secret {
	kube *k;
	kube_secret *next;
	transport_call *call;
	cluster_secret done;
	void *ctx;
};

static void secret_free(kube_secret *s)
{
	kube_secret **link = &s->k->secrets;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	free(s);
}

static void value_free(buf *value)
{
	if (value->data)
		explicit_bzero(value->data, value->cap);
	buf_fini(value);
}

/* NULL if it is not there, or no text. */
static const char *value_of(const cJSON *object, const char *name, buf *value)
{
	const char *coded = cJSON_GetStringValue(json_member(json_member(object, "data"), name));

	if (!coded || base64_decode(coded, value) != 0 || !json_utf8_valid(buf_text(value), value->len))
		return NULL;
	return buf_text(value);
}

static void on_answer(void *ctx, const transport_answer *answer)
{
	kube_secret *s = ctx;
	cluster_secret done = s->done;
	void *done_ctx = s->ctx;
	error err = {0};
	cJSON *object = NULL;
	int code = kube__answer(answer, &object, &err);

	secret_free(s);
	if (code == 0) {
		buf id = {0}, key = {0};
		const char *id_text = value_of(object, "ACCESS_KEY_ID", &id), *key_text = value_of(object, "SECRET_ACCESS_KEY", &key);

		done(done_ctx, 0, "", object, id_text, key_text);
		value_free(&id);
		value_free(&key);
	} else {
		done(done_ctx, code, err.text, NULL, NULL, NULL);
	}
	json_wipe(object);
}

void kube__read_secret(cluster *c, const char *ns, const char *name, cluster_secret done, void *ctx)
{
	kube *k = (kube *)c;
	kube_secret *s;
	char *path = resource_path(OBJECT_SECRET, ns, name, NULL);
	transport_request request = {.method = "GET", .path = path, .secret = true, .total_ms = k->write_ms, .done = on_answer};

	if (k->started) {
		s = mem_alloc(sizeof *s);
		*s = (kube_secret){.k = k, .next = k->secrets, .done = done, .ctx = ctx};
		k->secrets = s;
		request.ctx = s;
		s->call = transport_begin(k->transport, &request);
	} else {
		done(ctx, ERROR_OFFLINE, "the cluster is not followed", NULL, NULL, NULL);
	}
	free(path);
}

void kube__secrets_fini(kube *k)
{
	while (k->secrets) {
		kube_secret *s = k->secrets;
		cluster_secret done = s->done;
		void *ctx = s->ctx;

		k->secrets = s->next;
		transport_cancel(s->call);
		free(s);
		done(ctx, ERROR_OFFLINE, "the cluster is not followed any more", NULL, NULL, NULL);
	}
}
