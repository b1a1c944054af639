/* Base64 (RFC 4648), as it stands in a Secret's data. Pure. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include "common/buf.h"

/* Appends the bytes; white space is skipped, padding may be missing. 0 or ERROR_INVALID (something may have been appended then). */
int base64_decode(const char *text, buf *out);

#endif
