/* TCP_NODELAY for a socket that the library hides: see nodelay.h. */
#include "common/mqtt/nodelay.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool same_peer(const struct sockaddr_storage *peer, const struct sockaddr *address)
{
	if (peer->ss_family != address->sa_family)
		return false;
	if (peer->ss_family == AF_INET) {
		const struct sockaddr_in *a = (const struct sockaddr_in *)peer, *b = (const struct sockaddr_in *)address;

		return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
	}
	if (peer->ss_family == AF_INET6) {
		const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)peer, *b = (const struct sockaddr_in6 *)address;

		return a->sin6_port == b->sin6_port && !memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr);
	}
	return false;
}

static bool set_one(int fd, const struct addrinfo *addresses)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof peer;
	int on = 1;

	if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
		return false;
	for (const struct addrinfo *a = addresses; a; a = a->ai_next)
		if (same_peer(&peer, a->ai_addr))
			return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
	return false;
}

int nodelay_set(const struct addrinfo *addresses)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			n += set_one((int)strtol(entry->d_name, NULL, 10), addresses);
	closedir(dir);
	return n;
}
