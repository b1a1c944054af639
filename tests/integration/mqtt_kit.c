/* See mqtt_kit.h. */
#include "tests/integration/mqtt_kit.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/mem.h"
#include "tests/integration/loop.h"

static int setup_with(void **state, const char *config)
{
	struct mqtt_fixture *f = mem_alloc(sizeof *f);

	uv_loop_init(&f->loop);
	f->broker = broker_new(config);
	broker_start(f->broker);
	f->url = broker_url(f->broker);
	peer_config(&f->config, &f->url);
	*state = f;
	return 0;
}

int fixture_setup(void **state)
{
	return setup_with(state, BROKER_PLAIN "max_queued_messages 0\n");
}

int fixture_setup_persistent(void **state)
{
	return setup_with(state, BROKER_PERSISTENT);
}

int fixture_setup_proxy(void **state)
{
	struct mqtt_fixture *f;

	fixture_setup(state);
	f = *state;
	f->proxy = proxy_new(broker_port(f->broker));
	f->url = proxy_url(f->proxy);
	return 0;
}

int fixture_teardown(void **state)
{
	struct mqtt_fixture *f = *state;

	loop_fini(&f->loop);
	proxy_free(f->proxy);
	broker_free(f->broker);
	free(f);
	return 0;
}

void fixture_up(struct mqtt_fixture *f, struct peer *p)
{
	peer_start(p, &f->loop, &f->config);
	loop_until(&f->loop, p->ups == 1, SOON);
}

uint64_t fixture_now_ms(void)
{
	return uv_hrtime() / 1000000;
}

int fixture_listen(int backlog, char *url, size_t size, struct sockaddr_in *address)
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
