/* The status file: what the agent is told about a worker (contract.h has its form). */
#ifndef SUPERVISOR_RECORD_H
#define SUPERVISOR_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

typedef struct record {
	const char *state, *fetch; /* fetch: the fetcher that this is about, or NULL */
	int64_t restarts, backoff_ms;
	bool stopped;
	char started[32]; /* of the present or last run */
	bool has_last;
	int last_code, last_signal;
	const char *last_reason; /* Completed, Error, StartError */
	char *last_message;
	char last_started[32], last_finished[32];
} record;

/* Durable when it returns 0. */
int record_write(const record *r, error *err);
/* "2026-11-30T04:00:00Z" */
void record_stamp(char out[32]);

#endif
