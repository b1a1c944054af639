/* The clocks of this machine, for shells: the one place that reads them. Any thread. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include "common/moment.h"

/* CLOCK_MONOTONIC, CLOCK_REALTIME, and the local minute of the day (of the TZ variable, else the system's zone). */
moment clock_now(void);
/* 32 random hex digits: session and store ids. Exits if the system gives no random bytes. */
void clock_random_id(char out[33]);
/* A random seed. */
unsigned long long clock_random_seed(void);

#endif
