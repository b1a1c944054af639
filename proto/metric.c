/* Metrics and the expressions of triggers over them: see metric.h.
 *
 * A value is found in two steps: the member is looked up in each model's metrics, then one number is chosen from it (the number itself, an
 * entry of the list, or the list's mean). For a difference of two lists without an index the mean goes over the entries that both have, so
 * that lists of different lengths compare like with like. Everything that does not lead to a finite number has a text that says why.
 */
#include "proto/metric.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

#define EQUAL_WITHIN 1e-6
enum { INDEX_MAX = 1000000 };

static const char delta_suffix[] = "_delta";

static int refuse(error *err, const char *text, const char *why)
{
	return error_set(err, ERROR_INVALID, "metric '%.140s': %s", text, why);
}

/* The digits between the brackets, blanks around them allowed. `p` is after '['. */
static int parse_index(const char *text, const char *p, long *out, error *err)
{
	long value = 0;
	while (*p == ' ' || *p == '\t')
		p++;
	if (!isdigit((unsigned char)*p))
		return refuse(err, text, "the index in [ ] must be a number from 0");
	for (; isdigit((unsigned char)*p); p++) {
		value = value * 10 + (*p - '0');
		if (value > INDEX_MAX)
			return refuse(err, text, "the index is too large");
	}
	while (*p == ' ' || *p == '\t')
		p++;
	if (p[0] != ']' || p[1] != '\0')
		return refuse(err, text, "the index must end with one ']' at the end");
	*out = value;
	return 0;
}

