/* The local backend when the system refuses one thing after the other: no descriptor is left, the disk is full, a lock cannot be tried, a
 * process cannot be started. For each n the n-th such call fails once; whatever was refused is asked for again, as the core does. In the end
 * every worker ran once, what it did is known, and nothing of it is left.
 */
#include "tests/integration/local_lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"

/* ---- faults ---- */

static int calls_left = -1; /* -1: nothing happens */
static bool held;           /* it is the test itself that calls */

/* At the beginning of a call that may be refused with this errno. */
static bool refused(int errnum)
{
	if (held || calls_left <= 0 || --calls_left > 0)
		return false;
	errno = errnum;
	return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	return refused(EMFILE) ? -1 : __real_open(path, flags, mode);
}

#define REFUSABLE(type, name, failure, errnum, parameters, arguments)                                                                      \
	type __real_##name parameters;                                                                                                         \
	type __wrap_##name parameters;                                                                                                         \
	type __wrap_##name parameters                                                                                                          \
	{                                                                                                                                      \
		return refused(errnum) ? failure : __real_##name arguments;                                                                        \
	}

REFUSABLE(DIR *, opendir, NULL, EMFILE, (const char *path), (path))
REFUSABLE(int, mkostemp, -1, ENOSPC, (char *path, int flags), (path, flags))
REFUSABLE(int, mkdir, -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
REFUSABLE(int, mkfifo, -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
REFUSABLE(int, flock, -1, ENOLCK, (int fd, int operation), (fd, operation))
REFUSABLE(int, fsync, -1, EIO, (int fd), (fd))
REFUSABLE(int, rename, -1, EIO, (const char *from, const char *to), (from, to))
REFUSABLE(int, unlinkat, -1, EIO, (int fd, const char *path, int flags), (fd, path, flags))
REFUSABLE(ssize_t, read, -1, EIO, (int fd, void *data, size_t len), (fd, data, len))
REFUSABLE(ssize_t, write, -1, ENOSPC, (int fd, const void *data, size_t len), (fd, data, len))
REFUSABLE(int, posix_spawn, EAGAIN, EAGAIN,
	(pid_t * pid, const char *path, const posix_spawn_file_actions_t *files, const posix_spawnattr_t *attributes, char *const argv[],
		char *const env[]),
	(pid, path, files, attributes, argv, env))

/* ---- what is done ---- */

static int runs(const lab *l, const char *file)
{
	held = true;
	int n = lab_count(l, file, 'x');
	held = false;
	return n;
}

static void start_at_last(lab *l)
{
	error err = {0};
	while (lab_try_start(l, &err) != 0) {
		assert_true(err.text[0] != '\0');
		l->cluster->ops->free(l->cluster);
		loop_fini(&l->loop);
	}
	loop_until(&l->loop, l->synced, 20000);
}

static void delete_at_last(lab *l, const char *name)
{
	int code;
	while ((code = lab_delete(l, name, NULL)) != 0 && code != ERROR_NOT_FOUND)
		assert_true(l->text[0] != '\0');
	loop_until(&l->loop, lab_pod(l, name) == NULL, 20000);
}

static void run_at_last(lab *l, const char *name, const char *script)
{
	int code;
	while ((code = lab_run(l, name, "OnFailure", script, "")) != 0 && code != ERROR_EXISTS)
		assert_true(l->text[0] != '\0');
}

static bool over(const lab *l, const char *name)
{
	return lab_phase_is(l, name, "Succeeded") || lab_phase_is(l, name, "Failed");
}

static bool folder_empty(const lab *l, const char *path)
{
	char *whole = mem_printf("%s/%s", l->folder, path);
	DIR *dir = opendir(whole);
	const struct dirent *entry;
	int n = 0;
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		n += entry->d_name[0] != '.';
	if (dir != NULL)
		closedir(dir);
	free(whole);
	return n == 0;
}

static void begin(lab *l)
{
	lab_init(l);
	l->config.retry_ms = 20;
}

/* True: the n-th call was never made, there are fewer. */
static bool end(lab *l)
{
	bool through = calls_left > 0;
	calls_left = -1;
	/* What could not be removed is at the next start. */
	lab_stop(l);
	lab_start(l);
	assert_true(folder_empty(l, "state/pods"));
	lab_fini(l);
	return through;
}

/* ---- the cases ---- */

static bool whole_life(int n)
{
	lab l;
	begin(&l);
	calls_left = n;
	start_at_last(&l);
	held = true;
	lab_put(&l, "a.yaml", "apiVersion: sedna.io/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec: {url: /1, format: pb}\n");
	held = false;
	loop_until(&l.loop, lab_object(&l, "Model", "m") != NULL, 20000);
	run_at_last(&l, "p", "echo x >> ../runs");
	loop_until(&l.loop, over(&l, "p"), 20000);
	if (!lab_phase_is(&l, "p", "Succeeded"))
		fail_msg("call %d: what should succeed is %s, %s", n, lab_text(lab_pod(&l, "p"), "status.phase"),
			lab_text(lab_pod(&l, "p"), "status.reason"));
	assert_string_equal(lab_text(lab_pod(&l, "p"), "status.conditions.0.type"), "");
	if (runs(&l, "runs") != 1)
		fail_msg("call %d: the worker ran %d times", n, runs(&l, "runs"));
	delete_at_last(&l, "p");
	return end(&l);
}

static void row_drop(const lab *l, const char *pod)
{
	sqlite3 *db = NULL;
	char *path = mem_printf("%s/cluster.db", l->state);
	char *sql = sqlite3_mprintf("DELETE FROM objects WHERE kind = %d AND name = %Q", (int)OBJECT_POD, pod);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(db), 1);
	sqlite3_free(sql);
	sqlite3_close(db);
	free(path);
}

/* An agent that comes back: one worker ended meanwhile, one goes on, and one has lost its row. */
static bool second_life(int n)
{
	static const char wait[] = "; until test -e ../go; do sleep 0.01; done";
	lab l;
	begin(&l);
	lab_start(&l);
	char *script = mem_printf("echo x >> ../ended%s", wait);
	assert_int_equal(lab_run(&l, "ended", "OnFailure", script, ""), 0);
	free(script);
	assert_int_equal(lab_run(&l, "alive", "OnFailure", "echo x >> ../alive; exec sleep 1000", ""), 0);
	assert_int_equal(lab_run(&l, "stray", "OnFailure", "echo x >> ../stray; exec sleep 1000", ""), 0);
	loop_until(&l.loop, lab_exists(&l, "ended") && lab_exists(&l, "alive") && lab_exists(&l, "stray"), 20000);
	loop_until(&l.loop, lab_phase_is(&l, "alive", "Running") && lab_phase_is(&l, "stray", "Running"), 20000);
	lab_stop(&l);
	row_drop(&l, "stray");
	int before = lab_processes(&l);
	free(folder_file(l.folder, "go", ""));
	lab_wait_processes(&l, before - 2);
	calls_left = n;
	start_at_last(&l);
	loop_until(&l.loop, over(&l, "ended"), 20000);
	if (!lab_phase_is(&l, "ended", "Succeeded"))
		fail_msg("call %d: what succeeded is %s, %s", n, lab_text(lab_pod(&l, "ended"), "status.phase"),
			lab_text(lab_pod(&l, "ended"), "status.reason"));
	if (!lab_phase_is(&l, "alive", "Running"))
		fail_msg("call %d: what runs is %s, %s", n, lab_text(lab_pod(&l, "alive"), "status.phase"),
			lab_text(lab_pod(&l, "alive"), "status.reason"));
	loop_until(&l.loop, lab_pod(&l, "stray") == NULL, 20000);
	delete_at_last(&l, "alive");
	delete_at_last(&l, "ended");
	if (runs(&l, "ended") != 1 || runs(&l, "alive") != 1 || runs(&l, "stray") != 1)
		fail_msg("call %d: ran %d, %d and %d times", n, runs(&l, "ended"), runs(&l, "alive"), runs(&l, "stray"));
	return end(&l);
}

static void every_call(bool (*life)(int n), int at_least)
{
	int n = 1;
	log_set_level((enum log_level) - 1); /* all of this is said, many times */
	while (!life(n))
		n++;
	log_set_level(LOG_ERROR);
	print_message("each of %d calls was refused\n", n - 1);
	assert_true(n > at_least);
}

static void a_whole_life(void **state)
{
	(void)state;
	every_call(whole_life, 50);
}

static void an_agent_that_comes_back(void **state)
{
	(void)state;
	every_call(second_life, 20);
}

int main(void)
{
	mem_init();
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_life),
		cmocka_unit_test(an_agent_that_comes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
