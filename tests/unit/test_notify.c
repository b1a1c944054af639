/* What a service manager hears: a real socket of ours stands for its own. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/log.h"
#include "common/notify.h"

typedef struct fixture {
	uv_loop_t loop;
	char *folder;
	int manager; /* the manager's end */
	notify *notify;
} fixture;

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);

	log_init("test", LOG_ERROR);
	uv_loop_init(&f->loop);
	f->folder = unit_folder();
	f->manager = -1;
	*state = f;
	return 0;
}

static void leave(fixture *f)
{
	notify_free(f->notify);
	f->notify = NULL;
	uv_run(&f->loop, UV_RUN_DEFAULT);
}

static int teardown(void **state)
{
	fixture *f = *state;

	leave(f);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	if (f->manager >= 0)
		close(f->manager);
	unit_folder_remove(f->folder);
	free(f);
	return 0;
}

/* Listens at `name`, "@…" or a path, and says so in the environment as the manager does. */
static void listen_at(fixture *f, const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t len = strlen(name);

	assert_true(len < sizeof at.sun_path);
	memcpy(at.sun_path, name, len);
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	f->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(f->manager >= 0);
	assert_int_equal(bind(f->manager, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
	setenv("NOTIFY_SOCKET", name, 1);
}

static void listen_here(fixture *f)
{
	char *path = mem_printf("%s/manager", f->folder);

	listen_at(f, path);
	free(path);
}

/* The next message; "" if there is none. */
static const char *heard(fixture *f)
{
	static char text[2048];
	ssize_t n = recv(f->manager, text, sizeof text - 1, 0);

	assert_true(n >= 0 || errno == EAGAIN);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void on_limit(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

/* Runs the loop for a while, as one does that has other things to wait for. */
static void run_for(fixture *f, uint64_t ms)
{
	uv_timer_t limit;

	uv_timer_init(&f->loop, &limit);
	uv_timer_start(&limit, on_limit, ms, 0);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&limit, NULL);
	uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void count_handle(uv_handle_t *handle, void *n)
{
	(void)handle;
	++*(int *)n;
}

static void take_repeat(uv_handle_t *handle, void *ms)
{
	if (handle->type == UV_TIMER)
		*(uint64_t *)ms = uv_timer_get_repeat((uv_timer_t *)handle);
}

/* Of the only timer there is. */
static uint64_t interval_ms(fixture *f)
{
	uint64_t ms = 0;

	uv_walk(&f->loop, take_repeat, &ms);
	return ms;
}

static int handles(fixture *f)
{
	int n = 0;

	uv_walk(&f->loop, count_handle, &n);
	return n;
}

static void story(fixture *f)
{
	f->notify = notify_new(&f->loop);
	notify_ready(f->notify);
	notify_status(f->notify, "connecting to mqtt://a");
	notify_status(f->notify, "connected to mqtt://a");
	notify_stopping(f->notify);
}

static void check_story(fixture *f)
{
	assert_string_equal(heard(f), "READY=1");
	assert_string_equal(heard(f), "STATUS=connecting to mqtt://a");
	assert_string_equal(heard(f), "STATUS=connected to mqtt://a");
	assert_string_equal(heard(f), "STOPPING=1");
	assert_string_equal(heard(f), "");
}

static void test_story_by_path(void **state)
{
	fixture *f = *state;

	listen_here(f);
	story(f);
	check_story(f);
	assert_int_equal(handles(f), 0);
}

static void test_story_by_abstract_name(void **state)
{
	fixture *f = *state;
	char *name = mem_printf("@ilmare-test-%ld", (long)getpid());

	listen_at(f, name);
	free(name);
	story(f);
	check_story(f);
}

static void test_children_do_not_inherit_it(void **state)
{
	fixture *f = *state;

	listen_here(f);
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	f->notify = notify_new(&f->loop);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
}

static void test_the_same_status_is_said_once(void **state)
{
	fixture *f = *state;
	char *longer = mem_alloc(4000);

	listen_here(f);
	f->notify = notify_new(&f->loop);
	notify_status(f->notify, "a\nREADY=1\tb");
	notify_status(f->notify, "a\nREADY=1\tb");
	assert_string_equal(heard(f), "STATUS=a READY=1 b");
	assert_string_equal(heard(f), "");
	memset(longer, 'x', 3999);
	notify_status(f->notify, longer);
	notify_status(f->notify, longer);
	assert_in_range(strlen(heard(f)), 500, 1000);
	assert_string_equal(heard(f), "");
	free(longer);
}

/* A manager takes no status that is not UTF-8. */
static void test_a_long_status_is_cut_between_characters(void **state)
{
	fixture *f = *state;

	listen_here(f);
	f->notify = notify_new(&f->loop);
	for (int shift = 0; shift < 4; shift++) {
		buf longer = {0};
		const char *said;

		buf_printf(&longer, "%.*s", shift, "xxx");
		while (longer.len < 1000)
			buf_puts(&longer, "\xf0\x9f\x8d\x80");
		notify_status(f->notify, buf_text(&longer));
		said = heard(f);
		assert_in_range(strlen(said), 500, 1000);
		assert_true(json_utf8_valid(said, strlen(said)));
		notify_status(f->notify, buf_text(&longer));
		assert_string_equal(heard(f), "");
		buf_fini(&longer);
	}
	notify_status(f->notify, "a strange file: \xff\xc3");
	assert_string_equal(heard(f),
		"STATUS=a strange file: ?"
		"?");
}

/* READY first; then a sign at each half of the time, and none while the loop does not run. */
static void test_signs_of_life(void **state)
{
	fixture *f = *state;
	char pid[20];
	int n = 0;

	listen_here(f);
	snprintf(pid, sizeof pid, "%ld", (long)getpid());
	setenv("WATCHDOG_USEC", "40000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	f->notify = notify_new(&f->loop);
	run_for(f, 30);
	assert_string_equal(heard(f), "");
	notify_ready(f->notify);
	assert_string_equal(heard(f), "READY=1");
	assert_int_equal(interval_ms(f), 20);
	run_for(f, 110);
	while (strcmp(heard(f), "WATCHDOG=1") == 0)
		n++;
	assert_in_range(n, 1, 6);
	/* A loop that does not come round. */
	usleep(50000);
	assert_string_equal(heard(f), "");
	/* It alone keeps no loop going. */
	assert_int_equal(uv_loop_alive(&f->loop), 0);
}

static void check_no_signs(fixture *f)
{
	f->notify = notify_new(&f->loop);
	notify_ready(f->notify);
	assert_int_equal(handles(f), 0);
	leave(f);
}

static void test_no_signs_unless_they_are_asked_of_us(void **state)
{
	static const char *const none[] = {"", "0", "-5", "x", "10x", "99999999999999999999999"};
	fixture *f = *state;

	listen_here(f);
	char *name = mem_strdup(getenv("NOTIFY_SOCKET"));
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		setenv("NOTIFY_SOCKET", name, 1);
		setenv("WATCHDOG_USEC", none[i], 1);
		check_no_signs(f);
		assert_string_equal(heard(f), "READY=1");
	}
	free(name);
}

static void test_no_signs_in_another_processs_name(void **state)
{
	fixture *f = *state;

	listen_here(f);
	setenv("WATCHDOG_USEC", "40000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	check_no_signs(f);
	assert_string_equal(heard(f), "READY=1");
}

static void test_nobody_asks(void **state)
{
	fixture *f = *state;

	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "40000", 1);
	story(f);
	assert_int_equal(handles(f), 0);
}

static void test_addresses_that_are_none(void **state)
{
	fixture *f = *state;
	char longer[200];

	memset(longer, 'x', sizeof longer - 1);
	longer[0] = '/';
	longer[sizeof longer - 1] = '\0';
	const char *const none[] = {"", "/", "@", "relative", "vsock:2:1234", longer};
	log_init("test", LOG_ERROR);
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		setenv("NOTIFY_SOCKET", none[i], 1);
		story(f);
		assert_int_equal(handles(f), 0);
		leave(f);
	}
}

/* It is no reason to stop, nor to wait for long. */
static void test_a_manager_that_is_gone_or_reads_nothing(void **state)
{
	fixture *f = *state;
	char text[20];
	uint64_t begin;

	listen_here(f);
	f->notify = notify_new(&f->loop);
	begin = uv_hrtime();
	for (int i = 0; i < 1000 && uv_hrtime() - begin < UINT64_C(300000000); i++) {
		snprintf(text, sizeof text, "%d", i);
		notify_status(f->notify, text);
	}
	assert_in_range((uv_hrtime() - begin) / 1000000, 0, 2000);
	close(f->manager);
	f->manager = -1;
	notify_stopping(f->notify);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_story_by_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_story_by_abstract_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_children_do_not_inherit_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_same_status_is_said_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_long_status_is_cut_between_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signs_of_life, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_signs_unless_they_are_asked_of_us, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_signs_in_another_processs_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_asks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_addresses_that_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_manager_that_is_gone_or_reads_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
