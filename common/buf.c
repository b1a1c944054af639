/* A growing byte buffer: see buf.h for the contract.
 *
 * Invariant: data is NULL and cap 0, or cap > len and data[len] is NUL. Memory at least doubles, so n additions cost O(n).
 */
#include "common/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { BUF_SMALLEST = 64 };

void buf_fini(buf *b)
{
	free(b->data);
	*b = (buf){0};
}

void buf_wipe(buf *b)
{
	if (b->data != NULL)
		explicit_bzero(b->data, b->cap);
	buf_fini(b);
}

void buf_clear(buf *b)
{
	b->len = 0;
	if (b->data != NULL)
		b->data[0] = '\0';
}

void buf_reserve(buf *b, size_t more)
{
	size_t need;
	if (__builtin_add_overflow(b->len, more, &need) || __builtin_add_overflow(need, 1, &need))
		need = SIZE_MAX; /* which no allocation can satisfy */
	if (need <= b->cap)
		return;
	size_t cap = b->cap > SIZE_MAX / 2 ? need : b->cap * 2;
	if (cap < BUF_SMALLEST)
		cap = BUF_SMALLEST;
	if (cap < need)
		cap = need;
	b->data = mem_resize(b->data, cap);
	b->cap = cap;
	b->data[b->len] = '\0';
}

void buf_add(buf *b, const void *data, size_t len)
{
	if (len >= b->cap - b->len)
		buf_reserve(b, len);
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_puts(buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_putc(buf *b, char c)
{
	if (b->cap - b->len <= 1)
		buf_reserve(b, 1);
	b->data[b->len++] = c;
	b->data[b->len] = '\0';
}

void buf_vprintf(buf *b, const char *fmt, va_list args)
{
	va_list again;
	va_copy(again, args);
	buf_reserve(b, 0);
	size_t room = b->cap - b->len;
	int n = vsnprintf(b->data + b->len, room, fmt, args);
	if (n >= 0 && (size_t)n >= room) {
		buf_reserve(b, (size_t)n);
		n = vsnprintf(b->data + b->len, b->cap - b->len, fmt, again);
	}
	if (n > 0)
		b->len += (size_t)n;
	b->data[b->len] = '\0';
	va_end(again);
}

void buf_printf(buf *b, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	buf_vprintf(b, fmt, args);
	va_end(args);
}

char *buf_detach(buf *b)
{
	buf_reserve(b, 0);
	char *text = b->data;
	*b = (buf){0};
	return text;
}

const char *buf_text(const buf *b)
{
	return b->data != NULL ? b->data : "";
}
