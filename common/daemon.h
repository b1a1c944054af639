/* What the mains of both agents share: process-wide settings, and the loop until somebody says stop. Main thread. */
#ifndef COMMON_DAEMON_H
#define COMMON_DAEMON_H

#include <uv.h>

#include "common/log.h"

/* First of all in main: memory as mem.h wants it and one heap for all threads, no SIGPIPE, a small pool. */
void daemon_init(void);
void daemon_log(const char *program, const char *level);

/* Run the loop, and say meanwhile how many log lines were held back (what is left at the end is for log_flush). SIGTERM and SIGINT call `stop`,
 * once; before the loop runs, but when they are heard already, `ready` is called. Returns when the loop has run out; if that takes longer than
 * 4.5 s from `stop`, the process ends with status 0. */
void daemon_run(uv_loop_t *loop, void (*ready)(void *ctx), void (*stop)(void *ctx), void *ctx);

#endif
