/* Reading one Secret, for a node that asks for its keys: an answer that holds values. They are overwritten where they were: in the answer and in its
 * tree (kube_ask.c), and decoded.
 *
 * Not part of the queue of writes: it changes nothing, and who asks waits for it. How many are under way is the caller's to bound. */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "common/base64.h"
#include "common/json.h"
#include "common/mem.h"

typedef struct reading {
	cluster_secret done;
	void *ctx;
} reading;

/* NULL if it is not there, or no text. */
static const char *value_of(const cJSON *object, const char *name, buf *value)
{
	const char *coded = cJSON_GetStringValue(json_member(json_member(object, "data"), name));

	if (!coded || base64_decode(coded, value) != 0 || !json_utf8_valid(buf_text(value), value->len))
		return NULL;
	return buf_text(value);
}

static void on_answer(void *ctx, int code, const char *text, const cJSON *object)
{
	reading r = *(reading *)ctx;
	buf id = {0}, key = {0};
	const char *id_text, *key_text;

	free(ctx);
	if (code != 0) {
		r.done(r.ctx, code, text, NULL, NULL, NULL);
		return;
	}
	id_text = value_of(object, "ACCESS_KEY_ID", &id);
	key_text = value_of(object, "SECRET_ACCESS_KEY", &key);
	r.done(r.ctx, 0, "", object, id_text, key_text);
	buf_wipe(&id);
	buf_wipe(&key);
}

void kube__read_secret(cluster *c, const char *ns, const char *name, cluster_secret done, void *ctx)
{
	char *path = resource_path(OBJECT_SECRET, ns, name, NULL);
	cluster_kube_question question = {.method = "GET", .path = path, .total_ms = ((const kube *)c)->write_ms};
	reading *r = mem_alloc(sizeof *r);

	*r = (reading){.done = done, .ctx = ctx};
	cluster_kube_ask(c, &question, on_answer, r);
	free(path);
}
