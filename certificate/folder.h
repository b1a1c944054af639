/* The folder of a device's key and certificate.
 *
 *   node.pem      the certificate (with those of authorities between it and a root), and behind it its key: one file, so that one rename exchanges
 *                 both, and a crash at any moment leaves a pair that fits. 0600
 *   node.key.new  a key for which there is no certificate yet: kept until there is one, whatever happens in between. 0600
 *
 * Errors: IO, NO_SPACE, DENIED (of the file system), INVALID.
 */
#ifndef CERTIFICATE_FOLDER_H
#define CERTIFICATE_FOLDER_H

#include <openssl/evp.h>

#include "common/buf.h"
#include "common/error.h"

/* The new key: the one that is there, or a new one that is there now. What a run that was killed had half written is removed. */
int folder_new_key(const char *dir, EVP_PKEY **out, error *err);
/* What is in node.pem: its first certificate as text, and the key. */
int folder_present(const char *dir, buf *certificate, EVP_PKEY **key, error *err);
/* The new key has a certificate: both are in node.pem. */
int folder_install(const char *dir, const char *certificates, EVP_PKEY *key, error *err);

#endif
