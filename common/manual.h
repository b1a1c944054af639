/* Pieces of --help and of man pages, for programs whose both come from one table. */
#ifndef COMMON_MANUAL_H
#define COMMON_MANUAL_H

#include <stdio.h>

/* Words of `text` in lines of at most about 100 characters, each line behind `prefix`, and a line's end. */
void manual_wrapped(FILE *out, const char *prefix, const char *text);
/* As roff takes it: it reads a point or a quote at the beginning of a line as a request, and a backslash as an escape; a bare hyphen may be broken
 * at. */
void manual_roff(FILE *out, const char *text);

#endif
