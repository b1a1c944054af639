/* What an operator can set for ilmare-cloud: one table drives the file, the environment, the flags, --help and the man page. */
#ifndef CLOUD_OPTIONS_H
#define CLOUD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cloud-agent/enrolment/service.h"
#include "common/config.h"
#include "common/mqtt/options.h"
#include "common/options.h"

typedef struct cloud_options {
	char *cluster; /* "local" or "kube" */
	char *name;    /* MQTT client id */
	char *log_level;
	mqtt_options mqtt;

	char *manifests_dir, *state_dir, *supervisor;
	char *lc_server;
	char *nodes; /* JSON: {"name":{"lcServer":"http://…"}} */
	int64_t worker_log_max;
	bool stop_workers;

	char *kubeconfig, *kube_context, *kube_namespaces;
	char *storage_image;
	char *credentials; /* "reference" or "value" */
	char *lease, *lease_namespace;
	int64_t lease_ms, lease_renew_ms, lease_retry_ms;
	int64_t kube_requests, kube_burst, watch_silence_ms;

	observe_options observe;
	enrolment_options enrolment;

	int64_t slow_ms;
	int64_t backoff_min_ms, backoff_max_ms;
	int64_t start_timeout_ms, reported_running_ms, node_silence_ms;
	int64_t max_restarts, conditions_max;
} cloud_options;

extern const config_spec cloud_options_spec;

#endif
