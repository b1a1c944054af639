/* Remote urls of workers without containers: fetched before the worker starts, by a program that is a script here, and what becomes of the pod
 * when that fails, hangs or is interrupted.
 */
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

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"

#define FETCH "status.initContainerStatuses.0."
#define WORKER "status.containerStatuses.0."

/* $lab: the lab's folder. */
static void fetcher_is(const lab *l, const char *script)
{
	char *text = mem_printf("#!/bin/sh\nlab=%s\necho \"$@\" >> $lab/fetches\n%s\n", l->folder, script);
	assert_int_equal(file_write(l->transfer, text, strlen(text), 0700, NULL), 0);
	free(text);
}

static const char fetches[] = "env > $lab/env; while [ $# -gt 0 ]; do mkdir -p \"$2\"; echo \"of $1\" > \"$2/${1##*/}\"; shift 2; done";

static int run(lab *l, const char *name, const char *policy, const char *script)
{
	char *pod = mem_printf(
		"{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"restartPolicy\":\"%s\",\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"args\":["
		"\"s3://b/m.pb\",\"/downloads/b\",\"https://h:8/d/e.txt\",\"/downloads/h:8/d\"],\"env\":[{\"name\":\"ACCESS_KEY_ID\",\"valueFrom\":"
		"{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"KEY\"}}}]},{\"name\":\"ilmare-fetch-1\",\"args\":[\"s3://c/n.pb\",\"/downloads/c\"]}],"
		"\"containers\":[{\"name\":\"c\",\"command\":[\"/bin/sh\",\"-c\",\"%s\"],\"env\":[{\"name\":\"MODEL_URLS\",\"value\":"
		"\"/downloads/b/m.pb;/downloads/c/n.pb\"},{\"name\":\"ORIGINAL_DATASET_URL\",\"value\":\"/downloads/h:8/d/e.txt\"}]}]}}",
		name, policy, script);
	if (lab_object(l, "Secret", "s") == NULL) {
		lab_put(l, "s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {KEY: very-hidden-value}\n");
		loop_until(&l->loop, lab_object(l, "Secret", "s") != NULL, 20000);
	}
	int code = lab_create(l, name, pod);
	free(pod);
	return code;
}

static void what_is_read_is_there_before_the_worker(void **state)
{
	lab *l = *state;
	fetcher_is(l, fetches);
	assert_int_equal(run(l, "p", "OnFailure",
						 "echo x >> ../runs; echo $MODEL_URLS; echo $ORIGINAL_DATASET_URL $ACCESS_KEY_ID; cat ${MODEL_URLS%;*} "
						 "${MODEL_URLS#*;} $ORIGINAL_DATASET_URL; test $(wc -l < ../runs) -ge 3"),
		0);
	char *folder = mem_printf("%s/pods/%s/downloads", l->state, lab_text(l->object, "metadata.uid"));
	lab_until_phase(l, "p", "Succeeded");
	assert_string_equal(lab_text(lab_pod(l, "p"), FETCH "name"), "");
	assert_true(lab_number(lab_pod(l, "p"), WORKER "restartCount") == 2);
	char *one = mem_printf("%s/b/m.pb;%s/c/n.pb\n%s/h:8/d/e.txt\nof s3://b/m.pb\nof s3://c/n.pb\nof https://h:8/d/e.txt\n", folder, folder,
			 folder),
		 *wanted = mem_printf("%s%s%s", one, one, one), *log = lab_file(l, "state/logs/default_p.log");
	assert_string_equal(log, wanted);
	free(one);
	free(wanted);
	free(log);
	/* Once, though the worker ran three times; the Secret is in neither's arguments. */
	wanted = mem_printf("s3://b/m.pb %s/b https://h:8/d/e.txt %s/h:8/d\ns3://c/n.pb %s/c\n", folder, folder, folder);
	char *args = lab_file(l, "fetches"), *env = lab_file(l, "env");
	assert_string_equal(args, wanted);
	assert_null(strstr(env, "very-hidden")); /* the second's environment: only the first has the Secret */
	loop_until(&l->loop, access(folder, F_OK) != 0, 20000);
	free(wanted);
	free(args);
	free(env);
	free(folder);
}

static void the_secret_is_the_fetchers(void **state)
{
	lab *l = *state;
	fetcher_is(l, "echo ${ACCESS_KEY_ID:-none} >> $lab/keys");
	assert_int_equal(run(l, "p", "Never", "exit 0"), 0);
	lab_until_phase(l, "p", "Succeeded");
	char *keys = lab_file(l, "keys");
	assert_string_equal(keys, "very-hidden-value\nnone\n");
	free(keys);
}

static void a_failure_shows_and_is_tried_again(void **state)
{
	lab *l = *state;
	fetcher_is(l, "echo x >> $lab/tries; test $(wc -l < $lab/tries) -ge 3 || { echo not there yet >&2; exit 3; }");
	assert_int_equal(run(l, "p", "OnFailure", "echo y >> ../runs"), 0);
	loop_until(&l->loop, strcmp(lab_text(lab_pod(l, "p"), FETCH "state.waiting.reason"), "CrashLoopBackOff") == 0, 20000);
	const cJSON *pod = lab_pod(l, "p");
	assert_string_equal(lab_text(pod, "status.phase"), "Pending");
	assert_string_equal(lab_text(pod, FETCH "name"), "ilmare-fetch-0");
	assert_true(lab_number(pod, FETCH "lastState.terminated.exitCode") == 3);
	assert_string_equal(lab_text(pod, FETCH "lastState.terminated.message"), "not there yet");
	assert_string_equal(lab_text(pod, WORKER "state.waiting.reason"), "PodInitializing");
	lab_until_phase(l, "p", "Succeeded");
	pod = lab_pod(l, "p");
	assert_true(lab_number(pod, WORKER "restartCount") == 0);
	assert_string_equal(lab_text(pod, FETCH "name"), "");
	assert_int_equal(lab_count(l, "tries", 'x'), 4); /* the first fetcher three times, the second once */
	assert_int_equal(lab_count(l, "runs", 'y'), 1);
}

