/* Object-store credentials: which Secrets a node needs for what it does, and requests for their keys.
 *
 * Documents name the Secrets and their versions (document_desired, document_dataset); a node that finds there what it does not hold asks. The
 * same list decides who is answered: a node gets the keys of a Secret if the document that it should have just now names it, and no others.
 * Whose Secret counts for a url is the rule for pods (pod_credential), so that a node and the workers on it use the same one.
 *
 * The values never come here. What goes out is an action that says whose question it is and which Secret, or why not; the shell reads the
 * Secret and answers. The answer goes to the asking node's own topic: a request that names another one is refused, so nobody can have
 * the cloud agent say something somewhere else.
 *
 * Bounds: ASKS_MAX requests wait, a newer one of a node for the same Secret takes the place of the older; ANSWERING_MAX are being answered;
 * each node may ask BURST times at once and then every RATE_MS. What is over that is dropped and counted: a node asks again, later and later.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/credential.h"
#include "cloud-agent/core/pod.h"
#include "cloud-agent/core/secret.h"

enum { ASKS_MAX = 1024, ANSWERING_MAX = 16, CORRELATION_MAX = 64, RATE_MS = 250, BURST = 32 };

struct credential_ask {
	credential_ask *next;
	credential_request *request;
	unsigned char correlation[CORRELATION_MAX];
	size_t correlation_len;
};

/* ---- Secrets ---- */

char *secret_endpoint(const cJSON *object)
{
	static const char *const schemes[] = {"https://", "http://"};
	const cJSON *annotations = json_member(json_member(object, "metadata"), "annotations");
	const char *host = object_text(annotations, NULL, "s3-endpoint");
	bool plain = strcmp(object_text(annotations, NULL, "s3-usehttps"), "0") == 0;
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
		if (strncmp(host, schemes[i], strlen(schemes[i])) == 0)
			host += strlen(schemes[i]);
	}
	return host[0] != '\0' ? mem_printf("%s%s", schemes[plain ? 1 : 0], host) : mem_strdup("");
}

char *secret_version(const cJSON *object)
{
	return mem_strndup(object_text(object, "metadata", "resourceVersion"), TEXT_MAX_VERSION);
}

/* NULL: there is no such Secret. */
static const secret_object *secret_find(const controller *c, const char *ns, const char *name)
{
	char *key = object_key(ns, name);
	const secret_object *s = table_get(&c->secrets, key);
	free(key);
	return s;
}

/* ---- what a node needs ---- */

typedef struct needing {
	const controller *c;
	const char *ns;
	arena *mem;
	credential_need *needs;
	size_t n;
} needing;

static credential_need *need_of(needing *to, const char *name)
{
	for (size_t i = 0; i < to->n; i++) {
		if (strcmp(to->needs[i].secret, name) == 0)
			return &to->needs[i];
	}
	if (to->n == DOCUMENT_MAX_CREDENTIALS || !name_valid(name))
		return NULL;
	if (to->needs == NULL)
		to->needs = arena_alloc(to->mem, DOCUMENT_MAX_CREDENTIALS * sizeof *to->needs);
	credential_need *need = &to->needs[to->n++];
	const secret_object *s = secret_find(to->c, to->ns, name);
	need->secret = name;
	need->version = s != NULL && s->version[0] != '\0' ? s->version : NULL;
	need->urls = arena_alloc(to->mem, DOCUMENT_MAX_CREDENTIAL_URLS * sizeof *need->urls);
	return need;
}

static void need_add(needing *to, const char *name, const char *url)
{
	credential_need *need = name != NULL && name[0] != '\0' ? need_of(to, name) : NULL;
	if (need == NULL || need->n_urls == DOCUMENT_MAX_CREDENTIAL_URLS)
		return;
	for (size_t i = 0; i < need->n_urls; i++) {
		if (strcmp(need->urls[i], url) == 0)
			return;
	}
	need->urls[need->n_urls++] = url;
}

static bool in_object_store(const char *url)
{
	return strncmp(url, "s3://", 5) == 0;
}

static void need_url(needing *to, const job *j, const char *url)
{
	if (in_object_store(url))
		need_add(to, pod_credential(to->c, j, url), url);
}

