/* A reading of the clocks, taken once per turn of the loop and passed in: no logic reads a clock itself. */
#ifndef COMMON_MOMENT_H
#define COMMON_MOMENT_H

#include <stdint.h>

#define MOMENT_NEVER INT64_MAX

typedef struct moment {
	int64_t mono_ms; /* monotonic; intervals and deadlines. Starts anew with each boot. */
	int64_t unix_ms; /* wall clock, may be wrong or jump: for people, and timestamps */
	int minute;      /* local minute of the day 0…1439: trigger timers */
} moment;

#endif
