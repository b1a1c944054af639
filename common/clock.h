/* The clocks of this machine, for shells: the one place that reads them. Any thread. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdbool.h>

#include "common/moment.h"

/* CLOCK_MONOTONIC, CLOCK_REALTIME, and the local minute of the day (of the TZ variable, else the system's zone). */
moment clock_now(void);
/* 32 random hex digits: session and store ids. Exits if the system gives no random bytes. */
void clock_random_id(char out[33]);
/* Is `name` a zone that localtime knows: "UTC", or a file of the system's zone data (TZDIR, else /usr/share/zoneinfo)? An unknown one in TZ
 * is taken for UTC in silence. */
bool clock_zone_exists(const char *name);
/* A random seed. */
unsigned long long clock_random_seed(void);

#endif