credential_need *credential_needs(const controller *c, const job *j, unsigned roles, arena *mem, size_t *n)
{
	const facts *f = &j->facts;
	needing to = {.c = c, .ns = j->ns, .mem = mem};
	/* Where only workers read and write, their pods have the keys. */
	if ((roles & ROLE_DATASET) != 0)
		need_url(&to, j, f->dataset->url);
	if ((roles & (ROLE_DATASET | ROLE_DEPLOY)) != 0)
		need_url(&to, j, f->output_dir);
	if ((roles & ROLE_DEPLOY) != 0) {
		need_url(&to, j, f->deploy->url);
		if (f->eval != NULL)
			need_url(&to, j, f->eval->url);
		if (j->view->pos.stage == STAGE_DEPLOY) {
			/* Usually below the output folder, but a worker may have saved it anywhere. */
			for (size_t i = 0; i < j->view->trained.n; i++)
				need_url(&to, j, j->view->trained.models[i].url);
		}
	}
	*n = to.n;
	return to.needs;
}

credential_need *credential_needs_dataset(const controller *c, const dataset *d, arena *mem, size_t *n)
{
	needing to = {.c = c, .ns = d->ns, .mem = mem};
	if (in_object_store(d->url))
		need_add(&to, d->credential, d->url);
	*n = to.n;
	return to.needs;
}

/* ---- requests come in ---- */

static void ask_free(credential_ask *ask)
{
	if (ask == NULL)
		return;
	credential_request_free(ask->request);
	free(ask);
}

static credential_ask *ask_pop(controller *c)
{
	credential_ask *ask = c->asks.first;
	c->asks.first = ask->next;
	if (c->asks.first == NULL)
		c->asks.last = NULL;
	c->asks.n--;
	return ask;
}

void credentials_forget(controller *c)
{
	while (c->asks.first != NULL)
		ask_free(ask_pop(c));
}

void credentials_fini(controller *c)
{
	credentials_forget(c);
	ask_free(c->asks.out);
	c->asks.out = NULL;
}

/* A node that asks for the same once more has given up on the answer to the one before. */
static bool ask_replace(controller *c, const credential_ask *fresh)
{
	for (credential_ask *ask = c->asks.first; ask != NULL; ask = ask->next) {
		const credential_request *a = ask->request, *b = fresh->request;
		if (strcmp(a->node, b->node) != 0 || strcmp(a->of.ns, b->of.ns) != 0 || strcmp(a->secret, b->secret) != 0)
			continue;
		credential_request_free(ask->request);
		ask->request = fresh->request;
		memcpy(ask->correlation, fresh->correlation, sizeof ask->correlation);
		ask->correlation_len = fresh->correlation_len;
		return true;
	}
	return false;
}

static bool may_ask(const controller *c, node *n)
{
	int64_t now = c->now.mono_ms;
	if (n->asks_until < now)
		n->asks_until = now;
	if (n->asks_until - now > (BURST - 1) * RATE_MS)
		return false;
	n->asks_until += RATE_MS;
	return true;
}

static int take(controller *c, credential_ask *ask, error *err)
{
	node *n = node_get(c, ask->request->node, false);
	bool allowed = n != NULL && may_ask(c, n);
	if (allowed && ask_replace(c, ask))
		return 0;
	if (allowed && c->asks.n < ASKS_MAX) {
		credential_ask *kept = mem_alloc(sizeof *kept);
		*kept = *ask;
		*(c->asks.last != NULL ? &c->asks.last->next : &c->asks.first) = kept;
		c->asks.last = kept;
		c->asks.n++;
		return 0;
	}
	c->count.credentials_dropped++;
	credential_request_free(ask->request);
	return n == NULL ? error_set(err, ERROR_DENIED, "request: nothing names this node, and it has not said that it is there") : 0;
}

static char *response_topic(const controller *c, const char *node_name)
{
	topic t = {.kind = TOPIC_CREDENTIAL_RESPONSE};
	text_copy(t.node, sizeof t.node, node_name);
	return topic_format(c->cfg.root, &t);
}

