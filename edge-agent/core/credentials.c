/* Object-store credentials: which ones this node needs, asking for them, and which one is for a url.
 *
 * What is needed is what the committed documents name, found anew after each commit: one entry for each Secret, whoever refers to it, with the
 * version that the newest of these documents tells. An entry that holds no keys, or those of another version, asks: at once with a little
 * jitter, since a rotation concerns many devices at the same moment, then later and later. At most ASKS_MAX questions are open at a time. A
 * question that was answered or given up has no meaning any more: answers are known by the correlation data alone.
 *
 * Nothing is asked over a link that is not TLS. Keys of an older version are used until newer ones come; they are overwritten when they are
 * replaced, and when no document names their Secret. What is kept on the disk is the matter of credential_keep.c.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/random.h"
#include "edge-agent/core/agent_internal.h"

enum { ASKS_MAX = 8, UNANSWERED_TOLD = 5 };

/* ---- entries ---- */

void credential__wipe(char **text)
{
	if (*text != NULL)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

static void forget_keys(credential *c)
{
	credential__wipe(&c->key_id);
	credential__wipe(&c->key);
	free(c->version);
	free(c->endpoint);
	c->version = c->endpoint = NULL;
}

static void forget_uses(credential *c)
{
	for (size_t i = 0; i < c->n_uses; i++) {
		for (size_t k = 0; k < c->uses[i].n_urls; k++)
			free(c->uses[i].urls[k]);
		free(c->uses[i].urls);
		free(c->uses[i].name);
		free(c->uses[i].uid);
	}
	free(c->uses);
	c->uses = NULL;
	c->n_uses = 0;
}

static void entry_free(credential *c)
{
	forget_keys(c);
	forget_uses(c);
	free(c->ns);
	free(c->secret);
	free(c->wanted);
	free(c->next_wanted);
	free(c->refused);
	free(c);
}

credential *credential__entry(edge_agent *a, const char *ns, const char *secret)
{
	credential *c;

	for (size_t i = 0; i < a->n_credentials; i++) {
		c = a->credentials[i];
		if (strcmp(c->secret, secret) == 0 && strcmp(c->ns, ns) == 0)
			return c;
	}
	if (a->n_credentials == CREDENTIALS_MAX) {
		log_warn("credentials", "more Secrets are named than this agent holds keys of", L_STR("namespace", ns), L_STR("secret", secret),
			L_INT("max", CREDENTIALS_MAX));
		return NULL;
	}
	c = mem_alloc(sizeof(*c));
	c->ns = mem_strdup(ns);
	c->secret = mem_strdup(secret);
	a->credentials = mem_resize_array(a->credentials, a->n_credentials + 1, sizeof(*a->credentials));
	a->credentials[a->n_credentials++] = c;
	return c;
}

void credential__hold(credential *c, const char *version, const char *endpoint, const char *key_id, const char *key)
{
	forget_keys(c);
	c->version = mem_strdup(version);
	c->endpoint = mem_strdup(endpoint);
	c->key_id = mem_strdup(key_id);
	c->key = mem_strdup(key);
}

void credentials__fini(edge_agent *a)
{
	for (size_t i = 0; i < a->n_credentials; i++)
		entry_free(a->credentials[i]);
	free(a->credentials);
	a->credentials = NULL;
	a->n_credentials = 0;
	credential_keep__fini(a);
}

static bool lacks(const credential *c)
{
	return c->wanted != NULL && (c->key == NULL || strcmp(c->version, c->wanted) != 0);
}

/* ---- what is needed ---- */

static bool same_text(const char *x, const char *y)
{
	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

static void use_add(credential *c, const credential_of *of, const credential_need *need)
{
	credential_use *use;

	c->uses = mem_resize_array(c->uses, c->n_uses + 1, sizeof(*c->uses));
	use = &c->uses[c->n_uses++];
	*use = (credential_use){.kind = of->kind, .name = mem_strdup(of->name), .uid = mem_strdup(of->uid)};
	if (need->n_urls > 0)
		use->urls = mem_alloc(need->n_urls * sizeof(*use->urls));
	for (size_t i = 0; i < need->n_urls; i++)
		use->urls[use->n_urls++] = mem_strdup(need->urls[i]);
}

static void note_needs(edge_agent *a, const credential_of *of, stamp at, const credential_need *needs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		credential *c = credential__entry(a, of->ns, needs[i].secret);

		if (c == NULL)
			continue;
		if (c->n_uses == 0 || stamp_compare(at, c->wanted_at) > 0) {
			mem_replace(&c->next_wanted, needs[i].version);
			c->wanted_at = at;
		}
		use_add(c, of, &needs[i]);
	}
}

/* A time within the smallest window, so that many devices do not ask in the same moment. */
static void ask_soon(edge_agent *a, credential *c, moment now)
{
	c->asked = false;
	c->attempts = 0;
	c->due = now.mono_ms + agent__random(a, a->config.retry_min_ms);
}

static void want(edge_agent *a, credential *c, moment now)
{
	bool changed = !same_text(c->wanted, c->next_wanted);

	if (changed)
		mem_replace(&c->wanted, c->next_wanted);
	if (!changed || !lacks(c))
		return;
	log_info("credentials", c->key == NULL ? "needed" : "changed", L_STR("namespace", c->ns), L_STR("secret", c->secret));
	ask_soon(a, c, now);
}

void credentials__refresh(edge_agent *a, moment now)
{
	for (size_t i = 0; i < a->n_credentials; i++)
		forget_uses(a->credentials[i]);
	for (size_t i = 0; i < a->n_jobs; i++) {
		const desired *d = a->jobs[i]->rec != NULL ? a->jobs[i]->rec->desired : NULL;

		if (d != NULL)
			note_needs(a, &(credential_of){CREDENTIAL_JOB, d->job.ns, d->job.name, d->job.uid}, d->stamp, d->credentials, d->n_credentials);
	}
	for (size_t i = 0; i < a->n_datasets; i++) {
		const dataset_doc *d = a->datasets[i]->doc;

		if (d != NULL)
			note_needs(a, &(credential_of){CREDENTIAL_DATASET, d->dataset.ns, d->dataset.name, d->dataset.uid}, d->stamp, d->credentials,
				d->n_credentials);
	}
	for (size_t i = a->n_credentials; i-- > 0;) {
		credential *c = a->credentials[i];

		if (c->n_uses > 0) {
			want(a, c, now);
			continue;
		}
		if (c->key != NULL)
			credential_keep__changed(a);
		entry_free(c);
		a->credentials[i] = a->credentials[--a->n_credentials];
	}
}

/* ---- asking ---- */

void edge_agent_secure(edge_agent *a, bool secure)
{
	a->secure = secure;
	a->stale = true;
}

/* What was asked over another link is not answered on this one. */
void credentials__link(edge_agent *a, moment now)
{
	for (size_t i = 0; i < a->n_credentials; i++)
		ask_soon(a, a->credentials[i], now);
	a->insecure_told = false;
}

static char *topic_of(const edge_agent *a, enum topic_kind kind)
{
	topic t = {.kind = kind};

	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

/* Whoever refers to it may ask; if one is refused, the next time another does. */
static void ask(edge_agent *a, credential *c, moment now, edge_action *out)
{
	const credential_use *use = &c->uses[(size_t)c->attempts % c->n_uses];
	char ts[32];
	credential_request request = {
		.ts = ts, .node = a->node, .of = {.kind = use->kind, .ns = c->ns, .name = use->name, .uid = use->uid}, .secret = c->secret};

	time_format(now.unix_ms, ts);
	for (size_t i = 0; i < sizeof(c->correlation); i += sizeof(uint64_t)) {
		uint64_t part = random_next(&a->random);

		memcpy(c->correlation + i, &part, sizeof(part));
	}
	c->asked = true;
	c->due = now.mono_ms + a->config.retry_min_ms + outbox__delay(a, c->attempts++);
	agent__publish(a, out, topic_of(a, TOPIC_CREDENTIAL_REQUEST), credential_request_encode(&request), false);
	a->counters.published--; /* no report */
	free(a->out_response);
	a->out_response = topic_of(a, TOPIC_CREDENTIAL_RESPONSE);
	*out = (edge_action){.kind = EDGE_ASK};
	out->ask.topic = a->out_topic;
	out->ask.payload = a->out_payload;
	out->ask.response_topic = a->out_response;
	out->ask.correlation = c->correlation;
	out->ask.correlation_len = sizeof(c->correlation);
	a->counters.credentials_asked++;
	/* Nothing acknowledges a question, so nothing says that the broker has dropped it. */
	if (++c->unanswered == UNANSWERED_TOLD)
		log_warn("credentials", "no answer so far; do the broker's access rules have the topics below credential/?",
			L_STR("namespace", c->ns), L_STR("secret", c->secret), L_INT("asked", c->unanswered));
}

static void tell_insecure(edge_agent *a, const credential *c)
{
	if (a->insecure_told)
		return;
	a->insecure_told = true;
	log_warn("credentials", "not asked for: the link to the broker is not TLS", L_STR("namespace", c->ns), L_STR("secret", c->secret));
}

bool credentials__ask(edge_agent *a, moment now, edge_action *out)
{
	size_t open = 0;

	for (size_t i = 0; i < a->n_credentials; i++)
		open += a->credentials[i]->asked && a->credentials[i]->due > now.mono_ms;
	for (size_t i = 0; i < a->n_credentials; i++) {
		credential *c = a->credentials[i];

		if (!lacks(c))
			continue;
		if (!a->secure) {
			tell_insecure(a, c);
		} else if (c->due > now.mono_ms) {
			agent__wake_at(a, c->due);
		} else if (open < ASKS_MAX) {
			ask(a, c, now, out);
			return true;
		}
	}
	return false;
}

/* ---- answers ---- */

static credential *find_asked(const edge_agent *a, const void *correlation, size_t len)
{
	for (size_t i = 0; i < a->n_credentials; i++) {
		credential *c = a->credentials[i];

		if (c->asked && len == sizeof(c->correlation) && memcmp(c->correlation, correlation, len) == 0)
			return c;
	}
	return NULL;
}

static void refused(edge_agent *a, credential *c, const credential_response *r)
{
	a->counters.credentials_refused++;
	if (!same_text(c->refused, r->reason))
		log_warn("credentials", "not handed out; it is asked for again", L_STR("namespace", c->ns), L_STR("secret", c->secret),
			L_STR("reason", r->reason), L_STR("message", r->message));
	mem_replace(&c->refused, r->reason);
}

static void granted(edge_agent *a, credential *c, const credential_response *r)
{
	a->credentials_serial++;
	/* What failed for want of them need not wait. */
	for (size_t i = 0; i < a->n_jobs; i++)
		a->jobs[i]->problem.retry_at = 0;
	credential__hold(c, r->version, r->endpoint, r->access_key_id, r->secret_access_key);
	mem_replace(&c->refused, NULL);
	credential_keep__changed(a);
	log_info("credentials", "held", L_STR("namespace", c->ns), L_STR("secret", c->secret), L_STR("version", c->version));
}

static int take_response(edge_agent *a, const credential_response *r, const void *correlation, size_t len, error *err)
{
	credential *c = find_asked(a, correlation, len);

	if (strcmp(r->node, a->node) != 0)
		return error_set(err, ERROR_INVALID, "response: it is of another node");
	if (c == NULL) {
		a->counters.messages_ignored++;
		log_debug("credentials", "an answer to nothing that was asked", L_STR("secret", r->secret));
		return 0;
	}
	if (strcmp(c->secret, r->secret) != 0 || strcmp(c->ns, r->of.ns) != 0)
		return error_set(err, ERROR_INVALID, "response: it is of another Secret than was asked for");
	c->asked = false;
	c->unanswered = 0;
	if (r->reason != NULL)
		refused(a, c, r);
	else
		granted(a, c, r);
	return 0;
}

int edge_agent_response(edge_agent *a, const char *topic_text, const void *payload, size_t len, bool retained, const void *correlation,
	size_t correlation_len, moment now, error *err)
{
	topic t;
	credential_response *r;
	int code = topic_parse(a->root, topic_text, &t, err);

	if (code != 0 || t.kind != TOPIC_CREDENTIAL_RESPONSE)
		return edge_agent_message(a, topic_text, payload, len, now, err);
	a->stale = true;
	a->counters.messages++;
	if (strcmp(t.node, a->node) != 0)
		code = error_set(err, ERROR_INVALID, "the topic is of another node");
	else if (retained)
		code = error_set(err, ERROR_INVALID, "response: it is retained, so it is no answer; whoever left it there should clear it");
	else
		code = credential_response_decode(payload, len, &r, err);
	if (code == 0) {
		code = take_response(a, r, correlation, correlation_len, err);
		credential_response_free(r);
	}
	if (code != 0)
		a->counters.messages_refused++;
	return code;
}

/* ---- for who has something to do with a url ---- */

static bool covers(const char *above, const char *url)
{
	size_t len = strlen(above);

	return len > 0 && strncmp(url, above, len) == 0 && (above[len - 1] == '/' || url[len] == '\0' || url[len] == '/');
}

enum credential_state edge_agent_credential_for(const edge_agent *a, const char *uid, const char *url, credential_keys *out)
{
	const credential *best = NULL;
	size_t longest = 0;

	for (size_t i = 0; i < a->n_credentials; i++) {
		const credential *c = a->credentials[i];

		for (size_t k = 0; k < c->n_uses; k++) {
			const credential_use *use = &c->uses[k];

			for (size_t u = 0; u < use->n_urls && (uid == NULL || strcmp(uid, use->uid) == 0); u++) {
				if (!covers(use->urls[u], url) || strlen(use->urls[u]) <= longest)
					continue;
				best = c;
				longest = strlen(use->urls[u]);
			}
		}
	}
	*out = (credential_keys){0};
	if (best == NULL)
		return CREDENTIAL_NONE;
	if (best->key == NULL)
		return CREDENTIAL_AWAITED;
	*out = (credential_keys){.version = best->version,
		.endpoint = best->endpoint,
		.access_key_id = best->key_id,
		.secret_access_key = best->key,
		.newest = !lacks(best)};
	return CREDENTIAL_HELD;
}

uint64_t edge_agent_credentials_serial(const edge_agent *a)
{
	return a->credentials_serial;
}

void credentials__count(const edge_agent *a, edge_counters *out)
{
	out->credentials_wanted = (int64_t)a->n_credentials;
	out->credentials_held = 0;
	for (size_t i = 0; i < a->n_credentials; i++)
		out->credentials_held += a->credentials[i]->key != NULL;
}
