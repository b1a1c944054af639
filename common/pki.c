/* See pki.h for the contract. */
#include "common/pki.h"

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>
#include <string.h>
#include <time.h>

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 8192 };

int pki_error(error *err, const char *what)
{
	unsigned long code = ERR_peek_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return error_set(err, ERROR_INVALID, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is the library's */
static int no_passphrase(char *out, int size, int writing, void *ctx)
{
	(void)out;
	(void)size;
	(void)writing;
	(void)ctx;
	return -1;
}

/* ---- reading ---- */

static BIO *reader(const char *pem, size_t len)
{
	return len <= INT_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
}

X509 *pki_certificate_parse(const char *pem, size_t len)
{
	BIO *in = reader(pem, len);
	X509 *found = in ? PEM_read_bio_X509(in, NULL, no_passphrase, NULL) : NULL;

	BIO_free(in);
	ERR_clear_error();
	return found;
}

X509_REQ *pki_request_parse(const char *pem, size_t len)
{
	BIO *in = reader(pem, len);
	X509_REQ *found = in ? PEM_read_bio_X509_REQ(in, NULL, no_passphrase, NULL) : NULL;

	BIO_free(in);
	ERR_clear_error();
	return found;
}

EVP_PKEY *pki_key_parse(const char *pem, size_t len)
{
	BIO *in = reader(pem, len);
	EVP_PKEY *found = in ? PEM_read_bio_PrivateKey(in, NULL, no_passphrase, NULL) : NULL;

	BIO_free(in);
	ERR_clear_error();
	return found;
}

size_t pki_certificates_parse(const char *pem, size_t len, X509 **out, size_t max)
{
	BIO *in = reader(pem, len);
	size_t n = 0;
	bool whole;
	X509 *next;

	while (in && (next = PEM_read_bio_X509(in, NULL, no_passphrase, NULL)) != NULL) {
		if (n == max) {
			X509_free(next);
			break;
		}
		out[n++] = next;
	}
	whole = in && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	BIO_free(in);
	ERR_clear_error();
	if (whole)
		return n;
	while (n > 0)
		X509_free(out[--n]);
	return SIZE_MAX;
}

/* ---- writing ---- */

/* Takes what was written, and overwrites the library's copy: it may be a key. */
static int take(BIO *from, int ok, const char *what, buf *out, error *err)
{
	char *data = NULL;
	long len = from ? BIO_get_mem_data(from, &data) : 0;

	if (ok == 1 && len > 0)
		buf_add(out, data, (size_t)len);
	if (len > 0)
		OPENSSL_cleanse(data, (size_t)len);
	BIO_free(from);
	return ok == 1 ? 0 : pki_error(err, what);
}

int pki_certificate_print(X509 *cert, buf *out, error *err)
{
	BIO *to = BIO_new(BIO_s_mem());

	return take(to, to ? PEM_write_bio_X509(to, cert) : 0, "cannot write a certificate", out, err);
}

int pki_request_print(X509_REQ *request, buf *out, error *err)
{
	BIO *to = BIO_new(BIO_s_mem());

	return take(to, to ? PEM_write_bio_X509_REQ(to, request) : 0, "cannot write a request", out, err);
}

int pki_key_print(EVP_PKEY *key, buf *out, error *err)
{
	BIO *to = BIO_new(BIO_s_secmem());

	return take(to, to ? PEM_write_bio_PKCS8PrivateKey(to, key, NULL, NULL, 0, NULL, NULL) : 0, "cannot write a key", out, err);
}

/* ---- keys ---- */

EVP_PKEY *pki_key_new(error *err)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");

	if (!key)
		pki_error(err, "cannot make a key");
	return key;
}

const char *pki_key_weakness(const EVP_PKEY *key)
{
	int bits = EVP_PKEY_get_bits(key);
	char group[32] = "";
	size_t len;

	if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA)
		return bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX ? NULL : "an RSA key needs 2048 to 8192 bits";
	if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && EVP_PKEY_get_group_name(key, group, sizeof group, &len) == 1 &&
		(strcmp(group, SN_X9_62_prime256v1) == 0 || strcmp(group, SN_secp384r1) == 0))
		return NULL;
	ERR_clear_error();
	return "the key is neither ECDSA on P-256 or P-384 nor RSA";
}

int pki_key_digest(const EVP_PKEY *key, digest *out)
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(key, &der);

	if (len > 0)
		digest_of(der, (size_t)len, out);
	OPENSSL_free(der);
	ERR_clear_error();
	return len > 0 ? 0 : ERROR_INVALID;
}

/* ---- what is in a certificate ---- */

bool pki_name(const X509_NAME *name, char out[PKI_NAME_SIZE])
{
	int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1), len = -1;
	unsigned char *text = NULL;
	bool good = at >= 0 && X509_NAME_get_index_by_NID(name, NID_commonName, at) < 0;

	out[0] = 0;
	if (good)
		len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
	good = len > 0 && len < PKI_NAME_SIZE && memchr(text, 0, (size_t)len) == NULL;
	if (good) {
		memcpy(out, text, (size_t)len);
		out[len] = 0;
	}
	OPENSSL_free(text);
	ERR_clear_error();
	return good;
}

int64_t pki_time(const ASN1_TIME *time)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) * 1000 : 0;
}

/* ---- signatures ---- */

int pki_sign(EVP_PKEY *key, const void *data, size_t len, buf *out, error *err)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t size = 0;
	int ok = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 && EVP_DigestSign(ctx, NULL, &size, data, len) == 1;

	if (ok) {
		buf_reserve(out, size);
		ok = EVP_DigestSign(ctx, (unsigned char *)out->data + out->len, &size, data, len) == 1;
	}
	if (ok)
		out->len += size;
	EVP_MD_CTX_free(ctx);
	return ok ? 0 : pki_error(err, "cannot sign");
}

bool pki_signed_by(EVP_PKEY *key, const void *data, size_t len, const void *signature, size_t signature_len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
		EVP_DigestVerify(ctx, signature, signature_len, data, len) == 1;

	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return good;
}
