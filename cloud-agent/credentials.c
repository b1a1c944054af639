/* See credentials.h for the contract. */
#include "cloud-agent/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/secret.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"

typedef struct answer {
	credentials *owner;
	char *topic;
	void *correlation;
	size_t correlation_len;
	arena *mem; /* of what the answer begins with */
	credential_response head;
} answer;

static answer *answer_new(credentials *owner, const cloud_action *action)
{
	answer *a = mem_alloc(sizeof *a);
	const credential_request *r = action->credential.request;

	a->owner = owner;
	a->topic = mem_strdup(action->credential.topic);
	a->correlation = mem_alloc(action->credential.correlation_len);
	a->correlation_len = action->credential.correlation_len;
	memcpy(a->correlation, action->credential.correlation, a->correlation_len);
	a->mem = arena_new();
	a->head.node = arena_strdup(a->mem, r->node);
	a->head.of = (credential_of){.kind = r->of.kind,
		.ns = arena_strdup(a->mem, r->of.ns),
		.name = arena_strdup(a->mem, r->of.name),
		.uid = arena_strdup(a->mem, r->of.uid)};
	a->head.secret = arena_strdup(a->mem, r->secret);
	return a;
}

static void log_answer(const credential_response *r)
{
	log_line(r->reason ? LOG_WARN : LOG_INFO, "credentials", r->reason ? "not handed out" : "handed out", L_STR("node", r->node),
		L_STR("namespace", r->of.ns), L_STR("secret", r->secret), L_STR("for", r->of.name), L_STR("reason", r->reason),
		L_STR("message", r->message), NULL);
}

/* Publishes, and ends the answer. */
static void say(answer *a, credential_response r)
{
	char time[32];
	moment now = clock_now();
	struct mqtt_message m = {.topic = a->topic, .correlation = a->correlation, .correlation_len = a->correlation_len, .secret = true};
	char *text;
	credentials *owner = a->owner;

	time_format(now.unix_ms, time);
	r.ts = time;
	text = credential_response_encode(&r);
	m.payload = text;
	m.len = strlen(text);
	mqtt_agent_once(owner->mqtt, m);
	credential_text_free(text);
	log_answer(&r);
	controller_answered(owner->core, r.reason == NULL, now);
	arena_free(a->mem);
	free(a->topic);
	free(a->correlation);
	free(a);
	owner->answered(owner->ctx);
}

static void refuse(answer *a, const char *reason, const char *message)
{
	credential_response r = a->head;

	r.reason = reason;
	r.message = message;
	say(a, r);
}

/* As the answer's decoder takes it. A line break at its end, as `echo` makes one, is the usual mistake. */
static bool fits(const char *text)
{
	size_t len = text ? strnlen(text, TEXT_MAX_KEY + 1) : 0;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return len > 0 && len <= TEXT_MAX_KEY;
}

static void on_secret(void *ctx, int code, const char *text, const cJSON *object, const char *key_id, const char *key)
{
	answer *a = ctx;
	credential_response r = a->head;
	char *version, *endpoint;

	if (code == ERROR_NOT_FOUND) {
		refuse(a, "MissingSecret", text);
		return;
	}
	if (code != 0) {
		refuse(a, code == ERROR_DENIED ? "ClusterDenied" : "ClusterFailure", text);
		return;
	}
	version = secret_version(object);
	endpoint = secret_endpoint(object);
	if (!fits(key_id) || !fits(key) || version[0] == '\0') {
		refuse(a, "SecretIncomplete",
			"ACCESS_KEY_ID or SECRET_ACCESS_KEY is missing, too long, or holds a line break or another control character");
	} else {
		r.version = version;
		r.endpoint = endpoint[0] != '\0' ? endpoint : NULL;
		r.access_key_id = key_id;
		r.secret_access_key = key;
		say(a, r);
	}
	free(version);
	free(endpoint);
}

void credentials_answer(credentials *c, cluster *from, const cloud_action *action)
{
	answer *a = answer_new(c, action);

	if (action->credential.reason)
		refuse(a, action->credential.reason, NULL);
	else
		from->ops->read_secret(from, a->head.of.ns, a->head.secret, on_secret, a);
}
