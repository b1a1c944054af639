/* Pods of the local backend as real processes: how they run, end, are ended, and what their statuses say. */
#include "tests/integration/local_lab.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"

#define STATE "status.containerStatuses.0.state."
#define LAST "status.containerStatuses.0.lastState."

static void a_worker_succeeds(void **state)
{
	lab *l = *state;
	assert_int_equal(
		lab_create(l, "p",
			"{\"metadata\":{\"name\":\"p\",\"labels\":{\"l\":\"v\"},\"ownerReferences\":[{\"uid\":\"o\",\"name\":\"j\"}]},\"spec\":{"
			"\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[\"/bin/sh\",\"-c\",\"pwd; echo "
			"$A $1 $HOME; echo err >&2; env > ../env; ls /proc/self/fd > ../fds\",\"sh\"],\"args\":[\"$(A)x\"],\"env\":[{\"name\":"
			"\"A\",\"value\":\"1\"},{\"name\":\"DATA_PATH_PREFIX\",\"value\":\"\"}]}]}}"),
		0);
	assert_string_equal(lab_text(l->object, "status.phase"), "Pending");
	assert_string_equal(lab_text(l->object, "metadata.labels.l"), "v");
	assert_string_equal(lab_text(l->object, "metadata.ownerReferences.0.uid"), "o");
	lab_until_phase(l, "p", "Succeeded");
	const cJSON *pod = lab_pod(l, "p");
	assert_true(lab_number(pod, STATE "terminated.exitCode") == 0);
	assert_string_equal(lab_text(pod, STATE "terminated.reason"), "Completed");
	assert_int_equal(strlen(lab_text(pod, STATE "terminated.finishedAt")), 20);
	assert_true(lab_number(pod, "status.containerStatuses.0.restartCount") == 0);
	char *log = lab_file(l, "state/logs/default_p.log"), *env = lab_file(l, "env"), *fds = lab_file(l, "fds");
	char *wanted = mem_printf("%s\n1 1x %s\nerr\n", l->manifests, getenv("HOME"));
	assert_string_equal(log, wanted);
	assert_non_null(strstr(env, "DATA_PATH_PREFIX=\n"));
	assert_null(strstr(env, "TMPDIR"));       /* nothing of the agent's own */
	assert_string_equal(fds, "0\n1\n2\n3\n"); /* 3 is the folder that ls reads */
	free(wanted);
	free(log);
	free(env);
	free(fds);
}

static void a_worker_fails_and_says_its_last_words(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never", "echo first; printf 'bad \\377 thing\\n'; exit 3", ""), 0);
	lab_until_phase(l, "p", "Failed");
	const cJSON *pod = lab_pod(l, "p");
	assert_true(lab_number(pod, STATE "terminated.exitCode") == 3);
	assert_string_equal(lab_text(pod, STATE "terminated.reason"), "Error");
	assert_string_equal(lab_text(pod, STATE "terminated.message"), "first\nbad ? thing");
	assert_int_equal(lab_run(l, "q", "Never", "kill -KILL $$$$", ""), 0);
	lab_until_phase(l, "q", "Failed");
	assert_true(lab_number(lab_pod(l, "q"), STATE "terminated.signal") == 9);
	assert_true(lab_number(lab_pod(l, "q"), STATE "terminated.exitCode") == 137);
}

static void on_failure_runs_again_with_back_off(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "OnFailure", "echo x >> ../runs; echo last words; test $(wc -l < ../runs) -ge 3", ""), 0);
	loop_until(&l->loop, strcmp(lab_text(lab_pod(l, "p"), STATE "waiting.reason"), "CrashLoopBackOff") == 0, 20000);
	assert_true(lab_phase_is(l, "p", "Running"));
	assert_string_equal(lab_text(lab_pod(l, "p"), LAST "terminated.message"), "last words");
	lab_until_phase(l, "p", "Succeeded");
	assert_true(lab_number(lab_pod(l, "p"), "status.containerStatuses.0.restartCount") == 2);
	assert_int_equal(lab_count(l, "runs", 'x'), 3);
}

