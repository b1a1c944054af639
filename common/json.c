/* cJSON with the edges taken off: see json.h for the contract. What is accepted as text is decided in
 * json_scan.c; json_print.c makes text.
 *
 * Trees that come from json_parse are at most JSON_MAX_DEPTH deep, so walking them by recursion is bounded.
 */
#include "common/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json_scan.h"
#include "common/mem.h"

int json_parse(const char *data, size_t len, size_t max, cJSON **out, error *err)
{
	*out = NULL;
	if (len > max)
		return error_set(err, ERROR_LIMIT, "JSON of %zu bytes; at most %zu are taken", len, max);
	int code = json_scan(data, len, err);
	if (code != 0)
		return code;
	const char *end = NULL;
	cJSON *value = cJSON_ParseWithLengthOpts(data, len, &end, 0);
	if (value == NULL)
		return error_set(err, ERROR_INVALID, "byte %zu: not JSON", end != NULL ? (size_t)(end - data) : 0);
	*out = value;
	return 0;
}

const cJSON *json_member(const cJSON *obj, const char *name)
{
	if (!cJSON_IsObject(obj))
		return NULL;
	for (const cJSON *m = obj->child; m != NULL; m = m->next) {
		if (m->string[0] == name[0] && strcmp(m->string, name) == 0)
			return m;
	}
	return NULL;
}

/* NULL if absent or null. */
static const cJSON *member_present(const cJSON *obj, const char *name)
{
	const cJSON *m = json_member(obj, name);
	return m == NULL || cJSON_IsNull(m) ? NULL : m;
}

static int refuse(error *err, const char *where, const char *name, const char *what)
{
	bool nested = where != NULL && where[0] != '\0';
	return error_set(err, ERROR_INVALID, "%s%s%s: must be %s", nested ? where : "", nested ? "." : "", name, what);
}

int json_get_string(const cJSON *obj, const char *where, const char *name, const char **out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	if (!cJSON_IsString(m))
		return refuse(err, where, name, "a string");
	*out = m->valuestring;
	return 1;
}

int json_get_int(const cJSON *obj, const char *where, const char *name, int64_t min, int64_t max, int64_t *out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	char what[96];
	/* Written so that NaN fails too. */
	bool whole = cJSON_IsNumber(m) && fabs(m->valuedouble) <= (double)JSON_MAX_INT && trunc(m->valuedouble) == m->valuedouble;
	if (!whole || (int64_t)m->valuedouble < min || (int64_t)m->valuedouble > max) {
		int64_t low = min < -JSON_MAX_INT ? -JSON_MAX_INT : min;
		int64_t high = max > JSON_MAX_INT ? JSON_MAX_INT : max;
		snprintf(what, sizeof what, "a whole number from %lld to %lld", (long long)low, (long long)high);
		return refuse(err, where, name, what);
	}
	*out = (int64_t)m->valuedouble;
	return 1;
}

int json_get_double(const cJSON *obj, const char *where, const char *name, double *out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	if (!cJSON_IsNumber(m) || !isfinite(m->valuedouble))
		return refuse(err, where, name, "a number");
	*out = m->valuedouble;
	return 1;
}

int json_get_bool(const cJSON *obj, const char *where, const char *name, bool *out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	if (!cJSON_IsBool(m))
		return refuse(err, where, name, "true or false");
	*out = cJSON_IsTrue(m) != 0;
	return 1;
}

int json_get_object(const cJSON *obj, const char *where, const char *name, const cJSON **out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	if (!cJSON_IsObject(m))
		return refuse(err, where, name, "an object");
	*out = m;
	return 1;
}

int json_get_array(const cJSON *obj, const char *where, const char *name, const cJSON **out, error *err)
{
	const cJSON *m = member_present(obj, name);
	if (m == NULL)
		return 0;
	if (!cJSON_IsArray(m))
		return refuse(err, where, name, "an array");
	*out = m;
	return 1;
}