int metric_parse(const char *text, metric_expr *out, error *err)
{
	metric_expr e = {.index = -1};
	const char *bracket = strchr(text, '[');
	size_t len = bracket != NULL ? (size_t)(bracket - text) : strlen(text);

	if (memchr(text, ']', len) != NULL)
		return refuse(err, text, "']' without '['");
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	while (len > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	if (len == 0)
		return refuse(err, text, "the name is missing");
	if (len > METRIC_NAME_MAX)
		return refuse(err, text, "the name is too long");
	memcpy(e.name, text, len);
	size_t suffix = sizeof delta_suffix - 1;
	if (len > suffix && memcmp(e.name + len - suffix, delta_suffix, suffix) == 0) {
		e.delta = true;
		e.name[len - suffix] = '\0';
	}
	if (bracket != NULL) {
		int code = parse_index(text, bracket + 1, &e.index, err);
		if (code != 0)
			return code;
	}
	*out = e;
	return 0;
}

static int number_of(const char *name, const cJSON *value, double *out, error *err)
{
	if (!cJSON_IsNumber(value))
		return error_set(err, ERROR_INVALID, "metric '%s' is not a number", name);
	if (!isfinite(value->valuedouble))
		return error_set(err, ERROR_INVALID, "metric '%s' is not finite", name);
	*out = value->valuedouble;
	return 0;
}

static int mean_of(const char *name, const cJSON *list, int n, double *out, error *err)
{
	double sum = 0;
	int i = 0;
	if (n == 0)
		return error_set(err, ERROR_INVALID, "metric '%s' is an empty list", name);
	for (const cJSON *entry = list->child; entry != NULL && i < n; entry = entry->next, i++) {
		double value;
		int code = number_of(name, entry, &value, err);
		if (code != 0)
			return code;
		sum += value;
	}
	if (!isfinite(sum))
		return error_set(err, ERROR_INVALID, "the mean of metric '%s' is not finite", name);
	*out = sum / n;
	return 0;
}

enum { KEY_SIZE = METRIC_NAME_MAX + sizeof delta_suffix + 16 };

static void key_of(const char *name, long index, char *out)
{
	if (index >= 0)
		(void)snprintf(out, KEY_SIZE, "%s[%ld]", name, index);
	else
		(void)snprintf(out, KEY_SIZE, "%s", name);
}

static void whole_name(const metric_expr *e, char *out)
{
	(void)snprintf(out, KEY_SIZE, "%s%s", e->name, delta_suffix);
}

/* The member; *index becomes -1 if the number was chosen from it already. */
static const cJSON *find(const cJSON *metrics, const char *name, long *index)
{
	char key[KEY_SIZE];
	key_of(name, *index, key);
	const cJSON *chosen = *index >= 0 ? json_member(metrics, key) : NULL;
	if (chosen == NULL)
		return json_member(metrics, name);
	*index = -1;
	return chosen;
}

/* Choose one number: `common` is how many entries of a list count for its mean, -1 for all. */
static int choose(const cJSON *metrics, const char *name, long index, int common, double *out, error *err)
{
	const cJSON *value = find(metrics, name, &index);
	if (value == NULL && cJSON_IsTrue(json_member(metrics, "truncated")))
		return error_set(err, ERROR_LIMIT, "metric '%s' was left out, because the metrics are too large", name);
	if (value == NULL || cJSON_IsNull(value))
		return error_set(err, ERROR_NOT_FOUND, "metric '%s' is missing", name);
	if (!cJSON_IsArray(value)) {
		if (index > 0)
			return error_set(err, ERROR_NOT_FOUND, "metric '%s' is one number, it has no [%ld]", name, index);
		return number_of(name, value, out, err);
	}
	int size = cJSON_GetArraySize(value);
	if (index < 0)
		return mean_of(name, value, common >= 0 && common < size ? common : size, out, err);
	if (index >= size)
		return error_set(err, ERROR_NOT_FOUND, "metric '%s' has %d entries, there is no [%ld]", name, size, index);
	return number_of(name, cJSON_GetArrayItem(value, (int)index), out, err);
}

int metric_of(const metric_expr *e, const cJSON *metrics, double *out, error *err)
{
	return choose(metrics, e->name, e->index, -1, out, err);
}

/* How many entries of two lists count; -1: not two lists, or one entry is chosen. */
static int common_size(const metric_expr *e, const cJSON *metrics_new, const cJSON *metrics_old)
{
	const cJSON *a = json_member(metrics_new, e->name), *b = json_member(metrics_old, e->name);
	if (e->index >= 0 || !cJSON_IsArray(a) || !cJSON_IsArray(b))
		return -1;
	int n = cJSON_GetArraySize(a), m = cJSON_GetArraySize(b);
	return n < m ? n : m;
}

static int difference(const metric_expr *e, const cJSON *metrics_new, const cJSON *metrics_old, double *out, error *err)
{
	int common = common_size(e, metrics_new, metrics_old);
	double of_new, of_old;

	int code = choose(metrics_new, e->name, e->index, common, &of_new, err);
	if (code != 0) {
		error_prefix(err, "new model");
		return code;
	}
	code = choose(metrics_old, e->name, e->index, common, &of_old, err);
	if (code != 0) {
		error_prefix(err, "old model");
		return code;
	}
	if (!isfinite(of_new - of_old))
		return error_set(err, ERROR_INVALID, "the difference of metric '%s' is not finite", e->name);
	*out = of_new - of_old;
	return 0;
}

int metric_evaluate(const metric_expr *e, const cJSON *metrics_new, const cJSON *metrics_old, double *out, error *err)
{
	if (!e->delta)
		return metric_of(e, metrics_new, out, err);
	char whole[KEY_SIZE];
	long index = e->index;
	whole_name(e, whole);
	if (find(metrics_new, whole, &index) != NULL)
		return choose(metrics_new, whole, e->index, -1, out, err);
	return difference(e, metrics_new, metrics_old, out, err);
}

static void keep_number(const cJSON *metrics, const char *name, long index, int common, cJSON *kept)
{
	char key[KEY_SIZE];
	double value;
	if (choose(metrics, name, index, common, &value, NULL) != 0)
		return;
	key_of(name, index, key);
	json_put_double(kept, key, value);
}

void metric_keep(const metric_expr *e, const cJSON *metrics, const cJSON *other, bool is_old, cJSON *kept)
{
	keep_number(metrics, e->name, e->index, e->delta ? common_size(e, metrics, other) : -1, kept);
	if (e->delta && !is_old) {
		char whole[KEY_SIZE];
		whole_name(e, whole);
		keep_number(metrics, whole, e->index, -1, kept);
	}
}

bool metric_holds(enum trigger_op op, double value, double threshold)
{
	if (!isfinite(value) || !isfinite(threshold))
		return false;
	bool equal = fabs(value - threshold) <= EQUAL_WITHIN;
	switch (op) {
	case OP_GT:
		return !equal && value > threshold;
	case OP_GE:
		return equal || value > threshold;
	case OP_EQ:
		return equal;
	case OP_NE:
		return !equal;
	case OP_LE:
		return equal || value < threshold;
	case OP_LT:
		return !equal && value < threshold;
	}
	return false;
}
