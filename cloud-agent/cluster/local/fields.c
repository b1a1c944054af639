/* A manifest's fields: see fields.h for the contract. One function per kind of value; each reports its own mistake and gives NULL then. */
#include "cloud-agent/cluster/local/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"

enum { SHOWN_MAX = 60 };

typedef struct place {
	const char *path; /* whole */
	int line;
	const fields_report *report;
} place;

__attribute__((format(printf, 3, 4))) static void tell(const place *at, bool warning, const char *fmt, ...)
{
	va_list args;
	char text[400];
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	char *whole = mem_printf("%s: %s", at->path, text);
	at->report->problem(at->report->ctx, warning, at->line, whole);
	free(whole);
}

static const char *kind_word(const yaml_node *node)
{
	return node->kind == YAML_MAP ? "a map" : node->kind == YAML_SEQ ? "a list" : "a single value";
}

/* The text of a scalar, or NULL, reported. */
static const char *scalar(const yaml_node *node, const place *at, const char *wanted)
{
	if (node->kind == YAML_SCALAR)
		return node->text;
	tell(at, false, "is %s, not %s", kind_word(node), wanted);
	return NULL;
}

static cJSON *read_string(const yaml_node *node, const place *at, bool required)
{
	const char *text = scalar(node, at, "a text");
	if (text == NULL)
		return NULL;
	if (required && text[0] == '\0') {
		tell(at, false, "must not be empty");
		return NULL;
	}
	return cJSON_CreateString(text);
}

static bool word_in(const char *words, const char *text)
{
	size_t len = strlen(text);
	for (const char *w = words; *w != '\0' && len > 0;) {
		size_t n = strcspn(w, " ");
		if (n == len && strncmp(w, text, n) == 0)
			return true;
		w += n + (w[n] == ' ');
	}
	return false;
}

static cJSON *read_enum(const field *f, const yaml_node *node, const place *at)
{
	const char *text = scalar(node, at, "a text");
	if (text == NULL)
		return NULL;
	if (word_in(f->choices, text))
		return cJSON_CreateString(text);
	buf words = {0};
	for (const char *w = f->choices; *w != '\0';) {
		size_t n = strcspn(w, " ");
		buf_printf(&words, "%s%.*s", words.len > 0 ? ", " : "", (int)n, w);
		w += n + (w[n] == ' ');
	}
	tell(at, false, "\"%.*s\" is not one of %s", SHOWN_MAX, text, buf_text(&words));
	buf_fini(&words);
	return NULL;
}

static bool time_valid(const char *t)
{
	size_t hours = strspn(t, "0123456789");
	if (hours < 1 || hours > 2 || t[hours] != ':' || strspn(t + hours + 1, "0123456789") != 2 || t[hours + 3] != '\0')
		return false;
	long h = strtol(t, NULL, 10), m = strtol(t + hours + 1, NULL, 10);
	return m < 60 && (h < 24 || (h == 24 && m == 0));
}

static cJSON *read_time(const yaml_node *node, const place *at)
{
	const char *text = scalar(node, at, "a time");
	if (text == NULL)
		return NULL;
	if (time_valid(text))
		return cJSON_CreateString(text);
	tell(at, false, "\"%.*s\" is not a time of the day such as 02:00", SHOWN_MAX, text);
	return NULL;
}

static cJSON *read_number(const field *f, const yaml_node *node, const place *at)
{
	bool whole = f->type == FIELD_INT;
	const char *text = scalar(node, at, "a number");
	if (text == NULL)
		return NULL;
	yaml_node unquoted = *node;
	unquoted.plain = true;
	int64_t integer = 0;
	double number = 0;
	int code = whole ? yaml_get_int(&unquoted, &integer) : yaml_get_double(&unquoted, &number);
	if (whole)
		number = (double)integer;
	if (code != 0 || integer > JSON_MAX_INT || integer < -JSON_MAX_INT) {
		tell(at, false, "\"%.*s\" is not a%s number", SHOWN_MAX, text, whole ? " whole" : "");
		return NULL;
	}
	bool bounded = f->min != 0 || f->max != 0;
	if (bounded && (number < f->min || number > f->max)) {
		tell(at, false, "%.*s is not between %.12g and %.12g", SHOWN_MAX, text, f->min, f->max);
		return NULL;
	}
	return cJSON_CreateNumber(number);
}

static cJSON *read_bool(const yaml_node *node, const place *at)
{
	const char *text = scalar(node, at, "true or false");
	if (text == NULL)
		return NULL;
	yaml_node unquoted = *node;
	unquoted.plain = true;
	bool value = false;
	if (yaml_get_bool(&unquoted, &value) == 0)
		return cJSON_CreateBool(value);
	tell(at, false, "\"%.*s\" is not true or false", SHOWN_MAX, text);
	return NULL;
}

