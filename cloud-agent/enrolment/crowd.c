/* See crowd.h for the contract. */
#include "cloud-agent/enrolment/crowd.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/digest.h"

enum { NETWORK_BYTES = 8 };

void crowd_init(crowd *c, uint64_t seed, int64_t mono_ms)
{
	c->seed = seed;
	limiter_init(&c->all, CROWD_PER_SECOND, CROWD_BURST, mono_ms);
	for (size_t i = 0; i < CROWD_SHARES; i++)
		limiter_init(&c->shares[i], CROWD_ONE_PER_SECOND, CROWD_ONE_BURST, mono_ms);
}

static limiter *share_of(crowd *c, const char *address)
{
	static const char mapped[] = "::ffff:";
	struct in6_addr six;
	sha256 *sum = sha256_new();
	digest d;

	if (strncmp(address, mapped, sizeof mapped - 1) == 0 && strchr(address, '.'))
		address += sizeof mapped - 1;
	sha256_add(sum, &c->seed, sizeof c->seed);
	if (inet_pton(AF_INET6, address, &six) == 1)
		sha256_add(sum, &six, NETWORK_BYTES);
	else
		sha256_add(sum, address, strlen(address));
	sha256_end(sum, &d);
	sha256_free(sum);
	return &c->shares[d.b[0] % CROWD_SHARES];
}

/* What is refused for its address takes nothing from the others. */
bool crowd_take(crowd *c, const char *address, int64_t mono_ms)
{
	return limiter_take(share_of(c, address), mono_ms) && limiter_take(&c->all, mono_ms);
}
