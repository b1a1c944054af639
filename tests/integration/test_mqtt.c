/* The MQTT client and a real mosquitto: what works, and what the broker refuses. What goes wrong between them is in
 * test_mqtt_brokers.c, test_mqtt_links.c, test_mqtt_stop.c and test_mqtt_load.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/broker.h"
#include "tests/integration/loop.h"
#include "tests/integration/peer.h"

enum { SOON = 15000 };

#define DYNAMIC_SECURITY MOSQUITTO_PLUGINS "/mosquitto_dynamic_security.so"

struct fixture {
	uv_loop_t loop;
	broker *broker;
	const char *url;
	struct mqtt_config config;
};

static int setup_with(void **state, const char *config)
{
	struct fixture *f = mem_alloc(sizeof *f);

	uv_loop_init(&f->loop);
	f->broker = broker_new(config);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	struct fixture *f;

	setup_with(state, BROKER_PLAIN);
	f = *state;
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	loop_fini(&f->loop);
	broker_free(f->broker);
	free(f);
	return 0;
}

static void start_up(struct fixture *f, struct peer *p)
{
	peer_start(p, &f->loop, &f->config);
	loop_until(&f->loop, p->ups == 1, SOON);
}

/* main has set a proxy that nobody listens at: MQTT does not go there, and those who want one still find it. */
static void test_proxies_are_not_for_mqtt(void **state)
{
	struct fixture *f = *state;
	struct peer a;

	start_up(f, &a);
	assert_null(getenv("http_proxy"));
	assert_string_equal(getenv("HTTP_PROXY"), "http://127.0.0.1:1");
	peer_free(&a);
}

static void test_publish_and_receive(void **state)
{
	struct fixture *f = *state;
	struct peer a, b;
	int64_t token;

	start_up(f, &a);
	assert_false(a.session_present);
	token = peer_publish(&a, "t/one", "{\"v\":1}", false);
	assert_true(token > 0);
	loop_until(&f->loop, a.published == 1 && a.received == 1, SOON);
	assert_int_equal(a.last_token, token);
	assert_string_equal(peer_payload(&a, "t/one"), "{\"v\":1}");
	assert_false(a.messages[0].retained);
	assert_true(a.batches >= 1);

	peer_publish(&a, "t/kept", "{\"v\":2}", true);
	loop_until(&f->loop, a.published == 2, SOON);
	f->config.client_id = "edge-2";
	start_up(f, &b);
	loop_until(&f->loop, b.received == 1, SOON);
	assert_string_equal(b.messages[0].topic, "t/kept");
	assert_true(b.messages[0].retained);

	assert_int_equal(mqtt_client_counters(a.client)->published, 2);
	assert_int_equal(mqtt_client_counters(a.client)->messages_out, 2);
	assert_int_equal(mqtt_client_counters(b.client)->messages_in, 1);
	assert_int_equal(mqtt_client_counters(b.client)->bytes_in, strlen("t/kept{\"v\":2}"));
	peer_free(&a);
	peer_free(&b);
}

/* An empty retained message clears the topic; requests carry where and under which key they want the answer. */
static void test_empty_and_request(void **state)
{
	struct fixture *f = *state;
	struct peer a;
	const struct mqtt_message empty = {.topic = "t/x", .retained = true};
	const struct mqtt_message request = {
		.topic = "t/ask", .payload = "{}", .len = 2, .response_topic = "t/answer", .correlation = "key-1", .correlation_len = 5};

	start_up(f, &a);
	assert_true(mqtt_client_publish(a.client, &empty, NULL) > 0);
	assert_true(mqtt_client_publish(a.client, &request, NULL) > 0);
	loop_until(&f->loop, a.received == 2, SOON);
	assert_string_equal(a.messages[0].payload, "");
	assert_null(a.messages[0].response_topic);
	assert_string_equal(a.messages[1].response_topic, "t/answer");
	assert_string_equal(a.messages[1].correlation, "key-1");
	peer_free(&a);
}

