/* A strict reader of JSON text that builds nothing: see json_scan.h for what it is for.
 *
 * Recursive descent, bounded by JSON_MAX_DEPTH. Repeated names are found per object: names are decoded (an escape may spell a letter),
 * collected on a stack, and compared when the object ends, sorted if they are many, so the cost is n log n. Every function leaves `at` behind what it read; the
 * first refusal sets the error and ends the scan.
 */
#include "common/json_scan.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"

enum {
	NUMBER_MAX = 63, /* longer ones are cut by cJSON */
	FEW_NAMES = 24
};

typedef struct name {
	size_t at;         /* in the text */
	size_t start, len; /* in scan.text */
	const char *text;  /* set when the object ends, since scan.text moves while it grows */
} name;

typedef struct scan {
	const unsigned char *data;
	size_t len, at;
	int depth;
	buf text; /* decoded names of the open objects */
	name *names;
	size_t n, cap;
	error *err;
} scan;

size_t json_utf8_length(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
	if (p[0] < 0xC2 || p[0] > 0xF4 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xC0) != 0x80)
			return 0;
	}
	/* Overlong forms, surrogates, and what is above U+10FFFF. */
	if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
		return 0;
	return n;
}

bool json_utf8_valid(const char *data, size_t len)
{
	for (size_t i = 0; i < len;) {
		/* Whether char has a sign depends on the processor. */
		const unsigned char c = (unsigned char)data[i];
		if (c != 0 && c < 0x80) { /* most text is plain */
			i++;
			continue;
		}
		size_t n = json_utf8_length(data + i, len - i);
		if (n == 0 || c == 0)
			return false;
		i += n;
	}
	return true;
}

static int refuse_at(scan *s, size_t at, const char *what)
{
	return error_set(s->err, ERROR_INVALID, "byte %zu: %s", at, what);
}

static int refuse(scan *s, const char *what)
{
	return refuse_at(s, s->at, s->at < s->len ? what : "the text ends too early");
}

static void skip_space(scan *s)
{
	while (s->at < s->len && (s->data[s->at] == ' ' || s->data[s->at] == '\t' || s->data[s->at] == '\n' || s->data[s->at] == '\r'))
		s->at++;
}

static bool next_is(scan *s, char c)
{
	if (s->at >= s->len || s->data[s->at] != (unsigned char)c)
		return false;
	s->at++;
	return true;
}

static size_t skip_digits(scan *s)
{
	size_t begin = s->at;
	while (s->at < s->len && s->data[s->at] >= '0' && s->data[s->at] <= '9')
		s->at++;
	return s->at - begin;
}

static int scan_number(scan *s)
{
	size_t begin = s->at;
	next_is(s, '-');
	if (!next_is(s, '0') && skip_digits(s) == 0)
		return refuse(s, "not a JSON number");
	if (next_is(s, '.') && skip_digits(s) == 0)
		return refuse(s, "a digit must follow the point");
	bool exponent = next_is(s, 'e') || next_is(s, 'E');
	if (exponent) {
		if (!next_is(s, '+'))
			next_is(s, '-');
		if (skip_digits(s) == 0)
			return refuse(s, "a digit must follow the exponent");
	}
	size_t len = s->at - begin;
	if (len > NUMBER_MAX)
		return refuse_at(s, begin, "a number of more than 63 characters");
	if (!exponent)
		return 0; /* so few digits alone are never too large */
	char text[NUMBER_MAX + 1];
	memcpy(text, s->data + begin, len);
	text[len] = '\0';
	if (!isfinite(strtod(text, NULL)))
		return refuse_at(s, begin, "a number that is too large");
	return 0;
}

/* Four hex digits. */
static bool scan_unit(scan *s, unsigned *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++, s->at++) {
		unsigned char c = s->at < s->len ? s->data[s->at] : 0;
		if (c >= '0' && c <= '9')
			*unit = *unit << 4 | (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			*unit = *unit << 4 | (unsigned)((c | 0x20) - 'a' + 10);
		else
			return false;
	}
	return true;
}

