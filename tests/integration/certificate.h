/* Certificates for tests: an authority, and what it signs, in PEM files. A failure fails the test. */
#ifndef TESTS_INTEGRATION_CERTIFICATE_H
#define TESTS_INTEGRATION_CERTIFICATE_H

typedef struct authority authority;

/* Its own certificate goes to {folder}/{name}.crt. */
authority *authority_new(const char *folder, const char *name);
void authority_free(authority *a); /* NULL is fine */
/* Sign `name` with these alternative names ("DNS:localhost,IP:127.0.0.1", NULL: none), valid from and until so many days from now, into
 * {folder}/{name}.crt and .key. */
void authority_issue(authority *a, const char *folder, const char *name, const char *alternatives, int from_days, int until_days);

#endif