/* QoS 0: many more than may be in flight, each said to be sent; and nothing of it is kept for a session whose client is away. */
static void test_at_most_once(void **state)
{
	enum { MANY = 200 };
	struct fixture *f = *state;
	struct mqtt_message once = {.topic = "t/once",
		.payload = "{\"secret\":1}",
		.len = 12,
		.correlation = "key-1",
		.correlation_len = 5,
		.at_most_once = true,
		.secret = true,
		.expiry_s = 60};
	struct peer a, b;

	f->config.subscriptions = NULL;
	f->config.n_subscriptions = 0;
	f->config.client_id = "cloud";
	start_up(f, &a);
	peer_config(&f->config, &f->url);
	start_up(f, &b);
	peer_publish(&b, "t/heard", "", false); /* its subscription is active when that comes */
	loop_until(&f->loop, b.received == 1, SOON);
	for (int i = 0; i < MANY; i++)
		assert_true(mqtt_client_publish(a.client, &once, NULL) > 0);
	loop_until(&f->loop, a.published == MANY && b.received == MANY + 1, SOON);
	assert_string_equal(b.messages[1].payload, "{\"secret\":1}");
	assert_string_equal(b.messages[1].correlation, "key-1");
	assert_false(mqtt_client_is_secure(a.client));

	peer_free(&b);
	assert_true(mqtt_client_publish(a.client, &once, NULL) > 0);
	peer_publish(&a, "t/kept", "{}", false);
	loop_until(&f->loop, a.published == MANY + 2, SOON);
	start_up(f, &b);
	assert_true(b.session_present);
	loop_until(&f->loop, b.received > 0, SOON);
	assert_string_equal(b.messages[0].topic, "t/kept");
	peer_free(&a);
	peer_free(&b);
}

static void test_limits(void **state)
{
	struct fixture *f = *state;
	struct peer a;
	char *big;
	error err;
	struct mqtt_message m = {.topic = "t/big"};

	f->config.max_payload = 1000;
	f->config.queue_bytes = 1000;
	start_up(f, &a);
	big = mem_alloc(1001);
	memset(big, 'x', 1001);
	m.payload = big;
	m.len = 1001;
	assert_int_equal(mqtt_client_publish(a.client, &m, &err), ERROR_LIMIT);
	assert_non_null(strstr(err.text, "1001"));
	m.len = 1000;
	assert_true(mqtt_client_publish(a.client, &m, NULL) > 0);
	for (int i = 0; i < 100; i++)
		if (mqtt_client_publish(a.client, &m, &err) < 0)
			break;
	assert_int_equal(err.code, ERROR_LIMIT);
	assert_int_equal(mqtt_client_counters(a.client)->limited, 2);
	loop_until(&f->loop, a.rooms == 1, SOON);
	m.topic = "t/+";
	assert_int_equal(mqtt_client_publish(a.client, &m, &err), ERROR_INVALID);
	free(big);
	peer_free(&a);
}

/* The topic is good for us, but not UTF-8: the library refuses it, as an answer to the token. */
static void test_topic_not_utf8(void **state)
{
	struct fixture *f = *state;
	struct peer a;

	start_up(f, &a);
	assert_true(peer_publish(&a, "t/\xff", "{}", false) > 0);
	loop_until(&f->loop, a.publish_refused == 1, SOON);
	assert_int_equal(a.publish_code, ERROR_INVALID);
	assert_true(peer_publish(&a, "t/ok", "{}", false) > 0);
	loop_until(&f->loop, a.published == 1, SOON);
	peer_free(&a);
}

static void test_will(void **state)
{
	struct fixture *f = *state;
	struct mqtt_config dying = f->config;
	const struct mqtt_message bye = {.topic = "t/presence", .payload = "bye", .len = 3, .retained = true};
	struct peer watcher, polite;

	f->config.client_id = "watcher";
	start_up(f, &watcher);
	dying.will = (struct mqtt_will){.topic = "t/presence", .payload = "dead", .len = 4, .retained = true};
	peer_start(&polite, &f->loop, &dying);
	loop_until(&f->loop, polite.ups == 1, SOON);
	peer_stop(&polite, &bye);
	loop_until(&f->loop, watcher.received == 1, SOON);
	assert_string_equal(watcher.messages[0].payload, "bye");
	peer_publish(&watcher, "t/marker", "x", false); /* a will would have come before it */
	loop_until(&f->loop, peer_payload(&watcher, "t/marker"), SOON);
	assert_int_equal(watcher.received, 2);
	peer_free(&polite);
	peer_free(&watcher);
}

