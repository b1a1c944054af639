/* See watch_lines.h for the contract. */
#include "cloud-agent/cluster/kube/watch_lines.h"

#include <string.h>

#include "common/json.h"

enum { SHOWN = 80 }; /* bytes of what is refused */

static const char *const types[] = {
	[WATCH_ADDED] = "ADDED",
	[WATCH_MODIFIED] = "MODIFIED",
	[WATCH_DELETED] = "DELETED",
	[WATCH_BOOKMARK] = "BOOKMARK",
	[WATCH_ERROR] = "ERROR",
};

void watch_lines_init(watch_lines *w, size_t max)
{
	*w = (watch_lines){.max = max};
}

void watch_lines_fini(watch_lines *w)
{
	buf_fini(&w->rest);
}

static int type_of(const cJSON *event, enum watch_type *type)
{
	const char *text = cJSON_GetStringValue(json_member(event, "type"));

	for (size_t i = 0; text != NULL && i < sizeof types / sizeof types[0]; i++) {
		if (strcmp(text, types[i]) == 0) {
			*type = (enum watch_type)i;
			return 1;
		}
	}
	return 0;
}

static int give(const watch_lines *w, const char *line, size_t len, watch_event event, void *ctx, error *err)
{
	cJSON *tree = NULL, *object;
	enum watch_type type;
	int code;

	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	if (len == 0)
		return 0;
	code = json_parse(line, len, w->max, &tree, err);
	if (code != 0)
		return error_prefix(err, "an event of a watch");
	object = cJSON_DetachItemFromObjectCaseSensitive(tree, "object");
	if (!type_of(tree, &type) || !cJSON_IsObject(object)) {
		code = error_set(err, ERROR_INVALID, "an event of a watch has no type or no object: %.*s", (int)(len < SHOWN ? len : SHOWN), line);
		cJSON_Delete(object);
	} else {
		event(ctx, type, object);
	}
	cJSON_Delete(tree);
	return code;
}

int watch_lines_add(watch_lines *w, const char *data, size_t len, watch_event event, void *ctx, error *err)
{
	int code = 0;

	while (code == 0 && len > 0) {
		const char *end = memchr(data, '\n', len);
		size_t n = end != NULL ? (size_t)(end - data) : len;

		if (w->rest.len + n > w->max)
			return error_set(err, ERROR_LIMIT, "an event of a watch is longer than %zu bytes", w->max);
		if (end == NULL || w->rest.len > 0)
			buf_add(&w->rest, data, n);
		if (end == NULL)
			break;
		code = w->rest.len > 0 ? give(w, w->rest.data, w->rest.len, event, ctx, err) : give(w, data, n, event, ctx, err);
		buf_clear(&w->rest);
		data += n + 1;
		len -= n + 1;
	}
	return code;
}
