/* Agents that end, are killed between any two steps, lose their store, or find that a supervisor died: what a worker did is known, and none
 * ever runs twice.
 *
 * For "any two steps" the calls that make something durable or start something are wrapped by the linker; a forked agent kills itself
 * before the n-th of them, for each n until it gets through.
 */
#include "tests/integration/local_lab.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"

/* ---- steps ---- */

static int steps_left = -1; /* -1: nothing happens */

static int fails_left = -1; /* the n-th step of a statement does nothing and fails */

static void step(void)
{
	if (steps_left > 0 && --steps_left == 0)
		kill(getpid(), SIGKILL);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	step();
	return __real_fsync(fd);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
	step();
	return __real_rename(from, to);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
	step();
	return __real_mkdir(path, mode);
}

int __real_mkfifo(const char *path, mode_t mode);
int __wrap_mkfifo(const char *path, mode_t mode);
int __wrap_mkfifo(const char *path, mode_t mode)
{
	step();
	return __real_mkfifo(path, mode);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
	step();
	return __real_flock(fd, operation);
}

int __real_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags)
{
	step();
	return __real_unlinkat(fd, path, flags);
}

int __real_sqlite3_step(sqlite3_stmt *s);
int __wrap_sqlite3_step(sqlite3_stmt *s);
int __wrap_sqlite3_step(sqlite3_stmt *s)
{
	step();
	if (fails_left > 0 && --fails_left == 0)
		return SQLITE_IOERR;
	return __real_sqlite3_step(s);
}

#define SPAWN_ARGS                                                                                                                         \
	pid_t *pid, const char *path, const posix_spawn_file_actions_t *files, const posix_spawnattr_t *attributes, char *const argv[],        \
		char *const env[]

int __real_posix_spawn(SPAWN_ARGS);
int __wrap_posix_spawn(SPAWN_ARGS);
int __wrap_posix_spawn(SPAWN_ARGS)
{
	step();
	int code = __real_posix_spawn(pid, path, files, attributes, argv, env);
	step();
	return code;
}

/* ---- agents that are killed ---- */

typedef struct agent {
	lab *l;
	int steps;
} agent;

/* A whole life of a pod: made, ended, deleted. */
static int live(void *arg)
{
	agent *a = arg;
	lab *l = a->l;
	steps_left = a->steps;
	lab_start(l);
	lab_run(l, "p", "OnFailure", "echo x >> ../runs", "");
	lab_until_phase(l, "p", "Succeeded");
	lab_delete(l, "p", NULL);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	return 0;
}

