/* Errors are values with text.
 *
 * A function that can fail returns 0 or a negative `enum error_code`, and, where it takes an `error *`, leaves there what was wrong,
 * where, and what to do, in words a user can act on. `err` may be NULL when the caller needs the code alone. Errors of libraries
 * (sqlite3, uv, Paho, cJSON, libyaml) are converted once, where the library is called. An error is logged once, at the top.
 *
 * Any thread.
 */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stddef.h>

#define ERROR_MAP(X)                                                                                                                       \
	X(INVALID, -1, "invalid", "the input is malformed")                                                                                    \
	X(LIMIT, -2, "limit", "a bound was reached")                                                                                           \
	X(NOT_FOUND, -3, "not found", "there is no such thing")                                                                                \
	X(EXISTS, -4, "exists", "it is there already")                                                                                         \
	X(CONFLICT, -5, "conflict", "somebody else changed it meanwhile")                                                                      \
	X(IO, -6, "io", "reading or writing failed")                                                                                           \
	X(NO_SPACE, -7, "no space", "the disk, its quota or its inodes are used up, or it is read-only")                                       \
	X(CORRUPT, -8, "corrupt", "what was stored cannot be read back")                                                                       \
	X(DENIED, -9, "denied", "permission is missing")                                                                                       \
	X(OFFLINE, -10, "offline", "there is no connection")                                                                                   \
	X(TIMEOUT, -11, "timeout", "it took too long")                                                                                         \
	X(UNSUPPORTED, -12, "unsupported", "this is not supported")                                                                            \
	X(CHANGED, -13, "changed", "the source changed while it was read")                                                                     \
	X(INTERNAL, -14, "internal", "this should not happen; please report it")

enum error_code {
	ERROR_OK = 0,
#define X(id, value, name, text) ERROR_##id = (value),
	ERROR_MAP(X)
#undef X
};

typedef struct error {
	int code;       /* 0 or a negative enum error_code */
	char text[480]; /* one line, no trailing newline; cut, never overrun */
} error;

/* Short stable name of a code ("no space"), for logs and metrics. Never NULL. */
const char *error_name(int code);
/* One sentence for a code. Never NULL. */
const char *error_describe(int code);

/* Fill *err (may be NULL) and return `code`. */
int error_set(error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Put "prefix: " before the text that is there; returns err->code, or INTERNAL if err is NULL. */
int error_prefix(error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* From an errno value: ENOSPC, EDQUOT, EROFS -> NO_SPACE; EACCES, EPERM -> DENIED; ENOENT -> NOT_FOUND; EEXIST -> EXISTS; else IO.
 * The text is "<what you say>: <strerror>", with a hint where there is one. */
int error_errno(error *err, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What a person can do about an errno value, in brackets with a space before it, to be put behind its text; "" if nothing general helps. */
const char *error_hint(int errnum);

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time and takes any function for one that may return 0; then all that follows a checked call looks as if
 * it could be unset. So it is told that the code which was given comes back. */
#define error_set(err, code, ...) ((void)(error_set)(err, code, __VA_ARGS__), (code))
#define error_errno(err, errnum, ...) ((void)(error_errno)(err, errnum, __VA_ARGS__), ERROR_IO)
#endif

#endif
