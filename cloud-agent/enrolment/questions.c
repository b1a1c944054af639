/* See questions.h for the contract. */
#include "cloud-agent/enrolment/questions.h"

#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "proto/document.h"
#include "proto/topic.h"

/* ---- questions ---- */

static char *printed(cJSON *object)
{
	char *text = json_print_room(object, (size_t)2 * ENROL_TOKEN_MAX);

	json_wipe(object);
	return text;
}

static char *review_body(const enrol_facts *f)
{
	cJSON *object = cJSON_CreateObject(), *spec = cJSON_CreateObject(), *audiences = cJSON_CreateArray();

	json_put_string(object, "apiVersion", "authentication.k8s.io/v1");
	json_put_string(object, "kind", "TokenReview");
	json_put_string(spec, "token", f->request->token);
	cJSON_AddItemToArray(audiences, cJSON_CreateString(ENROL_AUDIENCE));
	json_put(spec, "audiences", audiences);
	json_put(object, "spec", spec);
	return printed(object);
}

/* Both guards: of this Secret, as it was read. */
static cJSON *guards(const enrol_facts *f)
{
	cJSON *object = cJSON_CreateObject();

	json_put_string(object, "uid", f->secret.uid);
	json_put_string(object, "resourceVersion", f->secret.version);
	return object;
}

static char *bind_body(const enrol_facts *f)
{
	cJSON *object = cJSON_CreateObject(), *meta = guards(f), *annotations = cJSON_CreateObject();

	json_put_string(annotations, ENROL_SECRET_KEY, f->key);
	json_put(meta, "annotations", annotations);
	json_put(object, "metadata", meta);
	return printed(object);
}

static char *remove_body(const enrol_facts *f)
{
	cJSON *object = cJSON_CreateObject();

	json_put_string(object, "apiVersion", "v1");
	json_put_string(object, "kind", "DeleteOptions");
	json_put(object, "preconditions", guards(f));
	return printed(object);
}

static const char *secret_path(const enrol_settings *s, const enrol_facts *f)
{
	return arena_printf(f->mem, "/api/v1/namespaces/%s/secrets/%s%s", s->ns, s->prefix, f->request->node);
}

/* Names of pods come from the API server, and are not put into a path unless they are what they must be. */
static const char *pod_path(const enrol_settings *s, const enrol_facts *f)
{
	return arena_printf(f->mem, "/api/v1/namespaces/%s/pods/%s", s->account_ns, f->review.pod);
}

void enrol_question_make(const enrol_settings *s, const enrol_facts *f, enum enrol_step step, enrol_question *out)
{
	switch (step) {
	case ENROL_REVIEW:
		*out = (enrol_question){"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json", review_body(f)};
		break;
	case ENROL_POD:
		*out = (enrol_question){"GET", pod_path(s, f), NULL, NULL};
		break;
	case ENROL_SECRET:
		*out = (enrol_question){"GET", secret_path(s, f), NULL, NULL};
		break;
	case ENROL_BIND:
		*out = (enrol_question){"PATCH", secret_path(s, f), "application/merge-patch+json", bind_body(f)};
		break;
	case ENROL_REMOVE:
		*out = (enrol_question){"DELETE", secret_path(s, f), "application/json", remove_body(f)};
		break;
	case ENROL_SIGN:
	case ENROL_REFUSE:
	case ENROL_LATER:
		*out = (enrol_question){0};
		break;
	}
}

/* ---- answers ---- */

static const char *text_of(arena *mem, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(object, name));

	return arena_strdup(mem, text ? text : "");
}

static const char *first_of(arena *mem, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(object, name), 0));

	return arena_strdup(mem, text ? text : "");
}

static void take_review(enrol_facts *f, const cJSON *object)
{
	const cJSON *status = json_member(object, "status"), *user = json_member(status, "user"), *extra = json_member(user, "extra"), *each;

	f->review.known = true;
	f->review.authenticated = cJSON_IsTrue(json_member(status, "authenticated"));
	f->review.error = text_of(f->mem, status, "error");
	f->review.user = text_of(f->mem, user, "username");
	f->review.pod = first_of(f->mem, extra, "authentication.kubernetes.io/pod-name");
	f->review.uid = first_of(f->mem, extra, "authentication.kubernetes.io/pod-uid");
	if (!name_valid(f->review.pod))
		f->review.pod = "";
	cJSON_ArrayForEach(each, json_member(status, "audiences"))
		if (cJSON_IsString(each) && strcmp(each->valuestring, ENROL_AUDIENCE) == 0)
			f->review.audience = true;
}

static void take_pod(enrol_facts *f, const cJSON *object)
{
	const cJSON *meta = json_member(object, "metadata");
	const char *phase = text_of(f->mem, json_member(object, "status"), "phase");

	f->pod.found = ENROL_THERE;
	f->pod.uid = text_of(f->mem, meta, "uid");
	f->pod.node = text_of(f->mem, json_member(object, "spec"), "nodeName");
	f->pod.ended = json_member(meta, "deletionTimestamp") != NULL || strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* "" if it is not there, or no text. */
static const char *value_of(arena *mem, const cJSON *data, const char *name)
{
	const char *coded = cJSON_GetStringValue(json_member(data, name)), *value = "";
	buf plain = {0};

	if (coded && base64_decode(coded, &plain) == 0 && json_utf8_valid(buf_text(&plain), plain.len))
		value = arena_strdup(mem, buf_text(&plain));
	buf_fini(&plain);
	return value;
}

static void take_secret(enrol_facts *f, const cJSON *object)
{
	const cJSON *meta = json_member(object, "metadata"), *data = json_member(object, "data");

	f->secret.found = ENROL_THERE;
	f->secret.type = text_of(f->mem, object, "type");
	f->secret.uid = text_of(f->mem, meta, "uid");
	f->secret.version = text_of(f->mem, meta, "resourceVersion");
	f->secret.key = text_of(f->mem, json_member(meta, "annotations"), ENROL_SECRET_KEY);
	f->secret.node = value_of(f->mem, data, "node");
	f->secret.sha256 = value_of(f->mem, data, "tokenSha256");
	if (time_parse(value_of(f->mem, data, "expires"), &f->secret.expires_ms) != 0)
		f->secret.expires_ms = 0;
}

/* Somebody else was there first: it is read once more. */
static void take_bound(enrol_facts *f, int code)
{
	f->binds++;
	f->bound = code == 0;
	if (code != 0)
		f->secret.found = ENROL_NOT_ASKED;
}

void enrol_question_answered(enrol_facts *f, enum enrol_step step, int code, const char *text, const cJSON *object)
{
	bool gone = code == ERROR_NOT_FOUND, raced = code == ERROR_CONFLICT || code == ERROR_EXISTS || code == ERROR_CHANGED;

	if (code == 0 && step == ENROL_REVIEW)
		take_review(f, object);
	else if (code == 0 && step == ENROL_POD)
		take_pod(f, object);
	else if (gone && step == ENROL_POD)
		f->pod.found = ENROL_MISSING;
	else if (code == 0 && step == ENROL_SECRET)
		take_secret(f, object);
	else if (gone && step == ENROL_SECRET)
		f->secret.found = ENROL_MISSING;
	else if (step == ENROL_BIND && (code == 0 || gone || raced))
		take_bound(f, code);
	else if (step == ENROL_REMOVE && (code == 0 || gone || raced))
		f->removed = true;
	else
		error_set(&f->trouble, code, "%s", text);
}
