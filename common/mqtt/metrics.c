/* What the MQTT client counts, as metrics: one table from its counters to Prometheus' names, copied when somebody asks. */
#include "common/mqtt/metrics.h"

#include <stddef.h>

#include "common/metrics.h"

#define LINK(field) offsetof(struct mqtt_counters, field)

static metric_row link_rows[] = {
	{LINK(attempts), METRIC_COUNTER, "ilmare_mqtt_attempts_total", "Attempts to connect.", NULL},
	{LINK(connects), METRIC_COUNTER, "ilmare_mqtt_connects_total", "Connections made.", NULL},
	{LINK(refused_connects), METRIC_COUNTER, "ilmare_mqtt_refused_connects_total", "Connections that the broker refused.", NULL},
	{LINK(takeovers), METRIC_COUNTER, "ilmare_mqtt_takeovers_total", "Connections taken over by another client with this name.", NULL},
	{LINK(dead_links), METRIC_COUNTER, "ilmare_mqtt_dead_links_total", "Connections closed because nothing came for 1.5 keep-alives.",
		NULL},
	{LINK(messages_in), METRIC_COUNTER, "ilmare_mqtt_messages_in_total", "Messages received.", NULL},
	{LINK(bytes_in), METRIC_COUNTER, "ilmare_mqtt_bytes_in_total", "Bytes of topics and payloads received.", NULL},
	{LINK(messages_out), METRIC_COUNTER, "ilmare_mqtt_messages_out_total", "Messages sent.", NULL},
	{LINK(bytes_out), METRIC_COUNTER, "ilmare_mqtt_bytes_out_total", "Bytes of topics and payloads sent.", NULL},
	{LINK(refused_publishes), METRIC_COUNTER, "ilmare_mqtt_refused_publishes_total", "Messages that the broker refused.", NULL},
	{LINK(limited), METRIC_COUNTER, "ilmare_mqtt_limited_total", "Messages not sent because a bound was reached.", NULL},
	{LINK(dropped_in), METRIC_COUNTER, "ilmare_mqtt_dropped_in_total", "Messages received and lost because they were not taken in time.",
		NULL},
	{LINK(resubscribes), METRIC_COUNTER, "ilmare_mqtt_resubscribes_total", "New subscriptions, to get what was lost.", NULL},
};

void mqtt_metrics_set(const mqtt_client *client)
{
	static metric *up;

	metrics_set_rows(link_rows, sizeof link_rows / sizeof link_rows[0], mqtt_client_counters(client));
	if (!up)
		up = metric_new(METRIC_GAUGE, "ilmare_mqtt_connected", NULL, "1 while connected to a broker.");
	metric_set(up, mqtt_client_state(client) == MQTT_UP);
}
