/* The MQTT client, a real mosquitto, and what goes wrong between them: brokers that die or come late, dead links, another client of the same
 * name, floods, a loop that is busy, and stopping in the middle of any of it.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/broker.h"
#include "tests/integration/child.h"
#include "tests/integration/loop.h"
#include "tests/integration/peer.h"
#include "tests/integration/proxy.h"

enum { SOON = 20000, FLOOD = 10000 };

struct fixture {
	uv_loop_t loop;
	broker *broker;
	proxy *proxy;
	const char *url;
	struct mqtt_config config;
	struct peer a;
};

static int setup_with(void **state, const char *config)
{
	struct fixture *f = mem_alloc(sizeof *f);

	uv_loop_init(&f->loop);
	f->broker = broker_new(config);
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, BROKER_PLAIN "max_queued_messages 0\n");
}

static int setup_persistent(void **state)
{
	return setup_with(state, BROKER_PERSISTENT);
}

static int setup_proxy(void **state)
{
	struct fixture *f;

	setup(state);
	f = *state;
	f->proxy = proxy_new(broker_port(f->broker));
	f->url = proxy_url(f->proxy);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	loop_fini(&f->loop);
	proxy_free(f->proxy);
	broker_free(f->broker);
	free(f);
	return 0;
}

static void start_up(struct fixture *f, struct peer *p)
{
	peer_start(p, &f->loop, &f->config);
	loop_until(&f->loop, p->ups == 1, SOON);
}

static uint64_t now_ms(void)
{
	return uv_hrtime() / 1000000;
}

static void test_broker_killed(void **state)
{
	struct fixture *f = *state;
	struct peer *a = &f->a;

	start_up(f, a);
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
	struct fixture *f = *state;
	struct peer *a = &f->a;

	start_up(f, a);
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
	struct fixture *f = *state;
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
	struct fixture *f = *state;
	struct peer *a = &f->a;
	char dead[64];
	const char *urls[] = {dead, "tcp://no-such-host.invalid:1883", f->url};

	snprintf(dead, sizeof dead, "tcp://127.0.0.1:%u", port_free());
	f->config.insecure = true;
	f->config.brokers = urls;
	f->config.n_brokers = 3;
	start_up(f, a);
	assert_int_equal(mqtt_client_counters(a->client)->attempts, 3);
	peer_free(a);
}

static void test_name_does_not_resolve(void **state)
{
	struct fixture *f = *state;
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

static int listen_somewhere(int backlog, char *url, size_t size, struct sockaddr_in *address)
{
	socklen_t len = sizeof *address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	assert_int_equal(bind(listener, (struct sockaddr *)address, len), 0);
	assert_int_equal(listen(listener, backlog), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)address, &len), 0);
	snprintf(url, size, "tcp://127.0.0.1:%u", ntohs(address->sin_port));
	return listener;
}

static void expect_long_backoff(struct fixture *f)
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
	struct fixture *f = *state;
	struct sockaddr_in address;
	char url[64];
	int listener = listen_somewhere(1, url, sizeof url, &address);
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
	struct fixture *f = *state;

	f->config.backoff_max_ms = 3000;
	start_up(f, &f->a);
	mqtt_client_yield(f->a.client, "another agent with the same name was born");
	expect_long_backoff(f);
}

/* Two with one name throw each other out. Without a reason from the broker the back-off alone keeps them from doing it all the time. */
static void test_two_of_one_name(void **state)
{
	struct fixture *f = *state;
	struct peer b;

	f->config.backoff_min_ms = 100;
	f->config.backoff_max_ms = 60000;
	start_up(f, &f->a);
	start_up(f, &b);
	loop_until(&f->loop, f->a.downs == 1, SOON);
	loop_until(&f->loop, f->a.downs + b.downs >= 3, SOON);
	assert_int_equal(f->a.refused_connects + b.refused_connects, 0);
	peer_free(&b);
	peer_free(&f->a);
}

