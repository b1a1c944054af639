/* What the edge agent counts, as metrics: one table from the core's counters to Prometheus' names.
 *
 * The core counts in plain numbers and knows nothing of metrics; they are copied when somebody asks, on the loop thread.
 */
#include "edge-agent/observe.h"

#include <stddef.h>

#include "common/metrics.h"
#include "common/mqtt/metrics.h"
#include "edge-agent/remote/transfer.h"

#define CORE(field) offsetof(edge_counters, field)
static metric_row core_rows[] = {
	{CORE(jobs), METRIC_GAUGE, "ilmare_edge_jobs", "Jobs that this node has a part in.", NULL},
	{CORE(datasets), METRIC_GAUGE, "ilmare_edge_datasets", "Datasets that this node watches.", NULL},
	{CORE(unsettled), METRIC_GAUGE, "ilmare_edge_outbox_unsettled", "Reports that no document has settled yet.", NULL},
	{CORE(provisional), METRIC_GAUGE, "ilmare_edge_provisional", "Results kept of workers that no document announces yet.", NULL},
	{CORE(inferences), METRIC_GAUGE, "ilmare_edge_inferences", "Inferences, as the present inference workers of all jobs count them.",
		NULL},
	{CORE(hard_examples), METRIC_GAUGE, "ilmare_edge_hard_examples", "Hard examples among them.", NULL},
	{CORE(published), METRIC_COUNTER, "ilmare_edge_reports_published_total", "Reports published, repeats included.", NULL},
	{CORE(settled), METRIC_COUNTER, "ilmare_edge_reports_settled_total", "Reports that a document has settled.", NULL},
	{CORE(commits), METRIC_COUNTER, "ilmare_edge_commits_total", "Commits of the store.", NULL},
	{CORE(commit_failures), METRIC_COUNTER, "ilmare_edge_commit_failures_total", "Commits that failed and are tried again.", NULL},
	{CORE(messages), METRIC_COUNTER, "ilmare_edge_messages_total", "Documents received from the broker, repeats included.", NULL},
	{CORE(messages_refused), METRIC_COUNTER, "ilmare_edge_messages_refused_total",
		"Documents received and refused: malformed, not of this contract, or over the bound of jobs or datasets.", NULL},
	{CORE(messages_ignored), METRIC_COUNTER, "ilmare_edge_messages_ignored_total",
		"Documents received and ignored: old news, or not for this store yet.", NULL},
	{CORE(credentials_wanted), METRIC_GAUGE, "ilmare_edge_credentials_wanted", "Secrets whose keys this node's documents name.", NULL},
	{CORE(credentials_held), METRIC_GAUGE, "ilmare_edge_credentials_held", "Secrets whose keys this node holds.", NULL},
	{CORE(credentials_asked), METRIC_COUNTER, "ilmare_edge_credentials_asked_total", "Requests for the keys of a Secret.", NULL},
	{CORE(credentials_refused), METRIC_COUNTER, "ilmare_edge_credentials_refused_total",
		"Requests for the keys of a Secret that were answered with a reason.", NULL},
	{CORE(posts), METRIC_COUNTER, "ilmare_edge_posts_total", "Well-formed posts of workers.", NULL},
	{CORE(posts_refused), METRIC_COUNTER, "ilmare_edge_posts_refused_total",
		"Well-formed posts of workers that were refused: the worker is over, or a bound was reached.", NULL},
	{CORE(posts_stored), METRIC_COUNTER, "ilmare_edge_posts_stored_total",
		"Well-formed posts of workers stored ahead of the document that announces the worker.", NULL},
	{CORE(rounds_written), METRIC_COUNTER, "ilmare_edge_rounds_written_total", "Folders of samples written.", NULL},
	{CORE(rounds_adopted), METRIC_COUNTER, "ilmare_edge_rounds_adopted_total", "Folders of samples found in place and adopted.", NULL},
	{CORE(deployments), METRIC_COUNTER, "ilmare_edge_deployments_total", "Models put in place.", NULL},
	{CORE(action_failures), METRIC_COUNTER, "ilmare_edge_file_failures_total", "File actions that failed and are tried again.", NULL},
};

#define MOVED(field) offsetof(transfer_counters, field)
static metric_row transfer_rows[] = {
	{MOVED(running), METRIC_GAUGE, "ilmare_edge_transfers_running", "Transfers to or from object stores and web servers under way.", NULL},
	{MOVED(begun), METRIC_COUNTER, "ilmare_edge_transfers_total", "Transfers begun, questions whether something changed included.", NULL},
	{MOVED(failed), METRIC_COUNTER, "ilmare_edge_transfer_failures_total",
		"Transfers that failed otherwise than by finding nothing or being stopped.", NULL},
	{MOVED(bytes), METRIC_COUNTER, "ilmare_edge_transfer_bytes_total", "Bytes of files that were fetched or sent.", NULL},
};

#define ENROLMENT(field) offsetof(enrolment_counters, field)
static metric_row enrolment_rows[] = {
	{ENROLMENT(attempts), METRIC_COUNTER, "ilmare_edge_enrolments_total", "Attempts to get a certificate, renewals included.", NULL},
	{ENROLMENT(failures), METRIC_COUNTER, "ilmare_edge_enrolment_failures_total", "Those that brought none, or none that is better.", NULL},
};

void observe_print(const edge_agent *agent, const mqtt_client *mqtt, const enrolment *e, certificate_ends *ends, buf *out)
{
	enrolment_counters enrolments;
	edge_counters counters = {0};
	transfer_counters transfers;

	transfer_count(&transfers);
	metrics_set_rows(transfer_rows, sizeof transfer_rows / sizeof transfer_rows[0], &transfers);
	if (e) {
		enrolment_count(e, &enrolments);
		metrics_set_rows(enrolment_rows, sizeof enrolment_rows / sizeof enrolment_rows[0], &enrolments);
	}
	edge_agent_counters(agent, &counters);
	metrics_set_rows(core_rows, sizeof core_rows / sizeof core_rows[0], &counters);
	mqtt_metrics_set(mqtt);
	certificate_ends_set(ends);
	metrics_print(out);
}
