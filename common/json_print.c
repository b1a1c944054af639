/* Compact JSON text of a tree. cJSON's own printer takes a number for printed when the text reads back to within a rounding error of it,
 * which makes 9007199254740991 into ...990; a position, a size or a stamp must be exact. It also has no bound on nesting.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_scan.h"

enum { FIRST_SIZE = 500 }; /* most documents and conditions need about as much */

static void print_whole(buf *out, long long n)
{
	char text[24];
	size_t at = sizeof text;
	unsigned long long left = n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n;
	do {
		text[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (n < 0)
		text[--at] = '-';
	buf_add(out, text + at, sizeof text - at);
}

static void print_number(buf *out, double d)
{
	if (!isfinite(d)) {
		buf_puts(out, "null"); /* JSON has no word for it */
		return;
	}
	if (fabs(d) <= (double)JSON_MAX_INT && trunc(d) == d) {
		print_whole(out, (long long)d);
		return;
	}
	char text[32];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, d);
		if (strtod(text, NULL) == d)
			break;
	}
	buf_puts(out, text);
}

/* The one that cannot stand as it is. */
static void print_escaped(buf *out, char c)
{
	if (c == '"' || c == '\\') {
		buf_putc(out, '\\');
		buf_putc(out, c);
	} else if (c == '\n') {
		buf_puts(out, "\\n");
	} else if (c == '\t') {
		buf_puts(out, "\\t");
	} else {
		buf_printf(out, "\\u%04x", (unsigned char)c);
	}
}

/* Bytes at the beginning of s that can stand as they are. */
static size_t plain_length(const char *s)
{
	size_t plain = 0;
	for (;;) {
		while ((unsigned char)s[plain] >= 0x20 && (unsigned char)s[plain] < 0x80 && s[plain] != '"' && s[plain] != '\\')
			plain++;
		size_t width = (unsigned char)s[plain] < 0x80 ? 0 : json_utf8_length(s + plain, strnlen(s + plain, 4));
		if (width == 0)
			return plain;
		plain += width;
	}
}

static void print_string(buf *out, const char *s)
{
	buf_putc(out, '"');
	for (;;) {
		size_t plain = plain_length(s);
		buf_add(out, s, plain);
		s += plain;
		if (*s == '\0')
			break;
		if ((unsigned char)*s >= 0x80)
			buf_putc(out, '?');
		else
			print_escaped(out, *s);
		s++;
	}
	buf_putc(out, '"');
}

/* False if it is nested deeper than `left`. */
static bool print_value(buf *out, const cJSON *value, int left)
{
	bool object = cJSON_IsObject(value);
	if (object || cJSON_IsArray(value)) {
		if (left == 0)
			return false;
		buf_putc(out, object ? '{' : '[');
		for (const cJSON *c = value->child; c != NULL; c = c->next) {
			if (object) {
				print_string(out, c->string);
				buf_putc(out, ':');
			}
			if (!print_value(out, c, left - 1))
				return false;
			if (c->next != NULL)
				buf_putc(out, ',');
		}
		buf_putc(out, object ? '}' : ']');
	} else if (cJSON_IsString(value)) {
		print_string(out, value->valuestring);
	} else if (cJSON_IsNumber(value)) {
		print_number(out, value->valuedouble);
	} else if (cJSON_IsRaw(value)) {
		buf_puts(out, value->valuestring);
	} else {
		buf_puts(out, cJSON_IsTrue(value) ? "true" : cJSON_IsFalse(value) ? "false" : "null");
	}
	return true;
}

char *json_print(const cJSON *value)
{
	return json_print_room(value, FIRST_SIZE);
}

char *json_print_room(const cJSON *value, size_t room)
{
	buf out = {0};
	buf_reserve(&out, room);
	if (value == NULL || !print_value(&out, value, JSON_MAX_DEPTH)) {
		buf_fini(&out);
		return NULL;
	}
	return buf_detach(&out);
}