static void add_utf8(buf *out, unsigned c)
{
	if (c < 0x80) {
		buf_putc(out, (char)c);
	} else if (c < 0x800) {
		buf_putc(out, (char)(0xC0 | c >> 6));
		buf_putc(out, (char)(0x80 | (c & 0x3F)));
	} else if (c < 0x10000) {
		buf_putc(out, (char)(0xE0 | c >> 12));
		buf_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
		buf_putc(out, (char)(0x80 | (c & 0x3F)));
	} else {
		buf_putc(out, (char)(0xF0 | c >> 18));
		buf_putc(out, (char)(0x80 | (c >> 12 & 0x3F)));
		buf_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
		buf_putc(out, (char)(0x80 | (c & 0x3F)));
	}
}

/* Behind "\u". */
static int scan_unicode(scan *s, buf *out)
{
	size_t begin = s->at - 2;
	unsigned c, low;
	if (!scan_unit(s, &c))
		return refuse(s, "four hex digits must follow \\u");
	if (c == 0)
		return refuse_at(s, begin, "a NUL character");
	if (c >= 0xDC00 && c <= 0xDFFF)
		return refuse_at(s, begin, "half of a surrogate pair");
	if (c >= 0xD800 && c <= 0xDBFF) {
		if (!next_is(s, '\\') || !next_is(s, 'u') || !scan_unit(s, &low) || low < 0xDC00 || low > 0xDFFF)
			return refuse_at(s, begin, "half of a surrogate pair");
		c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
	}
	if (out != NULL)
		add_utf8(out, c);
	return 0;
}

static int scan_escape(scan *s, buf *out)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *p = s->at < s->len && s->data[s->at] != 0 ? strchr(from, s->data[s->at]) : NULL;
	if (p != NULL) {
		s->at++;
		if (out != NULL)
			buf_putc(out, to[p - from]);
		return 0;
	}
	if (next_is(s, 'u'))
		return scan_unicode(s, out);
	return refuse(s, "an escape that JSON does not have");
}

/* What stands for itself: printable ASCII but for the quote and the backslash. */
static void scan_plain(scan *s, buf *out)
{
	size_t begin = s->at;
	while (s->at < s->len && s->data[s->at] >= 0x20 && s->data[s->at] < 0x80 && s->data[s->at] != '"' && s->data[s->at] != '\\')
		s->at++;
	if (out != NULL && s->at > begin)
		buf_add(out, s->data + begin, s->at - begin);
}