/* Texts from files, paths and programs may be no UTF-8; a document with them would be refused by every reader. */
static char *text_repaired(const char *value)
{
	buf fixed = {0};
	size_t len = strlen(value);
	for (size_t i = 0; i < len;) {
		size_t n = json_utf8_length(value + i, len - i);
		if (n > 0)
			buf_add(&fixed, value + i, n);
		else
			buf_puts(&fixed, "\xEF\xBF\xBD");
		i += n > 0 ? n : 1;
	}
	return buf_detach(&fixed);
}

void json_put_string(cJSON *obj, const char *name, const char *value)
{
	if (value == NULL)
		return;
	if (json_utf8_valid(value, strlen(value))) {
		json_put(obj, name, cJSON_CreateString(value));
		return;
	}
	char *fixed = text_repaired(value);
	json_put(obj, name, cJSON_CreateString(fixed));
	free(fixed);
}

void json_put_int(cJSON *obj, const char *name, int64_t value)
{
	assert(value >= -JSON_MAX_INT && value <= JSON_MAX_INT);
	json_put(obj, name, cJSON_CreateNumber((double)value));
}

void json_put_double(cJSON *obj, const char *name, double value)
{
	json_put(obj, name, cJSON_CreateNumber(value));
}

void json_put_bool(cJSON *obj, const char *name, bool value)
{
	json_put(obj, name, cJSON_CreateBool(value));
}

void json_put(cJSON *obj, const char *name, cJSON *value)
{
	if (value == NULL)
		return;
	/* Fails for lack of memory, which mem.h turns into an exit, and for an `obj` that is NULL. */
	if (!cJSON_AddItemToObject(obj, name, value))
		cJSON_Delete(value);
}

static int by_name(const void *a, const void *b)
{
	const cJSON *const *x = a, *const *y = b;
	return strcmp((*x)->string, (*y)->string);
}

static const cJSON **members_sorted(const cJSON *obj, size_t n)
{
	const cJSON **list = mem_resize_array(NULL, n, sizeof(const cJSON *));
	size_t i = 0;
	const cJSON *m;
	cJSON_ArrayForEach(m, obj)
		list[i++] = m;
	qsort(list, n, sizeof(const cJSON *), by_name);
	return list;
}

/* Sorting keeps the cost at n log n for objects of tens of thousands of members that somebody else wrote. */
static bool objects_equal(const cJSON *a, const cJSON *b, size_t n)
{
	const cJSON **x = members_sorted(a, n);
	const cJSON **y = members_sorted(b, n);
	bool same = true;
	for (size_t i = 0; i < n && same; i++)
		same = strcmp(x[i]->string, y[i]->string) == 0 && json_equal(x[i], y[i]);
	free(x);
	free(y);
	return same;
}

bool json_equal(const cJSON *a, const cJSON *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if ((a->type & 0xFF) != (b->type & 0xFF))
		return false;
	if (cJSON_IsNumber(a))
		return a->valuedouble == b->valuedouble;
	if (cJSON_IsString(a) || cJSON_IsRaw(a))
		return strcmp(a->valuestring, b->valuestring) == 0;
	if (!cJSON_IsArray(a) && !cJSON_IsObject(a))
		return true;
	int n = cJSON_GetArraySize(a);
	if (n != cJSON_GetArraySize(b))
		return false;
	if (cJSON_IsObject(a))
		return objects_equal(a, b, (size_t)n);
	const cJSON *x = a->child, *y = b->child;
	for (; x != NULL && y != NULL; x = x->next, y = y->next) {
		if (!json_equal(x, y))
			return false;
	}
	return true;
}

static void overwrite(cJSON *value)
{
	for (cJSON *item = value; item != NULL; item = item->next) {
		if (item->valuestring != NULL && (item->type & cJSON_IsReference) == 0)
			explicit_bzero(item->valuestring, strlen(item->valuestring));
		overwrite(item->child);
	}
}

void json_wipe(cJSON *value)
{
	overwrite(value);
	cJSON_Delete(value);
}
