/* What a worker prints: into its log, whose size is bounded, with the last of it at hand for the status.
 *
 * When the log reaches its limit it becomes `{log}.1`, replacing the one before, and a new one is begun. What cannot be written (a full disk)
 * is dropped: a worker never waits for its log.
 */
#ifndef SUPERVISOR_OUTPUT_H
#define SUPERVISOR_OUTPUT_H

#include <stdint.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/buf.h"

typedef struct output {
	char *path;
	int fd; /* of the log; -1: it cannot be written */
	int64_t size, max;
	int pipe; /* what the worker writes into, our end; -1: none */
	char tail[WORKER_MESSAGE_MAX];
	size_t tail_len;
} output;

void output_init(output *o, const char *path, int64_t max);
void output_fini(output *o);
/* A pipe for a new run; gives the worker's end, or -1. */
int output_begin(output *o);
/* Take what is there. 0 if the other end is closed. */
int output_take(output *o);
/* The run is over: take the rest, close the pipe. */
void output_end(output *o);
/* A line of our own. */
void output_note(output *o, const char *text);
/* The last whole lines of the run, as valid UTF-8. */
void output_last(const output *o, buf *out);

#endif
