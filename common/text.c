/* See text.h. A text is printed whole before it is cut: where printf cuts says nothing about characters. */
#include "common/text.h"

#include <string.h>

#include "common/buf.h"
#include "common/json_scan.h"

void text_copy(char *out, size_t size, const char *text)
{
	size_t len = 0;

	while (text[len] != '\0') {
		size_t width = json_utf8_length(text + len, strnlen(text + len, 4));

		if (len + (width == 0 ? 1 : width) >= size)
			break;
		if (width == 0)
			out[len++] = '?';
		for (; width > 0; width--, len++)
			out[len] = text[len];
	}
	out[len] = '\0';
}

void text_vprint(char *out, size_t size, const char *fmt, va_list args)
{
	buf whole = {0};

	buf_vprintf(&whole, fmt, args);
	text_copy(out, size, buf_text(&whole));
	buf_fini(&whole);
}

void text_print(char *out, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	text_vprint(out, size, fmt, args);
	va_end(args);
}