static void expect_dead_link(struct fixture *f, uint64_t from, uint64_t limit)
{
	uint64_t took;

	loop_until(&f->loop, f->a.downs == 1, SOON);
	took = now_ms() - from;
	print_message("dead link found after %llu ms\n", (unsigned long long)took);
	assert_true(took <= limit);
	assert_int_equal(mqtt_client_counters(f->a.client)->dead_links, 1);
	proxy_thaw(f->proxy);
	loop_until(&f->loop, f->a.ups == 2, SOON);
	peer_publish(&f->a, "t/again", "1", false);
	loop_until(&f->loop, f->a.published == 1, SOON);
	peer_free(&f->a);
}

static void test_dead_link_idle(void **state)
{
	struct fixture *f = *state;

	f->config.keep_alive_s = 2;
	start_up(f, &f->a);
	loop_for(&f->loop, 4500); /* two probes, answered */
	assert_true(peer_is_up(&f->a));
	assert_int_equal(f->a.downs, 0);
	proxy_freeze(f->proxy);
	expect_dead_link(f, now_ms(), 3000);
}

static void test_dead_link_while_publishing(void **state)
{
	struct fixture *f = *state;

	f->config.keep_alive_s = 4;
	start_up(f, &f->a);
	loop_for(&f->loop, 100);
	proxy_freeze(f->proxy);
	assert_true(peer_publish(&f->a, "t/lost", "1", false) > 0);
	expect_dead_link(f, now_ms(), 2500);
}

/* The kernel accepts for a frozen proxy, but nobody answers the CONNECT. */
static void test_connect_times_out(void **state)
{
	struct fixture *f = *state;
	struct peer *a = &f->a;

	f->config.connect_timeout_s = 1;
	proxy_freeze(f->proxy);
	peer_start(a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(a->client)->attempts == 2, SOON);
	assert_non_null(strstr(mqtt_client_problem(a->client), "within 1 s"));
	proxy_thaw(f->proxy);
	loop_until(&f->loop, a->ups == 1, SOON);
	peer_free(a);
}

static void stop_within(struct fixture *f, uint64_t limit)
{
	uint64_t from = now_ms();
	const struct mqtt_message bye = {.topic = "t/bye", .payload = "x", .len = 1};

	peer_stop(&f->a, &bye);
	print_message("stopped after %llu ms\n", (unsigned long long)(now_ms() - from));
	assert_true(now_ms() - from < limit);
	peer_free(&f->a);
}

static void test_stop_while_waiting(void **state)
{
	struct fixture *f = *state;

	broker_stop(f->broker);
	f->config.backoff_min_ms = f->config.backoff_max_ms = 60000;
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_WAITING && mqtt_client_counters(f->a.client)->attempts == 1, SOON);
	stop_within(f, 1000);
}

static void test_stop_while_connecting(void **state)
{
	struct fixture *f = *state;

	proxy_freeze(f->proxy);
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_CONNECTING, SOON);
	loop_for(&f->loop, 300); /* it is connected, and waits for the CONNACK */
	stop_within(f, 3000);
}

/* At every moment of an attempt: with the thread, the resolver, the socket and the handshake in whatever state they are in. */
static void test_stop_at_any_moment(void **state)
{
	struct fixture *f = *state;

	for (unsigned ms = 0; ms < 50; ms++) {
		if (ms % 2)
			proxy_freeze(f->proxy);
		else
			proxy_thaw(f->proxy);
		peer_start(&f->a, &f->loop, &f->config);
		loop_for(&f->loop, ms / 2);
		peer_stop(&f->a, NULL);
		peer_free(&f->a);
	}
}

/* A listener whose queue is full: the kernel drops the SYN, connect() hangs. */
static void test_stop_while_syn_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in address;
	char url[64];
	int listener = listen_somewhere(0, url, sizeof url, &address), fillers[4];

	for (int i = 0; i < 4; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fillers[i], (struct sockaddr *)&address, sizeof address); /* goes on by itself */
	}
	f->url = url;
	peer_start(&f->a, &f->loop, &f->config);
	loop_for(&f->loop, 300);
	assert_int_equal(mqtt_client_state(f->a.client), MQTT_CONNECTING);
	stop_within(f, 3000);
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
	close(listener);
}

