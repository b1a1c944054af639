/* This device's certificate: ilmare-certificate as a child process, whenever the plan (core/enrolment_plan.h) says so. Only that program speaks https;
 * its standard input is a pipe of ours, so that it ends with us, even if we are killed. Loop thread.
 */
#ifndef EDGE_ENROLMENT_H
#define EDGE_ENROLMENT_H

#include <stdint.h>
#include <uv.h>

#include "common/error.h"

typedef struct enrolment enrolment;

typedef struct enrolment_config {
	const char *url, *node, *token_file; /* token_file NULL: none */
	const char *ca_file;                 /* NULL: the system's authorities */
	const char *program;                 /* a path, or a name to be looked for in PATH */
	const char *state_dir;
	uint64_t seed;
} enrolment_config;

typedef struct enrolment_events {
	void *ctx;
	void (*certificate)(void *ctx); /* there is a new one */
	void (*changed)(void *ctx);     /* what enrolment_problem says has changed */
} enrolment_events;

typedef struct enrolment_counters {
	int64_t attempts, failures;
} enrolment_counters;

/* Where the certificate and its key are, or will be: for mqtt.certFile. To be freed. */
char *enrolment_file(const char *state_dir);

/* Copies what it needs. */
enrolment *enrolment_start(uv_loop_t *loop, const enrolment_config *config, const enrolment_events *events);
/* Why there is no certificate that is valid; NULL: there is one. Valid until the loop goes on. */
const char *enrolment_problem(const enrolment *e);
void enrolment_count(const enrolment *e, enrolment_counters *out);
/* Ends a child; lets go of the loop, which has to run until that is done, before enrolment_free. NULL is fine. */
void enrolment_stop(enrolment *e);
void enrolment_free(enrolment *e);

#endif
