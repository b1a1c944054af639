/* What plain scalars mean: for fields that know their type, and for parts that are passed on as JSON. See yaml.h for the contract.
 *
 * Passed-on parts follow what Kubernetes' tools make of YAML, which is near YAML 1.1: 0644 is octal (file modes in volumes are written so),
 * 0x, 0o and 0b are known, "_" between digits is skipped; but 12:30 is text, and so are .inf and .nan, which JSON does not have. Fields
 * that know their type take decimal numbers alone, and no leading zero, since people disagree about what it means.
 */
#include "common/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static bool word_is(const char *text, const char *lower, const char *title, const char *upper)
{
	return strcmp(text, lower) == 0 || strcmp(text, title) == 0 || strcmp(text, upper) == 0;
}

bool yaml_is_null(const yaml_node *node)
{
	if (node == NULL)
		return true;
	return node->kind == YAML_SCALAR && node->plain &&
		(node->text[0] == '\0' || strcmp(node->text, "~") == 0 || word_is(node->text, "null", "Null", "NULL"));
}

static bool plain_scalar(const yaml_node *node)
{
	return node != NULL && node->kind == YAML_SCALAR && node->plain;
}

int yaml_get_int(const yaml_node *node, int64_t *out)
{
	if (!plain_scalar(node))
		return ERROR_INVALID;
	const char *digits = node->text + (node->text[0] == '-');
	size_t n = strspn(digits, "0123456789");
	if (n == 0 || digits[n] != '\0' || (n > 1 && digits[0] == '0'))
		return ERROR_INVALID;
	errno = 0;
	long long value = strtoll(node->text, NULL, 10);
	if (errno != 0)
		return ERROR_INVALID;
	*out = value;
	return 0;
}

/* [-+]? (digits [. digits?] | . digits) ([eE] [-+]? digits)? */
static bool float_shaped(const char *p)
{
	p += *p == '-' || *p == '+';
	size_t before = strspn(p, "0123456789"), after = 0;
	p += before;
	if (*p == '.') {
		after = strspn(p + 1, "0123456789");
		p += 1 + after;
	}
	if (before + after == 0)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '-' || *p == '+';
		size_t n = strspn(p, "0123456789");
		if (n == 0)
			return false;
		p += n;
	}
	return *p == '\0';
}

int yaml_get_double(const yaml_node *node, double *out)
{
	if (!plain_scalar(node) || !float_shaped(node->text))
		return ERROR_INVALID;
	double value = strtod(node->text, NULL);
	if (!isfinite(value))
		return ERROR_INVALID;
	*out = value;
	return 0;
}

int yaml_get_bool(const yaml_node *node, bool *out)
{
	if (!plain_scalar(node))
		return ERROR_INVALID;
	const char *t = node->text;
	bool yes = word_is(t, "true", "True", "TRUE") || word_is(t, "yes", "Yes", "YES") || word_is(t, "on", "On", "ON");
	if (!yes && !word_is(t, "false", "False", "FALSE") && !word_is(t, "no", "No", "NO") && !word_is(t, "off", "Off", "OFF"))
		return ERROR_INVALID;
	*out = yes;
	return 0;
}

/* An integer in any of the forms named above. */
static bool integer_value(const char *text, int64_t *out)
{
	char digits[80];
	size_t n = 0;
	const char *p = text;
	bool negative = *p == '-';
	p += *p == '-' || *p == '+';
	int base = 10;
	if (p[0] == '0' && p[1] != '\0') {
		base = p[1] == 'x' || p[1] == 'X' ? 16 : p[1] == 'b' || p[1] == 'B' ? 2 : 8;
		p += base != 8 || p[1] == 'o' || p[1] == 'O' ? 2 : 1;
	}
	if (negative)
		digits[n++] = '-';
	size_t sign = n;
	for (; *p != '\0'; p++) {
		if (*p == '_')
			continue;
		/* strtoll takes more than digits at the beginning. */
		bool hex = (*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F');
		if ((!hex && (*p < '0' || *p > '9')) || n == sizeof digits - 1)
			return false;
		digits[n++] = *p;
	}
	digits[n] = '\0';
	char *end;
	errno = 0;
	long long value = strtoll(digits, &end, base);
	if (n == sign || errno != 0 || *end != '\0')
		return false;
	*out = value;
	return true;
}

static cJSON *scalar_to_json(const yaml_node *node)
{
	const char *t = node->text;
	int64_t i;
	double d;
	if (yaml_is_null(node))
		return cJSON_CreateNull();
	if (node->plain && word_is(t, "true", "True", "TRUE"))
		return cJSON_CreateTrue();
	if (node->plain && word_is(t, "false", "False", "FALSE"))
		return cJSON_CreateFalse();
	bool number = node->plain && ((t[0] >= '0' && t[0] <= '9') || t[0] == '-' || t[0] == '+' || t[0] == '.');
	if (number && integer_value(t, &i)) {
		if (i >= -JSON_MAX_INT && i <= JSON_MAX_INT)
			return cJSON_CreateNumber((double)i);
		/* Exact, which a double would not be. */
		char *digits = mem_printf("%lld", (long long)i);
		cJSON *raw = cJSON_CreateRaw(digits);
		free(digits);
		return raw;
	}
	if (number && yaml_get_double(node, &d) == 0)
		return cJSON_CreateNumber(d);
	return cJSON_CreateString(t);
}

cJSON *yaml_to_json(const yaml_node *node)
{
	if (node == NULL)
		return cJSON_CreateNull();
	if (node->kind == YAML_SCALAR)
		return scalar_to_json(node);
	cJSON *out = node->kind == YAML_MAP ? cJSON_CreateObject() : cJSON_CreateArray();
	for (const yaml_node *c = node->child; c != NULL; c = c->next) {
		if (node->kind == YAML_MAP)
			cJSON_AddItemToObject(out, c->key, yaml_to_json(c));
		else
			cJSON_AddItemToArray(out, yaml_to_json(c));
	}
	return out;
}
