/* The options of the link to the broker, the same for both agents: rows for their tables, and how they become a client's configuration. */
#ifndef COMMON_MQTT_OPTIONS_H
#define COMMON_MQTT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config.h"
#include "common/error.h"
#include "common/mqtt/mqtt.h"

typedef struct mqtt_options {
	char *brokers; /* joined by newline */
	char *topic_root;
	char *username, *password_file;
	char *ca_file, *cert_file, *key_file;
	bool insecure;
	int64_t keep_alive_ms, session_expiry_ms, will_delay_ms;
	int64_t reconnect_min_ms, reconnect_max_ms;
} mqtt_options;

/* Elements of a config_row array; `base` is the offset of the mqtt_options in the target. */
#define MQTT_OPTION_ROWS(base)                                                                                                             \
	{.key = "mqtt.brokers",                                                                                                                \
		.type = CONFIG_LIST,                                                                                                               \
		.offset = (base) + offsetof(mqtt_options, brokers),                                                                                \
		.fallback = "mqtt://127.0.0.1:1883",                                                                                               \
		.help = "Brokers, tried in turn: mqtt://host[:port] or mqtts://host[:port]."},                                                     \
		{.key = "mqtt.topicRoot",                                                                                                          \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, topic_root),                                                                         \
			.fallback = "ilmare/v1",                                                                                                       \
			.help = "First levels of every topic; the same for both agents."},                                                             \
		{.key = "mqtt.username",                                                                                                           \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, username),                                                                           \
			.help = "User name for the broker. Default: none."},                                                                           \
		{.key = "mqtt.passwordFile",                                                                                                       \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, password_file),                                                                      \
			.help = "File whose first line is the password for the broker. Read at start."},                                               \
		{.key = "mqtt.caFile",                                                                                                             \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, ca_file),                                                                            \
			.help = "PEM file of the authorities that may sign the broker's certificate. Default: the system's."},                         \
		{.key = "mqtt.certFile",                                                                                                           \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, cert_file),                                                                          \
			.help = "PEM file of this agent's certificate. Default: none."},                                                               \
		{.key = "mqtt.keyFile",                                                                                                            \
			.type = CONFIG_STRING,                                                                                                         \
			.offset = (base) + offsetof(mqtt_options, key_file),                                                                           \
			.help = "PEM file of its key, without a passphrase. Default: in certFile."},                                                   \
		{.key = "mqtt.insecure",                                                                                                           \
			.type = CONFIG_BOOL,                                                                                                           \
			.offset = (base) + offsetof(mqtt_options, insecure),                                                                           \
			.fallback = "false",                                                                                                           \
			.help = "Allow a broker without TLS that is not on this machine. Said in the log at every start."},                            \
		{.key = "mqtt.keepAlive",                                                                                                          \
			.type = CONFIG_DURATION,                                                                                                       \
			.offset = (base) + offsetof(mqtt_options, keep_alive_ms),                                                                      \
			.fallback = "60s",                                                                                                             \
			.min = 1000,                                                                                                                   \
			.max = 65535000,                                                                                                               \
			.help = "A connection on which nothing comes for 1.5 times this long is dead."},                                               \
		{.key = "mqtt.sessionExpiry",                                                                                                      \
			.type = CONFIG_DURATION,                                                                                                       \
			.offset = (base) + offsetof(mqtt_options, session_expiry_ms),                                                                  \
			.fallback = "7d",                                                                                                              \
			.min = 0,                                                                                                                      \
			.max = INT64_C(4294967294000),                                                                                                 \
			.help = "How long the broker keeps this agent's session while it is away."},                                                   \
		{.key = "mqtt.willDelay",                                                                                                          \
			.type = CONFIG_DURATION,                                                                                                       \
			.offset = (base) + offsetof(mqtt_options, will_delay_ms),                                                                      \
			.fallback = "30s",                                                                                                             \
			.min = 0,                                                                                                                      \
			.max = INT64_C(86400000),                                                                                                      \
			.help = "How long after a lost connection the broker announces that this agent is offline."},                                  \
		{.key = "mqtt.reconnectMin",                                                                                                       \
			.type = CONFIG_DURATION,                                                                                                       \
			.offset = (base) + offsetof(mqtt_options, reconnect_min_ms),                                                                   \
			.fallback = "1s",                                                                                                              \
			.min = 10,                                                                                                                     \
			.max = INT64_C(86400000),                                                                                                      \
			.help = "First wait before connecting again; doubles, with full jitter."},                                                     \
	{                                                                                                                                      \
		.key = "mqtt.reconnectMax", .type = CONFIG_DURATION, .offset = (base) + offsetof(mqtt_options, reconnect_max_ms),                  \
		.fallback = "2m", .min = 10, .max = INT64_C(86400000), .help = "Longest wait before connecting again."                             \
	}

/* Rules of the options, for a config_spec's check; not that of the topic root. */
void mqtt_options_check(const mqtt_options *o, config_rules *rules);

/* A client's configuration that points into `o` and into *hold, which is to be given to mqtt_options_release once the client is made. Reads
 * the password file. Client id, will and subscriptions are the caller's to fill in. */
typedef struct mqtt_options_hold {
	char *text;
	const char *brokers[MQTT_BROKERS_MAX];
	char *password;
} mqtt_options_hold;
int mqtt_options_apply(const mqtt_options *o, struct mqtt_config *config, mqtt_options_hold *hold, error *err);
void mqtt_options_release(mqtt_options_hold *hold);

#endif
