/* Which log lines are held back: at most a few a minute that say the same, so that a fault that repeats, or a flood from outside, cannot fill a
 * log, and cannot hide other lines either.
 *
 * Two lines say the same if level, module, message and all texts of their fields agree; numbers do not count. Besides, there is a bound for
 * all lines of one level, module and message, whatever their texts, so that the table below has an end and a flood of different texts, too.
 * What is held back is counted, and the counts are said after the minute. Not locked: log.c does that. Static memory only.
 */
#ifndef COMMON_LOG_LIMIT_H
#define COMMON_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log.h"

enum { LOG_LIMIT_SAME = 10, LOG_LIMIT_MESSAGE = 100, LOG_LIMIT_MS = 60000, LOG_LIMIT_WHAT = 120 };

typedef struct log_key {
	enum log_level level;
	const char *module, *message; /* literals, kept */
	uint64_t texts;               /* a hash of the texts of the fields */
} log_key;

typedef void log_held_fn(enum log_level level, const char *module, const char *message, const char *what, unsigned held);

/* Is the line to be written? If not, it is counted. `what` is how the count will name the texts; cut and copied. */
bool log_limit_take(const log_key *key, const char *what, int64_t now_ms);
/* Calls `say` for each count whose minute is over (all: for every one) and forgets it. `what` is NULL where texts differed. */
void log_limit_end(int64_t now_ms, bool all, log_held_fn *say);
/* Milliseconds until a count is to be said; -1 if nothing is held back. */
int64_t log_limit_wait(int64_t now_ms);

#endif
