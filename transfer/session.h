/* What all threads of one run share: the store and its key, bounds, the correction of the clock, and what has been done so far. */
#ifndef TRANSFER_SESSION_H
#define TRANSFER_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/core/location.h"

typedef struct session {
	endpoint store;
	char *key_id, *secret; /* both or none: then requests are not signed */
	const char *ca_file;   /* of the environment, or NULL */
	int64_t connect_ms, stall_ms;
	int attempts; /* in a row without progress */
	int64_t wait_min_ms, wait_max_ms;
	int jobs;     /* files at a time */
	bool machine; /* lines of JSON on standard output, else progress in the log */

	_Atomic int64_t clock_offset; /* seconds to be added to our clock */
	atomic_bool clock_corrected;

	/* Progress. */
	_Atomic int64_t bytes, files;
	_Atomic int64_t size; /* of all, -1 while it is not known */
	pthread_mutex_t say;
	int64_t said_ms;
} session;

/* From the environment: S3_ENDPOINT_URL, ACCESS_KEY_ID, SECRET_ACCESS_KEY, AWS_REGION, SSL_CERT_FILE. To be given to session_fini always. */
int session_init(session *s, error *err);
void session_fini(session *s);
/* Says how far it is, now and then; any thread, often. */
void session_tick(session *s);

int64_t session_now_ms(void);
/* Seconds since 1970 by the store's clock, as far as it is known. */
int64_t session_time(const session *s);

#endif
