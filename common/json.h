/* cJSON with the edges taken off: bounded parsing, case-sensitive typed lookups in which absent is not zero, integers that are exact.
 *
 * Getters return 1 if the member is there and right, 0 if it is absent (or null), and ERROR_INVALID with a text that names the path if it
 * has the wrong type or range. `where` is the path of `obj` ("desired.position"), used in error texts alone. Pure; any thread.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { JSON_MAX_DEPTH = 32 };
/* The largest integer that a JSON number (a double) holds exactly; larger 64-bit numbers travel as decimal strings. */
#define JSON_MAX_INT INT64_C(9007199254740991)

/* Parse exactly one value of at most `max` bytes: nesting above JSON_MAX_DEPTH, trailing bytes, NUL bytes, invalid UTF-8 and repeated
 * member names are refused, with the byte offset in the text. *out is to be freed with cJSON_Delete. */
int json_parse(const char *data, size_t len, size_t max, cJSON **out, error *err);
/* Compact text, to be freed; valid UTF-8: a byte that is part of no character is printed as '?'. Depth above JSON_MAX_DEPTH gives NULL. */
char *json_print(const cJSON *value);
/* The same in a buffer of `room` bytes to begin with: a text that needs no more leaves no copy of a part of it behind. */
char *json_print_room(const cJSON *value, size_t room);
/* Overwrite every text in it, and free it. NULL is fine. */
void json_wipe(cJSON *value);

const cJSON *json_member(const cJSON *obj, const char *name); /* case-sensitive; NULL if absent or obj is no object */
int json_get_string(const cJSON *obj, const char *where, const char *name, const char **out, error *err);
int json_get_int(const cJSON *obj, const char *where, const char *name, int64_t min, int64_t max, int64_t *out, error *err);
int json_get_double(const cJSON *obj, const char *where, const char *name, double *out, error *err); /* finite only */
int json_get_bool(const cJSON *obj, const char *where, const char *name, bool *out, error *err);
int json_get_object(const cJSON *obj, const char *where, const char *name, const cJSON **out, error *err);
int json_get_array(const cJSON *obj, const char *where, const char *name, const cJSON **out, error *err);

/* Add members. The NULL string adds nothing (absent). */
void json_put_string(cJSON *obj, const char *name, const char *value);
void json_put_int(cJSON *obj, const char *name, int64_t value); /* |value| <= JSON_MAX_INT */
void json_put_double(cJSON *obj, const char *name, double value);
void json_put_bool(cJSON *obj, const char *name, bool value);
void json_put(cJSON *obj, const char *name, cJSON *value); /* takes value; NULL adds nothing */

/* Deep equality, members in any order. */
bool json_equal(const cJSON *a, const cJSON *b);
/* 1 if the text is well-formed UTF-8 without NUL. */
bool json_utf8_valid(const char *data, size_t len);

#endif
