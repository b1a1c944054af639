/* One timer, set anew after each turn: see turn.h. */
#include "common/turn.h"

#include <stddef.h>

#include "common/clock.h"

void turn_init(turn *t, uv_loop_t *loop, void (*act)(void *ctx), int64_t (*wake)(void *ctx), void *ctx)
{
	*t = (turn){.act = act, .wake = wake, .ctx = ctx};
	uv_timer_init(loop, &t->timer);
	t->timer.data = t;
}

static void on_timer(uv_timer_t *timer)
{
	turn_go(timer->data);
}

static void arm(turn *t)
{
	int64_t at = t->wake(t->ctx), now;

	uv_timer_stop(&t->timer);
	if (at == MOMENT_NEVER)
		return;
	now = clock_now().mono_ms;
	uv_update_time(t->timer.loop);
	uv_timer_start(&t->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

void turn_begin(turn *t)
{
	t->open = true;
	turn_go(t);
}

void turn_go(turn *t)
{
	t->again = true;
	if (t->running)
		return;
	t->running = true;
	while (t->open && t->again) {
		t->again = false;
		t->act(t->ctx);
	}
	t->running = false;
	if (t->open)
		arm(t);
}

void turn_end(turn *t)
{
	t->open = false;
	uv_close((uv_handle_t *)&t->timer, NULL);
}
