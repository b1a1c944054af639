/* The agents' use of the client: see agent.h. */
#include "common/mqtt/agent.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/text.h"

/* Whoever asked has asked again by then. */
enum { ONCE_EXPIRY_S = 60 };

mqtt_client *mqtt_agent_start(uv_loop_t *loop, const mqtt_options *options, const mqtt_agent *agent, const struct mqtt_callbacks *callbacks,
	error *err)
{
	struct mqtt_config config;
	mqtt_options_hold hold;
	mqtt_client *client = NULL;

	if (mqtt_options_apply(options, &config, &hold, err) == 0) {
		config.client_id = agent->client_id;
		config.certificate_name = agent->certificate_name;
		config.other_name_refused = agent->other_name_refused;
		config.will.topic = agent->presence;
		config.will.payload = agent->will;
		config.will.len = strlen(agent->will);
		config.will.retained = true;
		config.subscriptions = agent->subscriptions;
		config.n_subscriptions = agent->n_subscriptions;
		client = mqtt_client_new(loop, &config, callbacks, err);
	}
	mqtt_options_release(&hold);
	if (client)
		mqtt_client_start(client);
	return client;
}

static struct mqtt_message message_of(const char *topic, const char *text, bool retained)
{
	return (struct mqtt_message){.topic = topic, .payload = text, .len = strlen(text), .retained = retained};
}

void mqtt_agent_say(mqtt_client *client, const char *topic, const char *text, bool retained)
{
	struct mqtt_message m = message_of(topic, text, retained);
	error err = {0};
	int64_t token = mqtt_client_publish(client, &m, &err);

	if (token < 0 && token != ERROR_OFFLINE)
		log_warn("mqtt", "cannot publish; it is tried again later", L_STR("topic", topic), L_STR("error", err.text));
}

void mqtt_agent_once(mqtt_client *client, struct mqtt_message m)
{
	error err = {0};
	int64_t token;

	m.at_most_once = true;
	m.retained = false;
	m.expiry_s = ONCE_EXPIRY_S;
	token = mqtt_client_publish(client, &m, &err);
	if (token < 0 && token != ERROR_OFFLINE)
		log_warn("mqtt", "cannot publish; it is asked for again", L_STR("topic", m.topic), L_STR("error", err.text));
}

void mqtt_agent_words(const mqtt_client *client, char *out, size_t size)
{
	const char *problem = mqtt_client_problem(client);
	time_t since = (time_t)(mqtt_client_down_since(client) / 1000);
	char stamp[32] = "?";
	struct tm tm;

	if (mqtt_client_state(client) == MQTT_UP) {
		text_print(out, size, "connected to %s", mqtt_client_broker(client));
	} else if (!*problem) {
		text_print(out, size, "connecting to %s", mqtt_client_broker(client));
	} else {
		if (gmtime_r(&since, &tm))
			strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &tm);
		text_print(out, size, "not connected since %s: %s", stamp, problem);
	}
}

void mqtt_agent_stop(mqtt_client *client, const char *topic, const char *text)
{
	struct mqtt_message last = message_of(topic, text, true);

	mqtt_client_stop(client, &last, NULL, NULL);
}
