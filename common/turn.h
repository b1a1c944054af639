/* The turn of an agent: whatever happens is fed to its core, then `act` does all that the core asks for, until it asks for nothing; and again
 * when the core wants to be woken. Nothing here decides anything, and an agent has no other reason to act.
 *
 * Turns do not nest: what happens while one runs (an action that is answered at once) makes it go round once more. Before turn_begin and
 * after turn_end nothing is done. Loop thread.
 */
#ifndef COMMON_TURN_H
#define COMMON_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct turn {
	void *ctx;
	void (*act)(void *ctx);     /* do what there is to do now */
	int64_t (*wake)(void *ctx); /* when there will be more: monotonic milliseconds, or MOMENT_NEVER */
	/* The turn's own. */
	uv_timer_t timer;
	bool open, running, again;
} turn;

void turn_init(turn *t, uv_loop_t *loop, void (*act)(void *ctx), int64_t (*wake)(void *ctx), void *ctx);
/* All that the core needs is there: the first turn. */
void turn_begin(turn *t);
/* Something has happened. */
void turn_go(turn *t);
/* Lets go of the loop, which has to run once more before the memory is freed. Once. */
void turn_end(turn *t);

#endif
