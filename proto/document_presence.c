/* Presence: an agent's birth, and its death (the will that the broker publishes: it has no `ts`, for it was written at connect). */
#include "proto/document_internal.h"

#include <string.h>

int presence_decode(const char *data, size_t len, presence **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "presence", data, len, err);
	presence *p = arena_alloc(r.mem, sizeof(*p));
	int code;

	p->mem = r.mem;
	p->ts = read__ts(&r, root, "presence", OPTIONAL);
	p->node = read__name(&r, root, "presence", "node", name_valid, "a node's name");
	read__bool(&r, root, "presence", "online", NEEDED, &p->online);
	p->version = read__word(&r, root, "presence", "version", NEEDED, TEXT_MAX_WORD);
	p->session = read__word(&r, root, "presence", "session", NEEDED, TEXT_MAX_WORD);
	p->client = read__word(&r, root, "presence", "client", OPTIONAL, TEXT_MAX_CLIENT);
	read__int(&r, root, "presence", "epoch", OPTIONAL, 1, DOCUMENT_MAX_EPOCH, &p->epoch);
	p->capabilities = read__strings(&r, root, "presence", "capabilities", OPTIONAL, DOCUMENT_MAX_CAPABILITIES, NULL, &p->n_capabilities);
	code = read__end(&r);
	*out = code == 0 ? p : NULL;
	return code;
}

char *presence_encode(const presence *p)
{
	cJSON *root = write__begin(p->ts);

	json_put_string(root, "node", p->node);
	json_put_bool(root, "online", p->online);
	json_put_string(root, "version", p->version);
	json_put_string(root, "session", p->session);
	json_put_string(root, "client", p->client);
	if (p->epoch != 0)
		json_put_int(root, "epoch", p->epoch);
	write__strings(root, "capabilities", p->capabilities, p->n_capabilities);
	return write__end(root);
}

bool presence_is_rival(const char *data, size_t len, const char *session, const char *client)
{
	presence *p;
	bool rival;

	if (len == 0 || presence_decode(data, len, &p, NULL) != 0)
		return false;
	rival = p->online && strcmp(p->session, session) != 0 && strcmp(p->client != NULL ? p->client : p->node, client) == 0;
	presence_free(p);
	return rival;
}

void presence_free(presence *p)
{
	if (p != NULL)
		arena_free(p->mem);
}