static void a_kill_between_any_two_steps_runs_nothing_twice(void **state)
{
	(void)state;
	bool through = false;
	int n = 1;
	for (; !through; n++) {
		lab l;
		lab_init(&l);
		agent a = {&l, n};
		int status = child_end(child_fork(live, &a), 0);
		through = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (!through && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
			fail_msg("step %d: status %d", n, status);
		lab_start(&l);
		/* It goes on, was never begun, or is over. */
		if (lab_pod(&l, "p") != NULL && lab_text(lab_pod(&l, "p"), "metadata.deletionTimestamp")[0] == '\0')
			lab_until_phase(&l, "p", "Succeeded");
		loop_until(&l.loop, lab_pod(&l, "p") == NULL || lab_phase_is(&l, "p", "Succeeded"), 20000);
		if (lab_pod(&l, "p") != NULL)
			lab_delete(&l, "p", NULL);
		loop_until(&l.loop, lab_pod(&l, "p") == NULL, 20000);
		int runs = lab_count(&l, "runs", 'x');
		if (runs == 0) {
			assert_int_equal(lab_run(&l, "p", "OnFailure", "echo x >> ../runs", ""), 0);
			lab_until_phase(&l, "p", "Succeeded");
			runs = lab_count(&l, "runs", 'x');
		}
		if (runs != 1)
			fail_msg("killed before step %d: the worker ran %d times", n, runs);
		lab_fini(&l);
	}
	print_message("killed before each of %d steps\n", n - 2);
	assert_true(n > 50);
}

/* Each step of the store fails once; what was refused is asked for again, as the core does. */
static void a_store_that_fails_is_tried_again(void **state)
{
	(void)state;
	bool through = false;
	int n = 1;
	log_set_level((enum log_level) - 1); /* all of this is said, many times */
	for (; !through; n++) {
		lab l;
		error err = {0};
		lab_init(&l);
		l.config.retry_ms = 20;
		fails_left = n;
		while (lab_try_start(&l, &err) != 0) {
			l.cluster->ops->free(l.cluster);
			loop_fini(&l.loop);
		}
		loop_until(&l.loop, l.synced, 20000);
		lab_put(&l, "a.yaml", "apiVersion: sedna.io/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec: {url: /1, format: pb}\n");
		loop_until(&l.loop, lab_object(&l, "Model", "m") != NULL, 20000);
		while (lab_patch(&l, OBJECT_MODEL, "m", lab_text(lab_object(&l, "Model", "m"), "metadata.resourceVersion"), "{\"x\":1}") != 0)
			continue;
		while ((l.code = lab_run(&l, "p", "OnFailure", "echo x >> ../runs", "")) != 0 && l.code != ERROR_EXISTS)
			continue;
		/* An answer is as good as an event. */
		loop_until(&l.loop, lab_phase_is(&l, "p", "Succeeded"), 20000);
		while (lab_delete(&l, "p", NULL) != 0)
			continue;
		loop_until(&l.loop, lab_pod(&l, "p") == NULL, 20000);
		assert_int_equal(lab_count(&l, "runs", 'x'), 1);
		lab_drop(&l, "a.yaml");
		loop_until(&l.loop, cJSON_IsNull(lab_object(&l, "Model", "m")) || lab_object(&l, "Model", "m") == NULL, 20000);
		through = fails_left > 0;
		fails_left = -1;
		lab_fini(&l);
	}
	log_set_level(LOG_ERROR);
	print_message("each of %d steps of statements failed\n", n - 2);
	assert_true(n > 50);
}

/* The same for the supervisor: whatever is known of the worker in the end, it ran once at most, and nothing of it goes on. */
static void a_supervisor_killed_between_any_two_steps(void **state)
{
	(void)state;
	int n = 1, lost = 0;
	for (bool through = false; !through; n++) {
		lab l;
		char at[16];
		lab_init(&l);
		l.config.supervisor = LAB_KILLED_SUPERVISOR;
		snprintf(at, sizeof at, "%d", n);
		setenv("LAB_KILL_AT", at, 1);
		lab_start(&l);
		assert_int_equal(lab_run(&l, "p", "OnFailure", "echo x >> ../runs", ""), 0);
		loop_until(&l.loop, lab_phase_is(&l, "p", "Succeeded") || lab_phase_is(&l, "p", "Failed"), 20000);
		unsetenv("LAB_KILL_AT");
		through = lab_phase_is(&l, "p", "Succeeded");
		lost += !through;
		char reason[32];
		snprintf(reason, sizeof reason, "%s", lab_text(lab_pod(&l, "p"), "status.reason"));
		if (!through && strcmp(reason, "Lost") != 0 && strcmp(reason, "StartFailed") != 0)
			fail_msg("killed before step %d: %s", n, reason);
		loop_until(&l.loop, lab_processes(&l) == 0, 20000);
		lab_stop(&l);
		lab_start(&l);
		if (!lab_phase_is(&l, "p", through ? "Succeeded" : "Failed"))
			fail_msg("killed before step %d: it was %s, and is %s (%s)", n, through ? "Succeeded" : reason,
				lab_text(lab_pod(&l, "p"), "status.phase"), lab_text(lab_pod(&l, "p"), "status.reason"));
		assert_true(lab_count(&l, "runs", 'x') <= 1);
		assert_int_equal(lab_delete(&l, "p", NULL), 0);
		assert_null(lab_pod(&l, "p"));
		lab_fini(&l);
	}
	print_message("supervisor killed before each of %d steps\n", lost);
	assert_true(lost > 5);
}

static void a_worker_goes_on_without_its_agent(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never", "echo > ../ready; until test -e ../go; do sleep 0.01; done; exit 4", ""), 0);
	assert_int_equal(lab_run(l, "q", "Never", "echo > ../ready2; until test -e ../go2; do sleep 0.01; done", ""), 0);
	loop_until(&l->loop, lab_exists(l, "ready") && lab_exists(l, "ready2") && lab_phase_is(l, "p", "Running"), 20000);
	lab_stop(l);
	assert_true(lab_processes(l) >= 4);
	lab_start(l);
	assert_true(lab_phase_is(l, "p", "Running"));
	lab_stop(l);
	free(folder_file(l->folder, "go", ""));     /* it ends while nobody looks */
	assert_true(lab_wait_processes(l, 3) <= 3); /* q: supervisor, shell, and its sleep now and then */
	lab_start(l);
	lab_until_phase(l, "p", "Failed");
	assert_true(lab_number(lab_pod(l, "p"), "status.containerStatuses.0.state.terminated.exitCode") == 4);
	lab_until_phase(l, "q", "Running");
	free(folder_file(l->folder, "go2", ""));
	lab_until_phase(l, "q", "Succeeded");
}

/* Statuses of pods are not flushed to the disk: after a power failure a row may be as it was when the pod was made. */
static void a_status_that_power_took_back_is_found_again(void **state)
{
	lab *l = *state;
	sqlite3 *db = NULL;
	char *path = mem_printf("%s/cluster.db", l->state);
	assert_int_equal(lab_run(l, "good", "OnFailure", "echo x >> ../runs", ""), 0);
	char *made = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(l->object, "status"));
	assert_int_equal(lab_run(l, "bad", "Never", "echo x >> ../runs; echo words; exit 4", ""), 0);
	assert_int_equal(lab_run(l, "alive", "Never", "echo x >> ../runs; exec sleep 1000", ""), 0);
	lab_until_phase(l, "good", "Succeeded");
	lab_until_phase(l, "bad", "Failed");
	loop_until(&l->loop, lab_phase_is(l, "alive", "Running") && lab_count(l, "runs", 'x') == 3, 20000);
	lab_stop(l);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	char *sql = sqlite3_mprintf("UPDATE objects SET status = %Q WHERE kind = %d", made, (int)OBJECT_POD);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_changes(db), 3);
	sqlite3_free(sql);
	sqlite3_close(db);
	lab_start(l);
	assert_true(lab_phase_is(l, "good", "Succeeded") && lab_phase_is(l, "bad", "Failed") && lab_phase_is(l, "alive", "Running"));
	assert_true(lab_number(lab_pod(l, "bad"), "status.containerStatuses.0.state.terminated.exitCode") == 4);
	assert_string_equal(lab_text(lab_pod(l, "bad"), "status.containerStatuses.0.state.terminated.message"), "words");
	assert_int_equal(lab_delete(l, "alive", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "alive") == NULL, 20000);
	assert_int_equal(lab_count(l, "runs", 'x'), 3);
	cJSON_free(made);
	free(path);
}

