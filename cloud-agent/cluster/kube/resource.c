/* See resource.h for the contract. Names are those of the Kubernetes API and of compatibility with Sedna's resources. */
#include "cloud-agent/cluster/kube/resource.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"

#define CUSTOM "/apis/sedna.io/v1alpha1"
#define CORE "/api/v1"
/* Pods of ours have the label with the job's uid. */
#define OUR_PODS "incrementallearningjob.sedna.io/uid"

static const resource resources[OBJECT_KINDS] = {
	[OBJECT_JOB] = {OBJECT_JOB, CUSTOM, "incrementallearningjobs", "IncrementalLearningJob", "sedna.io", NULL, true, false, true},
	[OBJECT_DATASET] = {OBJECT_DATASET, CUSTOM, "datasets", "Dataset", "sedna.io", NULL, true, false, true},
	[OBJECT_MODEL] = {OBJECT_MODEL, CUSTOM, "models", "Model", "sedna.io", NULL, true, false, true},
	[OBJECT_SECRET] = {OBJECT_SECRET, CORE, "secrets", "Secret", "", NULL, true, true, false},
	[OBJECT_POD] = {OBJECT_POD, CORE, "pods", "Pod", "", OUR_PODS, true, false, false},
	[OBJECT_NODE] = {OBJECT_NODE, CORE, "nodes", "Node", "", NULL, false, false, false},
};

const resource *resource_of(enum object_kind kind)
{
	return &resources[kind];
}

/* Names that come from objects need no escaping, but a token or a version is the server's own. */
static void add_escaped(buf *out, const char *text)
{
	for (; *text != 0; text++) {
		unsigned char c = (unsigned char)*text;

		if (isalnum(c) || strchr("-._~", c) != NULL)
			buf_putc(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static void add_part(buf *out, const char *text)
{
	buf_putc(out, '/');
	add_escaped(out, text);
}

static void add_path(buf *out, enum object_kind kind, const char *ns, const char *name, const char *sub)
{
	const resource *r = &resources[kind];

	buf_puts(out, r->base);
	if (r->namespaced && ns != NULL) {
		buf_puts(out, "/namespaces");
		add_part(out, ns);
	}
	add_part(out, r->plural);
	if (name != NULL)
		add_part(out, name);
	if (sub != NULL)
		add_part(out, sub);
}

static void add_query(buf *out, char *before, const char *name, const char *value)
{
	buf_printf(out, "%c%s=", *before, name);
	add_escaped(out, value);
	*before = '&';
}

char *resource_path(enum object_kind kind, const char *ns, const char *name, const char *sub)
{
	buf out = {0};

	add_path(&out, kind, ns, name, sub);
	return buf_detach(&out);
}

char *resource_list_path(enum object_kind kind, const char *ns, int limit, const char *token)
{
	buf out = {0};
	char before = '?', number[16];

	add_path(&out, kind, ns, NULL, NULL);
	if (resources[kind].selector != NULL)
		add_query(&out, &before, "labelSelector", resources[kind].selector);
	snprintf(number, sizeof number, "%d", limit);
	if (limit > 0)
		add_query(&out, &before, "limit", number);
	if (token != NULL)
		add_query(&out, &before, "continue", token);
	return buf_detach(&out);
}

char *resource_watch_path(enum object_kind kind, const char *ns, const char *version, int timeout_s)
{
	buf out = {0};
	char before = '?', number[16];

	add_path(&out, kind, ns, NULL, NULL);
	add_query(&out, &before, "watch", "1");
	add_query(&out, &before, "allowWatchBookmarks", "true");
	add_query(&out, &before, "resourceVersion", version);
	snprintf(number, sizeof number, "%d", timeout_s);
	add_query(&out, &before, "timeoutSeconds", number);
	if (resources[kind].selector != NULL)
		add_query(&out, &before, "labelSelector", resources[kind].selector);
	return buf_detach(&out);
}

const char *resource_accept(enum object_kind kind, bool watch)
{
	if (!resources[kind].metadata_only)
		return NULL;
	/* The form of what is sent at a time. A watch that asks for the form of lists is answered 200 and brings nothing, without a word. */
	return watch ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1" :
				   "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
}

/* ---- answers ---- */

static bool too_large(const char *text)
{
	return strcasestr(text, "too large") != NULL || strcasestr(text, "too long: must have at most") != NULL ||
		strcasestr(text, "trying to send message larger") != NULL;
}

static int code_of(int status, const char *reason, const char *text)
{
	switch (status) {
	case 400:
	case 422:
		return too_large(text) ? ERROR_LIMIT : ERROR_INVALID;
	case 401:
	case 403:
		return ERROR_DENIED;
	case 404:
		return ERROR_NOT_FOUND;
	case 408:
	case 504:
		return ERROR_TIMEOUT;
	case 409:
		return strcmp(reason, "AlreadyExists") == 0 ? ERROR_EXISTS : ERROR_CONFLICT;
	case 410:
		return ERROR_CHANGED;
	case 413:
		return ERROR_LIMIT;
	case 500:
		return too_large(text) ? ERROR_LIMIT : ERROR_OFFLINE;
	default:
		return ERROR_OFFLINE;
	}
}

const char *resource_stranger(const char *text)
{
	if (strncmp(text, "403", 3) == 0)
		return NULL;
	if (strncmp(text, "401", 3) == 0)
		return "The API server does not accept the token, or the client certificate, that is given";
	if (strstr(text, "ertificate") != NULL)
		return "Is the certificate authority that is given the API server's?";
	return "";
}

int resource_status_error(int status, const cJSON *object, error *err)
{
	const char *message = cJSON_GetStringValue(json_member(object, "message")),
			   *reason = cJSON_GetStringValue(json_member(object, "reason"));
	const cJSON *number = json_member(object, "code");

	if (status == 0)
		status = cJSON_IsNumber(number) ? number->valueint : 500;
	if (message == NULL)
		message = "";
	return error_set(err, code_of(status, reason != NULL ? reason : "", message), "%d%s%s", status, message[0] != 0 ? ": " : "", message);
}

int resource_error(int status, const char *body, size_t len, error *err)
{
	cJSON *object = NULL;
	int code;

	if (len > 0 && json_parse(body, len, len, &object, NULL) != 0)
		object = NULL;
	if (cJSON_IsObject(object)) {
		code = resource_status_error(status, object, err);
	} else {
		char text[200];

		snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), len > 0 ? body : "");
		text[strcspn(text, "\r\n")] = 0;
		code = error_set(err, code_of(status, "", text), "%d%s%s", status, text[0] != 0 ? ": " : "", text);
	}
	cJSON_Delete(object);
	return code;
}

/* ---- versions ---- */

static bool is_number(const char *text)
{
	return *text != 0 && text[strspn(text, "0123456789")] == 0;
}

bool resource_newer(const char *a, const char *b)
{
	if (!is_number(a) || !is_number(b))
		return strcmp(a, b) != 0;
	while (*a == '0')
		a++;
	while (*b == '0')
		b++;
	return strlen(a) != strlen(b) ? strlen(a) > strlen(b) : strcmp(a, b) > 0;
}
