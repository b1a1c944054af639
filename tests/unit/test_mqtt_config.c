/* What a client's configuration may say: broker addresses, TLS off this machine, ranges; and the words for MQTT's reason codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"
#include "common/mqtt/broker_url.h"
#include "common/mqtt/config.h"
#include "common/mqtt/message.h"
#include "common/mqtt/reason.h"

static void test_urls(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		bool tls, loopback;
	} good[] = {
		{"tcp://localhost", "localhost", 1883, false, true},
		{"mqtt://LocalHost:1", "LocalHost", 1, false, true},
		{"mqtt://127.1.2.3:65535", "127.1.2.3", 65535, false, true},
		{"tcp://[::1]:1884", "::1", 1884, false, true},
		{"tcp://[fe80::1%eth0]", "fe80::1%eth0", 1883, false, false},
		{"ssl://broker.example", "broker.example", 8883, true, false},
		{"mqtts://[2001:db8::5]", "2001:db8::5", 8883, true, false},
		{"mqtts://10.0.0.1:443", "10.0.0.1", 443, true, false},
		{"tcp://127.evil.example", "127.evil.example", 1883, false, false},
		{"tcp://localhost.example", "localhost.example", 1883, false, false},
	};
	struct broker_url url;

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_int_equal(broker_url_parse(good[i].text, &url, NULL), 0);
		assert_string_equal(url.host, good[i].host);
		assert_int_equal(url.port, good[i].port);
		assert_int_equal(url.tls, good[i].tls);
		assert_int_equal(url.loopback, good[i].loopback);
	}
}

static void test_bad_urls(void **state)
{
	static const char *const bad[] = {
		"",
		"localhost",
		"http://x",
		"ws://x",
		"tcp://",
		"tcp://:1883",
		"tcp://x:",
		"tcp://x:0",
		"tcp://x:65536",
		"tcp://x:123456789",
		"tcp://x:1883/path",
		"tcp://x/path",
		"tcp://x:-1",
		"tcp://[::1",
		"tcp://[::1]x",
		"tcp://a b",
		"tcp://x,tcp://y",
		"tcp://x\ny",
	};
	struct broker_url url;
	char longer[300];
	error err;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		err.text[0] = '\0';
		assert_int_equal(broker_url_parse(bad[i], &url, &err), ERROR_INVALID);
		assert_string_not_equal(err.text, "");
	}
	assert_int_equal(broker_url_parse("mqtts://user:CANARY@host", &url, &err), ERROR_INVALID);
	assert_null(strstr(err.text, "CANARY"));
	memset(longer, 'x', sizeof longer);
	memcpy(longer, "tcp://", 6);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(broker_url_parse(longer, &url, &err), ERROR_INVALID);
}

static void good_config(struct mqtt_config *c, const char *const *url)
{
	mqtt_config_init(c);
	c->brokers = url;
	c->n_brokers = 1;
	c->client_id = "edge-1";
}

static void test_plaintext_off_this_machine(void **state)
{
	const char *url = "mqtt://broker.example";
	struct mqtt_config c;
	error err;

	(void)state;
	good_config(&c, &url);
	assert_int_equal(mqtt_config_check(&c, &err), ERROR_DENIED);
	assert_non_null(strstr(err.text, "insecure: true"));
	c.insecure = true;
	assert_int_equal(mqtt_config_check(&c, &err), 0);
	c.insecure = false;
	url = "mqtts://broker.example";
	assert_int_equal(mqtt_config_check(&c, &err), 0);
	url = "tcp://127.0.0.1";
	assert_int_equal(mqtt_config_check(&c, &err), 0);
}

static void test_ranges(void **state)
{
	const char *url = "mqtt://localhost";
	const struct mqtt_subscription empty = {.filter = ""};
	struct mqtt_config good, c;

	(void)state;
	good_config(&good, &url);
	assert_int_equal(mqtt_config_check(&good, NULL), 0);
#define BAD(change, code)                                                                                                                  \
	do {                                                                                                                                   \
		c = good;                                                                                                                          \
		change;                                                                                                                            \
		assert_int_equal(mqtt_config_check(&c, NULL), code);                                                                               \
	} while (0)
	BAD(c.n_brokers = 0, ERROR_INVALID);
	BAD(c.n_brokers = MQTT_BROKERS_MAX + 1, ERROR_LIMIT);
	BAD(c.client_id = "", ERROR_INVALID);
	BAD(c.client_id = NULL, ERROR_INVALID);
	BAD(c.keep_alive_s = 0, ERROR_INVALID);
	BAD(c.keep_alive_s = 65536, ERROR_INVALID);
	BAD(c.backoff_min_ms = 0, ERROR_INVALID);
	BAD(c.backoff_min_ms = c.backoff_max_ms + 1, ERROR_INVALID);
	BAD(c.max_inflight = 0, ERROR_INVALID);
	BAD(c.max_payload = 0, ERROR_INVALID);
	BAD(c.patience_ms = 0, ERROR_INVALID);
	BAD(c.resubscribe_ms = 0, ERROR_INVALID);
	BAD(c.password = "x", ERROR_INVALID);
	BAD(c.key_file = "x", ERROR_INVALID);
	BAD(c.will.topic = "a/#", ERROR_INVALID);
	BAD((c.subscriptions = &empty, c.n_subscriptions = 1), ERROR_INVALID);
	BAD(c.n_subscriptions = MQTT_SUBSCRIPTIONS_MAX + 1, ERROR_LIMIT);
#undef BAD
}

static void test_copy_is_deep(void **state)
{
	char url[] = "mqtt://localhost", id[] = "edge-1", filter[] = "a/#", will[] = "bye";
	const char *urls = url;
	struct mqtt_subscription sub = {.filter = filter, .qos = 1};
	struct mqtt_config c;
	struct settings *s;

	(void)state;
	good_config(&c, &urls);
	c.client_id = id;
	c.subscriptions = &sub;
	c.n_subscriptions = 1;
	c.will = (struct mqtt_will){.topic = "t", .payload = will, .len = 3};
	s = settings_new(&c);
	url[0] = id[0] = filter[0] = will[0] = '!';
	assert_string_equal(s->c.brokers[0], "mqtt://localhost");
	assert_string_equal(s->brokers[0].host, "localhost");
	assert_string_equal(s->c.client_id, "edge-1");
	assert_string_equal(s->c.subscriptions[0].filter, "a/#");
	assert_memory_equal(s->c.will.payload, "bye", 3);
	settings_free(s);
	settings_free(NULL);
}

static void test_topics(void **state)
{
	(void)state;
	assert_int_equal(message_topic_check("ilmare/v1/presence/edge-1", NULL), 0);
	assert_int_equal(message_topic_check("", NULL), ERROR_INVALID);
	assert_int_equal(message_topic_check(NULL, NULL), ERROR_INVALID);
	assert_int_equal(message_topic_check("a/+/b", NULL), ERROR_INVALID);
	assert_int_equal(message_topic_check("a/#", NULL), ERROR_INVALID);
	assert_int_equal(message_topic_check("a\nb", NULL), ERROR_INVALID);
}

static void test_reasons(void **state)
{
	char text[256];

	(void)state;
	assert_int_equal(reason_error(0), 0);
	assert_int_equal(reason_error(0x10), 0);
	assert_int_equal(reason_error(0x87), ERROR_DENIED);
	assert_int_equal(reason_error(0x95), ERROR_LIMIT);
	assert_int_equal(reason_error(0x97), ERROR_LIMIT);
	assert_int_equal(reason_error(0x8e), ERROR_CONFLICT);
	assert_int_equal(reason_error(0xff), ERROR_IO);
	for (int reason = REASON_FAILURE; reason <= 0xff; reason++) {
		assert_ptr_equal(reason_text(reason, "the connection", text, sizeof text), text);
		assert_true(strlen(text) < sizeof text - 1); /* none is cut */
	}
	assert_non_null(strstr(reason_text(0x8e, "to go on", text, sizeof text), "same name"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_bad_urls),
		cmocka_unit_test(test_plaintext_off_this_machine),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_topics),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_copy_is_deep),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
