/* Object-store credentials on the wire: what documents say of them (which Secrets a node needs, and for what), and the request and response by
 * which a node gets the keys themselves.
 *
 * A response is the only document with something secret in it. Its tree is overwritten when it is freed, also after a failure; its text is made
 * in one piece of memory, which credential_text_free overwrites. No error text holds a value of `accessKeyId` or `secretAccessKey`.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/document_internal.h"

static const char *const owner_words[] = {[CREDENTIAL_JOB] = "job", [CREDENTIAL_DATASET] = "dataset"};

enum { N_OWNERS = sizeof owner_words / sizeof owner_words[0] };

/* ---- what a document needs ---- */

static bool url_valid(const char *url)
{
	size_t len = strnlen(url, TEXT_MAX_URL + 1);

	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)url[i] < ' ' || url[i] == 0x7f)
			return false;
	}
	return len > 0 && len <= TEXT_MAX_URL;
}

static void read_need(reading *r, const cJSON *obj, const char *where, credential_need *need)
{
	need->secret = read__name(r, obj, where, "secret", name_valid, "a Secret's name");
	need->version = read__word(r, obj, where, "version", OPTIONAL, TEXT_MAX_VERSION);
	need->urls = read__strings(r, obj, where, "urls", NEEDED, DOCUMENT_MAX_CREDENTIAL_URLS, url_valid, &need->n_urls);
}

credential_need *read__credentials(reading *r, const cJSON *obj, const char *where, size_t *n)
{
	const cJSON *array = read__array(r, obj, where, "credentials", OPTIONAL, DOCUMENT_MAX_CREDENTIALS, n);
	credential_need *needs;
	const cJSON *entry;
	size_t i = 0;

	if (array == NULL || *n == 0)
		return NULL;
	needs = arena_alloc(r->mem, *n * sizeof(*needs));
	cJSON_ArrayForEach(entry, array) {
		const char *path = path__entry(r, where, "credentials", i);

		if (!cJSON_IsObject(entry))
			read__fail(r, where, "credentials", "entry %zu is not an object", i);
		else
			read_need(r, entry, path, &needs[i]);
		i++;
	}
	return needs;
}

void write__credentials(cJSON *obj, const credential_need *needs, size_t n)
{
	cJSON *array;

	if (n == 0)
		return;
	array = cJSON_CreateArray();
	for (size_t i = 0; i < n; i++) {
		cJSON *need = cJSON_CreateObject();

		json_put_string(need, "secret", needs[i].secret);
		json_put_string(need, "version", needs[i].version);
		write__strings(need, "urls", needs[i].urls, needs[i].n_urls);
		cJSON_AddItemToArray(array, need);
	}
	json_put(obj, "credentials", array);
}

/* ---- what both sides say ---- */

static void read_of(reading *r, const cJSON *root, const char *where, credential_of *of)
{
	const cJSON *o = read__object(r, root, where, "of", NEEDED);
	const char *path = path__member(r, where, "of");
	const char *kind = read__text(r, o, path, "kind", NEEDED, TEXT_MAX_WORD);
	bool known = kind == NULL;

	for (unsigned i = 0; i < N_OWNERS && !known; i++) {
		known = strcmp(kind, owner_words[i]) == 0;
		of->kind = (enum credential_owner)i;
	}
	if (!known)
		read__fail(r, path, "kind", "'%s' is neither job nor dataset", kind);
	of->ns = read__name(r, o, path, "namespace", name_valid_ns, "a namespace");
	of->name = read__name(r, o, path, "name", name_valid, "a name");
	of->uid = read__name(r, o, path, "uid", uid_valid, "a uid");
}

static void write_of(cJSON *root, const credential_of *of)
{
	cJSON *o = cJSON_CreateObject();

	json_put_string(o, "kind", owner_words[of->kind]);
	json_put_string(o, "namespace", of->ns);
	json_put_string(o, "name", of->name);
	json_put_string(o, "uid", of->uid);
	json_put(root, "of", o);
}

