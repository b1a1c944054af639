/* Counters and gauges in Prometheus' text format 0.0.4. A fixed registry per process: metrics are added at start by the loop thread; values
 * are set by any thread (atomics); the text is made by any thread. Labels are given at registration, so the number of series is bounded.
 */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

typedef struct metric metric;

/* `name` like "ilmare_edge_reports_published_total"; `labels` like `stage="train"` or NULL. The strings are kept, not copied: literals.
 * The same name and labels give the same metric. At most METRICS_MAX (then the process exits: a programming error). */
enum { METRICS_MAX = 128 };
metric *metric_new(enum metric_type type, const char *name, const char *labels, const char *help);
void metric_set(metric *m, int64_t value);
/* It has no value: nothing of it is printed until it is set again. */
void metric_unset(metric *m);
int64_t metric_value(const metric *m);
/* Values that somebody counts in a struct of int64_t (or uint64_t) members: a table of them, registered when first set. Loop thread. */
typedef struct metric_row {
	size_t offset; /* of the member */
	enum metric_type type;
	const char *name, *help;
	metric *metric; /* NULL in the table as written */
} metric_row;
void metrics_set_rows(metric_row *rows, size_t n, const void *counters);

/* Process-wide gauges (resident memory, open files, start time, uptime) are added by metrics_print itself. */
void metrics_print(buf *out);

#endif
