/* The XML reader: see xml.h for the contract. */
#include "transfer/core/xml.h"

#include <stdint.h>
#include <string.h>

void xml_init(xml *x, const char *data, size_t len)
{
	*x = (xml){.p = data, .end = data + len};
	if (len >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
		x->p += 3;
}

void xml_fini(xml *x)
{
	buf_fini(&x->text);
}

static bool name_is(xml_name whole, const char *name)
{
	const char *colon = memchr(whole.at, ':', whole.len);
	size_t skip = colon != NULL ? (size_t)(colon - whole.at) + 1 : 0;
	return whole.len - skip == strlen(name) && memcmp(whole.at + skip, name, whole.len - skip) == 0;
}

bool xml_is(const xml *x, int depth, const char *name)
{
	return x->depth == depth && name_is(x->open[depth - 1], name);
}

bool xml_in(const xml *x, const char *name)
{
	return x->depth >= 2 && name_is(x->open[x->depth - 2], name);
}

static bool at(const xml *x, const char *text)
{
	size_t n = strlen(text);
	return (size_t)(x->end - x->p) >= n && memcmp(x->p, text, n) == 0;
}

/* Behind the next `text`. */
static bool skip_past(xml *x, const char *text)
{
	const char *found = memmem(x->p, (size_t)(x->end - x->p), text, strlen(text));
	if (found == NULL)
		return false;
	x->p = found + strlen(text);
	return true;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(xml *x)
{
	while (x->p < x->end && is_space(*x->p))
		x->p++;
}

static void put_utf8(buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_putc(b, (char)c);
	} else if (c < 0x800) {
		buf_putc(b, (char)(0xC0 | c >> 6));
		buf_putc(b, (char)(0x80 | (c & 0x3F)));
	} else if (c < 0x10000) {
		buf_putc(b, (char)(0xE0 | c >> 12));
		buf_putc(b, (char)(0x80 | (c >> 6 & 0x3F)));
		buf_putc(b, (char)(0x80 | (c & 0x3F)));
	} else {
		buf_putc(b, (char)(0xF0 | c >> 18));
		buf_putc(b, (char)(0x80 | (c >> 12 & 0x3F)));
		buf_putc(b, (char)(0x80 | (c >> 6 & 0x3F)));
		buf_putc(b, (char)(0x80 | (c & 0x3F)));
	}
}

/* "&#65;" or "&#x41;", without its first two characters. */
static bool number(const char *p, size_t len, buf *out)
{
	uint32_t c = 0, base = 10;
	if (len > 0 && *p == 'x') {
		base = 16;
		p++;
		len--;
	}
	if (len == 0 || len > 8)
		return false;
	for (size_t i = 0; i < len; i++) {
		uint32_t digit = p[i] >= '0' && p[i] <= '9' ? (uint32_t)(p[i] - '0') :
			p[i] >= 'a' && p[i] <= 'f'              ? (uint32_t)(p[i] - 'a' + 10) :
			p[i] >= 'A' && p[i] <= 'F'              ? (uint32_t)(p[i] - 'A' + 10) :
													  16;
		if (digit >= base)
			return false;
		c = c * base + digit;
		if (c > 0x10FFFF)
			return false;
	}
	if (c == 0 || (c >= 0xD800 && c < 0xE000))
		return false;
	put_utf8(out, c);
	return true;
}

/* At an '&'. */
static bool entity(xml *x)
{
	static const struct {
		const char *name;
		char is;
	} known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
	size_t left = (size_t)(x->end - x->p), most = left < 12 ? left : 12;
	const char *semicolon = memchr(x->p, ';', most);
	if (semicolon == NULL)
		return false;
	const char *name = x->p + 1;
	size_t len = (size_t)(semicolon - name);
	x->p = semicolon + 1;
	if (len > 0 && name[0] == '#')
		return number(name + 1, len - 1, &x->text);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (len == strlen(known[i].name) && memcmp(name, known[i].name, len) == 0) {
			buf_putc(&x->text, known[i].is);
			return true;
		}
	}
	return false;
}

/* Up to the next '<'. Outside of all elements only white space may stand. */
static bool text(xml *x)
{
	while (x->p < x->end && *x->p != '<') {
		if (x->depth == 0 && !is_space(*x->p))
			return false;
		if (*x->p == '\0')
			return false;
		if (*x->p == '&') {
			if (!entity(x))
				return false;
		} else {
			buf_putc(&x->text, *x->p++);
		}
	}
	return true;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_-.:", c) != NULL ||
		(unsigned char)c >= 0x80;
}

static bool name(xml *x, xml_name *out)
{
	out->at = x->p;
	while (x->p < x->end && *x->p != '\0' && is_name_char(*x->p))
		x->p++;
	out->len = (size_t)(x->p - out->at);
	return out->len > 0;
}

static bool attributes(xml *x)
{
	xml_name ignored;
	for (;;) {
		skip_space(x);
		if (x->p == x->end)
			return false;
		if (*x->p == '>' || *x->p == '/')
			return true;
		if (!name(x, &ignored))
			return false;
		skip_space(x);
		if (x->p == x->end || *x->p++ != '=')
			return false;
		skip_space(x);
		if (x->p == x->end || (*x->p != '"' && *x->p != '\''))
			return false;
		const char *close = memchr(x->p + 1, *x->p, (size_t)(x->end - x->p - 1));
		if (close == NULL)
			return false;
		x->p = close + 1;
	}
}

static enum xml_event open_tag(xml *x)
{
	x->p++;
	if (x->depth == XML_DEPTH || (x->depth == 0 && x->begun) || !name(x, &x->open[x->depth]) || !attributes(x))
		return XML_BAD;
	x->empty = *x->p == '/';
	if (x->empty)
		x->p++;
	if (x->p == x->end || *x->p++ != '>')
		return XML_BAD;
	x->depth++;
	x->begun = true;
	buf_clear(&x->text);
	return XML_OPEN;
}

static enum xml_event close_tag(xml *x)
{
	xml_name ended;
	x->p += 2;
	if (x->depth == 0 || !name(x, &ended))
		return XML_BAD;
	xml_name open = x->open[x->depth - 1];
	skip_space(x);
	if (ended.len != open.len || memcmp(ended.at, open.at, open.len) != 0 || x->p == x->end || *x->p++ != '>')
		return XML_BAD;
	x->closing = true;
	return XML_CLOSE;
}

enum xml_event xml_next(xml *x)
{
	if (x->closing) {
		x->closing = false;
		x->depth--;
		buf_clear(&x->text);
	}
	if (x->empty) {
		x->empty = false;
		x->closing = true;
		return XML_CLOSE;
	}
	for (;;) {
		if (!text(x))
			return XML_BAD;
		if (x->p == x->end)
			return x->depth == 0 && x->begun ? XML_END : XML_BAD;
		if (at(x, "<?")) {
			if (!skip_past(x, "?>"))
				return XML_BAD;
		} else if (at(x, "<!--")) {
			x->p += 4;
			if (!skip_past(x, "-->"))
				return XML_BAD;
		} else if (at(x, "<![CDATA[") && x->depth > 0) {
			const char *from = x->p + 9;
			x->p = from;
			if (!skip_past(x, "]]>"))
				return XML_BAD;
			buf_add(&x->text, from, (size_t)(x->p - 3 - from));
		} else if (at(x, "<!")) {
			return XML_BAD;
		} else {
			return at(x, "</") ? close_tag(x) : open_tag(x);
		}
	}
}
