/* See session.h. Standard output is for the program that started this one: when it cannot be written, nobody waits for the result. */
#include "transfer/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"

enum { MACHINE_EVERY_MS = 500, LOG_EVERY_MS = 10000 };

static char *variable(const char *name)
{
	const char *value = getenv(name);
	return value != NULL && value[0] != '\0' ? mem_strdup(value) : NULL;
}

static bool is_header_text(const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (*p <= ' ' || *p >= 0x7F)
			return false;
	}
	return true;
}

int session_init(session *s, error *err)
{
	*s = (session){.connect_ms = 10000, .stall_ms = 60000, .attempts = 8, .wait_min_ms = 500, .wait_max_ms = 30000, .jobs = 8, .size = -1};
	pthread_mutex_init(&s->say, NULL);
	s->said_ms = session_now_ms();
	s->key_id = variable("ACCESS_KEY_ID");
	s->secret = variable("SECRET_ACCESS_KEY");
	s->ca_file = getenv("SSL_CERT_FILE");
	if ((s->key_id != NULL) != (s->secret != NULL))
		return error_set(err, ERROR_INVALID, "%s is set and %s is not: both or none",
			s->key_id != NULL ? "ACCESS_KEY_ID" : "SECRET_ACCESS_KEY", s->key_id != NULL ? "SECRET_ACCESS_KEY" : "ACCESS_KEY_ID");
	if (s->key_id != NULL && (!is_header_text(s->key_id) || !is_header_text(s->secret)))
		return error_set(err, ERROR_INVALID,
			"ACCESS_KEY_ID or SECRET_ACCESS_KEY has a blank, a line end or another character that no key has; was it "
			"copied with what stood beside it");
	return endpoint_parse(getenv("S3_ENDPOINT_URL"), getenv("AWS_REGION"), &s->store, err);
}

void session_fini(session *s)
{
	endpoint_fini(&s->store);
	free(s->key_id);
	if (s->secret != NULL)
		explicit_bzero(s->secret, strlen(s->secret));
	free(s->secret);
	pthread_mutex_destroy(&s->say);
}

int64_t session_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t session_time(const session *s)
{
	return (int64_t)time(NULL) + atomic_load(&s->clock_offset);
}

void session_tick(session *s)
{
	int64_t now = session_now_ms();
	if (pthread_mutex_trylock(&s->say) != 0)
		return;
	if (now - s->said_ms >= (s->machine ? MACHINE_EVERY_MS : LOG_EVERY_MS)) {
		int64_t bytes = atomic_load(&s->bytes), files = atomic_load(&s->files), size = atomic_load(&s->size);
		s->said_ms = now;
		if (!s->machine) {
			log_info("fetch", "under way", L_INT("files", files), L_INT("bytes", bytes));
		} else {
			if (size >= 0)
				printf("{\"event\":\"progress\",\"files\":%" PRId64 ",\"bytes\":%" PRId64 ",\"size\":%" PRId64 "}\n", files, bytes, size);
			else
				printf("{\"event\":\"progress\",\"files\":%" PRId64 ",\"bytes\":%" PRId64 "}\n", files, bytes);
			if (fflush(stdout) != 0)
				cancel_now();
		}
	}
	pthread_mutex_unlock(&s->say);
}
