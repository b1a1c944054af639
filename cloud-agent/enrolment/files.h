/* The files of enrolment: the endpoint's own certificate and key, and the authority of devices. Looked at again and again, as whoever renews them
 * puts others in their place; what cannot be used is said once, and what was there before stays in use. Loop thread; files are small.
 */
#ifndef ENROLMENT_FILES_H
#define ENROLMENT_FILES_H

#include <stdbool.h>

#include "cloud-agent/enrolment/authority.h"
#include "common/buf.h"

typedef struct enrol_files {
	const char *endpoint_cert, *endpoint_key; /* paths; a key of NULL is in the certificate's file */
	const char *authority_cert, *authority_key;
	/* What they held when they were read last, usable or not. */
	digest endpoint_seen, authority_seen;
	authority *authority; /* NULL: none that can be used yet */
} enrol_files;

/* A new pair of the endpoint: 1 with both texts, to be freed with file_secret_free; 0 if it is the same as the last time; a negative code
 * with *err if it cannot be used. */
int enrol_files_endpoint(enrol_files *f, char **cert, char **key, error *err);
/* 1 if `authority` is a new one, else as above. */
int enrol_files_authority(enrol_files *f, error *err);
void enrol_files_fini(enrol_files *f);

#endif
