/* See diagnosis.h. OpenSSL's own texts are kept where they are readable, and put into words where they are not ("tlsv1 alert unknown ca"
 * is the broker's word about our certificate, not ours about its).
 */
#include "common/mqtt/diagnosis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"

enum { NAME_SIZE = 128, DATE_SIZE = 40 };

/* ---- words ---- */

static const char *name_of(const X509_NAME *name, char *out)
{
	if (!name || X509_NAME_get_text_by_NID((X509_NAME *)name, NID_commonName, out, NAME_SIZE) < 0)
		snprintf(out, NAME_SIZE, "?");
	return out;
}

static const char *date_of(const struct tm *tm, char *out)
{
	if (strftime(out, DATE_SIZE, "%Y-%m-%d %H:%M UTC", tm) == 0)
		snprintf(out, DATE_SIZE, "?");
	return out;
}

static const char *asn1_date(const ASN1_TIME *time, char *out)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) ? date_of(&tm, out) : "?";
}

static const char *now_date(char *out)
{
	time_t now = time(NULL);
	struct tm tm;

	return gmtime_r(&now, &tm) ? date_of(&tm, out) : "?";
}

/* What this machine's clock makes of a certificate: "" if it is in time. Clocks of devices are wrong at times, so the clock is said too. */
static char *out_of_date(const X509 *cert)
{
	char date[DATE_SIZE], now[DATE_SIZE];

	if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		return mem_printf("it ended at %s (this machine's clock: %s)", asn1_date(X509_get0_notAfter(cert), date), now_date(now));
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		return mem_printf("it begins at %s (this machine's clock: %s)", asn1_date(X509_get0_notBefore(cert), date), now_date(now));
	return mem_strdup("");
}

/* The broker's alert about our certificate; NULL for one about something else. */
static char *refusal(int alert, const X509 *cert)
{
	const char *why = "the broker's log says why";
	char issuer[NAME_SIZE], *dates, *text;

	switch (alert) {
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
		return mem_strdup("it asks for a certificate, and mqtt.certFile names none that it takes");
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
		return mem_strdup(cert ? "no common version or cipher of TLS, or it wants another certificate" :
								 "it may ask for a certificate (mqtt.certFile)");
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
		return mem_strdup("this agent's certificate was revoked");
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return mem_printf("it does not know who signed this agent's certificate (\"%s\")",
			cert ? name_of(X509_get_issuer_name(cert), issuer) : "?");
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		break;
	default:
		return NULL;
	}
	dates = cert ? out_of_date(cert) : mem_strdup("");
	if (*dates)
		why = dates;
	else if (alert == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED)
		why = "by the broker's clock it, or the broker's list of revoked ones, is out of date";
	text = mem_printf("it does not accept this agent's certificate: %s", why);
	free(dates);
	return text;
}

static char *ssl_problem(SSL *ssl, const struct diagnosis *d)
{
	unsigned long code = ERR_peek_error();
	long verified = SSL_get_verify_result(ssl);
	const char *dates = SSL_get_app_data(ssl);
	char *text, *why;

	if (verified != X509_V_OK)
		return mem_printf("the certificate of %s is not accepted: %s%s%s", d->label, X509_verify_cert_error_string(verified),
			dates && *dates ? "; " : "", dates ? dates : "");
	if (ERR_GET_LIB(code) == ERR_LIB_SSL && (why = refusal(ERR_GET_REASON(code), SSL_get_certificate(ssl))) != NULL) {
		text = mem_printf("%s refuses TLS: %s", d->label, why);
		free(why);
		return text;
	}
	return mem_printf("TLS with %s failed: %s", d->label, code ? ERR_reason_error_string(code) : "the connection was closed");
}

/* ---- steps ---- */

/* The certificate is gone when the handshake has failed: keep what its dates are worth. */
static int on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509 *cert = X509_STORE_CTX_get_current_cert(store);

	if (!ok && cert && !SSL_get_app_data(ssl))
		SSL_set_app_data(ssl, out_of_date(cert));
	return ok;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is the library's */