/* The resolver as a test wants it: it hangs while `resolver_hangs` is set, as with a dead name server. */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res);
static uv_sem_t resolver_released;
static atomic_bool resolver_hangs;

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	if (atomic_load(&resolver_hangs))
		uv_sem_wait(&resolver_released);
	return __real_getaddrinfo(node, service, hints, res);
}

static void test_resolver_hangs(void **state)
{
	struct fixture *f = *state;

	atomic_store(&resolver_hangs, true);
	f->config.connect_timeout_s = 1;
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_CLOSING, SOON);
	assert_non_null(strstr(mqtt_client_problem(f->a.client), "within 1 s"));
	loop_for(&f->loop, 500); /* no second one begins before the first has ended */
	assert_int_equal(mqtt_client_counters(f->a.client)->attempts, 1);
	atomic_store(&resolver_hangs, false);
	uv_sem_post(&resolver_released);
	loop_until(&f->loop, f->a.ups == 1, SOON);
	peer_free(&f->a);

	/* Stopping does not wait for it; the thread that does is left to itself. */
	atomic_store(&resolver_hangs, true);
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_CONNECTING, SOON);
	loop_for(&f->loop, 50);
	stop_within(f, 500);
	atomic_store(&resolver_hangs, false);
	uv_sem_post(&resolver_released);
	start_up(f, &f->a);
	peer_free(&f->a);
}

static void test_stop_on_dead_link(void **state)
{
	struct fixture *f = *state;

	start_up(f, &f->a);
	proxy_freeze(f->proxy);
	peer_publish(&f->a, "t/x", "1", false);
	stop_within(f, 5000);
}

/* As fast as the window allows, to itself: all published, all received, in order. */
static void test_flood(void **state)
{
	struct fixture *f = *state;
	struct peer *a = &f->a;
	uint64_t from;
	int sent = 0;
	char text[16];

	start_up(f, a);
	from = now_ms();
	while (sent < FLOOD) {
		int rooms = a->rooms;

		snprintf(text, sizeof text, "%d", sent);
		if (peer_publish(a, "t/flood", text, false) > 0)
			sent++;
		else
			loop_until(&f->loop, a->rooms > rooms, SOON);
	}
	loop_until(&f->loop, a->published == FLOOD && a->received == FLOOD, 60000);
	print_message("%d messages there and back in %llu ms\n", FLOOD, (unsigned long long)(now_ms() - from));
	assert_int_equal(a->out_of_order, 0);
	assert_int_equal(mqtt_client_counters(a->client)->dropped_in, 0);
	assert_int_equal(a->downs, 0);
	peer_free(a);
}

/* A loop that does not come to its messages makes the broker wait; nothing is lost, nothing grows over its bound. */
static void test_slow_loop(void **state)
{
	struct fixture *f = *state;
	struct peer *a = &f->a, b;
	char text[1000];
	uv_loop_t other;
	enum { MESSAGES = 500 };

	f->config.queue_bytes = 20 * 1000;
	start_up(f, a);
	peer_publish(a, "t/marker", "0", false);
	loop_until(&f->loop, a->received == 1, SOON);

	uv_loop_init(&other);
	f->config.client_id = "edge-2";
	f->config.n_subscriptions = 0;
	f->config.queue_bytes = (size_t)1000 * 1000;
	peer_start(&b, &other, &f->config);
	loop_until(&other, b.ups == 1, SOON);
	for (int i = 0; i < MESSAGES; i++) {
		memset(text, ' ', sizeof text);
		snprintf(text + 900, 99, "%d", i);
		assert_true(peer_publish(&b, "t/many", text, false) > 0);
	}
	loop_for(&other, 1500); /* the first loop does not run meanwhile */
	loop_until(&f->loop, a->received == MESSAGES + 1 || !uv_run(&other, UV_RUN_NOWAIT), SOON);
	assert_int_equal(a->received, MESSAGES + 1);
	assert_int_equal(a->out_of_order, 0);
	assert_int_equal(mqtt_client_counters(a->client)->dropped_in, 0);
	peer_free(&b);
	loop_fini(&other);
	peer_free(a);
}

