/* Small packets go out at once.
 *
 * Paho leaves Nagle's algorithm on and hides its socket. An acknowledgement followed by a publish, which is what both agents do all day, then
 * waits 40 ms for the other side's delayed ACK, and a burst goes at a few hundred messages a second. So the socket is looked up among this
 * process's descriptors by where it is connected to.
 */
#ifndef COMMON_MQTT_NODELAY_H
#define COMMON_MQTT_NODELAY_H

#include <netdb.h>

/* Set TCP_NODELAY on every TCP socket of this process whose peer is one of `addresses` (ports count). How many there were. Any thread. */
int nodelay_set(const struct addrinfo *addresses);

#endif
