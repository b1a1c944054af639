/* One worker as the agent sees it: its folder, its supervisor, and being told when something changes (supervisor/contract.h).
 *
 * A worker is alive as long as its supervisor is. That it lives shows in the lock on the worker's folder, that it
 * ends in the end of file on a FIFO, so both work the same for a supervisor that an earlier agent started. Nobody waits for it: the program
 * has to ignore SIGCHLD, or it leaves a zombie. Loop thread.
 */
#ifndef LOCAL_WORKER_H
#define LOCAL_WORKER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <uv.h>

#include "common/error.h"

typedef struct worker worker;

typedef struct worker_events {
	void *ctx;
	void (*changed)(void *ctx); /* its status may be a new one */
	void (*gone)(void *ctx);    /* its supervisor has ended; called once */
	/* For the one who counts what is left on the loop: this worker, which was given back by worker_free, no longer is. */
	void *owner;
	void (*closed)(void *owner);
} worker_events;

/* Write the spec into the folder (made if it is missing, durably) and start a supervisor. EXISTS if one is alive. On any error nothing runs,
 * and nothing is on the loop but what `closed` tells of if *out is not NULL. */
int worker_start(uv_loop_t *loop, const char *supervisor, const char *folder, const cJSON *spec, const worker_events *events, worker **out,
	error *err);
/* Watch one that is alive; NOT_FOUND if it is not. */
int worker_adopt(uv_loop_t *loop, const char *folder, const worker_events *events, worker **out, error *err);
/* Ask its supervisor to end it; a supervisor that has just ended is fine. */
int worker_end(const char *folder, error *err);
/* Stop watching; `closed` follows, from the loop or from inside. The worker itself goes on. */
void worker_free(worker *w);

/* An error is no answer: a worker that cannot be looked at is neither alive nor over, and must be neither started nor forgotten. */
int worker_alive(const char *folder, bool *alive, error *err);
/* What its supervisor wrote last; 0 with NULL: it wrote nothing. What it wrote and cannot be understood gives an empty object. To be freed. */
int worker_status(const char *folder, cJSON **out, error *err);
/* The spec that was given; likewise. To be freed with secret_delete. */
int worker_spec(const char *folder, cJSON **out, error *err);

#endif
