/* The MQTT client over TLS to a real mosquitto: chain and name are verified, both ways if the broker asks; what is wrong is said, and is
 * right again as soon as the files are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "tests/integration/broker.h"
#include "tests/integration/certificate.h"
#include "tests/integration/child.h"
#include "tests/integration/loop.h"
#include "tests/integration/peer.h"

enum { SOON = 20000 };

#define BROKER_TLS                                                                                                                         \
	"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {dir}/ca.crt\ncertfile {dir}/broker.crt\nkeyfile {dir}/broker.key\n"
/* One certificate per node; its name is the user name. */
#define BROKER_MUTUAL BROKER_TLS "require_certificate true\nuse_identity_as_username true\n"

struct fixture {
	uv_loop_t loop;
	broker *broker;
	authority *ca;
	char *dir, *ca_file, *url_text;
	const char *url;
	struct mqtt_config config;
	struct peer a;
};

static void setup_with(void **state, const char *config, const char *alternatives, int from_days, int until_days)
{
	struct fixture *f = mem_alloc(sizeof *f);

	*state = f;
	uv_loop_init(&f->loop);
	f->broker = broker_new(config);
	f->dir = mem_strdup(broker_dir(f->broker));
	f->ca = authority_new(f->dir, "ca");
	f->ca_file = mem_printf("%s/ca.crt", f->dir);
	authority_issue(f->ca, f->dir, "broker", alternatives, from_days, until_days);
	broker_start(f->broker);
	f->url_text = mem_printf("mqtts://localhost:%u", broker_port(f->broker));
	f->url = f->url_text;
	peer_config(&f->config, &f->url);
	f->config.ca_file = f->ca_file;
}

static int setup(void **state)
{
	setup_with(state, BROKER_TLS, "DNS:localhost,IP:127.0.0.1", -1, 1);
	return 0;
}

static int setup_expired(void **state)
{
	setup_with(state, BROKER_TLS, "DNS:localhost,IP:127.0.0.1", -10, -1);
	return 0;
}

static int setup_other_name(void **state)
{
	setup_with(state, BROKER_TLS, "DNS:broker.example", -1, 1);
	return 0;
}

static int setup_mutual(void **state)
{
	setup_with(state, BROKER_MUTUAL, "DNS:localhost", -1, 1);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	loop_fini(&f->loop);
	broker_free(f->broker);
	authority_free(f->ca);
	free(f->dir);
	free(f->ca_file);
	free(f->url_text);
	free(f);
	return 0;
}

static void expect_there_and_back(struct fixture *f)
{
	loop_until(&f->loop, f->a.ups == 1, SOON);
	peer_publish(&f->a, "t/x", "{}", false);
	loop_until(&f->loop, f->a.received == 1, SOON);
	peer_free(&f->a);
}

static void expect_refusal(struct fixture *f, const char *text)
{
	loop_until(&f->loop, mqtt_client_counters(f->a.client)->attempts >= 3, SOON);
	assert_int_equal(f->a.ups, 0);
	if (!strstr(mqtt_client_problem(f->a.client), text))
		fail_msg("\"%s\" is not in: %s", text, mqtt_client_problem(f->a.client));
}

static void test_verified(void **state)
{
	struct fixture *f = *state;
	char *by_address = mem_printf("ssl://127.0.0.1:%u", broker_port(f->broker));

	peer_start(&f->a, &f->loop, &f->config);
	expect_there_and_back(f);
	f->url = by_address;
	peer_start(&f->a, &f->loop, &f->config);
	expect_there_and_back(f);
	free(by_address);
}

static void test_unknown_authority(void **state)
{
	struct fixture *f = *state;
	authority *other = authority_new(f->dir, "other");
	char *other_file = mem_printf("%s/other.crt", f->dir);

	f->config.ca_file = other_file;
	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "is not accepted: ");
	peer_free(&f->a);
	f->config.ca_file = NULL; /* the system's authorities do not know it either */
	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "is not accepted: ");
	peer_free(&f->a);
	authority_free(other);
	free(other_file);
}

static void test_other_name(void **state)
{
	struct fixture *f = *state;

	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "is not accepted: hostname mismatch");
	peer_free(&f->a);
}

static void test_ca_file_missing(void **state)
{
	struct fixture *f = *state;

	f->config.ca_file = "/nonexistent/ca.crt";
	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "/nonexistent/ca.crt");
	peer_free(&f->a);
}

/* A broker whose certificate ran out, and one whose certificate is renewed: the client gets in by itself. */
static void test_expired_then_renewed(void **state)
{
	struct fixture *f = *state;

	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "machine's clock");
	broker_stop(f->broker);
	authority_issue(f->ca, f->dir, "broker", "DNS:localhost", -1, 1);
	broker_start(f->broker);
	expect_there_and_back(f);
}

/* Without, with an expired and with a good certificate of its own; each file is read anew at each attempt. */
static void test_mutual(void **state)
{
	struct fixture *f = *state;
	char *cert = mem_printf("%s/edge-1.crt", f->dir), *key = mem_printf("%s/edge-1.key", f->dir);

	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(f->a.client)->attempts >= 3, SOON);
	assert_int_equal(f->a.ups, 0);
	assert_non_null(strstr(mqtt_client_problem(f->a.client), "asks for a certificate"));
	peer_free(&f->a);

	f->config.cert_file = cert;
	f->config.key_file = key;
	authority_issue(f->ca, f->dir, "edge-1", NULL, -10, -1);
	peer_start(&f->a, &f->loop, &f->config);
	loop_until(&f->loop, mqtt_client_counters(f->a.client)->attempts >= 3, SOON);
	assert_int_equal(f->a.ups, 0);
	assert_non_null(strstr(mqtt_client_problem(f->a.client), "this agent's certificate: it ended at "));
	authority_issue(f->ca, f->dir, "edge-1", NULL, -1, 1);
	expect_there_and_back(f);
	free(cert);
	free(key);
}

static void test_plaintext_port(void **state)
{
	struct fixture *f = *state;
	char *plain = mem_printf("tcp://127.0.0.1:%u", broker_port(f->broker));

	f->url = plain;
	peer_start(&f->a, &f->loop, &f->config);
	expect_refusal(f, "no connection");
	peer_free(&f->a);
	free(plain);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_verified, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_authority, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_name, setup_other_name, teardown),
		cmocka_unit_test_setup_teardown(test_ca_file_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_expired_then_renewed, setup_expired, teardown),
		cmocka_unit_test_setup_teardown(test_mutual, setup_mutual, teardown),
		cmocka_unit_test_setup_teardown(test_plaintext_port, setup, teardown),
	};

	mem_init();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_mqtt_tls", LOG_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
