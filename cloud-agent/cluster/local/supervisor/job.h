/* What a supervisor is to run: spec.json, read and checked. */
#ifndef SUPERVISOR_JOB_H
#define SUPERVISOR_JOB_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/error.h"

enum restart_policy { RESTART_ALWAYS, RESTART_ON_FAILURE, RESTART_NEVER };

typedef struct command {
	const char *name;   /* of a fetcher; NULL: the worker */
	char **argv, **env; /* ended by NULL */
} command;

typedef struct job {
	command worker, *fetchers; /* those are run before it */
	size_t n_fetchers;
	const char *folder, *log; /* folder: the worker's; fetchers run in that of its supervisor */
	enum restart_policy policy;
	int64_t restarts, log_max, grace_ms, backoff_min_ms, backoff_max_ms, backoff_reset_ms;
	cJSON *tree; /* owns the texts but those of env */
} job;

int job_read(const char *path, job *out, error *err);
void job_fini(job *j);

#endif