static pid_t supervisor_of(const lab *l, const char *pod)
{
	char *path = mem_printf("state/pods/%s/pid", lab_text(lab_pod(l, pod), "metadata.uid"));
	char *text = lab_file(l, path);
	pid_t pid = (pid_t)atoi(text);
	free(text);
	free(path);
	return pid;
}

/* Takes what a living supervisor of this pod has: its lock, and its end of the FIFO. */
static int hold(const lab *l, const char *pod, int *wake)
{
	char *folder = mem_printf("%s/pods/%s", l->state, lab_text(lab_pod(l, pod), "metadata.uid"));
	char *lock_path = mem_printf("%s/lock", folder), *wake_path = mem_printf("%s/wake", folder);
	int lock = open(lock_path, O_RDWR | O_CLOEXEC);
	*wake = open(wake_path, O_RDWR | O_CLOEXEC);
	assert_true(lock >= 0 && *wake >= 0);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	free(wake_path);
	free(lock_path);
	free(folder);
	return lock;
}

static void a_supervisor_that_dies_takes_its_worker_along(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "OnFailure", "echo x >> ../runs; exec sleep 1000", ""), 0);
	loop_until(&l->loop, lab_count(l, "runs", 'x') == 1 && lab_phase_is(l, "p", "Running"), 20000);
	assert_int_equal(kill(supervisor_of(l, "p"), SIGKILL), 0);
	lab_until_phase(l, "p", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "p"), "status.reason"), "Lost");
	loop_until(&l->loop, lab_processes(l) == 0, 20000);
	lab_stop(l);
	/* Even if something of it is still there, as in the instant of its death. */
	int wake = -1, held = hold(l, "p", &wake);
	lab_start(l);
	assert_string_equal(lab_text(lab_pod(l, "p"), "status.phase"), "Failed");
	close(held);
	close(wake);
	assert_int_equal(lab_count(l, "runs", 'x'), 1);
	/* And with no agent there, as when the machine goes down. */
	assert_int_equal(lab_run(l, "q", "OnFailure", "echo y >> ../runs; exec sleep 1000", ""), 0);
	loop_until(&l->loop, lab_count(l, "runs", 'y') == 1 && lab_phase_is(l, "q", "Running"), 20000);
	pid_t pid = supervisor_of(l, "q");
	lab_stop(l);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(lab_wait_processes(l, 0), 0);
	lab_start(l);
	lab_until_phase(l, "q", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "q"), "status.reason"), "Lost");
	assert_int_equal(lab_count(l, "runs", 'y'), 1);
}

