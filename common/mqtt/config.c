/* Configuration of a client: defaults, checks, and the copy that the client keeps. */
#include "common/mqtt/config.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/mqtt/message.h"

enum { INFLIGHT_MAX = 256, PAYLOAD_MAX = 64 * 1024 * 1024 };

void mqtt_config_init(struct mqtt_config *config)
{
	*config = (struct mqtt_config){
		.keep_alive_s = 60,
		.session_expiry_s = 7 * 24 * 3600,
		.connect_timeout_s = 30,
		.backoff_min_ms = 1000,
		.backoff_max_ms = 120 * 1000,
		.stop_timeout_ms = 4000,
		.max_inflight = 16,
		.max_payload = (size_t)256 * 1024,
		.queue_bytes = (size_t)1024 * 1024,
		.patience_ms = 5000,
		.resubscribe_ms = 10 * 1000,
	};
}

static int check_brokers(const struct mqtt_config *config, error *err)
{
	int rc = 0;

	if (config->n_brokers == 0)
		return error_set(err, ERROR_INVALID, "no broker is given");
	if (config->n_brokers > MQTT_BROKERS_MAX)
		return error_set(err, ERROR_LIMIT, "%zu brokers are given; at most %d", config->n_brokers, MQTT_BROKERS_MAX);
	for (size_t i = 0; i < config->n_brokers && rc == 0; i++)
		rc = broker_url_check(config->brokers[i], config->insecure, err);
	return rc;
}

static int check_range(const char *name, uint64_t value, uint64_t min, uint64_t max, error *err)
{
	if (value >= min && value <= max)
		return 0;
	return error_set(err, ERROR_INVALID, "%s is %llu; it must be %llu to %llu", name, (unsigned long long)value, (unsigned long long)min,
		(unsigned long long)max);
}

static int check_ranges(const struct mqtt_config *c, error *err)
{
	const struct {
		const char *name;
		uint64_t value, min, max;
	} rows[] = {
		{"keep-alive (s)", c->keep_alive_s, 1, UINT16_MAX},
		{"connect timeout (s)", c->connect_timeout_s, 1, 3600},
		{"back-off minimum (ms)", c->backoff_min_ms, 1, c->backoff_max_ms},
		{"back-off maximum (ms)", c->backoff_max_ms, 1, 24 * 3600 * 1000},
		{"stop timeout (ms)", c->stop_timeout_ms, 1, 3600 * 1000},
		{"patience (ms)", c->patience_ms, 1, 3600 * 1000},
		{"time between subscriptions (ms)", c->resubscribe_ms, 1, 3600 * 1000},
		{"messages in flight", c->max_inflight, 1, INFLIGHT_MAX},
		{"payload limit (bytes)", c->max_payload, 1, PAYLOAD_MAX},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof rows / sizeof *rows && !rc; i++)
		rc = check_range(rows[i].name, rows[i].value, rows[i].min, rows[i].max, err);
	return rc;
}

int mqtt_config_check(const struct mqtt_config *config, error *err)
{
	int rc;

	if ((rc = check_brokers(config, err)) != 0 || (rc = check_ranges(config, err)) != 0)
		return rc;
	if (!config->client_id || !*config->client_id)
		return error_set(err, ERROR_INVALID, "the client has no id");
	if (config->password && !config->username)
		return error_set(err, ERROR_INVALID, "a password is given, but no user name");
	if (config->key_file && !config->cert_file)
		return error_set(err, ERROR_INVALID, "a key file is given, but no certificate file");
	if (config->will.topic && (rc = message_topic_check(config->will.topic, err)) != 0) {
		error_prefix(err, "will");
		return rc;
	}
	if (config->n_subscriptions > MQTT_SUBSCRIPTIONS_MAX)
		return error_set(err, ERROR_LIMIT, "%zu subscriptions; at most %d", config->n_subscriptions, MQTT_SUBSCRIPTIONS_MAX);
	for (size_t i = 0; i < config->n_subscriptions; i++)
		if (!config->subscriptions[i].filter || !*config->subscriptions[i].filter || config->subscriptions[i].qos < 0 ||
			config->subscriptions[i].qos > 1)
			return error_set(err, ERROR_INVALID, "subscription %zu: no filter, or its QoS is not 0 or 1", i);
	return 0;
}

struct settings *settings_new(const struct mqtt_config *config)
{
	struct settings *s = mem_alloc(sizeof *s);
	const char **urls = mem_alloc(config->n_brokers * sizeof *urls);

	s->c = *config;
	for (size_t i = 0; i < config->n_brokers; i++) {
		urls[i] = mem_strdup(config->brokers[i]);
		broker_url_parse(urls[i], &s->brokers[i], NULL);
	}
	s->c.brokers = urls;
	s->c.client_id = mem_strdup(config->client_id);
	s->c.username = mem_strdup(config->username);
	s->c.password = mem_strdup(config->password);
	s->c.ca_file = mem_strdup(config->ca_file);
	s->c.cert_file = mem_strdup(config->cert_file);
	s->c.key_file = mem_strdup(config->key_file);
	s->c.certificate_name = mem_strdup(config->certificate_name);
	s->c.will.topic = mem_strdup(config->will.topic);
	s->c.will.payload = config->will.len > 0 ? mem_strndup(config->will.payload, config->will.len) : NULL;
	for (size_t i = 0; i < config->n_subscriptions; i++) {
		s->subscriptions[i] = config->subscriptions[i];
		s->subscriptions[i].filter = mem_strdup(config->subscriptions[i].filter);
	}
	s->c.subscriptions = s->subscriptions;
	return s;
}

void settings_free(struct settings *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->c.n_brokers; i++)
		free((void *)s->c.brokers[i]);
	free((void *)s->c.brokers);
	free((void *)s->c.client_id);
	free((void *)s->c.username);
	if (s->c.password)
		explicit_bzero((void *)s->c.password, strlen(s->c.password));
	free((void *)s->c.password);
	free((void *)s->c.ca_file);
	free((void *)s->c.cert_file);
	free((void *)s->c.key_file);
	free((void *)s->c.certificate_name);
	free((void *)s->c.will.topic);
	free((void *)s->c.will.payload);
	for (size_t i = 0; i < s->c.n_subscriptions; i++)
		free((void *)s->subscriptions[i].filter);
	free(s);
}
