/* What the tests of the MQTT client against a real mosquitto share: a loop, a broker, a client under test, and if need be a proxy between them. */
#ifndef TESTS_INTEGRATION_MQTT_KIT_H
#define TESTS_INTEGRATION_MQTT_KIT_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "tests/integration/broker.h"
#include "tests/integration/peer.h"
#include "tests/integration/proxy.h"

/* SOON: what anything may take before the test fails, in ms. */
enum { SOON = 20000 };

struct mqtt_fixture {
	uv_loop_t loop;
	broker *broker;
	proxy *proxy; /* NULL without one */
	const char *url;
	struct mqtt_config config; /* of peers that fixture_up starts: theirs is `url` */
	struct peer a;
};

/* For cmocka: a broker that keeps nothing when it ends; one that does; one behind a proxy, which `url` is then. */
int fixture_setup(void **state);
int fixture_setup_persistent(void **state);
int fixture_setup_proxy(void **state);
int fixture_teardown(void **state);

/* Start a client with the fixture's config, and wait until it is connected and subscribed. */
void fixture_up(struct mqtt_fixture *f, struct peer *p);
uint64_t fixture_now_ms(void);
/* A listener on a free loopback port, and its url and address; to be closed. */
int fixture_listen(int backlog, char *url, size_t size, struct sockaddr_in *address);

#endif
