/* A TCP proxy of its own process between a client and a broker: what a test cuts.
 *
 * proxy_freeze makes it a black hole (connections stay open, nothing passes, new ones are accepted by the kernel alone), proxy_thaw lets
 * all of it go on; proxy_free ends it and resets the connections. A failure fails the test.
 */
#ifndef TESTS_INTEGRATION_PROXY_H
#define TESTS_INTEGRATION_PROXY_H

#include <stdint.h>

typedef struct proxy proxy;

proxy *proxy_new(uint16_t target);
void proxy_freeze(proxy *p);
void proxy_thaw(proxy *p);
void proxy_free(proxy *p); /* NULL is fine */
uint16_t proxy_port(const proxy *p);
const char *proxy_url(const proxy *p);

#endif
