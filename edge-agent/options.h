/* What an operator can set for ilmare-edge: one table drives the file, the environment, the flags, --help and the man page. */
#ifndef EDGE_OPTIONS_H
#define EDGE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/config.h"
#include "common/mqtt/options.h"
#include "common/options.h"

typedef struct edge_options {
	char *node;
	char *state_dir; /* the store */
	char *root_dir;  /* prefix of all paths of documents, "" outside a container */
	char *log_level;
	char *time_zone; /* of trigger times; NULL: the system's */

	mqtt_options mqtt;
	int64_t retry_min_ms, retry_max_ms;

	char *worker_host;
	int64_t worker_port;
	char *worker_token_file; /* NULL: workers need no token */
	int64_t worker_body_max, worker_connections, worker_request_ms;
	observe_options observe;

	bool check_on_arrival;
	int64_t look_ms;   /* slow look at dataset files */
	int64_t status_ms; /* the least between two statuses of one dataset */
	int64_t line_max, round_bytes_max;
	int64_t rounds_kept, deployed_kept;
	int64_t result_grace_ms;
	char *remote_dir, *transfer_program; /* NULL: the defaults */
	char *credentials_keep;
	char *enrolment_url, *enrolment_token_file, *enrolment_program; /* NULL: none; none; the default */
	int64_t provisional_max, provisional_bytes_max, provisional_ms;
} edge_options;

extern const config_spec edge_options_spec;

#endif