static void always_runs_again_after_success(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Always", "echo x >> ../runs", ""), 0);
	loop_until(&l->loop, lab_number(lab_pod(l, "p"), "status.containerStatuses.0.restartCount") >= 2, 20000);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
}

/* What the agent logs from here on goes to a file, which is given back and read at the end. */
static int log_to_file(const lab *l)
{
	char *path = mem_printf("%s/agent.log", l->folder);
	int before = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(before >= 0 && file >= 0);
	dup2(file, STDERR_FILENO);
	close(file);
	log_set_level(LOG_INFO);
	free(path);
	return before;
}

static char *log_back(const lab *l, int before)
{
	dup2(before, STDERR_FILENO);
	close(before);
	log_set_level(LOG_ERROR);
	return lab_file(l, "agent.log");
}

static int count_of(const char *text, const char *part)
{
	int n = 0;
	for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
		n++;
	return n;
}

static void each_restart_is_logged(void **state)
{
	lab *l = *state;
	int before = log_to_file(l);
	assert_int_equal(lab_run(l, "p", "OnFailure", "echo x >> ../runs; test $(wc -l < ../runs) -ge 3 || exit 7", ""), 0);
	lab_until_phase(l, "p", "Succeeded");
	assert_int_equal(lab_run(l, "i", "Always", "echo y >> ../runs; test $(wc -l < ../runs) -ge 5 || exit 0; exec sleep 1000", ""), 0);
	loop_until(&l->loop, lab_number(lab_pod(l, "i"), "status.containerStatuses.0.restartCount") == 1, 20000);
	assert_true(lab_number(lab_pod(l, "i"), LAST "terminated.exitCode") == 0);
	char *log = log_back(l, before);
	char *first =
		mem_printf("warn  local: worker ended, starts again pod=p exit=7 restarts=0 in_ms=50 log=%s/logs/default_p.log\n", l->state);
	char *second =
		mem_printf("warn  local: worker ended, starts again pod=p exit=7 restarts=1 in_ms=100 log=%s/logs/default_p.log\n", l->state);
	char *third =
		mem_printf("warn  local: worker ended, starts again pod=i exit=0 restarts=0 in_ms=50 log=%s/logs/default_i.log\n", l->state);
	assert_int_equal(count_of(log, first), 1);
	assert_int_equal(count_of(log, second), 1);
	assert_int_equal(count_of(log, third), 1);
	assert_int_equal(count_of(log, "starts again"), 3);
	assert_int_equal(lab_delete(l, "i", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "i") == NULL, 20000);
	free(first);
	free(second);
	free(third);
	free(log);
}

static void a_replaced_worker_is_not_logged_as_failed(void **state)
{
	lab *l = *state;
	int before = log_to_file(l);
	assert_int_equal(lab_run(l, "p", "Always", "trap 'exit 0' TERM; echo > ../ready; while :; do sleep 0.01; done", ""), 0);
	loop_until(&l->loop, lab_exists(l, "ready") && lab_phase_is(l, "p", "Running"), 20000);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	char *log = log_back(l, before);
	assert_int_equal(count_of(log, "info  local: worker ended as it was asked to pod=p exit=0\n"), 1);
	assert_int_equal(count_of(log, "Failed"), 0);
	free(log);
}

static void a_command_that_is_not_there(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_create(l, "p", "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"command\":[\"no-such-program\"]}]}}"),
		0);
	lab_until_phase(l, "p", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "p"), STATE "terminated.reason"), "StartError");
	assert_string_equal(lab_text(lab_pod(l, "p"), STATE "terminated.message"),
		"cannot run the command no-such-program: No such file or directory");
	assert_int_equal(lab_create(l, "q",
						 "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"command\":[\"true\"],\"workingDir\":\"/nowhere\"}]}}"),
		0);
	lab_until_phase(l, "q", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "q"), STATE "terminated.message"),
		"cannot enter the working folder /nowhere: No such file or directory");
}