static void test_session_kept(void **state)
{
	struct fixture *f = *state;
	struct peer a, b;

	start_up(f, &a);
	peer_publish(&a, "t/marker", "1", false); /* comes back when the subscription is there */
	loop_until(&f->loop, a.received == 1 && a.published == 1, SOON);
	peer_stop(&a, NULL);
	peer_free(&a);
	f->config.client_id = "edge-2";
	start_up(f, &b);
	peer_publish(&b, "t/while-away", "1", false);
	loop_until(&f->loop, b.published == 1, SOON);
	f->config.client_id = "edge-1";
	start_up(f, &a);
	assert_true(a.session_present);
	loop_until(&f->loop, a.received == 1, SOON);
	assert_string_equal(a.messages[0].topic, "t/while-away");
	peer_free(&a);
	peer_free(&b);
}

static int setup_acl(void **state)
{
	struct fixture *f;

	setup_with(state, "listener {port} 127.0.0.1\nallow_anonymous true\nacl_file {dir}/acl\n");
	f = *state;
	broker_file(f->broker, "acl", "topic readwrite t/mine/#\n");
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

/* mosquitto answers a publish that its rules refuse with a PUBACK: only the reason code shows it. */
static void test_publish_refused(void **state)
{
	struct fixture *f = *state;
	struct peer a;
	int64_t token;

	start_up(f, &a);
	token = peer_publish(&a, "t/others/x", "{}", false);
	loop_until(&f->loop, a.publish_refused == 1, SOON);
	assert_int_equal(a.last_token, token);
	assert_int_equal(a.publish_code, ERROR_DENIED);
	assert_int_equal(a.publish_reason, 0x87);
	assert_non_null(strstr(a.publish_text, "ACL"));
	peer_publish(&a, "t/mine/x", "{}", false);
	loop_until(&f->loop, a.published == 1, SOON);
	assert_int_equal(mqtt_client_counters(a.client)->refused_publishes, 1);
	assert_true(peer_is_up(&a));
	peer_free(&a);
}

/* mosquitto's ACL file lets everybody subscribe anything (and then sends nothing); its plugin refuses. */
static int setup_subscription_denied(void **state)
{
	struct fixture *f;

	setup_with(state, BROKER_PLAIN "plugin " DYNAMIC_SECURITY "\nplugin_opt_config_file {dir}/rules.json\n");
	f = *state;
	broker_file(f->broker, "rules.json",
		"{\"defaultACLAccess\":{\"publishClientSend\":true,\"publishClientReceive\":true,\"subscribe\":false,\"unsubscribe\":true},"
		"\"anonymousGroup\":\"all\",\"clients\":[],\"groups\":[{\"groupname\":\"all\",\"roles\":[{\"rolename\":\"own\"}]}],"
		"\"roles\":[{\"rolename\":\"own\",\"acls\":[{\"acltype\":\"subscribeLiteral\",\"topic\":\"t/#\",\"allow\":true}]}]}");
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

static void test_subscription_refused(void **state)
{
	static const struct mqtt_subscription subscriptions[] = {{.filter = "others/#", .qos = 1}, {.filter = "t/#", .qos = 1}};
	struct fixture *f = *state;
	struct peer a;

	f->config.subscriptions = subscriptions;
	f->config.n_subscriptions = 2;
	start_up(f, &a);
	loop_until(&f->loop, a.refused_subscriptions == 1, SOON);
	assert_string_equal(a.refused_topic, "others/#");
	assert_int_equal(a.refused_reason, 0x87);
	assert_int_equal(mqtt_client_counters(a.client)->refused_subscriptions, 1);
	peer_publish(&a, "t/x", "{}", false);
	loop_until(&f->loop, a.received == 1, SOON); /* the other subscription is there */
	assert_int_equal(a.downs, 0);
	peer_free(&a);
}

static int setup_password(void **state)
{
	struct fixture *f;

	setup_with(state, "listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {dir}/passwords\n");
	f = *state;
	broker_file(f->broker, "passwords", "");
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

static void test_wrong_password(void **state)
{
	struct fixture *f = *state;
	struct peer a;

	f->config.username = "edge-1";
	f->config.password = "wrong-CANARY";
	peer_start(&a, &f->loop, &f->config);
	loop_until(&f->loop, a.refused_connects == 3, SOON);
	assert_int_equal(a.ups, 0);
	assert_int_equal(a.downs, 0);
	assert_int_equal(a.refused_reason, 0x87);
	assert_non_null(strstr(a.refused_text, "password"));
	assert_null(strstr(a.refused_text, "CANARY"));
	assert_string_equal(mqtt_client_problem(a.client), a.refused_text);
	assert_int_equal(peer_publish(&a, "t/x", "{}", false), ERROR_OFFLINE);
	assert_int_equal(mqtt_client_counters(a.client)->refused_connects, 3);
	peer_free(&a);
}

static int setup_small_packets(void **state)
{
	struct fixture *f;

	setup_with(state, BROKER_PLAIN "max_packet_size 1000\nmax_keepalive 30\n");
	f = *state;
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

static void test_broker_packet_limit(void **state)
{
	struct fixture *f = *state;
	struct peer a;
	char text[1001];
	size_t limit;

	start_up(f, &a);
	memset(text, 'x', sizeof text);
	limit = sizeof text - 1;
	do
		text[limit--] = '\0';
	while (peer_publish(&a, "t/x", text, false) == ERROR_LIMIT);
	assert_in_range(limit, 900, 990);
	loop_until(&f->loop, a.published == 1 && a.received == 1, SOON);
	assert_int_equal(a.downs, 0);
	peer_free(&a);
}

/* The configuration that is shipped, with the two lines replaced that its README names. */
static int setup_laptop(void **state)
{
	struct fixture *f;
	buf config = {0};
	char line[512];
	FILE *in = fopen(SOURCE_DIR "/broker-config/laptop.conf", "re");

	assert_non_null(in);
	while (fgets(line, sizeof line, in)) {
		if (!strncmp(line, "listener ", 9))
			buf_puts(&config, "listener {port} 127.0.0.1\n");
		else if (!strncmp(line, "persistence_location ", 21))
			buf_puts(&config, "persistence_location {dir}/\n");
		else
			buf_puts(&config, line);
	}
	fclose(in);
	setup_with(state, buf_text(&config));
	buf_fini(&config);
	f = *state;
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	return 0;
}

static void test_laptop_configuration(void **state)
{
	struct fixture *f = *state;
	struct peer a;
	char *payload = mem_alloc((size_t)256 * 1024 + 1);

	memset(payload, 'x', (size_t)256 * 1024);
	start_up(f, &a);
	peer_publish(&a, "t/kept", payload, true);
	loop_until(&f->loop, a.published == 1 && a.received == 1, SOON);
	peer_publish(&a, "other", "", false); /* behind our acknowledgement: else it is delivered once more */
	loop_until(&f->loop, a.published == 2, SOON);
	broker_stop(f->broker);
	broker_start(f->broker);
	loop_until(&f->loop, a.ups == 2, SOON);
	assert_true(a.session_present);
	loop_until(&f->loop, a.received == 2, SOON);
	assert_true(a.messages[1].retained);
	assert_string_equal(a.messages[1].payload, payload);
	peer_free(&a);
	free(payload);
}

/* Each state can be stopped, and freed from the callback that says so. */
static void test_stop_before_start(void **state)
{
	struct fixture *f = *state;
	struct peer a = {.loop = &f->loop};

	a.client = mqtt_client_new(&f->loop, &f->config, &(struct mqtt_callbacks){0}, NULL);
	assert_non_null(a.client);
	peer_stop(&a, NULL);
	peer_free(&a);
	a = (struct peer){.loop = &f->loop};
	a.client = mqtt_client_new(&f->loop, &f->config, &(struct mqtt_callbacks){0}, NULL);
	mqtt_client_free(a.client); /* never started: loop_fini closes its handles */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_proxies_are_not_for_mqtt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_publish_and_receive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_and_request, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at_most_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_topic_not_utf8, setup, teardown),
		cmocka_unit_test_setup_teardown(test_will, setup, teardown),
		cmocka_unit_test_setup_teardown(test_session_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(test_publish_refused, setup_acl, teardown),
		cmocka_unit_test_setup_teardown(test_subscription_refused, setup_subscription_denied, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_password, setup_password, teardown),
		cmocka_unit_test_setup_teardown(test_broker_packet_limit, setup_small_packets, teardown),
		cmocka_unit_test_setup_teardown(test_laptop_configuration, setup_laptop, teardown),
		cmocka_unit_test_setup_teardown(test_stop_before_start, setup, teardown),
	};

	mem_init();
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt", LOG_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
