/* A small certificate authority: see certificate.h. Elliptic keys, since RSA keys take their time. */
#include "tests/integration/certificate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "common/mem.h"

struct authority {
	X509 *cert;
	EVP_PKEY *key;
	long serial;
};

static X509 *unsigned_certificate(const char *name, EVP_PKEY *key, long serial, int from_days, int until_days)
{
	X509 *cert = X509_new();
	X509_NAME *subject = X509_get_subject_name(cert);
	const long day = 24 * 3600;

	assert_int_equal(X509_set_version(cert, 2), 1);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), from_days * day);
	X509_gmtime_adj(X509_getm_notAfter(cert), until_days * day);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
	assert_int_equal(X509_set_pubkey(cert, key), 1);
	return cert;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

static FILE *open_file(const char *folder, const char *name, const char *suffix)
{
	char *path = mem_printf("%s/%s.%s", folder, name, suffix);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	free(path);
	return f;
}

static void write_certificate(X509 *cert, const char *folder, const char *name)
{
	FILE *f = open_file(folder, name, "crt");

	assert_int_equal(PEM_write_X509(f, cert), 1);
	fclose(f);
}

authority *authority_new(const char *folder, const char *name)
{
	authority *a = mem_alloc(sizeof *a);

	a->key = EVP_EC_gen("P-256");
	a->serial = 1;
	a->cert = unsigned_certificate(name, a->key, a->serial, -365, 365);
	X509_set_issuer_name(a->cert, X509_get_subject_name(a->cert));
	add_extension(a->cert, a->cert, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(a->cert, a->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
	assert_true(X509_sign(a->cert, a->key, EVP_sha256()) > 0);
	write_certificate(a->cert, folder, name);
	return a;
}

void authority_free(authority *a)
{
	if (!a)
		return;
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	free(a);
}

void authority_issue(authority *a, const char *folder, const char *name, const char *alternatives, int from_days, int until_days)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = unsigned_certificate(name, key, ++a->serial, from_days, until_days);
	FILE *f = open_file(folder, name, "key");

	X509_set_issuer_name(cert, X509_get_subject_name(a->cert));
	if (alternatives)
		add_extension(cert, a->cert, NID_subject_alt_name, alternatives);
	assert_true(X509_sign(cert, a->key, EVP_sha256()) > 0);
	write_certificate(cert, folder, name);
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
}