static void a_template_that_cannot_run_is_a_failed_pod(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_create(l, "p", "{\"spec\":{\"containers\":[{\"args\":[\"x\"]}]}}"), 0);
	assert_string_equal(lab_text(l->object, "status.phase"), "Failed");
	assert_string_equal(lab_text(l->object, "status.reason"), "UnsupportedTemplate");
	assert_non_null(strstr(lab_text(l->object, "status.message"), "command is needed"));
	assert_int_equal(lab_delete(l, "p", lab_text(l->object, "metadata.uid")), 0);
	assert_null(lab_pod(l, "p"));
}

static void names_and_uids_are_guarded(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never", "exec sleep 1000", ""), 0);
	lab_until_phase(l, "p", "Running");
	char *uid = mem_strdup(lab_text(lab_pod(l, "p"), "metadata.uid"));
	assert_int_equal(lab_run(l, "p", "Never", "echo x >> ../second", ""), ERROR_EXISTS);
	assert_string_equal(lab_text(l->object, "metadata.uid"), uid);
	assert_int_equal(lab_delete(l, "p", "another"), ERROR_CONFLICT);
	assert_string_equal(lab_text(l->object, "metadata.uid"), uid);
	assert_int_equal(lab_delete(l, "q", "any"), ERROR_NOT_FOUND);
	assert_int_equal(lab_delete(l, "p", uid), 0);
	assert_int_equal(lab_delete(l, "p", uid), 0); /* again, while it ends */
	assert_int_not_equal(strlen(lab_text(lab_pod(l, "p"), "metadata.deletionTimestamp")), 0);
	assert_int_equal(lab_run(l, "p", "Never", "echo x >> ../second", ""), ERROR_EXISTS); /* Terminating counts */
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	assert_int_equal(lab_run(l, "p", "Never", "true", ""), 0);
	assert_string_not_equal(lab_text(l->object, "metadata.uid"), uid);
	lab_until_phase(l, "p", "Succeeded");
	assert_false(lab_exists(l, "second"));
	free(uid);
}

static void deleting_asks_first(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Always", "trap 'echo asked > ../asked; exit 0' TERM; echo > ../ready; while :; do sleep 0.01; done",
						 ""),
		0);
	loop_until(&l->loop, lab_exists(l, "ready"), 20000);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	assert_true(lab_exists(l, "asked"));
	assert_int_equal(lab_wait_processes(l, 0), 0);
	char *pods = mem_printf("%s/pods", l->state);
	assert_int_equal(rmdir(pods), 0); /* it is empty */
	free(pods);
}

/* One that does not listen, and children in sessions of their own that listen even less. */
static void deleting_ends_everything(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never",
						 "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; echo > ../deep; sleep 1000; sleep 1000' &) ; "
						 "(sleep 1000 &); echo > ../ready; while :; do sleep 1000; done",
						 ",\"terminationGracePeriodSeconds\":0"),
		0);
	loop_until(&l->loop, lab_exists(l, "ready") && lab_exists(l, "deep"), 20000);
	assert_true(lab_processes(l) >= 4);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	assert_int_equal(lab_wait_processes(l, 0), 0);
}

static void what_a_worker_leaves_behind_ends_with_it(void **state)
{
	lab *l = *state;
	assert_int_equal(lab_run(l, "p", "Never", "setsid sh -c 'echo > ../deep; exec sleep 1000' & until test -e ../deep; do :; done; exit 0",
						 ""),
		0);
	lab_until_phase(l, "p", "Succeeded");
	loop_until(&l->loop, lab_processes(l) == 0, 20000);
}

static void a_log_is_bounded(void **state)
{
	lab *l = *state;
	lab_stop(l);
	l->config.worker_log_max = 100000;
	lab_start(l);
	assert_int_equal(lab_run(l, "p", "Never", "seq 1 100000", ""), 0); /* 588,895 bytes */
	lab_until_phase(l, "p", "Succeeded");
	char *log = lab_file(l, "state/logs/default_p.log"), *older = lab_file(l, "state/logs/default_p.log.1");
	assert_true(strlen(log) <= 100000 && strlen(log) > 0);
	assert_int_equal(strlen(older), 100000);
	assert_string_equal(log + strlen(log) - 14, "\n99999\n100000\n");
	free(log);
	free(older);
}