static cJSON *read_strings(const yaml_node *node, const place *at)
{
	if (node->kind != YAML_SEQ) {
		tell(at, false, "is %s, not a list of texts", kind_word(node));
		return NULL;
	}
	cJSON *list = cJSON_CreateArray();
	size_t i = 0;
	for (const yaml_node *item = node->child; item != NULL; item = item->next, i++) {
		char *path = mem_printf("%s[%zu]", at->path, i);
		cJSON *value = read_string(item, &(place){path, item->line, at->report}, true);
		if (value != NULL)
			cJSON_AddItemToArray(list, value);
		free(path);
	}
	return list;
}

static cJSON *read_map(const yaml_node *node, const place *at)
{
	if (node->kind != YAML_MAP) {
		tell(at, false, "is %s, not a map of texts", kind_word(node));
		return NULL;
	}
	cJSON *map = cJSON_CreateObject();
	for (const yaml_node *item = node->child; item != NULL; item = item->next) {
		char *path = mem_printf("%s.%.*s", at->path, SHOWN_MAX, item->key);
		json_put(map, item->key, read_string(item, &(place){path, item->line, at->report}, false));
		free(path);
	}
	return map;
}

static cJSON *read_list(const field *f, const yaml_node *node, const place *at)
{
	if (node->kind != YAML_SEQ) {
		tell(at, false, "is %s, not a list", kind_word(node));
		return NULL;
	}
	cJSON *list = cJSON_CreateArray();
	size_t i = 0;
	for (const yaml_node *item = node->child; item != NULL; item = item->next, i++) {
		char *path = mem_printf("%s[%zu]", at->path, i);
		cJSON_AddItemToArray(list, fields_read(f->inner, item, path, item->line, at->report));
		free(path);
	}
	return list;
}

static cJSON *read_value(const field *f, const yaml_node *node, const place *at)
{
	switch (f->type) {
	case FIELD_STRING:
		return read_string(node, at, f->required);
	case FIELD_INT:
	case FIELD_NUMBER:
		return read_number(f, node, at);
	case FIELD_BOOL:
		return read_bool(node, at);
	case FIELD_ENUM:
		return read_enum(f, node, at);
	case FIELD_TIME:
		return read_time(node, at);
	case FIELD_OBJECT:
		return fields_read(f->inner, node, at->path, node->line, at->report);
	case FIELD_LIST:
		return read_list(f, node, at);
	case FIELD_STRINGS:
		return read_strings(node, at);
	case FIELD_MAP:
		return read_map(node, at);
	case FIELD_WHOLE:
		if (node->kind == YAML_MAP)
			return yaml_to_json(node);
		tell(at, false, "is %s, not a map", kind_word(node));
		return NULL;
	case FIELD_IGNORED:
		break;
	}
	return NULL;
}

static const field *field_named(const field *table, const char *name)
{
	for (const field *f = table; f->name != NULL; f++) {
		if (strcmp(f->name, name) == 0)
			return f;
	}
	return NULL;
}

static char *path_join(const char *path, const char *name)
{
	return mem_printf("%s%s%.*s", path, path[0] != '\0' ? "." : "", SHOWN_MAX, name);
}

cJSON *fields_read(const field *table, const yaml_node *map, const char *path, int line, const fields_report *report)
{
	cJSON *out = cJSON_CreateObject();
	const yaml_node *first = NULL;
	if (!yaml_is_null(map) && map->kind != YAML_MAP)
		tell(&(place){path[0] != '\0' ? path : "the document", line, report}, false, "is %s, not a map", kind_word(map));
	else if (map != NULL)
		first = map->child;
	for (const yaml_node *node = first; node != NULL; node = node->next) {
		const field *f = field_named(table, node->key);
		char *whole = path_join(path, node->key);
		place at = {whole, node->line, report};
		if (f == NULL)
			tell(&at, true, "is not a field that is known here; it is ignored");
		else if (!yaml_is_null(node) && f->type != FIELD_IGNORED)
			json_put(out, f->name, read_value(f, node, &at));
		free(whole);
	}
	if (map != NULL && !yaml_is_null(map) && map->kind != YAML_MAP)
		return out;
	for (const field *f = table; f->name != NULL; f++) {
		if (!f->required || !yaml_is_null(yaml_member(map, f->name)))
			continue;
		char *whole = path_join(path, f->name);
		tell(&(place){whole, line, report}, false, "is missing");
		free(whole);
	}
	return out;
}
