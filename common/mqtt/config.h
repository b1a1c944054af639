/* An own, deep copy of a client's configuration, shared by the loop's side and the library's side (which may live longer: see link.h). */
#ifndef COMMON_MQTT_CONFIG_H
#define COMMON_MQTT_CONFIG_H

#include "common/mqtt/broker_url.h"
#include "common/mqtt/mqtt.h"

struct settings {
	struct mqtt_config c; /* all pointers are ours */
	struct broker_url brokers[MQTT_BROKERS_MAX];
	struct mqtt_subscription subscriptions[MQTT_SUBSCRIPTIONS_MAX];
};

/* `config` has passed mqtt_config_check. */
struct settings *settings_new(const struct mqtt_config *config);
void settings_free(struct settings *s); /* NULL is fine; overwrites the password */

#endif
