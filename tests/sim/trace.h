/* Scripted runs: the schedules on which an earlier form of the protocol broke. Each is a function that plays one schedule from its setup and
 * ends with trace_end (all up, run until quiet, all guarantees).
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

/* One node, cloud A leads, job J is made, and has `samples`; runs until it is at this position. */
void script_begin(world *w, size_t devices, int64_t samples);
void script_until(world *w, int64_t round, enum stage stage, enum phase phase);
bool script_is(const world *w, int64_t round, enum stage stage, enum phase phase);
position script_position(const world *w);
track *script_track(const world *w);
const char *script_uid(const world *w);
pod *script_pod(world *w, enum worker_kind kind, int64_t round); /* waits for it to run */
/* The worker does its work, posts and ends: the stage completes. */
void script_work(world *w, enum worker_kind kind, int64_t round);
/* Through Train, Eval and Deploy, to the next round. */
void script_round(world *w, int64_t round);
folder *script_folder(world *w, int64_t round);
const record *script_record(const world *w, size_t device_index);
bool script_used(const world *w, uint32_t id);
void trace_end(world *w);

#endif
