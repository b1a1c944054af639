/* One value of the configuration: from text or a YAML node into the field that its row names, and back to text.
 *
 * Strings in the target are owned by the configuration and freed when they are set again; a failed set leaves the field as it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/config_internal.h"
#include "common/json.h"

typedef struct unit {
	const char *name;
	int64_t factor;
} unit;

static const unit duration_units[] = {
	{"ms", 1}, {"s", 1000}, {"m", INT64_C(60000)}, {"h", INT64_C(3600000)}, {"d", INT64_C(86400000)}, {"", 1000}, {NULL, 0}};

/* KiB is the first of the units of 1024. */
static const unit size_units[] = {{"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", INT64_C(1000000000000)}, {"KiB", 1 << 10},
	{"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", INT64_C(1) << 40}, {"B", 1}, {"", 1}, {NULL, 0}};

static void *field(const config_row *row, void *target)
{
	return (char *)target + row->offset;
}

static const void *field_const(const config_row *row, const void *target)
{
	return (const char *)target + row->offset;
}

/* Digits and a unit. */
static int parse_quantity(const char *text, const unit *units, int64_t *out)
{
	size_t n = strspn(text, "0123456789");
	if (n == 0 || (n > 1 && text[0] == '0'))
		return ERROR_INVALID;
	errno = 0;
	int64_t value = strtoll(text, NULL, 10);
	if (errno != 0)
		return ERROR_INVALID;
	for (const unit *u = units; u->name != NULL; u++) {
		if (strcmp(text + n, u->name) != 0)
			continue;
		if (__builtin_mul_overflow(value, u->factor, &value))
			return ERROR_INVALID;
		*out = value;
		return 0;
	}
	return ERROR_INVALID;
}

int config_parse_duration(const char *text, int64_t *ms)
{
	return parse_quantity(text, duration_units, ms);
}

int config_parse_size(const char *text, int64_t *bytes)
{
	return parse_quantity(text, size_units, bytes);
}

static int parse_integer(const char *text, int64_t *out)
{
	const char *digits = text + (text[0] == '-');
	size_t n = strspn(digits, "0123456789");
	if (n == 0 || digits[n] != '\0' || (n > 1 && digits[0] == '0'))
		return ERROR_INVALID;
	errno = 0;
	long long value = strtoll(text, NULL, 10);
	if (errno != 0)
		return ERROR_INVALID;
	*out = value;
	return 0;
}

static int parse_number(enum config_type type, const char *text, int64_t *out)
{
	switch (type) {
	case CONFIG_DURATION:
		return config_parse_duration(text, out);
	case CONFIG_SIZE:
		return config_parse_size(text, out);
	default:
		return parse_integer(text, out);
	}
}

/* The largest unit that divides the value, of thousands before those of 1024: 256kB is what people write, not 250KiB. */
void config__show_number(enum config_type type, int64_t value, buf *out)
{
	const unit *units = type == CONFIG_DURATION ? duration_units : size_units, *best = NULL;
	for (const unit *u = units; type != CONFIG_INT && u->name != NULL; u++) {
		if (u->factor == 1024 && best != NULL)
			break;
		if (u->name[0] != '\0' && value != 0 && value % u->factor == 0 && (best == NULL || u->factor > best->factor))
			best = u;
	}
	if (best == NULL || strcmp(best->name, "B") == 0)
		buf_printf(out, "%lld", (long long)value);
	else
		buf_printf(out, "%lld%s", (long long)(value / best->factor), best->name);
}

static bool is_number(enum config_type type)
{
	return type == CONFIG_INT || type == CONFIG_DURATION || type == CONFIG_SIZE;
}

