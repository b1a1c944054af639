/* The watch: a real loop and real files. Nothing here waits for time to pass but for what must happen; a timer ends a test that hangs. */
#include "tests/unit/dataset_kit.h"

#include <sys/stat.h>

#include "edge-agent/dataset/watch.h"

enum { INTERVAL_MS = 30, HANG_MS = 10000 };

typedef struct fixture {
	uv_loop_t loop;
	uv_timer_t hang;
	char *folder, *data, *path;
	watch *watch;
	int calls;
	void (*on_call)(struct fixture *f);
} fixture;

static void on_hang(uv_timer_t *timer)
{
	(void)timer;
	fail_msg("nothing came in %d ms", HANG_MS);
}

static void on_change(void *arg)
{
	fixture *f = arg;
	f->calls++;
	if (f->on_call != NULL)
		f->on_call(f);
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	uv_loop_init(&f->loop);
	uv_timer_init(&f->loop, &f->hang);
	uv_timer_start(&f->hang, on_hang, HANG_MS, 0);
	uv_unref((uv_handle_t *)&f->hang);
	f->folder = unit_folder();
	f->data = mem_printf("%s/data", f->folder);
	f->path = mem_printf("%s/ds.txt", f->data);
	assert_int_equal(mkdir(f->data, 0755), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	watch_free(f->watch);
	uv_close((uv_handle_t *)&f->hang, NULL);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	unit_folder_remove(f->folder);
	free(f->data);
	free(f->path);
	free(f);
	return 0;
}

static void start(fixture *f)
{
	f->watch = watch_new(&f->loop, "", f->path, INTERVAL_MS, on_change, f);
}

/* Until there has been a call after those so far. */
static void await_call(fixture *f)
{
	int before = f->calls;
	while (f->calls == before)
		uv_run(&f->loop, UV_RUN_ONCE);
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

/* Let all that has happened be told, and the pause after it end. */
static void settle(fixture *f)
{
	uint64_t until = uv_now(&f->loop) + 3 * INTERVAL_MS;
	uv_timer_t timer;
	uv_timer_init(&f->loop, &timer);
	uv_timer_start(&timer, on_timer, 3 * INTERVAL_MS, 0);
	while (uv_now(&f->loop) < until)
		uv_run(&f->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void every_kind_of_change_is_told(void **state)
{
	fixture *f = *state;
	start(f);
	assert_true(watch_armed(f->watch));
	kit_append(f->path, "a\n"); /* made */
	await_call(f);
	settle(f);
	kit_append(f->path, "b\n");
	await_call(f);
	settle(f);
	kit_rewrite(f->path, "");
	await_call(f);
	settle(f);
	kit_replace(f->path, "c\n", 2);
	await_call(f);
	settle(f);
	kit_append(f->path, "d\n"); /* to the new one */
	await_call(f);
	settle(f);
	assert_int_equal(unlink(f->path), 0);
	await_call(f);
}

static void other_files_are_not(void **state)
{
	fixture *f = *state;
	char *other = mem_printf("%s/other", f->data);
	start(f);
	kit_append(other, "a\n");
	settle(f);
	assert_int_equal(f->calls, 0);
	free(other);
}

/* Each call brings a further change, as an appender that never rests does. */
static void append_again(fixture *f)
{
	if (f->calls < 5) {
		for (int i = 0; i < 20; i++)
			kit_append(f->path, "x\n");
	}
}

static void constant_changes_are_told_once_an_interval(void **state)
{
	fixture *f = *state;
	start(f);
	f->on_call = append_again;
	kit_append(f->path, "a\n");
	await_call(f);
	uint64_t first = uv_now(&f->loop);
	while (f->calls < 5)
		uv_run(&f->loop, UV_RUN_ONCE);
	assert_true(uv_now(&f->loop) - first >= 4 * INTERVAL_MS);
	settle(f);
	assert_int_equal(f->calls, 5);
	/* At rest nothing is left that would wake the loop but the watch itself. */
	assert_int_equal(uv_backend_timeout(&f->loop) > HANG_MS / 2, 1);
}

static void folder_that_comes_later(void **state)
{
	fixture *f = *state;
	assert_int_equal(rmdir(f->data), 0);
	start(f);
	assert_false(watch_armed(f->watch));
	assert_false(watch_rearm(f->watch));
	assert_int_equal(mkdir(f->data, 0755), 0);
	assert_true(watch_rearm(f->watch));
	assert_true(watch_rearm(f->watch));
	kit_append(f->path, "a\n");
	await_call(f);
}

static void folder_that_is_replaced(void **state)
{
	fixture *f = *state;
	char *away = mem_printf("%s/away", f->folder);
	start(f);
	/* Moved away, and another put there: that alone is told, and the new one watched. */
	assert_int_equal(rename(f->data, away), 0);
	assert_int_equal(mkdir(f->data, 0755), 0);
	await_call(f);
	settle(f);
	kit_append(f->path, "a\n");
	await_call(f);
	settle(f);
	assert_int_equal(unlink(f->path), 0);
	await_call(f);
	settle(f);
	/* Removed: told, and not watched until it is back. */
	assert_int_equal(rmdir(f->data), 0);
	await_call(f);
	assert_false(watch_armed(f->watch));
	assert_int_equal(mkdir(f->data, 0755), 0);
	assert_true(watch_rearm(f->watch));
	settle(f);
	kit_append(f->path, "b\n");
	await_call(f);
	free(away);
}

static void link_is_followed(void **state)
{
	fixture *f = *state;
	char *real = mem_printf("%s/real.txt", f->folder);
	kit_append(real, "a\n");
	assert_int_equal(symlink("../real.txt", f->path), 0);
	start(f);
	kit_append(real, "b\n");
	await_call(f);
	free(real);
}

static void free_me(fixture *f)
{
	watch_free(f->watch);
	f->watch = NULL;
}

static void may_be_freed_when_called(void **state)
{
	fixture *f = *state;
	start(f);
	f->on_call = free_me;
	kit_append(f->path, "a\n");
	await_call(f);
	kit_append(f->path, "b\n");
	settle(f);
	assert_int_equal(f->calls, 1);
}

int main(void)
{
	mem_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_kind_of_change_is_told),
		TEST(other_files_are_not),
		TEST(constant_changes_are_told_once_an_interval),
		TEST(folder_that_comes_later),
		TEST(folder_that_is_replaced),
		TEST(link_is_followed),
		TEST(may_be_freed_when_called),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
