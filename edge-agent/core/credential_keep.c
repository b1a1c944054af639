/* Credentials over a restart: the text that the shell keeps, if it is to, and what is made of it at the start.
 *
 * Whenever what is held has changed the shell is given all of it (EDGE_KEEP), or nothing: then it keeps nothing. A failure is tried again; the
 * keys in memory are as good meanwhile. At the start the keys are held as they were; those that no stored document names go at once.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

enum { KEEP_MAX = 4 * 1024 * 1024, KEEP_VERSION = 1 };

void credential_keep__changed(edge_agent *a)
{
	a->keep.due = a->config.keep_credentials;
}

void credential_keep__fini(edge_agent *a)
{
	credential__wipe(&a->keep.text);
}

/* ---- to the disk ---- */

static size_t entry_put(cJSON *list, const credential *c)
{
	cJSON *entry = cJSON_CreateObject();

	json_put_string(entry, "namespace", c->ns);
	json_put_string(entry, "secret", c->secret);
	json_put_string(entry, "version", c->version);
	json_put_string(entry, "endpoint", c->endpoint);
	json_put_string(entry, "accessKeyId", c->key_id);
	json_put_string(entry, "secretAccessKey", c->key);
	cJSON_AddItemToArray(list, entry);
	return 1024 + 6 * (strlen(c->key_id) + strlen(c->key) + (c->endpoint != NULL ? strlen(c->endpoint) : 0));
}

/* NULL: nothing is held. In one piece of memory: nothing of it is left when it has been overwritten. */
static char *text_of(const edge_agent *a)
{
	cJSON *root = cJSON_CreateObject(), *list = cJSON_CreateArray();
	size_t room = 1024;
	char *text = NULL;

	json_put_int(root, "v", KEEP_VERSION);
	for (size_t i = 0; i < a->n_credentials; i++) {
		if (a->credentials[i]->key != NULL)
			room += entry_put(list, a->credentials[i]);
	}
	json_put(root, "credentials", list);
	if (cJSON_GetArraySize(list) > 0)
		text = json_print_room(root, room);
	json_wipe(root);
	return text;
}

bool credential_keep__next(edge_agent *a, moment now, edge_action *out)
{
	if (!a->keep.due || a->keep.active)
		return false;
	if (now.mono_ms < a->keep.retry_at) {
		agent__wake_at(a, a->keep.retry_at);
		return false;
	}
	a->keep.due = false;
	a->keep.active = true;
	a->keep.id = ++a->next_id;
	a->keep.text = text_of(a);
	*out = (edge_action){.kind = EDGE_KEEP, .id = a->keep.id};
	out->keep.text = a->keep.text;
	return true;
}

bool credential_keep__done(edge_agent *a, uint64_t id, const edge_result *result, moment now)
{
	if (!a->keep.active || a->keep.id != id)
		return false;
	a->keep.active = false;
	credential__wipe(&a->keep.text);
	if (result->code == 0) {
		a->keep.attempts = 0;
		a->keep.retry_at = 0;
		return true;
	}
	if (a->keep.attempts++ == 0)
		log_warn("credentials", "cannot be kept on the disk; it is tried again", L_STR("error", result->text));
	a->keep.due = true;
	a->keep.retry_at = now.mono_ms + agent__backoff(a, a->keep.attempts);
	return true;
}

/* ---- and back ---- */

static const char *text_in(const cJSON *entry, const char *name, size_t max)
{
	const cJSON *value = json_member(entry, name);

	return cJSON_IsString(value) && value->valuestring[0] != '\0' && strlen(value->valuestring) <= max ? value->valuestring : NULL;
}

static void entry_take(edge_agent *a, const cJSON *entry)
{
	const char *ns = text_in(entry, "namespace", NAME_MAX_NS), *secret = text_in(entry, "secret", NAME_MAX_NAME);
	const char *version = text_in(entry, "version", TEXT_MAX_VERSION);
	const char *key_id = text_in(entry, "accessKeyId", TEXT_MAX_KEY), *key = text_in(entry, "secretAccessKey", TEXT_MAX_KEY);
	credential *c;

	if (ns == NULL || secret == NULL || version == NULL || key_id == NULL || key == NULL)
		return;
	c = credential__entry(a, ns, secret);
	if (c != NULL)
		credential__hold(c, version, text_in(entry, "endpoint", TEXT_MAX_URL), key_id, key);
}

void edge_agent_restore_credentials(edge_agent *a, const char *text, size_t len)
{
	cJSON *root = NULL;
	const cJSON *entry;
	int64_t version = 0;
	error err = {0};

	if (json_parse(text, len, KEEP_MAX, &root, &err) != 0 ||
		json_get_int(root, "credentials", "v", KEEP_VERSION, KEEP_VERSION, &version, &err) != 1) {
		log_warn("credentials", "what was kept on the disk cannot be read and is left out", L_STR("error", err.text));
	} else {
		cJSON_ArrayForEach(entry, json_member(root, "credentials"))
			entry_take(a, entry);
	}
	json_wipe(root);
}
