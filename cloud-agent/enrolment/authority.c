/* See authority.h for the contract. */
#include "cloud-agent/enrolment/authority.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/pki.h"
#include "proto/document.h"

enum { SERIAL_BYTES = 16 };

struct authority {
	X509 *certificates[AUTHORITY_CERTIFICATES_MAX];
	size_t n, signer; /* the index of the one whose key we have */
	EVP_PKEY *key;
	char name[PKI_NAME_SIZE];
};

static int find_signer(authority *a, error *err)
{
	for (a->signer = 0; a->signer < a->n; a->signer++)
		if (X509_check_private_key(a->certificates[a->signer], a->key) == 1)
			break;
	ERR_clear_error();
	if (a->signer == a->n)
		return error_set(err, ERROR_INVALID, "the key of the authority is that of none of its certificates");
	if (X509_check_ca(a->certificates[a->signer]) != 1)
		return error_set(err, ERROR_INVALID, "the certificate of the authority is not one of an authority (CA:true)");
	if (!(X509_get_key_usage(a->certificates[a->signer]) & KU_KEY_CERT_SIGN))
		return error_set(err, ERROR_INVALID, "the certificate of the authority may not sign certificates (keyUsage keyCertSign)");
	pki_name(X509_get_subject_name(a->certificates[a->signer]), a->name);
	return 0;
}

authority *authority_new(const char *certificates, size_t certificates_len, const char *key, size_t key_len, error *err)
{
	authority *a = mem_alloc(sizeof *a);
	const char *weak = NULL;
	int code = 0;

	a->n = pki_certificates_parse(certificates, certificates_len, a->certificates, AUTHORITY_CERTIFICATES_MAX);
	if (a->n == SIZE_MAX || a->n == 0) {
		code = error_set(err, ERROR_INVALID, "the certificates of the authority are not 1 to %d certificates in PEM form",
			AUTHORITY_CERTIFICATES_MAX);
		a->n = 0;
	}
	if (code == 0 && (a->key = pki_key_parse(key, key_len)) == NULL)
		code = error_set(err, ERROR_INVALID, "the key of the authority is not in PEM form without a passphrase");
	if (code == 0 && (weak = pki_key_weakness(a->key)) != NULL)
		code = error_set(err, ERROR_INVALID, "the key of the authority: %s", weak);
	if (code == 0)
		code = find_signer(a, err);
	if (code == 0)
		return a;
	authority_free(a);
	return NULL;
}

void authority_free(authority *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		X509_free(a->certificates[i]);
	EVP_PKEY_free(a->key);
	free(a);
}

const char *authority_name(const authority *a)
{
	return a->name;
}

static int64_t begins_ms(const X509 *cert)
{
	return pki_time(X509_get0_notBefore(cert));
}

static int64_t ends_ms(const X509 *cert)
{
	return pki_time(X509_get0_notAfter(cert));
}

int64_t authority_ends_ms(const authority *a)
{
	return ends_ms(a->certificates[a->signer]);
}

/* ---- what proves a request ---- */

int authority_request(const enrol_request *r, X509_REQ **out, char key[DIGEST_HEX_SIZE], error *err)
{
	X509_REQ *request = pki_request_parse(r->csr, strlen(r->csr));
	EVP_PKEY *public = request ? X509_REQ_get0_pubkey(request) : NULL;
	char name[PKI_NAME_SIZE];
	const char *wrong = NULL;
	digest d;

	*out = NULL;
	if (!public)
		wrong = "it is no certificate request in PEM form with a key that is known here";
	else if ((wrong = pki_key_weakness(public)) == NULL && X509_REQ_verify(request, public) != 1)
		wrong = "it is not signed by its own key";
	else if (!wrong && X509_NAME_get_index_by_NID(X509_REQ_get_subject_name(request), NID_commonName, -1) >= 0 &&
		(!pki_name(X509_REQ_get_subject_name(request), name) || strcmp(name, r->node) != 0))
		wrong = "its common name is not that of the node";
	else if (!wrong && pki_key_digest(public, &d) != 0)
		wrong = "its key cannot be written down";
	ERR_clear_error();
	if (wrong) {
		X509_REQ_free(request);
		return error_set(err, ERROR_INVALID, "request.csr: %s", wrong);
	}
	digest_hex(&d, key);
	*out = request;
	return 0;
}

/* One of ours, in its own time, has signed it. */
static bool is_ours(const authority *a, X509 *cert, int64_t now_ms)
{
	bool found = false;

	for (size_t i = 0; i < a->n && !found; i++) {
		X509 *by = a->certificates[i];

		found = X509_check_ca(by) == 1 && begins_ms(by) <= now_ms && now_ms < ends_ms(by) && X509_check_issued(by, cert) == X509_V_OK &&
			X509_verify(cert, X509_get0_pubkey(by)) == 1;
	}
	ERR_clear_error();
	return found;
}

static bool is_for_clients(X509 *cert)
{
	return (X509_get_extension_flags(cert) & EXFLAG_XKUSAGE) && (X509_get_extended_key_usage(cert) & XKU_SSL_CLIENT) &&
		!(X509_get_extension_flags(cert) & EXFLAG_CA);
}