void config__expected(const config_row *row, buf *out)
{
	static const char *const words[] = {
		[CONFIG_STRING] = "a text",
		[CONFIG_INT] = "a whole number",
		[CONFIG_BOOL] = "true or false",
		[CONFIG_DURATION] = "a duration such as 250ms, 10s, 5m, 24h, 7d",
		[CONFIG_SIZE] = "a size such as 4096, 256kB, 1MiB",
		[CONFIG_ENUM] = "one of ",
		[CONFIG_LIST] = "a list of texts",
		[CONFIG_MAP] = "a map whose values are texts, or maps of texts",
	};
	buf_puts(out, words[row->type]);
	if (row->type == CONFIG_ENUM) {
		for (const char *p = row->choices; *p != '\0'; p++)
			*p == '|' ? buf_puts(out, ", ") : buf_putc(out, *p);
	}
	if (!is_number(row->type) || (row->min == 0 && row->max == 0))
		return;
	buf_puts(out, row->max == INT64_MAX ? " of at least " : " from ");
	config__show_number(row->type, row->min, out);
	if (row->max != INT64_MAX) {
		buf_puts(out, " to ");
		config__show_number(row->type, row->max, out);
	}
}

static int refuse(const config_row *row, const char *text, error *err)
{
	buf what = {0};
	config__expected(row, &what);
	/* A NULL text has no short form worth quoting. */
	int code = text == NULL || row->secret ? error_set(err, ERROR_INVALID, "must be %s", buf_text(&what)) :
											 error_set(err, ERROR_INVALID, "must be %s, not \"%.80s\"", buf_text(&what), text);
	buf_fini(&what);
	return code;
}

/* Takes value. */
static void put_string(const config_row *row, void *target, char *value)
{
	char **at = field(row, target);
	free(*at);
	*at = value;
}

static int set_number(const config_row *row, void *target, const char *text, error *err)
{
	int64_t value;
	if (parse_number(row->type, text, &value) != 0)
		return refuse(row, text, err);
	if ((row->min != 0 || row->max != 0) && (value < row->min || value > row->max))
		return refuse(row, text, err);
	*(int64_t *)field(row, target) = value;
	return 0;
}

static int set_bool(const config_row *row, void *target, const char *text, error *err)
{
	bool value;
	yaml_node node = {.kind = YAML_SCALAR, .text = text, .plain = true};
	if (strcmp(text, "1") == 0)
		value = true;
	else if (strcmp(text, "0") == 0)
		value = false;
	else if (yaml_get_bool(&node, &value) != 0)
		return refuse(row, text, err);
	*(bool *)field(row, target) = value;
	return 0;
}

static int set_enum(const config_row *row, void *target, const char *text, error *err)
{
	size_t len = strlen(text);
	for (const char *p = row->choices; len > 0; p++) {
		size_t n = strcspn(p, "|");
		if (n == len && memcmp(p, text, n) == 0) {
			put_string(row, target, mem_strdup(text));
			return 0;
		}
		p += n;
		if (*p == '\0')
			break;
	}
	return refuse(row, text, err);
}

/* "a, b" -> "a\nb"; nothing between commas is nothing. */
static int set_list(const config_row *row, void *target, const char *text, error *err)
{
	buf joined = {0};
	if (strchr(text, '\n') != NULL)
		return refuse(row, NULL, err);
	while (*text != '\0') {
		text += strspn(text, ", ");
		size_t n = strcspn(text, ",");
		size_t len = n;
		while (len > 0 && text[len - 1] == ' ')
			len--;
		if (len > 0 && joined.len > 0)
			buf_putc(&joined, '\n');
		buf_add(&joined, text, len);
		text += n;
	}
	put_string(row, target, buf_detach(&joined));
	return 0;
}

/* Texts, or maps of texts; `deep` maps may still begin. */
static bool map_is_flat(const cJSON *map, int deep)
{
	const cJSON *m;
	cJSON_ArrayForEach(m, map) {
		if (cJSON_IsObject(m) && deep > 0 ? !map_is_flat(m, deep - 1) : !cJSON_IsString(m))
			return false;
	}
	return true;
}

static int set_map(const config_row *row, void *target, const char *text, error *err)
{
	cJSON *map = NULL;
	int code = 0;
	if (json_parse(text, strlen(text), CONFIG_FILE_MAX, &map, NULL) != 0 || !cJSON_IsObject(map) || !map_is_flat(map, 1))
		code = refuse(row, NULL, err);
	else
		put_string(row, target, json_print(map));
	cJSON_Delete(map);
	return code;
}

