/* Certificates, keys and requests for them, in PEM form: the few things that more than one program does with them. OpenSSL's objects are made
 * and read here; what they mean is for the caller to say.
 *
 * Keys with a passphrase are refused: nobody is there to ask. Errors have OpenSSL's own reason in their text, and OpenSSL's queue is empty
 * afterwards. Any thread, one owner an object.
 */
#ifndef COMMON_PKI_H
#define COMMON_PKI_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"

/* The longest common name of X.520, and its NUL. */
enum { PKI_NAME_SIZE = 65, PKI_FILE_MAX = 256 * 1024 };

/* INVALID, with "what: OpenSSL's reason". */
int pki_error(error *err, const char *what);

/* Of a text: its first certificate, request or private key; NULL if there is none. Other PEM blocks are passed over. */
X509 *pki_certificate_parse(const char *pem, size_t len);
X509_REQ *pki_request_parse(const char *pem, size_t len);
EVP_PKEY *pki_key_parse(const char *pem, size_t len);
/* All certificates of a text, at most `max`; to be freed one by one. SIZE_MAX: a block is no certificate, or there are more. */
size_t pki_certificates_parse(const char *pem, size_t len, X509 **out, size_t max);

/* Appended to `out`, which is the caller's to overwrite. */
int pki_certificate_print(X509 *cert, buf *out, error *err);
int pki_request_print(X509_REQ *request, buf *out, error *err);
int pki_key_print(EVP_PKEY *key, buf *out, error *err); /* PKCS#8, no passphrase */

/* A new ECDSA key on P-256; NULL with *err. */
EVP_PKEY *pki_key_new(error *err);
/* NULL if this kind of key is as strong as we want: ECDSA on P-256 or P-384, RSA of 2048 to 8192 bits; else what is wrong. */
const char *pki_key_weakness(const EVP_PKEY *key);
/* SHA-256 of the public part, as SubjectPublicKeyInfo. */
int pki_key_digest(const EVP_PKEY *key, digest *out);

/* The common name: true if there is exactly one, and it is text without NUL. */
bool pki_name(const X509_NAME *name, char out[PKI_NAME_SIZE]);
/* Milliseconds since 1970; 0 if it is no time. */
int64_t pki_time(const ASN1_TIME *time);

/* With SHA-256; RSA as PKCS#1. */
int pki_sign(EVP_PKEY *key, const void *data, size_t len, buf *out, error *err);
bool pki_signed_by(EVP_PKEY *key, const void *data, size_t len, const void *signature, size_t signature_len);

#endif