int authority_prove(const authority *a, const enrol_request *r, int64_t now_ms, error *err)
{
	X509 *cert = pki_certificate_parse(r->certificate, strlen(r->certificate));
	EVP_PKEY *key = cert ? X509_get0_pubkey(cert) : NULL;
	char name[PKI_NAME_SIZE], date[32], now[32];
	int code;

	time_format(now_ms, now);
	if (!key || pki_key_weakness(key) != NULL)
		code = error_set(err, ERROR_DENIED, "the certificate cannot be read, or has a key that is not taken here");
	else if (!is_ours(a, cert, now_ms))
		code = error_set(err, ERROR_DENIED, "the certificate is not signed by an authority that is valid here");
	else if (!pki_name(X509_get_subject_name(cert), name) || strcmp(name, r->node) != 0)
		code = error_set(err, ERROR_DENIED, "the certificate is not that of node %s", r->node);
	else if (now_ms < begins_ms(cert) || now_ms >= ends_ms(cert))
		code = error_set(err, ERROR_DENIED, "the certificate is out of its time: it ends at %s, and here it is %s",
			(time_format(ends_ms(cert), date), date), now);
	else if (!is_for_clients(cert))
		code = error_set(err, ERROR_DENIED, "the certificate is not one for a client");
	else if (!pki_signed_by(key, r->csr, strlen(r->csr), r->signature.data, r->signature.len))
		code = error_set(err, ERROR_DENIED, "the request is not signed by the key of the certificate");
	else
		code = 0;
	X509_free(cert);
	return code;
}

/* ---- the certificate ---- */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;
	bool added;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	added = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return added;
}

/* The one extension that an authority need not have a part of: one without an identifier of its own is named instead. */
static bool add_extensions(X509 *cert, X509 *issuer)
{
	const char *by = X509_get0_subject_key_id(issuer) ? "keyid:always" : "issuer:always";

	return add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
		add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") &&
		add_extension(cert, issuer, NID_ext_key_usage, "clientAuth") && add_extension(cert, issuer, NID_subject_key_identifier, "hash") &&
		add_extension(cert, issuer, NID_authority_key_identifier, by);
}

static bool set_serial(X509 *cert, char hex[48])
{
	unsigned char bytes[SERIAL_BYTES];
	BIGNUM *number = NULL;
	bool set;

	if (RAND_bytes(bytes, sizeof bytes) != 1)
		return false;
	bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and always of the same length */
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	number = BN_bin2bn(bytes, sizeof bytes, NULL);
	set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
	BN_free(number);
	return set;
}

static bool set_name(X509 *cert, const char *node)
{
	return X509_NAME_add_entry_by_NID(X509_get_subject_name(cert), NID_commonName, MBSTRING_UTF8, (const unsigned char *)node, -1, -1, 0) ==
		1;
}

static bool set_times(X509 *cert, int64_t from_ms, int64_t to_ms)
{
	return ASN1_TIME_adj(X509_getm_notBefore(cert), (time_t)(from_ms / 1000), 0, 0) != NULL &&
		ASN1_TIME_adj(X509_getm_notAfter(cert), (time_t)(to_ms / 1000), 0, 0) != NULL;
}

/* Who knows the root needs these too. */
static int add_chain(const authority *a, buf *pem, error *err)
{
	X509 *at = a->certificates[a->signer];
	int code = 0;

	for (size_t depth = 0; code == 0 && depth < a->n && !(X509_get_extension_flags(at) & EXFLAG_SS); depth++) {
		X509 *next = NULL;

		code = pki_certificate_print(at, pem, err);
		for (size_t i = 0; i < a->n && !next; i++)
			if (a->certificates[i] != at && X509_check_issued(a->certificates[i], at) == X509_V_OK)
				next = a->certificates[i];
		if (!next)
			break;
		at = next;
	}
	ERR_clear_error();
	return code;
}

int authority_sign(const authority *a, X509_REQ *request, const char *node, int64_t now_ms, int64_t lifetime_ms, authority_issued *out,
	error *err)
{
	X509 *by = a->certificates[a->signer], *cert = NULL;
	int64_t before = lifetime_ms / 10 < AUTHORITY_BEFORE_MS ? lifetime_ms / 10 : AUTHORITY_BEFORE_MS;
	int64_t to = now_ms + lifetime_ms < ends_ms(by) ? now_ms + lifetime_ms : ends_ms(by);
	bool made;
	int code;

	*out = (authority_issued){.ends_ms = to / 1000 * 1000};
	if (now_ms < begins_ms(by) || to <= now_ms)
		return error_set(err, ERROR_DENIED, "the certificate of the authority is out of its time");
	cert = X509_new();
	made = cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert, out->serial) && set_name(cert, node) &&
		X509_set_issuer_name(cert, X509_get_subject_name(by)) == 1 && set_times(cert, now_ms - before, to) &&
		X509_set_pubkey(cert, X509_REQ_get0_pubkey(request)) == 1 && add_extensions(cert, by) && X509_sign(cert, a->key, EVP_sha256()) > 0;
	if (made) {
		code = pki_certificate_print(cert, &out->pem, err);
		if (code == 0)
			code = add_chain(a, &out->pem, err);
	} else {
		pki_error(err, "cannot make a certificate");
		code = ERROR_INTERNAL;
	}
	X509_free(cert);
	if (code != 0)
		buf_fini(&out->pem);
	return code;
}
