/* The MQTT client and brokers that it cannot count on: they die, come back with or without what they knew, come late, are one of a list, have
 * no address, or give the connection to another client of the same name.
 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/child.h"
#include "tests/integration/loop.h"
#include "tests/integration/mqtt_kit.h"

static void test_broker_killed(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;

	fixture_up(f, a);
	broker_kill(f->broker);
	loop_until(&f->loop, a->downs == 1, SOON);
	assert_false(peer_is_up(a));
	assert_int_equal(peer_publish(a, "t/x", "{}", false), ERROR_OFFLINE);
	loop_until(&f->loop, mqtt_client_counters(a->client)->attempts >= 3, SOON);
	assert_string_not_equal(mqtt_client_problem(a->client), "");
	broker_start(f->broker);
	loop_until(&f->loop, a->ups == 2, SOON);
	assert_false(a->session_present);
	assert_string_equal(mqtt_client_problem(a->client), "");
	peer_publish(a, "t/x", "{}", false);
	loop_until(&f->loop, a->received == 1, SOON); /* subscribed again */
	peer_free(a);
}

static void test_broker_restarted_with_persistence(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;

	fixture_up(f, a);
	peer_publish(a, "t/marker", "1", false);
	loop_until(&f->loop, a->received == 1, SOON);
	broker_stop(f->broker);
	loop_until(&f->loop, a->downs == 1, SOON);
	broker_start(f->broker);
	loop_until(&f->loop, a->ups == 2, SOON);
	assert_true(a->session_present);
	peer_free(a);
}

static void test_broker_comes_late(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;

	broker_stop(f->broker);
	peer_start(a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(a->client)->attempts >= 3, SOON);
	assert_int_equal(a->ups, 0);
	assert_int_equal(a->downs, 0);
	broker_start(f->broker);
	loop_until(&f->loop, a->ups == 1, SOON);
	peer_free(a);
}

static void test_broker_list(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;
	char dead[64];
	const char *urls[] = {dead, "tcp://no-such-host.invalid:1883", f->url};

	snprintf(dead, sizeof dead, "tcp://127.0.0.1:%u", port_free());
	f->config.insecure = true;
	f->config.brokers = urls;
	f->config.n_brokers = 3;
	fixture_up(f, a);
	assert_int_equal(mqtt_client_counters(a->client)->attempts, 3);
	peer_free(a);
}

static void test_name_does_not_resolve(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer *a = &f->a;

	f->url = "mqtt://no-such-host.invalid";
	f->config.insecure = true;
	peer_start(a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(a->client)->attempts >= 2, SOON);
	assert_non_null(strstr(mqtt_client_problem(a->client), "no-such-host.invalid"));
	peer_free(a);
}

/* A broker that says why: it lets the first connection up and takes it away with "session taken over". Mosquitto 2.0.11 only closes it. */
static int run_terse_broker(void *arg)
{
	static const char connack[] = {0x20, 3, 0, 0, 0}, disconnect[] = {(char)0xe0, 2, (char)0x8e, 0};
	const int *listener = arg;
	int fd = accept(*listener, NULL, NULL);
	char data[1024];

	if (recv(fd, data, sizeof data, 0) <= 0 || send(fd, connack, sizeof connack, 0) < 0) /* CONNECT */
		return 1;
	if (recv(fd, data, sizeof data, 0) <= 0 || send(fd, disconnect, sizeof disconnect, 0) < 0) /* SUBSCRIBE */
		return 1;
	while (recv(fd, data, sizeof data, 0) > 0)
		continue;
	return 0;
}

static void expect_long_backoff(struct mqtt_fixture *f)
{
	loop_until(&f->loop, f->a.downs == 1, SOON);
	assert_non_null(strstr(f->a.down_reason, "same name"));
	assert_int_equal(mqtt_client_counters(f->a.client)->takeovers, 1);
	loop_for(&f->loop, 1000); /* of 3 s, half at least */
	assert_int_equal(mqtt_client_counters(f->a.client)->attempts, 1);
	peer_free(&f->a);
}

static void test_taken_over(void **state)
{
	struct mqtt_fixture *f = *state;
	struct sockaddr_in address;
	char url[64];
	int listener = fixture_listen(1, url, sizeof url, &address);
	pid_t child = child_fork(run_terse_broker, &listener);

	f->url = url;
	f->config.backoff_max_ms = 3000;
	peer_start(&f->a, &f->loop, &f->config);
	expect_long_backoff(f);
	assert_int_equal(child_end(child, 0), 0);
	close(listener);
}

static void test_yield(void **state)
{
	struct mqtt_fixture *f = *state;

	f->config.backoff_max_ms = 3000;
	fixture_up(f, &f->a);
	mqtt_client_yield(f->a.client, "another agent with the same name was born");
	expect_long_backoff(f);
}

/* Two with one name throw each other out. Without a reason from the broker the back-off alone keeps them from doing it all the time. */
static void test_two_of_one_name(void **state)
{
	struct mqtt_fixture *f = *state;
	struct peer b;

	f->config.backoff_min_ms = 100;
	f->config.backoff_max_ms = 60000;
	fixture_up(f, &f->a);
	fixture_up(f, &b);
	loop_until(&f->loop, f->a.downs == 1, SOON);
	loop_until(&f->loop, f->a.downs + b.downs >= 3, SOON);
	assert_int_equal(f->a.refused_connects + b.refused_connects, 0);
	peer_free(&b);
	peer_free(&f->a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_broker_killed, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_broker_restarted_with_persistence, fixture_setup_persistent, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_broker_comes_late, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_broker_list, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_name_does_not_resolve, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_taken_over, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_yield, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_two_of_one_name, fixture_setup, fixture_teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_brokers", LOG_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
