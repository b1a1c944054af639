/* The link's counters as metrics, the same for both agents. Loop thread. */
#ifndef COMMON_MQTT_METRICS_H
#define COMMON_MQTT_METRICS_H

#include "common/mqtt/mqtt.h"

/* Before metrics_print. */
void mqtt_metrics_set(const mqtt_client *client);

#endif
