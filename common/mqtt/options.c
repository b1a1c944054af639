/* From the settings of an agent to those of the MQTT client: see options.h for the contract.
 *
 * Lists are split, files with secrets are read, and what belongs together is checked here, so that --check-config finds all that a start
 * would find. What is read is kept in `hold` until the client has its own copy.
 */
#include "common/mqtt/options.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/mqtt/broker_url.h"

int mqtt_options_apply(const mqtt_options *o, struct mqtt_config *config, mqtt_options_hold *hold, error *err)
{
	char *rest, *word;
	size_t n = 0;

	memset(hold, 0, sizeof *hold);
	mqtt_config_init(config);
	hold->text = mem_strdup(o->brokers);
	for (word = strtok_r(hold->text, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest)) {
		if (n == MQTT_BROKERS_MAX)
			return error_set(err, ERROR_LIMIT, "mqtt.brokers: more than %d", MQTT_BROKERS_MAX);
		hold->brokers[n++] = word;
	}
	config->brokers = hold->brokers;
	config->n_brokers = n;
	config->username = o->username;
	config->ca_file = o->ca_file;
	config->cert_file = o->cert_file;
	config->key_file = o->key_file;
	config->insecure = o->insecure;
	config->keep_alive_s = (uint32_t)(o->keep_alive_ms / 1000);
	config->session_expiry_s = (uint32_t)(o->session_expiry_ms / 1000);
	config->backoff_min_ms = (uint32_t)o->reconnect_min_ms;
	config->backoff_max_ms = (uint32_t)o->reconnect_max_ms;
	config->will.delay_s = (uint32_t)(o->will_delay_ms / 1000);
	if (o->password_file && file_read_secret(o->password_file, &hold->password, err) != 0)
		return error_prefix(err, "mqtt.passwordFile");
	config->password = hold->password;
	return 0;
}

void mqtt_options_release(mqtt_options_hold *hold)
{
	free(hold->text);
	file_secret_free(hold->password);
	memset(hold, 0, sizeof *hold);
}

static void check_brokers(const mqtt_options *o, config_rules *rules)
{
	char *text = mem_strdup(o->brokers ? o->brokers : ""), *rest, *word;
	size_t n = 0;
	error err = {0};

	for (word = strtok_r(text, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest)) {
		n++;
		if (broker_url_check(word, o->insecure, &err) != 0)
			config_broken(rules, "mqtt.brokers", "mqtt.insecure", "%s", err.text);
	}
	if (n == 0)
		config_broken(rules, "mqtt.brokers", NULL, "no broker is given");
	if (n > MQTT_BROKERS_MAX)
		config_broken(rules, "mqtt.brokers", NULL, "%zu brokers are given; at most %d", n, MQTT_BROKERS_MAX);
	free(text);
}

static void check_password(const mqtt_options *o, config_rules *rules)
{
	char *password = NULL;
	error err = {0};

	if (file_read_secret(o->password_file, &password, &err) != 0)
		config_broken(rules, "mqtt.passwordFile", NULL, "%s", err.text);
	file_secret_free(password);
}

void mqtt_options_check(const mqtt_options *o, config_rules *rules)
{
	if (o->reconnect_max_ms < o->reconnect_min_ms)
		config_broken(rules, "mqtt.reconnectMax", "mqtt.reconnectMin", "is below mqtt.reconnectMin");
	if (o->key_file && !o->cert_file)
		config_broken(rules, "mqtt.keyFile", "mqtt.certFile", "is set, but not mqtt.certFile");
	if (o->password_file && !o->username)
		config_broken(rules, "mqtt.passwordFile", "mqtt.username", "is set, but not mqtt.username");
	if (o->password_file)
		check_password(o, rules);
	check_brokers(o, rules);
}