/* `out` may be NULL; gets the decoded text. */
static int scan_string(scan *s, buf *out)
{
	if (!next_is(s, '"'))
		return refuse(s, "a string must begin here");
	for (;;) {
		scan_plain(s, out);
		if (next_is(s, '"'))
			break;
		if (s->at >= s->len || s->data[s->at] < 0x20)
			return refuse(s, "a control character in a string");
		if (next_is(s, '\\')) {
			int code = scan_escape(s, out);
			if (code != 0)
				return code;
			continue;
		}
		size_t n = json_utf8_length((const char *)s->data + s->at, s->len - s->at);
		if (n == 0)
			return refuse(s, "not UTF-8");
		if (out != NULL)
			buf_add(out, s->data + s->at, n);
		s->at += n;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	const name *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int order = n > 0 ? memcmp(x->text, y->text, n) : 0;
	if (order != 0)
		return order;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static bool same_text(const name *x, const name *y)
{
	return x->len == y->len && memcmp(x->text, y->text, x->len) == 0;
}

/* The second of two names that are the same, or NULL. Sorting pays only where there are many. */
static const name *repeated(name *names, size_t n)
{
	if (n <= FEW_NAMES) {
		for (size_t i = 1; i < n; i++) {
			for (size_t k = 0; k < i; k++) {
				if (same_text(&names[k], &names[i]))
					return &names[i];
			}
		}
		return NULL;
	}
	qsort(names, n, sizeof *names, by_text);
	for (size_t i = 1; i < n; i++) {
		if (same_text(&names[i - 1], &names[i]))
			return &names[i];
	}
	return NULL;
}

/* The names from `first` on are those of one object: all different? Then they are forgotten. */
static int end_names(scan *s, size_t first)
{
	if (s->n == first)
		return 0;
	size_t start = s->names[first].start;
	for (size_t i = first; i < s->n; i++)
		s->names[i].text = buf_text(&s->text) + s->names[i].start;
	const name *twice = repeated(s->names + first, s->n - first);
	if (twice != NULL)
		return error_set(s->err, ERROR_INVALID, "byte %zu: the name \"%.60s\" is there twice", twice->at,
			twice->len < 60 ? twice->text : "...");
	s->n = first;
	s->text.len = start;
	return 0;
}

static int scan_name(scan *s)
{
	if (s->n == s->cap) {
		s->cap = s->cap > 0 ? s->cap * 2 : 32;
		s->names = mem_resize_array(s->names, s->cap, sizeof *s->names);
	}
	name *m = &s->names[s->n++];
	*m = (name){.at = s->at, .start = s->text.len};
	int code = scan_string(s, &s->text);
	if (code != 0)
		return code;
	m->len = s->text.len - m->start;
	buf_putc(&s->text, '\0'); /* so that it can be printed */
	return 0;
}

static int scan_value(scan *s);

static int scan_object(scan *s)
{
	size_t first = s->n;
	skip_space(s);
	if (next_is(s, '}'))
		return 0;
	for (;;) {
		skip_space(s);
		int code = scan_name(s);
		if (code != 0)
			return code;
		skip_space(s);
		if (!next_is(s, ':'))
			return refuse(s, "a colon must follow the name");
		code = scan_value(s);
		if (code != 0)
			return code;
		if (next_is(s, '}'))
			return end_names(s, first);
		if (!next_is(s, ','))
			return refuse(s, "a comma or } must follow");
	}
}

static int scan_array(scan *s)
{
	skip_space(s);
	if (next_is(s, ']'))
		return 0;
	for (;;) {
		int code = scan_value(s);
		if (code != 0)
			return code;
		if (next_is(s, ']'))
			return 0;
		if (!next_is(s, ','))
			return refuse(s, "a comma or ] must follow");
	}
}

static int scan_word(scan *s, const char *word)
{
	size_t n = strlen(word);
	if (s->len - s->at < n || memcmp(s->data + s->at, word, n) != 0)
		return refuse(s, "not a JSON value");
	s->at += n;
	return 0;
}

/* With the space around it. */
static int scan_value(scan *s)
{
	int code;
	skip_space(s);
	unsigned char c = s->at < s->len ? s->data[s->at] : 0;
	if (c == '{' || c == '[') {
		if (s->depth == JSON_MAX_DEPTH)
			return error_set(s->err, ERROR_LIMIT, "byte %zu: nested more than %d deep", s->at, JSON_MAX_DEPTH);
		s->at++;
		s->depth++;
		code = c == '{' ? scan_object(s) : scan_array(s);
		s->depth--;
	} else if (c == '"') {
		code = scan_string(s, NULL);
	} else if (c == 't' || c == 'f' || c == 'n') {
		code = scan_word(s, c == 't' ? "true" : c == 'f' ? "false" : "null");
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		code = scan_number(s);
	} else {
		code = refuse(s, "not a JSON value");
	}
	if (code == 0)
		skip_space(s);
	return code;
}

int json_scan(const char *data, size_t len, error *err)
{
	scan s = {.data = (const unsigned char *)data, .len = len, .err = err};
	int code = scan_value(&s);
	if (code == 0 && s.at < s.len)
		code = refuse(&s, "more follows after the value");
	buf_fini(&s.text);
	free(s.names);
	return code;
}
