/* The turn: what happens before, during and after one, and coming back by the clock. */
#include "tests/unit/unit.h"

#include "common/clock.h"
#include "common/turn.h"

typedef struct fixture {
	uv_loop_t loop;
	turn turn;
	int acts, depth, deepest;
	int again;       /* so many turns find that something has happened meanwhile */
	bool end_in_act; /* the next one stops the agent */
	int64_t wake_at; /* once */
} fixture;

static void act(void *ctx)
{
	fixture *f = ctx;

	f->acts++;
	f->depth++;
	if (f->depth > f->deepest)
		f->deepest = f->depth;
	if (f->again > 0) {
		f->again--;
		turn_go(&f->turn);
	}
	if (f->end_in_act)
		turn_end(&f->turn);
	f->depth--;
}

static int64_t wake(void *ctx)
{
	fixture *f = ctx;
	int64_t at = f->wake_at;

	f->wake_at = MOMENT_NEVER;
	return at;
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);

	uv_loop_init(&f->loop);
	f->wake_at = MOMENT_NEVER;
	turn_init(&f->turn, &f->loop, act, wake, f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	int left;

	if (!uv_is_closing((uv_handle_t *)&f->turn.timer))
		turn_end(&f->turn);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	left = uv_loop_close(&f->loop);
	free(f);
	return left;
}

static void nothing_before_it_begins(void **state)
{
	fixture *f = *state;

	turn_go(&f->turn);
	assert_int_equal(f->acts, 0);
	turn_begin(&f->turn);
	assert_int_equal(f->acts, 1);
	turn_go(&f->turn);
	assert_int_equal(f->acts, 2);
}

static void round_again_instead_of_deeper(void **state)
{
	fixture *f = *state;

	f->again = 3;
	turn_begin(&f->turn);
	assert_int_equal(f->acts, 4);
	assert_int_equal(f->deepest, 1);
	assert_int_equal(uv_run(&f->loop, UV_RUN_NOWAIT), 0); /* and then it rests */
}

static void comes_back_in_time(void **state)
{
	fixture *f = *state;
	int64_t due = clock_now().mono_ms + 3;

	f->wake_at = due;
	turn_begin(&f->turn);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->acts, 2);
	assert_true(clock_now().mono_ms >= due);
	f->wake_at = due; /* gone by: at once */
	turn_go(&f->turn);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->acts, 4);
}

static void a_turn_puts_off_what_was_planned(void **state)
{
	fixture *f = *state;

	f->wake_at = clock_now().mono_ms + 3;
	turn_begin(&f->turn);
	turn_go(&f->turn); /* there is nothing left to wait for */
	assert_int_equal(uv_run(&f->loop, UV_RUN_NOWAIT), 0);
	assert_int_equal(f->acts, 2);
}

static void nothing_after_it_has_ended(void **state)
{
	fixture *f = *state;

	f->again = 1;
	f->end_in_act = true;
	f->wake_at = clock_now().mono_ms;
	turn_begin(&f->turn);
	turn_go(&f->turn);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->acts, 1);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(nothing_before_it_begins),
		WITH(round_again_instead_of_deeper),
		WITH(comes_back_in_time),
		WITH(a_turn_puts_off_what_was_planned),
		WITH(nothing_after_it_has_ended),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
