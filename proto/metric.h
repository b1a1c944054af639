/* Metrics as workers report them, and the expressions of triggers over them: `name`, `name_delta`, each optionally `[i]`. Pure.
 *
 * A metric is a number or a list of numbers. A bare name of a list means its mean; `name[i]` its i-th (from 0); `name[0]` of a number is the
 * number. `name_delta` is new - old, taken after that choice. What is missing, not a number or not finite has no value, and err says why.
 */
#ifndef PROTO_METRIC_H
#define PROTO_METRIC_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/error.h"
#include "proto/document.h"

enum { METRIC_NAME_MAX = 128 };

typedef struct metric_expr {
	char name[METRIC_NAME_MAX + 1]; /* without _delta and index */
	bool delta;
	long index; /* -1: none */
} metric_expr;

/* Blanks around the index are allowed. A metric that is really named "x_delta" is found before the difference of "x" is made. */
int metric_parse(const char *text, metric_expr *out, error *err);
/* The value of name[index] in one model's metrics. */
int metric_of(const metric_expr *e, const cJSON *metrics, double *out, error *err);
/* Metrics that are too large are cut down to what an expression takes from them (and to `"truncated": true`), so that it has the same value as
 * before. Of name[i] the entry stands there as a number under "name[i]", which is looked for first.
 * The members that the expression needs are added to `kept`: of the new model (`metrics`), compared with the old one (`other`, may be NULL),
 * or the other way round (`is_old`). */
void metric_keep(const metric_expr *e, const cJSON *metrics, const cJSON *other, bool is_old, cJSON *kept);
/* The value of the whole expression, for the new model against the old one (old may be NULL unless delta). */
int metric_evaluate(const metric_expr *e, const cJSON *metrics_new, const cJSON *metrics_old, double *out, error *err);
/* value OP threshold; equality within 1e-6 (so > and < are false within it). Not finite: false for every operator. */
bool metric_holds(enum trigger_op op, double value, double threshold);

#endif
