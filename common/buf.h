/* A growing byte buffer; always followed by a NUL that does not count, so that text can be printed. Memory as in mem.h.
 * `struct buf b = {0};` is an empty one; buf_fini leaves it empty again. Not thread-safe.
 */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stdarg.h>
#include <stddef.h>

typedef struct buf {
	char *data; /* NULL while empty and never grown */
	size_t len, cap;
} buf;

void buf_fini(buf *b);
void buf_wipe(buf *b);  /* buf_fini of one that holds a secret: all of its memory is overwritten before */
void buf_clear(buf *b); /* keeps the memory */
void buf_reserve(buf *b, size_t more);
void buf_add(buf *b, const void *data, size_t len);
void buf_puts(buf *b, const char *s);
void buf_putc(buf *b, char c);
void buf_printf(buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(buf *b, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
char *buf_detach(buf *b);           /* the text, to be freed by the caller; "" if empty; b is empty afterwards */
const char *buf_text(const buf *b); /* never NULL */

#endif