static void old_logs_go(void **state)
{
	lab *l = *state;
	lab_stop(l);
	l->config.logs_max = 2;
	lab_start(l);
	const char *names[] = {"a", "b", "c", "d"};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(lab_run(l, names[i], "Never", "echo", ""), 0);
		lab_until_phase(l, names[i], "Succeeded");
		if (i > 0 && i < 3)
			assert_int_equal(lab_delete(l, names[i], NULL), 0);
	}
	assert_true(lab_exists(l, "state/logs/default_a.log")); /* its pod is there */
	assert_false(lab_exists(l, "state/logs/default_b.log"));
	assert_true(lab_exists(l, "state/logs/default_c.log"));
	assert_true(lab_exists(l, "state/logs/default_d.log"));
}

static void credentials_reach_the_worker_alone(void **state)
{
	lab *l = *state;
	static const char pod[] = "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"command\":[\"sh\",\"-c\",\"echo $K > ../k; sleep "
							  "1000\"],\"env\":[{\"name\":\"K\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"KEY\"}}}]}]}}";
	assert_int_equal(lab_create(l, "early", pod), 0);
	assert_string_equal(lab_text(l->object, "status.message"), "env K: there is no Secret default/s");
	lab_put(l, "s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {KEY: very-hidden-value}\n");
	loop_until(&l->loop, lab_object(l, "Secret", "s") != NULL, 20000);
	char *told = cJSON_PrintUnformatted(lab_object(l, "Secret", "s"));
	assert_null(strstr(told, "very-hidden"));
	cJSON_free(told);
	assert_int_equal(lab_create(l, "p", pod), 0);
	loop_until(&l->loop, lab_count(l, "k", '\n') == 1, 20000);
	char *k = lab_file(l, "k");
	assert_string_equal(k, "very-hidden-value\n");
	free(k);
	char *command = mem_printf("grep -rl very-hidden-value %s | grep -v '/spec.json$'", l->state);
	assert_int_not_equal(system(command), 0); /* nowhere but in the worker's own spec */
	free(command);
	char *spec = mem_printf("%s/pods/%s/spec.json", l->state, lab_text(lab_pod(l, "p"), "metadata.uid")),
		 *pods = mem_printf("%s/pods", l->state);
	struct stat st;
	assert_int_equal(stat(spec, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(pods, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	free(spec);
	free(pods);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
}

static void it_is_quick(void **state)
{
	lab *l = *state;
	uint64_t worst = 0;
	for (int i = 0; i < 10; i++) {
		char *name = mem_printf("p%d", i);
		uint64_t begin = uv_hrtime();
		assert_int_equal(lab_run(l, name, "Never", "exit 0", ""), 0);
		lab_until_phase(l, name, "Succeeded");
		uint64_t took = uv_hrtime() - begin;
		worst = took > worst ? took : worst;
		free(name);
	}
	print_message("created to Succeeded, the worst of 10: %.1f ms\n", (double)worst / 1e6);
	/* Asked for nothing, it does nothing. */
	int told = l->told;
	loop_for(&l->loop, 300);
	assert_int_equal(l->told, told);
}

int main(void)
{
#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, lab_setup_started, lab_teardown)
	const struct CMUnitTest tests[] = {
		LAB_TEST(a_worker_succeeds),
		LAB_TEST(a_worker_fails_and_says_its_last_words),
		LAB_TEST(on_failure_runs_again_with_back_off),
		LAB_TEST(always_runs_again_after_success),
		LAB_TEST(each_restart_is_logged),
		LAB_TEST(a_replaced_worker_is_not_logged_as_failed),
		LAB_TEST(a_command_that_is_not_there),
		LAB_TEST(a_template_that_cannot_run_is_a_failed_pod),
		LAB_TEST(names_and_uids_are_guarded),
		LAB_TEST(deleting_asks_first),
		LAB_TEST(deleting_ends_everything),
		LAB_TEST(what_a_worker_leaves_behind_ends_with_it),
		LAB_TEST(a_log_is_bounded),
		LAB_TEST(old_logs_go),
		LAB_TEST(credentials_reach_the_worker_alone),
		LAB_TEST(it_is_quick),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	setenv("HOME", "/root", 0);
	setenv("TMPDIR", "/tmp", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
