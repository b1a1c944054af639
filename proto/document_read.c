/* Reading members with one sticky error: see document_internal.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/document_internal.h"

static void own_tree(void *tree)
{
	cJSON_Delete(tree);
}

/* *doc_out: the payload's object, checked for version 1. */
static int parse(reading *r, const char *what, const char *data, size_t len, const cJSON **doc_out)
{
	cJSON *root = NULL;
	int64_t version;
	int rc = json_parse(data, len, DOCUMENT_MAX, &root, r->err);

	if (rc != 0) {
		(void)error_prefix(r->err, "%s", what);
		return rc;
	}
	arena_own(r->mem, root, own_tree);
	if (!cJSON_IsObject(root))
		return error_set(r->err, ERROR_INVALID, "%s: this is not a JSON object", what);
	rc = json_get_int(root, what, "v", -JSON_MAX_INT, JSON_MAX_INT, &version, r->err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return error_set(r->err, ERROR_INVALID, "%s.v is missing", what);
	if (version != DOCUMENT_VERSION)
		return error_set(r->err, ERROR_UNSUPPORTED, "%s.v: version %lld is not known here, only %d", what, (long long)version,
			DOCUMENT_VERSION);
	*doc_out = root;
	return 0;
}

const cJSON *read__begin(reading *r, const char *what, const char *data, size_t len, error *err)
{
	const cJSON *root = NULL;

	*r = (reading){.mem = arena_new(), .err = err};
	r->code = parse(r, what, data, len, &root);
	return root;
}

int read__end(reading *r)
{
	if (r->code != 0) {
		arena_free(r->mem);
		r->mem = NULL;
	}
	return r->code;
}

void read__fail(reading *r, const char *where, const char *name, const char *fmt, ...)
{
	char text[300];
	va_list args;

	if (r->code != 0)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	r->code = error_set(r->err, ERROR_INVALID, "%s.%s: %s", where, name, text);
}

/* Common end of every lookup: true if the member is there and right. */
static bool found(reading *r, int rc, enum need need, const char *where, const char *name)
{
	if (rc < 0)
		r->code = rc;
	else if (rc == 0 && need == NEEDED)
		r->code = error_set(r->err, ERROR_INVALID, "%s.%s is missing", where, name);
	return rc == 1;
}

const char *read__prose(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max)
{
	const char *text = NULL;

	if (r->code != 0 || !found(r, json_get_string(obj, where, name, &text, r->err), need, where, name))
		return NULL;
	if (strnlen(text, max + 1) > max) {
		read__fail(r, where, name, "the text is longer than %zu bytes", max);
		return NULL;
	}
	return text;
}

/* No message has a use for control characters in what names something, and logs and terminals do not like them. */
static bool has_control(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		if (*p < ' ' || *p == 0x7f)
			return true;
	}
	return false;
}

const char *read__text(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max)
{
	const char *text = read__prose(r, obj, where, name, need, max);

	if (text != NULL && has_control(text)) {
		read__fail(r, where, name, "the text holds control characters");
		return NULL;
	}
	return text;
}

const char *read__word(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max)
{
	const char *text = read__text(r, obj, where, name, need, max);

	if (text != NULL && *text == '\0') {
		read__fail(r, where, name, "the text is empty");
		return NULL;
	}
	return text;
}

const char *read__name(reading *r, const cJSON *obj, const char *where, const char *name, bool (*valid)(const char *), const char *kind)
{
	const char *text = read__text(r, obj, where, name, NEEDED, DOCUMENT_MAX);

	if (text != NULL && !valid(text)) {
		read__fail(r, where, name, "'%.80s' is not %s", text, kind);
		return NULL;
	}
	return text;
}

bool read__int(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, int64_t min, int64_t max, int64_t *out)
{
	return r->code == 0 && found(r, json_get_int(obj, where, name, min, max, out, r->err), need, where, name);
}

bool read__double(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, double *out)
{
	return r->code == 0 && found(r, json_get_double(obj, where, name, out, r->err), need, where, name);
}

bool read__bool(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, bool *out)
{
	return r->code == 0 && found(r, json_get_bool(obj, where, name, out, r->err), need, where, name);
}

const cJSON *read__object(reading *r, const cJSON *obj, const char *where, const char *name, enum need need)
{
	const cJSON *value = NULL;

	if (r->code != 0 || !found(r, json_get_object(obj, where, name, &value, r->err), need, where, name))
		return NULL;
	return value;
}

const cJSON *read__array(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max, size_t *n)
{
	const cJSON *value = NULL;

	*n = 0;
	if (r->code != 0 || !found(r, json_get_array(obj, where, name, &value, r->err), need, where, name))
		return NULL;
	*n = (size_t)cJSON_GetArraySize(value);
	if (*n > max) {
		read__fail(r, where, name, "%zu entries, but at most %zu are allowed", *n, max);
		*n = 0;
		return NULL;
	}
	return value;
}

const char **read__strings(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t max,
	bool (*valid)(const char *), size_t *n)
{
	const cJSON *array = read__array(r, obj, where, name, need, max, n);
	const char **strings;
	const cJSON *entry;
	size_t i = 0;

	if (array == NULL || *n == 0)
		return NULL;
	strings = arena_alloc(r->mem, *n * sizeof(*strings));
	cJSON_ArrayForEach(entry, array) {
		const char *text = cJSON_IsString(entry) ? entry->valuestring : NULL;
		bool right = text != NULL && (valid != NULL ? valid(text) : *text != '\0' && strlen(text) <= TEXT_MAX_WORD && !has_control(text));

		if (!right) {
			read__fail(r, where, name, "entry %zu is not a text of the right form", i);
			*n = 0;
			return NULL;
		}
		strings[i++] = text;
	}
	return strings;
}

const cJSON *read__any(reading *r, const cJSON *obj, const char *name)
{
	const cJSON *value = r->code == 0 ? json_member(obj, name) : NULL;

	return value == NULL || cJSON_IsNull(value) ? NULL : value;
}

const char *path__member(reading *r, const char *where, const char *name)
{
	return arena_printf(r->mem, "%s.%s", where, name);
}

const char *path__entry(reading *r, const char *where, const char *name, size_t i)
{
	return arena_printf(r->mem, "%s.%s[%zu]", where, name, i);
}
