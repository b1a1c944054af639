/* Errors as values: see error.h for the contract.
 *
 * Names and sentences come from the one list in the header, so a new code cannot be without them. Text that does not fit is cut at a
 * whole UTF-8 character, because error texts go into JSON documents.
 */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *error_name(int code)
{
	switch (code) {
	case ERROR_OK:
		return "ok";
#define X(id, value, name, text)                                                                                                           \
	case ERROR_##id:                                                                                                                       \
		return name;
		ERROR_MAP(X)
#undef X
	default:
		return "unknown";
	}
}

const char *error_describe(int code)
{
	switch (code) {
	case ERROR_OK:
		return "nothing is wrong";
#define X(id, value, name, text)                                                                                                           \
	case ERROR_##id:                                                                                                                       \
		return text;
		ERROR_MAP(X)
#undef X
	default:
		return "an error without a name";
	}
}

/* One line, cut between characters: control characters become spaces, a character that was cut in two goes. `written` is what vsnprintf
 * said. */
static void text_tidy(char *text, size_t size, int written)
{
	if (written < 0)
		text[0] = '\0';
	size_t len = strlen(text);
	if (written >= 0 && (size_t)written >= size) {
		size_t start = len;
		while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
			start--;
		if (start > 0 && (unsigned char)text[start - 1] >= 0xC0) {
			unsigned char lead = (unsigned char)text[start - 1];
			size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
			if (len - start < want)
				len = start - 1;
		}
		text[len] = '\0';
	}
	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	for (char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7F)
			*p = ' ';
	}
}

int(error_set)(error *err, int code, const char *fmt, ...)
{
	if (err != NULL) {
		/* The arguments may point into err->text itself. */
		char text[sizeof err->text];
		va_list args;
		va_start(args, fmt);
		int n = vsnprintf(text, sizeof text, fmt, args);
		va_end(args);
		text_tidy(text, sizeof text, n);
		err->code = code;
		memcpy(err->text, text, strlen(text) + 1);
	}
	return code;
}

int error_prefix(error *err, const char *fmt, ...)
{
	if (err == NULL)
		return ERROR_INTERNAL;
	char text[sizeof err->text];
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	text_tidy(text, sizeof text, n);
	size_t len = strlen(text);
	n = snprintf(text + len, sizeof text - len, ": %s", err->text);
	text_tidy(text, sizeof text, n < 0 ? n : (int)len + n);
	memcpy(err->text, text, strlen(text) + 1);
	return err->code;
}

static int code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
	case EROFS:
		return ERROR_NO_SPACE;
	case EACCES:
	case EPERM:
		return ERROR_DENIED;
	case ENOENT:
		return ERROR_NOT_FOUND;
	case EEXIST:
		return ERROR_EXISTS;
	default:
		return ERROR_IO;
	}
}

const char *error_hint(int errnum)
{
	switch (errnum) {
	case ENOSPC:
		return " (free some room on that disk: df -h shows its bytes, df -i its inodes)";
	case EDQUOT:
		return " (free some room, or have the quota raised)";
	case EROFS:
		return " (mount it writable, or name another place)";
	case EACCES:
	case EPERM:
		return " (the user that runs this program needs the right to do that)";
	default:
		return "";
	}
}

int(error_errno)(error *err, int errnum, const char *fmt, ...)
{
	int code = code_of_errno(errnum);
	if (err != NULL) {
		char text[sizeof err->text];
		char reason[128];
		va_list args;
		va_start(args, fmt);
		int n = vsnprintf(text, sizeof text, fmt, args);
		va_end(args);
		text_tidy(text, sizeof text, n);
		error_set(err, code, "%s: %s%s", text, strerror_r(errnum, reason, sizeof reason), error_hint(errnum));
	}
	return code;
}
