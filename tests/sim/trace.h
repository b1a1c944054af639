/* Scripted runs: the schedules on which an earlier form of the protocol broke. Each is a function that plays one schedule from its setup and
 * ends with trace_end (all up, run until quiet, all guarantees). What a schedule forbids is expected not to have happened; what then follows
 * is whatever the cores plan instead.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "tests/sim/sim.h"

typedef struct trace {
	const char *name;
	void (*run)(world *w);
} trace;

extern const trace traces[];
extern const size_t n_traces;

/* ---- script.c ---- */

#define EXPECT(w, condition) ((condition) ? (void)0 : violated((w), 0, "%s:%d: %s", __FILE__, __LINE__, #condition))

/* Agents up (A leads), job made, so many samples there. */
void script_begin(world *w, size_t devices, int64_t samples);
void script_start(world *w); /* the same after a setup of its own */
/* Event by event, until the cluster holds this position or a later one. */
void script_until(world *w, int64_t round, enum stage stage, enum phase phase);
bool script_is(const world *w, int64_t round, enum stage stage, enum phase phase);
track *script_track(const world *w);                              /* of the job that is there now */
pod *script_pod(world *w, enum worker_kind kind, int64_t round);  /* waits until it runs */
void script_post(world *w, pod *p);                               /* completed, until it is answered with 200 */
void script_work(world *w, enum worker_kind kind, int64_t round); /* its work, its post, its end */
void script_finish(world *w, int64_t round);                      /* from Train/Ready or later to the next round's Train/Waiting */
void script_round(world *w, int64_t round);
void script_wait_folder(world *w, int64_t round, int64_t to);
folder *script_folder(world *w, int64_t round);
const record *script_record(const world *w, size_t device_index);
uint64_t script_deployed(const world *w); /* content in place */
bool script_state_says(const world *w, const char *text);
void script_condition(world *w, enum phase phase, const char *reason);      /* stores one more condition of the present stage */
void script_threshold(world *w, double threshold);                          /* of the deploy trigger, in the job's spec */
void script_publish(world *w, const char *topic_text, const char *payload); /* by somebody, retained */
char *script_topic(const world *w, enum topic_kind kind, size_t device_index);
void trace_end(world *w);

/* ---- the runs ---- */

void trace_1a(world *w);
void trace_1b(world *w);
void trace_2a(world *w);
void trace_2b(world *w);
void trace_3a(world *w);
void trace_3b(world *w);
void trace_4a(world *w);
void trace_4b(world *w);
void trace_4c(world *w);
void trace_5a(world *w);
void trace_5b(world *w);
void trace_6(world *w);
void trace_6_other_order(world *w);
void trace_7a(world *w);
void trace_7b(world *w);
void trace_8_datasets(world *w);
void trace_8_empty(world *w);
void trace_8_jobs(world *w);
void trace_8_models(world *w);
void trace_9a(world *w);
void trace_9b(world *w);
void trace_9c(world *w);
void trace_9d(world *w);
void trace_9e(world *w);
void trace_9f(world *w);
void trace_10a(world *w);
void trace_10b(world *w);
void trace_10c(world *w);
void trace_11a(world *w);
void trace_11b(world *w);
void trace_11c(world *w);
void trace_12a(world *w);
void trace_12b(world *w);
void trace_12c(world *w);
void trace_12d(world *w);
void trace_12e(world *w);
void trace_13a(world *w);
void trace_13b(world *w);
void trace_13c(world *w);
void trace_13d(world *w);
void trace_13e(world *w);
void trace_14a(world *w);
void trace_14b(world *w);
void trace_14c(world *w);
void trace_15a(world *w);
void trace_15b(world *w);
void trace_15c(world *w);
void trace_16_12(world *w);
void trace_16_14(world *w);
void trace_16_20(world *w);
void trace_16_30(world *w);
void trace_17a(world *w);
void trace_17b(world *w);
void trace_17c(world *w);
void trace_18a(world *w);
void trace_18b(world *w);
void trace_18c(world *w);
void trace_18d(world *w);
void trace_spec_dataset(world *w);
void trace_spec_folder(world *w);
void trace_spec_hours(world *w);
void trace_spec_hours_taken(world *w);
void trace_spec_blocked_deleted(world *w);
void trace_spec_blocked_moved(world *w);
void trace_back_deployed(world *w);
void trace_back_namesake(world *w);
void trace_back_replaced(world *w);
void trace_back_own_folder(world *w);
void trace_rollback(world *w);
void trace_rollback_crash(world *w);
void trace_rollback_unclean(world *w);
void trace_rollback_copy(world *w);
void trace_rollback_samples(world *w);
void trace_rollback_spoiled(world *w);
void trace_rollback_missing(world *w);
void trace_rollback_undone(world *w);

#endif
