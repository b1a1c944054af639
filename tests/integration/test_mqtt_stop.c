/* The MQTT client is stopped in the middle of something: it waits, connects, resolves a name, or has a dead link. It ends soon each time. */
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/loop.h"
#include "tests/integration/mqtt_kit.h"

static void stop_within(struct mqtt_fixture *f, uint64_t limit)
{
	uint64_t from = fixture_now_ms();
	const struct mqtt_message bye = {.topic = "t/bye", .payload = "x", .len = 1};

	peer_stop(&f->a, &bye);
	print_message("stopped after %llu ms\n", (unsigned long long)(fixture_now_ms() - from));
	assert_true(fixture_now_ms() - from < limit);
	peer_free(&f->a);
}

static void test_stop_while_waiting(void **state)
{
	struct mqtt_fixture *f = *state;

	broker_stop(f->broker);
	f->config.backoff_min_ms = f->config.backoff_max_ms = 60000;
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_WAITING && mqtt_client_counters(f->a.client)->attempts == 1, SOON);
	stop_within(f, 1000);
}

static void test_stop_while_connecting(void **state)
{
	struct mqtt_fixture *f = *state;

	proxy_freeze(f->proxy);
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_state(f->a.client) == MQTT_CONNECTING, SOON);
	loop_for(&f->loop, 300); /* it is connected, and waits for the CONNACK */
	stop_within(f, 3000);
}

/* At every moment of an attempt: with the thread, the resolver, the socket and the handshake in whatever state they are in. */
static void test_stop_at_any_moment(void **state)
{
	struct mqtt_fixture *f = *state;

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
	struct mqtt_fixture *f = *state;
	struct sockaddr_in address;
	char url[64];
	int listener = fixture_listen(0, url, sizeof url, &address), fillers[4];

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
	struct mqtt_fixture *f = *state;

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
	fixture_up(f, &f->a);
	peer_free(&f->a);
}

static void test_stop_on_dead_link(void **state)
{
	struct mqtt_fixture *f = *state;

	fixture_up(f, &f->a);
	proxy_freeze(f->proxy);
	peer_publish(&f->a, "t/x", "1", false);
	stop_within(f, 5000);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stop_while_waiting, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_stop_while_connecting, fixture_setup_proxy, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_stop_at_any_moment, fixture_setup_proxy, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_stop_while_syn_is_dropped, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_resolver_hangs, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_stop_on_dead_link, fixture_setup_proxy, fixture_teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_stop", LOG_WARN);
	uv_sem_init(&resolver_released, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
