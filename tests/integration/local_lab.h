/* A local cluster in a test: a folder of its own, the objects as they were told, the answers to operations, and a look at what is left. */
#ifndef TESTS_INTEGRATION_LOCAL_LAB_H
#define TESTS_INTEGRATION_LOCAL_LAB_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <uv.h>

#include "cloud-agent/cluster/local/local.h"
#include "common/buf.h"
#include "tests/integration/child.h"
#include "tests/integration/loop.h"

typedef struct lab {
	char *folder, *manifests, *state, *transfer; /* transfer: a program that is not there unless the test writes it */
	cluster_local_config config;
	uv_loop_t loop;
	cluster *cluster;
	cJSON *objects; /* "Pod/default/name": as it is */
	bool synced, answered, stopped;
	int64_t epoch;
	int code; /* of the last answer */
	char text[512];
	cJSON *object;
	int told;  /* how often an object was told */
	buf order; /* the same: "[+Model/x -Job/y]", in brackets what was told together */
} lab;

/* With short times: what takes seconds in life takes hundredths. */
void lab_init(lab *l);
/* For cmocka: a lab of the test's own as its state, not begun yet, or begun; and its end. */
int lab_setup(void **state);
int lab_setup_started(void **state);
int lab_teardown(void **state);
/* Begin, and wait for the first complete list. */
void lab_start(lab *l);
int lab_try_start(lab *l, error *err); /* without waiting */
/* Stop; the loop must have nothing left. */
void lab_stop(lab *l);
/* Remove the folder; fails if a process that belongs to it is left. */
void lab_fini(lab *l);

void lab_put(const lab *l, const char *file, const char *text);
void lab_drop(const lab *l, const char *file);
/* Run the shell script in a pod; `more` is further JSON of the pod's spec (`,"x":1`) or "". Waits for the answer; its code. */
int lab_run(lab *l, const char *name, const char *policy, const char *script, const char *more);
int lab_create(lab *l, const char *name, const char *pod);
int lab_delete(lab *l, const char *name, const char *uid); /* uid NULL: the pod's own */
int lab_patch(lab *l, enum object_kind kind, const char *name, const char *version, const char *status);

const cJSON *lab_object(const lab *l, const char *kind, const char *name); /* NULL: not there */
const cJSON *lab_pod(const lab *l, const char *name);
/* A text in it, by a path such as "status.containerStatuses.0.state.terminated.reason"; "" if absent. */
const char *lab_text(const cJSON *object, const char *path);
double lab_number(const cJSON *object, const char *path);
bool lab_phase_is(const lab *l, const char *pod, const char *phase);
#define lab_until_phase(l, pod, phase) loop_until(&(l)->loop, lab_phase_is(l, pod, phase), 20000)

/* A file below the lab's folder; "" if it is not there. To be freed. */
char *lab_file(const lab *l, const char *path);
bool lab_exists(const lab *l, const char *path);
int lab_count(const lab *l, const char *path, char c); /* in that file */
/* Processes that run in the lab's folder, or with it in their command line. */
int lab_processes(const lab *l);
/* Without running the loop, until there are at most so many; how many there are in the end. A supervisor that has said all needs a moment. */
int lab_wait_processes(const lab *l, int most);

#endif