int credential_asked(controller *c, const topic *t, const void *payload, size_t len, bool retained, const message_reply *reply, error *err)
{
	credential_ask ask = {0};
	char *where = response_topic(c, t->node);
	bool elsewhere = reply == NULL || strcmp(reply->topic, where) != 0;
	free(where);
	if (retained)
		return error_set(err, ERROR_INVALID, "request: it is retained, so it may be of any time");
	if (elsewhere)
		return error_set(err, ERROR_INVALID, "request: the response topic is not the one of this node");
	if (reply->correlation_len == 0 || reply->correlation_len > CORRELATION_MAX)
		return error_set(err, ERROR_INVALID, "request: the correlation data has %zu bytes, and not 1 to %d", reply->correlation_len,
			CORRELATION_MAX);
	int code = credential_request_decode(payload, len, &ask.request, err);
	if (code != 0)
		return code;
	if (strcmp(ask.request->node, t->node) != 0) {
		credential_request_free(ask.request);
		return error_set(err, ERROR_INVALID, "request: the document is of another node than its topic");
	}
	memcpy(ask.correlation, reply->correlation, reply->correlation_len);
	ask.correlation_len = reply->correlation_len;
	c->count.credentials_asked++;
	/* Who does not lead hears the same as the leader, and says nothing. */
	if (c->leading)
		return take(c, &ask, err);
	credential_request_free(ask.request);
	return 0;
}

/* ---- who is answered ---- */

static const char *needs_or_why(const credential_need *needs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(needs[i].secret, name) == 0)
			return needs[i].version != NULL ? NULL : "MissingSecret";
	}
	return "NotReferred";
}

static const char *job_refusal(controller *c, const credential_request *r, arena *mem)
{
	job *j = job_of_uid(c, r->of.uid);
	if (j == NULL || strcmp(j->ns, r->of.ns) != 0 || strcmp(j->name, r->of.name) != 0)
		return "NotFound";
	const facts *f = job_facts(c, j);
	if (f->blocked || !j->view->started)
		return "NotNow";
	unsigned roles = facts_roles(f, r->node);
	if (roles == 0)
		return "NotNamed";
	size_t n;
	const credential_need *needs = credential_needs(c, j, roles, mem, &n);
	return needs_or_why(needs, n, r->secret);
}

static const char *dataset_refusal(const controller *c, const credential_request *r, arena *mem)
{
	char *key = object_key(r->of.ns, r->of.name);
	const dataset *d = table_get(&c->datasets, key);
	free(key);
	if (d == NULL || strcmp(d->uid, r->of.uid) != 0)
		return "NotFound";
	if (d->wrong != NULL)
		return "NotNow";
	if (strcmp(d->node, r->node) != 0)
		return "NotNamed";
	size_t n;
	const credential_need *needs = credential_needs_dataset(c, d, mem, &n);
	return needs_or_why(needs, n, r->secret);
}

static const char *refusal(controller *c, const credential_request *r)
{
	if (!c->secure)
		return "LinkNotSecure";
	arena *mem = arena_new();
	const char *why = r->of.kind == CREDENTIAL_JOB ? job_refusal(c, r, mem) : dataset_refusal(c, r, mem);
	arena_free(mem);
	return why;
}

static bool may_answer(const controller *c)
{
	return c->asks.first != NULL && c->asks.answering < ANSWERING_MAX;
}

bool credential_waits(const controller *c)
{
	return may_answer(c);
}

bool credential_next(controller *c, cloud_action *out)
{
	if (!may_answer(c))
		return false;
	ask_free(c->asks.out);
	credential_ask *ask = c->asks.out = ask_pop(c);
	c->asks.answering++;
	c->out_topic = response_topic(c, ask->request->node);
	*out = (cloud_action){.kind = CLOUD_CREDENTIAL};
	out->credential.topic = c->out_topic;
	out->credential.correlation = ask->correlation;
	out->credential.correlation_len = ask->correlation_len;
	out->credential.request = ask->request;
	out->credential.reason = refusal(c, ask->request);
	return true;
}

void controller_answered(controller *c, bool given, moment now)
{
	c->now = now;
	c->asks.answering--;
	if (given)
		c->count.credentials_given++;
	else
		c->count.credentials_refused++;
}

void controller_secure(controller *c, bool secure)
{
	c->secure = secure;
}
