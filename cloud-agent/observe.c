/* What the cloud agent counts, as metrics: one table from the core's counters to Prometheus' names.
 *
 * The core counts in plain numbers and knows nothing of metrics; they are copied when somebody asks, on the loop thread.
 */
#include "cloud-agent/observe.h"

#include <stddef.h>

#include "common/metrics.h"
#include "common/mqtt/metrics.h"

#define CORE(field) offsetof(cloud_counters, field)

static metric_row core_rows[] = {
	{CORE(jobs), METRIC_GAUGE, "ilmare_cloud_jobs", "Incremental-learning jobs in the cluster.", NULL},
	{CORE(nodes), METRIC_GAUGE, "ilmare_cloud_nodes", "Nodes whose edge agent was seen: their presence is retained by the broker.", NULL},
	{CORE(nodes_online), METRIC_GAUGE, "ilmare_cloud_nodes_online", "Nodes whose edge agent is connected to the broker.", NULL},
	{CORE(inferences), METRIC_GAUGE, "ilmare_cloud_inferences", "Inferences, as the present inference workers of all jobs count them.",
		NULL},
	{CORE(hard_examples), METRIC_GAUGE, "ilmare_cloud_hard_examples", "Hard examples among them.", NULL},
	{CORE(reports), METRIC_COUNTER, "ilmare_cloud_reports_total", "Reports received, repeats included.", NULL},
	{CORE(reports_accepted), METRIC_COUNTER, "ilmare_cloud_reports_accepted_total", "Reports that moved a job.", NULL},
	{CORE(reports_ignored), METRIC_COUNTER, "ilmare_cloud_reports_ignored_total",
		"Reports that did not match the job's position and were answered with it.", NULL},
	{CORE(messages_refused), METRIC_COUNTER, "ilmare_cloud_messages_refused_total",
		"Messages received that were malformed or not of this contract.", NULL},
	{CORE(patches), METRIC_COUNTER, "ilmare_cloud_patches_total", "Status patches made.", NULL},
	{CORE(conflicts), METRIC_COUNTER, "ilmare_cloud_conflicts_total", "Status patches refused because the object had changed.", NULL},
	{CORE(pods_created), METRIC_COUNTER, "ilmare_cloud_pods_created_total", "Pods created.", NULL},
	{CORE(pods_deleted), METRIC_COUNTER, "ilmare_cloud_pods_deleted_total", "Pods deleted.", NULL},
	{CORE(published), METRIC_COUNTER, "ilmare_cloud_documents_published_total", "Documents published.", NULL},
	{CORE(cleared), METRIC_COUNTER, "ilmare_cloud_documents_cleared_total", "Retained documents cleared.", NULL},
	{CORE(cluster_failures), METRIC_COUNTER, "ilmare_cloud_cluster_failures_total", "Cluster writes that failed and are tried again.",
		NULL},
	{CORE(rounds_completed), METRIC_COUNTER, "ilmare_cloud_rounds_completed_total", "Rounds completed.", NULL},
	{CORE(rounds_failed), METRIC_COUNTER, "ilmare_cloud_rounds_failed_total", "Rounds failed.", NULL},
	{CORE(credentials_asked), METRIC_COUNTER, "ilmare_cloud_credentials_asked_total", "Requests of nodes for the keys of a Secret.", NULL},
	{CORE(credentials_given), METRIC_COUNTER, "ilmare_cloud_credentials_given_total", "Requests that were answered with keys.", NULL},
	{CORE(credentials_refused), METRIC_COUNTER, "ilmare_cloud_credentials_refused_total", "Requests that were answered with a reason.",
		NULL},
	{CORE(credentials_dropped), METRIC_COUNTER, "ilmare_cloud_credentials_dropped_total",
		"Requests that got no answer: of a node that asks too often, or that nothing names.", NULL},
	{CORE(deployments), METRIC_COUNTER, "ilmare_cloud_deployments_total", "Models deployed.", NULL},
};

#define ENROLMENT(field) offsetof(enrolment_counters, field)

static metric_row enrolment_rows[] = {
	{ENROLMENT(issued), METRIC_COUNTER, "ilmare_cloud_enrolments_total", "Certificates issued to devices.", NULL},
	{ENROLMENT(refused), METRIC_COUNTER, "ilmare_cloud_enrolments_refused_total", "Requests for a certificate that were refused.", NULL},
};

void observe_print(const controller *core, const mqtt_client *mqtt, const enrolment *e, certificate_ends *ends, buf *out)
{
	cloud_counters counters = {0};
	enrolment_counters enrolments;

	enrolment_count(e, &enrolments);
	metrics_set_rows(enrolment_rows, sizeof enrolment_rows / sizeof enrolment_rows[0], &enrolments);
	controller_counters(core, &counters);
	metrics_set_rows(core_rows, sizeof core_rows / sizeof core_rows[0], &counters);
	mqtt_metrics_set(mqtt);
	certificate_ends_set(ends);
	metrics_print(out);
}
