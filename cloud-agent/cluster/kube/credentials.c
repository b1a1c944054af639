/* See credentials.h for the contract. */
#include "cloud-agent/cluster/kube/credentials.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/json.h"
#include "common/mem.h"

static const char *const lists[] = {"initContainers", "containers"};

static bool is_key(const char *name)
{
	return name != NULL && (strcmp(name, "ACCESS_KEY_ID") == 0 || strcmp(name, "SECRET_ACCESS_KEY") == 0);
}

static const char *text_of(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(json_member(object, name));
}

/* The Secret's name, if this is one of ours that refers to one: variable and key have the same name. */
static const char *secret_of(const cJSON *variable)
{
	const cJSON *ref = json_member(json_member(variable, "valueFrom"), "secretKeyRef");
	const char *name = text_of(variable, "name"), *key = text_of(ref, "key");

	return is_key(name) && key != NULL && strcmp(name, key) == 0 ? text_of(ref, "name") : NULL;
}

typedef int (*visit)(cJSON *variable, void *ctx);

/* Each of our variables; until one answers other than 0. */
static int each(const cJSON *pod, visit look, void *ctx)
{
	int code = 0;

	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		const cJSON *container;
		cJSON *variable;

		cJSON_ArrayForEach(container, json_member(json_member(pod, "spec"), lists[i]))
			cJSON_ArrayForEach(variable, json_member(container, "env"))
				if (code == 0 && is_key(text_of(variable, "name")))
					code = look(variable, ctx);
	}
	return code;
}

static int find(cJSON *variable, void *ctx)
{
	const char **name = ctx;

	*name = secret_of(variable);
	return *name != NULL;
}

const char *credentials_needed(const cJSON *pod)
{
	const char *name = NULL;

	return each(pod, find, &name) != 0 ? name : NULL;
}

typedef struct putting {
	const char *secret;
	const cJSON *data;
	error *err;
} putting;

static int put(cJSON *variable, void *ctx)
{
	const putting *p = ctx;
	const char *secret = secret_of(variable), *name = text_of(variable, "name");
	const char *coded = text_of(p->data, name);
	buf value = {0};
	int code = 0;

	if (secret == NULL || strcmp(secret, p->secret) != 0)
		return 0;
	if (coded == NULL)
		code = error_set(p->err, ERROR_INVALID, "Secret %s has no key %s", p->secret, name);
	else if (base64_decode(coded, &value) != 0 || memchr(buf_text(&value), 0, value.len) != NULL)
		code = error_set(p->err, ERROR_INVALID, "Secret %s: %s is no text", p->secret, name);
	if (code == 0) {
		cJSON_DeleteItemFromObjectCaseSensitive(variable, "valueFrom");
		json_put_string(variable, "value", buf_text(&value));
	}
	buf_wipe(&value);
	return code;
}

int credentials_put(cJSON *pod, const char *secret, const cJSON *object, error *err)
{
	char *name = mem_strdup(secret); /* it may point into what is replaced */
	putting p = {.secret = name, .data = json_member(object, "data"), .err = err};
	int code = each(pod, put, &p);

	free(name);
	return code;
}

static int wipe(cJSON *variable, void *ctx)
{
	const cJSON *value = json_member(variable, "value");

	(void)ctx;
	if (cJSON_IsString(value))
		explicit_bzero(value->valuestring, strlen(value->valuestring));
	return 0;
}

void credentials_wipe(cJSON *pod)
{
	each(pod, wipe, NULL);
}
