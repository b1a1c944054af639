/* The clocks and the random numbers of this machine: see clock.h for the contract.
 *
 * Everything else is given the time; this file and its callers in the shells are the only ones that ask for it. A failing clock or random
 * source leaves nothing to go on with, so it ends the process.
 */
#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int64_t ms_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

moment clock_now(void)
{
	moment m = {.mono_ms = ms_of(CLOCK_MONOTONIC), .unix_ms = ms_of(CLOCK_REALTIME)};
	time_t seconds = (time_t)(m.unix_ms / 1000);
	struct tm local;

	if (localtime_r(&seconds, &local))
		m.minute = local.tm_hour * 60 + local.tm_min;
	return m;
}

bool clock_zone_exists(const char *name)
{
	const char *folder = getenv("TZDIR");
	char path[512], magic[4] = "";
	FILE *f;
	size_t got;

	if (strcmp(name, "UTC") == 0)
		return true;
	if (name[0] == '\0' || name[0] == '/' || strstr(name, "..") != NULL)
		return false;
	int n = snprintf(path, sizeof path, "%s/%s", folder && folder[0] ? folder : "/usr/share/zoneinfo", name);
	if (n < 0 || (size_t)n >= sizeof path || !(f = fopen(path, "re")))
		return false;
	got = fread(magic, 1, sizeof magic, f);
	fclose(f);
	return got == sizeof magic && memcmp(magic, "TZif", sizeof magic) == 0;
}

static void random_bytes(void *out, size_t len)
{
	if (getrandom(out, len, 0) != (ssize_t)len) {
		fputs("the system gives no random bytes\n", stderr);
		exit(1);
	}
}

void clock_random_id(char out[33])
{
	unsigned char bytes[16];

	random_bytes(bytes, sizeof bytes);
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

unsigned long long clock_random_seed(void)
{
	unsigned long long seed;

	random_bytes(&seed, sizeof seed);
	return seed;
}
