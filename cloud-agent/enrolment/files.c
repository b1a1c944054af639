/* See files.h for the contract. */
#include "cloud-agent/enrolment/files.h"

#include <openssl/err.h>
#include <string.h>

#include "common/file.h"
#include "common/pki.h"

typedef struct pair {
	buf cert, key;
} pair;

static void pair_fini(pair *p)
{
	buf_wipe(&p->cert);
	buf_wipe(&p->key);
}

/* 1: other files than before; 0: the same; or an error. Room at once, so that no copy of a key is left behind as a buffer grows. */
static int pair_read(const char *cert, const char *key, const char *setting, pair *out, digest *seen, error *err)
{
	sha256 *sum = sha256_new();
	digest now;
	int code;

	buf_reserve(&out->cert, PKI_FILE_MAX + 1);
	buf_reserve(&out->key, PKI_FILE_MAX + 1);
	code = file_read(cert, PKI_FILE_MAX, &out->cert, err);
	if (code == 0)
		code = file_read(key ? key : cert, PKI_FILE_MAX, &out->key, err);
	sha256_add(sum, out->cert.data, out->cert.len);
	sha256_add(sum, "\n-\n", 3);
	sha256_add(sum, out->key.data, out->key.len);
	sha256_end(sum, &now);
	sha256_free(sum);
	if (digest_equal(&now, seen)) /* what is wrong with it was said */
		return 0;
	*seen = now;
	return code == 0 ? 1 : (error_prefix(err, "%s", setting), code);
}

static int pair_check(const pair *p, error *err)
{
	X509 *cert = pki_certificate_parse(buf_text(&p->cert), p->cert.len);
	EVP_PKEY *key = pki_key_parse(buf_text(&p->key), p->key.len);
	int code = 0;

	if (!cert)
		code = error_set(err, ERROR_INVALID, "enrolment.certFile holds no certificate in PEM form");
	else if (!key)
		code = error_set(err, ERROR_INVALID, "enrolment.keyFile holds no key in PEM form without a passphrase");
	else if (X509_check_private_key(cert, key) != 1)
		code = error_set(err, ERROR_INVALID, "enrolment.keyFile is not the key of the certificate in enrolment.certFile");
	ERR_clear_error();
	X509_free(cert);
	EVP_PKEY_free(key);
	return code;
}

int enrol_files_endpoint(enrol_files *f, char **cert, char **key, error *err)
{
	pair p = {0};
	int code = pair_read(f->endpoint_cert, f->endpoint_key, "enrolment.certFile or keyFile", &p, &f->endpoint_seen, err), wrong;

	if (code == 1 && (wrong = pair_check(&p, err)) != 0)
		code = wrong;
	if (code == 1) {
		*cert = buf_detach(&p.cert);
		*key = buf_detach(&p.key);
	}
	pair_fini(&p);
	return code;
}

int enrol_files_authority(enrol_files *f, error *err)
{
	pair p = {0};
	int code = pair_read(f->authority_cert, f->authority_key, "enrolment.authorityCert or authorityKey", &p, &f->authority_seen, err);
	authority *made = NULL;

	if (code == 1) {
		made = authority_new(buf_text(&p.cert), p.cert.len, buf_text(&p.key), p.key.len, err);
		code = made ? 1 : (error_prefix(err, "enrolment.authorityCert, authorityKey"), ERROR_INVALID);
	}
	if (made) {
		authority_free(f->authority);
		f->authority = made;
	}
	pair_fini(&p);
	return code;
}

void enrol_files_fini(enrol_files *f)
{
	authority_free(f->authority);
	f->authority = NULL;
}