static void policy_never_fails_the_pod(void **state)
{
	lab *l = *state;
	fetcher_is(l, "echo no such bucket >&2; exit 3");
	assert_int_equal(run(l, "p", "Never", "echo y >> ../runs"), 0);
	lab_until_phase(l, "p", "Failed");
	const cJSON *pod = lab_pod(l, "p");
	assert_true(lab_number(pod, FETCH "state.terminated.exitCode") == 3);
	assert_string_equal(lab_text(pod, FETCH "state.terminated.message"), "no such bucket");
	assert_int_equal(unlink(l->transfer), 0);
	assert_int_equal(run(l, "q", "Never", "echo y >> ../runs"), 0);
	lab_until_phase(l, "q", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "q"), FETCH "state.terminated.reason"), "StartError");
	char *wanted = mem_printf("cannot run the command %s: No such file or directory", l->transfer);
	assert_string_equal(lab_text(lab_pod(l, "q"), FETCH "state.terminated.message"), wanted);
	assert_false(lab_exists(l, "runs"));
	free(wanted);
}

static void deleting_stops_the_fetch(void **state)
{
	lab *l = *state;
	fetcher_is(l, "mkdir -p $2; echo half > $2/m.pb; echo > $lab/ready; exec sleep 1000");
	assert_int_equal(run(l, "p", "Always", "echo y >> ../runs"), 0);
	loop_until(&l->loop, lab_exists(l, "ready"), 20000);
	assert_string_equal(lab_text(lab_pod(l, "p"), "status.phase"), "Pending");
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
	assert_int_equal(lab_wait_processes(l, 0), 0);
	assert_false(lab_exists(l, "runs"));
	char *pods = mem_printf("%s/pods", l->state);
	assert_int_equal(rmdir(pods), 0); /* it is empty */
	free(pods);
}

/* A worker that is to run always needs no network for its next start, if it has been fetched for; else it is fetched for then. */
static void what_was_fetched_is_kept_for_the_next_start(void **state)
{
	lab *l = *state;
	lab_stop(l);
	l->config.stop_workers = true;
	lab_start(l);
	fetcher_is(l, "test $(wc -l < $lab/fetches) -ge 2 || { echo > $lab/ready; exec sleep 1000; }; mkdir -p $2; echo z > $2/${1##*/}");
	assert_int_equal(run(l, "p", "Always", "cat ${MODEL_URLS%;*} >> ../runs; exec sleep 1000"), 0);
	loop_until(&l->loop, lab_exists(l, "ready"), 20000);
	lab_stop(l);
	lab_start(l);
	loop_until(&l->loop, lab_count(l, "runs", 'z') == 1, 20000);
	assert_true(lab_number(lab_pod(l, "p"), WORKER "restartCount") == 0);
	assert_int_equal(lab_count(l, "fetches", '\n'), 3);
	lab_stop(l);
	lab_start(l);
	loop_until(&l->loop, lab_count(l, "runs", 'z') == 2, 20000);
	assert_int_equal(lab_count(l, "fetches", '\n'), 3);
	assert_int_equal(lab_delete(l, "p", NULL), 0);
	loop_until(&l->loop, lab_pod(l, "p") == NULL, 20000);
}

/* The machine goes down, as far as the worker is concerned. */
static void a_supervisor_that_dies_takes_the_fetch_along(void **state)
{
	lab *l = *state;
	fetcher_is(l, "echo > $lab/ready; exec sleep 1000");
	assert_int_equal(run(l, "p", "OnFailure", "echo y >> ../runs"), 0);
	loop_until(&l->loop, lab_exists(l, "ready"), 20000);
	char *path = mem_printf("state/pods/%s/pid", lab_text(lab_pod(l, "p"), "metadata.uid")), *pid = lab_file(l, path);
	assert_int_equal(kill((pid_t)strtol(pid, NULL, 10), SIGKILL), 0);
	lab_until_phase(l, "p", "Failed");
	assert_string_equal(lab_text(lab_pod(l, "p"), "status.reason"), "Lost");
	assert_int_equal(lab_wait_processes(l, 0), 0);
	assert_false(lab_exists(l, "runs"));
	free(path);
	free(pid);
}

#define LAB_TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup_started, lab_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LAB_TEST(what_is_read_is_there_before_the_worker),
		LAB_TEST(the_secret_is_the_fetchers),
		LAB_TEST(a_failure_shows_and_is_tried_again),
		LAB_TEST(policy_never_fails_the_pod),
		LAB_TEST(deleting_stops_the_fetch),
		LAB_TEST(what_was_fetched_is_kept_for_the_next_start),
		LAB_TEST(a_supervisor_that_dies_takes_the_fetch_along),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