static int no_passphrase(char *buf, int size, int writing, void *ctx)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)ctx;
	return 0;
}

static char *load(SSL_CTX *ctx, const struct diagnosis *d)
{
	const char *key = d->key_file ? d->key_file : d->cert_file;

	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (d->ca_file && SSL_CTX_load_verify_locations(ctx, d->ca_file, NULL) != 1)
		return mem_printf("%s holds no certificate in PEM form", d->ca_file);
	if (!d->ca_file)
		SSL_CTX_set_default_verify_paths(ctx);
	if (d->cert_file && SSL_CTX_use_certificate_chain_file(ctx, d->cert_file) != 1)
		return mem_printf("%s holds no certificate in PEM form", d->cert_file);
	ERR_clear_error();
	if (key && SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
		return ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH ?
			mem_printf("the key in %s is not that of the certificate in %s", key, d->cert_file) :
			mem_printf("%s holds no key in PEM form that can be read without a passphrase", key);
	return NULL;
}

/* False: the time is over. */
static bool wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n;

	do
		n = poll(&p, 1, DIAGNOSIS_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static int dial(const struct diagnosis *d, char **problem)
{
	int fd = socket(d->address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
	socklen_t size = sizeof code;

	if (fd >= 0 && connect(fd, d->address->ai_addr, d->address->ai_addrlen) != 0) {
		if (errno != EINPROGRESS)
			code = errno;
		else if (!wait_for(fd, POLLOUT))
			code = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
	}
	if (fd >= 0 && code == 0)
		return fd;
	*problem = mem_printf("no connection to %s: %s", d->label, strerror(fd < 0 ? errno : code));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Until `step` succeeds, fails (false), or has nothing to wait for any more (true, as silence is good news for a read). */
static bool go_on(SSL *ssl, int (*step)(SSL *ssl), bool silence_is_good)
{
	for (;;) {
		int rc, error;

		ERR_clear_error();
		if ((rc = step(ssl)) > 0)
			return true;
		error = SSL_get_error(ssl, rc);
		if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
			return false;
		if (!wait_for(SSL_get_fd(ssl), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT))
			return silence_is_good;
	}
}

static int read_any(SSL *ssl)
{
	char byte;

	return SSL_read(ssl, &byte, 1);
}

static void expect_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
		X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
		return;
	}
	SSL_set1_host(ssl, host);
	SSL_set_tlsext_host_name(ssl, host);
}

static char *shake_hands(SSL_CTX *ctx, const struct diagnosis *d)
{
	char *problem = NULL;
	int fd = dial(d, &problem);
	SSL *ssl;

	if (fd < 0)
		return problem;
	ssl = SSL_new(ctx);
	if (ssl && SSL_set_fd(ssl, fd) == 1) {
		expect_host(ssl, d->host);
		if (!go_on(ssl, SSL_connect, false) || !go_on(ssl, read_any, true))
			problem = ssl_problem(ssl, d);
	}
	if (ssl)
		free(SSL_get_app_data(ssl));
	SSL_free(ssl);
	close(fd);
	return problem;
}

char *diagnosis_run(const struct diagnosis *d)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	char *problem;

	if (!ctx)
		return NULL;
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_verify);
	problem = load(ctx, d);
	if (!problem)
		problem = shake_hands(ctx, d);
	SSL_CTX_free(ctx);
	ERR_clear_error();
	return problem;
}

char *diagnosis_certificate(const char *cert_file, int *days)
{
	FILE *file = fopen(cert_file, "re");
	X509 *cert = file ? PEM_read_X509(file, NULL, no_passphrase, NULL) : NULL;
	char name[NAME_SIZE], *copy = cert ? mem_strdup(name_of(X509_get_subject_name(cert), name)) : NULL;
	int seconds;

	if (!cert || !ASN1_TIME_diff(days, &seconds, NULL, X509_get0_notAfter(cert)))
		*days = INT_MAX;
	X509_free(cert);
	if (file)
		fclose(file);
	ERR_clear_error();
	return copy;
}
