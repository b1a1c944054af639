/* Is this JSON text (RFC 8259) within our bounds? cJSON is more generous than the RFC (control characters in strings, numbers such as
 * "01", text cut after 63 digits), silent about repeated names, and cuts strings at NUL; so the text is read once by these strict rules
 * before cJSON sees it. Pure; any thread.
 */
#ifndef COMMON_JSON_SCAN_H
#define COMMON_JSON_SCAN_H

#include <stddef.h>

#include "common/error.h"

/* 0, or ERROR_INVALID or ERROR_LIMIT (nesting) with "byte N: ..." */
int json_scan(const char *data, size_t len, error *err);
/* Length (1 to 4) of the well-formed UTF-8 character at the beginning of data, or 0. NUL is well-formed here. */
size_t json_utf8_length(const char *data, size_t len);

#endif
