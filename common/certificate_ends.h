/* When certificates end, as the metric ilmare_certificate_expiry_timestamp_seconds{which="…"}, so that somebody hears of it in time.
 *
 * Files are looked at when the metrics are asked for, and read when they are others than those of before: agents take new files without a restart,
 * and so does this. What cannot be read, is no certificate, or is too large has no value then, and no old one either. Loop thread.
 */
#ifndef COMMON_CERTIFICATE_ENDS_H
#define COMMON_CERTIFICATE_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OWN: the first certificate of the file, as a program shows it to others; what stands behind it is its chain. AUTHORITIES: the last that ends, since
 * while authorities are exchanged the file has both. */
enum certificate_kind { CERTIFICATE_OWN, CERTIFICATE_AUTHORITIES };

/* Seconds since 1970 of a text in PEM; 0 if it does not say. Any thread. */
int64_t certificate_end(enum certificate_kind kind, const char *pem, size_t len);

typedef struct certificate_ends certificate_ends;

certificate_ends *certificate_ends_new(void);
/* `label` is kept, not copied: a literal like `which="client"`. `file` is copied; NULL is fine: there is none, and no metric. */
void certificate_ends_add(certificate_ends *c, enum certificate_kind kind, const char *label, const char *file);
/* Before metrics_print. */
void certificate_ends_set(certificate_ends *c);
void certificate_ends_free(certificate_ends *c); /* NULL is fine */

#endif