int config__set(const config_row *row, void *target, const char *text, error *err)
{
	switch (row->type) {
	case CONFIG_STRING:
		put_string(row, target, mem_strdup(text));
		return 0;
	case CONFIG_BOOL:
		return set_bool(row, target, text, err);
	case CONFIG_ENUM:
		return set_enum(row, target, text, err);
	case CONFIG_LIST:
		return set_list(row, target, text, err);
	case CONFIG_MAP:
		return set_map(row, target, text, err);
	default:
		return set_number(row, target, text, err);
	}
}

static int set_list_node(const config_row *row, void *target, const yaml_node *node, error *err)
{
	buf joined = {0};
	for (const yaml_node *c = node->child; c != NULL; c = c->next) {
		if (c->kind != YAML_SCALAR || c->text[0] == '\0' || strchr(c->text, '\n') != NULL) {
			buf_fini(&joined);
			return refuse(row, NULL, err);
		}
		if (joined.len > 0)
			buf_putc(&joined, '\n');
		buf_puts(&joined, c->text);
	}
	put_string(row, target, buf_detach(&joined));
	return 0;
}

/* NULL unless it is a map of texts or (deep > 0) of such maps. Scalars are taken as written. */
static cJSON *map_node_to_json(const yaml_node *node, int deep)
{
	cJSON *map = cJSON_CreateObject();
	for (const yaml_node *c = node->child; c != NULL; c = c->next) {
		cJSON *value = NULL;
		if (c->kind == YAML_SCALAR)
			value = cJSON_CreateString(c->text);
		else if (c->kind == YAML_MAP && deep > 0)
			value = map_node_to_json(c, deep - 1);
		if (value == NULL) {
			cJSON_Delete(map);
			return NULL;
		}
		json_put(map, c->key, value);
	}
	return map;
}

int config__set_node(const config_row *row, void *target, const yaml_node *node, error *err)
{
	if (row->type == CONFIG_LIST && node->kind == YAML_SEQ)
		return set_list_node(row, target, node, err);
	if (row->type == CONFIG_MAP) {
		cJSON *map = node->kind == YAML_MAP ? map_node_to_json(node, 1) : NULL;
		if (map == NULL)
			return refuse(row, NULL, err);
		put_string(row, target, json_print(map));
		cJSON_Delete(map);
		return 0;
	}
	if (node->kind != YAML_SCALAR)
		return refuse(row, NULL, err);
	if (row->type == CONFIG_LIST) {
		/* One text in place of a list of one. */
		if (strchr(node->text, '\n') != NULL)
			return refuse(row, NULL, err);
		put_string(row, target, mem_strdup(node->text));
		return 0;
	}
	if ((is_number(row->type) || row->type == CONFIG_BOOL) && !node->plain) {
		int code = refuse(row, node->text, err);
		return err != NULL ? error_set(err, code, "%s in quotes", err->text) : code;
	}
	return config__set(row, target, node->text, err);
}

void config__unset(const config_row *row, void *target)
{
	if (!is_number(row->type) && row->type != CONFIG_BOOL)
		put_string(row, target, NULL);
}

void config__show(const config_row *row, const void *target, buf *out)
{
	if (is_number(row->type)) {
		config__show_number(row->type, *(const int64_t *)field_const(row, target), out);
		return;
	}
	if (row->type == CONFIG_BOOL) {
		buf_puts(out, *(const bool *)field_const(row, target) ? "true" : "false");
		return;
	}
	const char *text = *(char *const *)field_const(row, target);
	if (text == NULL)
		return;
	if (row->secret) {
		buf_puts(out, "***");
		return;
	}
	if (row->type == CONFIG_LIST)
		buf_putc(out, '[');
	for (const char *p = text; *p != '\0'; p++) {
		if (*p != '\n')
			buf_putc(out, *p);
		else
			buf_puts(out, row->type == CONFIG_LIST ? ", " : "\\n");
	}
	if (row->type == CONFIG_LIST)
		buf_putc(out, ']');
}
