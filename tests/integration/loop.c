/* Loops in tests: see loop.h. */
#include "tests/integration/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/mem.h"

/* A turn runs its timers before it waits: without a tick the wait would hide what a timer has done. */
enum { TICK_MS = 20 };

static void on_tick(uv_timer_t *timer)
{
	struct loop_deadline *d = timer->data;

	d->passed = uv_now(timer->loop) >= d->end;
}

struct loop_deadline *loop_deadline_new(uv_loop_t *loop, unsigned ms)
{
	struct loop_deadline *d = mem_alloc(sizeof *d);

	uv_update_time(loop);
	uv_timer_init(loop, &d->timer);
	d->timer.data = d;
	d->end = uv_now(loop) + ms;
	uv_timer_start(&d->timer, on_tick, ms < TICK_MS ? ms : TICK_MS, TICK_MS);
	return d;
}

bool loop_turn(uv_loop_t *loop, const struct loop_deadline *d)
{
	if (!d->passed)
		uv_run(loop, UV_RUN_ONCE);
	return !d->passed;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void loop_deadline_free(uv_loop_t *loop, struct loop_deadline *d)
{
	uv_close((uv_handle_t *)&d->timer, on_closed);
	uv_run(loop, UV_RUN_NOWAIT);
}

void loop_too_late(const char *condition, unsigned ms, const char *file, int line)
{
	print_error("%s:%d: not so within %u ms: %s\n", file, line, ms, condition);
	fail();
}

void loop_for(uv_loop_t *loop, unsigned ms)
{
	struct loop_deadline *d = loop_deadline_new(loop, ms);

	while (loop_turn(loop, d))
		continue;
	loop_deadline_free(loop, d);
}

void loop_fini(uv_loop_t *loop)
{
	struct loop_deadline *d = loop_deadline_new(loop, 5000);

	uv_unref((uv_handle_t *)&d->timer);
	while (uv_loop_alive(loop) && loop_turn(loop, d))
		continue;
	loop_deadline_free(loop, d);
	assert_int_equal(uv_loop_close(loop), 0);
}