static cJSON *write_head(const char *ts, const char *node, const credential_of *of, const char *secret)
{
	cJSON *root = write__begin(ts);

	json_put_string(root, "node", node);
	write_of(root, of);
	json_put_string(root, "secret", secret);
	return root;
}

/* ---- request ---- */

int credential_request_decode(const char *data, size_t len, credential_request **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "request", data, len, err);
	credential_request *q = arena_alloc(r.mem, sizeof(*q));
	int code;

	q->mem = r.mem;
	q->ts = read__ts(&r, root, "request", NEEDED);
	q->node = read__node(&r, root, "request");
	read_of(&r, root, "request", &q->of);
	q->secret = read__name(&r, root, "request", "secret", name_valid, "a Secret's name");
	code = read__end(&r);
	*out = code == 0 ? q : NULL;
	return code;
}

char *credential_request_encode(const credential_request *r)
{
	return write__end(write_head(r->ts, r->node, &r->of, r->secret));
}

void credential_request_free(credential_request *r)
{
	if (r != NULL)
		arena_free(r->mem);
}

/* ---- response ---- */

static void overwrite_keys(void *root)
{
	static const char *const names[] = {"accessKeyId", "secretAccessKey"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const cJSON *key = json_member(root, names[i]);

		if (cJSON_IsString(key))
			explicit_bzero(key->valuestring, strlen(key->valuestring));
	}
}

int credential_response_decode(const char *data, size_t len, credential_response **out, error *err)
{
	reading r;
	const char *where = "response";
	const cJSON *root = read__begin(&r, where, data, len, err);
	credential_response *a = arena_alloc(r.mem, sizeof(*a));
	enum need keys;
	int code;

	if (root != NULL)
		arena_own(r.mem, (cJSON *)root, overwrite_keys);
	a->mem = r.mem;
	a->ts = read__ts(&r, root, where, NEEDED);
	a->node = read__node(&r, root, where);
	read_of(&r, root, where, &a->of);
	a->secret = read__name(&r, root, where, "secret", name_valid, "a Secret's name");
	a->reason = read__word(&r, root, where, "reason", OPTIONAL, TEXT_MAX_REASON);
	a->message = read__prose(&r, root, where, "message", OPTIONAL, TEXT_MAX_MESSAGE);
	keys = a->reason == NULL ? NEEDED : OPTIONAL;
	a->version = read__word(&r, root, where, "version", keys, TEXT_MAX_VERSION);
	a->endpoint = read__word(&r, root, where, "endpoint", OPTIONAL, TEXT_MAX_URL);
	a->access_key_id = read__word(&r, root, where, "accessKeyId", keys, TEXT_MAX_KEY);
	a->secret_access_key = read__word(&r, root, where, "secretAccessKey", keys, TEXT_MAX_KEY);
	code = read__end(&r);
	*out = code == 0 ? a : NULL;
	return code;
}

/* Each byte may become six, "\u001f". */
static size_t room_of(const char *text)
{
	return text != NULL ? 6 * strlen(text) : 0;
}

char *credential_response_encode(const credential_response *r)
{
	cJSON *root = write_head(r->ts, r->node, &r->of, r->secret);
	char *text;

	json_put_string(root, "reason", r->reason);
	write__prose(root, "message", r->message, TEXT_MAX_MESSAGE);
	json_put_string(root, "version", r->version);
	json_put_string(root, "endpoint", r->endpoint);
	json_put_string(root, "accessKeyId", r->access_key_id);
	json_put_string(root, "secretAccessKey", r->secret_access_key);
	text = json_print_room(root,
		8 * 1024 + room_of(r->message) + room_of(r->endpoint) + room_of(r->access_key_id) + room_of(r->secret_access_key));
	json_wipe(root);
	return text;
}

void credential_response_free(credential_response *r)
{
	if (r != NULL)
		arena_free(r->mem);
}

void credential_text_free(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}
