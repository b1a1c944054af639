/* Triggers: see trigger.h for the contract; values and comparisons are those of proto/metric.h.
 *
 * The condition is looked at before the timer: a condition that does not hold, or has no value, is an answer at any hour, and only one that
 * holds is worth waiting for the window. Nothing here fails silently: what cannot be answered comes with a reason for people.
 */
#include "edge-agent/core/trigger.h"

#include <string.h>

#include "proto/metric.h"

#define METRIC_SAMPLES "num_of_samples"

bool trigger_timer_holds(const trigger *t, int minute)
{
	if (!t->has_timer)
		return true;
	if (t->start <= t->end)
		return minute >= t->start && minute <= t->end;
	return minute >= t->start || minute <= t->end;
}

static enum trigger_answer with_timer(const trigger *t, int minute)
{
	return trigger_timer_holds(t, minute) ? TRIGGER_YES : TRIGGER_OUTSIDE;
}

enum trigger_answer trigger_train(const trigger *t, int64_t samples, int minute, error *err)
{
	if (t->has_condition) {
		if (t->metric == NULL || strcmp(t->metric, METRIC_SAMPLES) != 0) {
			error_set(err, ERROR_INVALID, "train trigger: metric '%s' is not known; it must be " METRIC_SAMPLES,
				t->metric != NULL ? t->metric : "");
			return TRIGGER_UNKNOWN;
		}
		if (!metric_holds(t->op, (double)samples, t->threshold))
			return TRIGGER_NO;
	}
	return with_timer(t, minute);
}

enum trigger_answer trigger_deploy(const trigger *t, const model *results, size_t n, int minute, error *err)
{
	metric_expr expr;
	double value;

	if (n != 2) {
		error_set(err, ERROR_INVALID, "the evaluation reported %zu results; it takes 2, the new model's first", n);
		return TRIGGER_UNKNOWN;
	}
	if (t->has_condition) {
		const char *text = t->metric != NULL ? t->metric : "";

		if (metric_parse(text, &expr, err) != 0 || metric_evaluate(&expr, results[0].metrics, results[1].metrics, &value, err) != 0) {
			error_prefix(err, "deploy trigger");
			return TRIGGER_UNKNOWN;
		}
		if (!metric_holds(t->op, value, t->threshold)) {
			error_set(err, ERROR_INVALID, "%s is %.6g, not %s %.6g", text, value, trigger_op_text(t->op), t->threshold);
			return TRIGGER_NO;
		}
	}
	return with_timer(t, minute);
}