enum { KEPT = 40, PATIENCE_MS = 10, AGAIN_MS = 1500 };

/* `b` publishes more than `a`, whose loop does not run meanwhile, has room for; then `a` finds out. */
static void overflow(struct fixture *f, struct peer *b)
{
	struct peer *a = &f->a;
	uint64_t dropped = mqtt_client_counters(a->client)->dropped_in;
	int published = b->published;
	char topic[32], text[1000];

	memset(text, ' ', sizeof text);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < KEPT; i++) {
		snprintf(topic, sizeof topic, "t/kept/%d", i);
		assert_true(peer_publish(b, topic, text, true) > 0);
	}
	loop_until(b->loop, b->published == published + KEPT, SOON);
	loop_for(b->loop, 2 * PATIENCE_MS);
	loop_until(&f->loop, mqtt_client_counters(a->client)->dropped_in > dropped, SOON);
}

static bool has_all_kept(const struct peer *p)
{
	char topic[32];

	for (int i = 0; i < KEPT; i++) {
		snprintf(topic, sizeof topic, "t/kept/%d", i);
		if (!peer_payload(p, topic))
			return false;
	}
	return true;
}

static const struct mqtt_counters *wait_resubscribed(struct fixture *f, uint64_t n, uint64_t begin)
{
	const struct mqtt_counters *counters = mqtt_client_counters(f->a.client);

	loop_until(&f->loop, counters->resubscribes >= n, SOON);
	assert_true(counters->resubscribes <= (now_ms() - begin) / AGAIN_MS); /* the first subscription counts too */
	return counters;
}

/* What a loop that was away for too long has lost comes again as far as it is retained, by a new subscription; not too many of them. */
static void test_lost_retained_come_again(void **state)
{
	struct fixture *f = *state;
	struct peer *a = &f->a, b;
	const struct mqtt_subscription once = {.filter = "t/#", .qos = 1, .retain_handling = MQTT_RETAINED_IF_NEW};
	const struct mqtt_counters *counters;
	struct mqtt_counters then;
	uint64_t begin = now_ms();
	uv_loop_t other;

	f->config.subscriptions = &once;
	f->config.queue_bytes = 5 * 1000;
	f->config.patience_ms = PATIENCE_MS;
	f->config.resubscribe_ms = AGAIN_MS;
	start_up(f, a);
	peer_publish(a, "t/marker", "0", false);
	loop_until(&f->loop, a->received == 1, SOON);
	uv_loop_init(&other);
	peer_config(&f->config, &f->url);
	f->config.client_id = "edge-2";
	f->config.n_subscriptions = 0;
	peer_start(&b, &other, &f->config);
	loop_until(&other, b.ups == 1, SOON);

	overflow(f, &b);
	assert_false(has_all_kept(a));
	counters = wait_resubscribed(f, 1, begin);
	loop_until(&f->loop, has_all_kept(a), SOON);
	overflow(f, &b);
	wait_resubscribed(f, counters->resubscribes + 1, begin);
	then = *counters;
	loop_for(&f->loop, AGAIN_MS + 200);
	assert_true(counters->resubscribes == then.resubscribes || counters->dropped_in > then.dropped_in); /* once is enough */
	assert_int_equal(a->downs, 0);
	peer_free(&b);
	loop_fini(&other);
	peer_free(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_broker_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broker_restarted_with_persistence, setup_persistent, teardown),
		cmocka_unit_test_setup_teardown(test_broker_comes_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broker_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_name_does_not_resolve, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_yield, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_of_one_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dead_link_idle, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_dead_link_while_publishing, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_connect_times_out, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_stop_while_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop_while_connecting, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_stop_at_any_moment, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_stop_while_syn_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_resolver_hangs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop_on_dead_link, setup_proxy, teardown),
		cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_retained_come_again, setup, teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_faults", LOG_WARN);
	uv_sem_init(&resolver_released, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