static void an_inference_worker_is_started_again(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Always", "echo x >> ../runs; exec sleep 1000", ""), 0);
	loop_until(&l->loop, lab_count(l, "runs", 'x') == 1 && lab_phase_is(l, "p", "Running"), 20000);
	pid_t pid = supervisor_of(l, "p");
	lab_stop(l);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(lab_wait_processes(l, 0), 0);
	lab_start(l);
	loop_until(&l->loop, lab_count(l, "runs", 'x') == 2 && lab_phase_is(l, "p", "Running"), 20000);
	assert_true(lab_number(lab_pod(l, "p"), "status.containerStatuses.0.restartCount") == 1);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
}

static void stopping_can_end_the_workers(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "train", "OnFailure", "trap 'exit 0' TERM; echo > ../ready; while :; do sleep 0.01; done", ""), 0);
	assert_int_equal(lab_run(l, "infer", "Always", "exec sleep 1000", ""), 0);
	loop_until(&l->loop, lab_exists(l, "ready") && lab_phase_is(l, "infer", "Running"), 20000);
	lab_stop(l);
	l->config.stop_workers = true;
	lab_start(l);
	lab_stop(l);
	assert_int_equal(lab_wait_processes(l, 0), 0);
	lab_start(l);
	lab_until_phase(l, "train", "Failed"); /* it did not come to its end, whatever it exited with */
	assert_string_equal(lab_text(lab_pod(l, "train"), "status.reason"), "Stopped");
	lab_until_phase(l, "infer", "Running");
}

static void a_lost_store_does_not_leave_workers_unseen(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never",
						 "trap 'until test -e ../go; do sleep 0.01; done; exit 0' TERM; echo > ../ready; while :; do sleep 0.01; done", ""),
		0);
	assert_int_equal(lab_run(l, "ended", "Never", "true", ""), 0);
	loop_until(&l->loop, lab_exists(l, "ready") && lab_phase_is(l, "p", "Running") && lab_phase_is(l, "ended", "Succeeded"), 20000);
	char *uid = mem_strdup(lab_text(lab_pod(l, "p"), "metadata.uid")), *db = mem_printf("%s/cluster.db", l->state);
	lab_stop(l);
	FILE *f = fopen(db, "r+e");
	assert_non_null(f);
	for (int i = 0; i < 1000; i++)
		fputs("damage", f);
	fclose(f);
	l->epoch = 0; /* lost too; the core takes a higher one if the broker shows one */
	lab_start(l);
	assert_true(lab_exists(l, "state/cluster.db.bad-1"));
	assert_null(lab_pod(l, "ended"));
	assert_string_equal(lab_text(lab_pod(l, "p"), "metadata.uid"), uid);
	assert_string_equal(lab_text(lab_pod(l, "p"), "metadata.labels.l"), "v");
	assert_int_not_equal(strlen(lab_text(lab_pod(l, "p"), "metadata.deletionTimestamp")), 0);
	free(folder_file(l->folder, "go", ""));
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	char *pods = mem_printf("%s/pods", l->state);
	assert_int_equal(rmdir(pods), 0); /* it is empty */
	free(pods);
	free(uid);
	free(db);
}

static int start_and_wait(void *arg)
{
	lab *l = arg;
	error err = {0};
	int code = lab_try_start(l, &err);
	return code == ERROR_EXISTS ? 77 : 1;
}

static void two_agents_of_two_processes(void **state)
{
	lab *l = *state, second;
	second = *l;
	second.objects = NULL;
	second.epoch = 0;
	int status = child_end(child_fork(start_and_wait, &second), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 77);
	/* A worker that goes on does not keep the lock of its agent. */
	assert_int_equal(lab_run(l, "p", "Never", "exec sleep 1000", ""), 0);
	lab_until_phase(l, "p", "Running");
	lab_stop(l);
	lab_start(l);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
}

int main(void)
{
#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, lab_setup_started, lab_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kill_between_any_two_steps_runs_nothing_twice),
		cmocka_unit_test(a_store_that_fails_is_tried_again),
		cmocka_unit_test(a_supervisor_killed_between_any_two_steps),
		LAB_TEST(a_worker_goes_on_without_its_agent),
		LAB_TEST(a_status_that_power_took_back_is_found_again),
		LAB_TEST(a_supervisor_that_dies_takes_its_worker_along),
		LAB_TEST(an_inference_worker_is_started_again),
		LAB_TEST(stopping_can_end_the_workers),
		LAB_TEST(a_lost_store_does_not_leave_workers_unseen),
		LAB_TEST(two_agents_of_two_processes),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
