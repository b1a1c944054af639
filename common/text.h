/* Text for people in a buffer of a fixed size. What others hear of it (a service manager, an API server, whoever parses JSON) may refuse a text
 * that is not UTF-8, all of it, so one that is too long is cut between characters, and bytes that are no character become '?'.
 * Pure; any thread.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* `out` has `size` bytes, at least 1, and ends in NUL afterwards. `text` must not be in it. */
void text_copy(char *out, size_t size, const char *text);
/* The same of what is printed; an argument may be in `out`. */
void text_print(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void text_vprint(char *out, size_t size, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

#endif
