/* See request.h for the contract. */
#include "certificate/request.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/mem.h"
#include "common/pki.h"
#include "common/version.h"

#define PATH "/enrolment/v1/node"

/* ---- what is sent ---- */

static int make_csr(const char *node, EVP_PKEY *key, buf *out, error *err)
{
	X509_REQ *request = X509_REQ_new();
	int made = request && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 &&
		X509_NAME_add_entry_by_NID(X509_REQ_get_subject_name(request), NID_commonName, MBSTRING_UTF8, (const unsigned char *)node, -1, -1,
			0) == 1 &&
		X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, EVP_sha256()) > 0;
	int code = made ? pki_request_print(request, out, err) : pki_error(err, "cannot make a certificate request for this name");

	X509_REQ_free(request);
	return code;
}

static int add_signature(cJSON *body, EVP_PKEY *key, const buf *csr, error *err)
{
	buf signature = {0};
	int code = pki_sign(key, csr->data, csr->len, &signature, err);
	char *coded = mem_alloc(4 * (signature.len / 3 + 1) + 1);

	if (code == 0) {
		EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)buf_text(&signature), (int)signature.len);
		json_put_string(body, "signature", coded);
	}
	free(coded);
	buf_fini(&signature);
	return code;
}

char *request_body(const char *node, EVP_PKEY *key, const proof *p, error *err)
{
	cJSON *body = cJSON_CreateObject();
	buf csr = {0};
	char *text = NULL;
	int code = make_csr(node, key, &csr, err);

	json_put_int(body, "v", 1);
	json_put_string(body, "node", node);
	json_put_string(body, "csr", buf_text(&csr));
	json_put_string(body, "token", p->token);
	json_put_string(body, "certificate", p->certificate);
	if (code == 0 && p->key)
		code = add_signature(body, p->key, &csr, err);
	if (code == 0)
		text = json_print_room(body, ANSWER_MAX);
	json_wipe(body);
	buf_fini(&csr);
	return text;
}

/* ---- the exchange ---- */

static size_t on_data(char *data, size_t one, size_t len, void *ctx)
{
	buf *answer = ctx;

	(void)one;
	if (answer->len + len > ANSWER_MAX)
		return 0;
	buf_add(answer, data, len);
	return len;
}

/* Called at least once a second: whether who started us is still there. */
static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char ignored[64];

	(void)ctx;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	if (poll(&in, 1, 0) <= 0)
		return 0;
	return (in.revents & (POLLERR | POLLNVAL)) || read(STDIN_FILENO, ignored, sizeof ignored) == 0;
}

static char *date_now(char out[32])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		memcpy(out, "?", 2);
	return out;
}

static int failed(const options *o, CURLcode rc, const char *text, error *err)
{
	const char *words = text[0] ? text : curl_easy_strerror(rc);
	char now[32];

	if (rc == CURLE_PEER_FAILED_VERIFICATION)
		return error_set(err, ERROR_OFFLINE, "%s: %s (this machine's clock: %s)", o->url, words, date_now(now));
	if (rc == CURLE_SSL_CACERT_BADFILE)
		return error_set(err, ERROR_IO, "%s holds no certificates of authorities that can be read", o->ca_file ? o->ca_file : "the system");
	if (rc == CURLE_WRITE_ERROR)
		return error_set(err, ERROR_LIMIT, "%s: the answer has more than %d bytes", o->url, ANSWER_MAX);
	if (rc == CURLE_ABORTED_BY_CALLBACK)
		return error_set(err, ERROR_TIMEOUT, "told to stop");
	return error_set(err, rc == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_OFFLINE, "%s: %s", o->url, words);
}

/* The endpoint's own words, if it has any. */
static void words_of(const buf *answer, char *out, size_t room)
{
	cJSON *body = NULL;
	const char *said = NULL;

	out[0] = 0;
	if (json_parse(buf_text(answer), answer->len, ANSWER_MAX, &body, NULL) == 0)
		json_get_string(body, "answer", "Message", &said, NULL);
	for (size_t i = 0; said && said[i] && i + 1 < room; i++) {
		out[i] = (unsigned char)said[i] < ' ' || said[i] == 0x7f ? '?' : said[i];
		out[i + 1] = 0;
	}
	cJSON_Delete(body);
}

static int judge(const options *o, long status, const buf *answer, error *err)
{
	char words[300];

	if (status == 200)
		return 0;
	words_of(answer, words, sizeof words);
	/* What a moment later may be otherwise: all but the refusals. */
	if (status == 408 || status == 429 || status < 400 || status >= 500)
		return error_set(err, ERROR_OFFLINE, "%s answers with status %ld%s%s", o->url, status, words[0] ? ": " : "", words);
	if (words[0])
		return error_set(err, ERROR_DENIED, "refused: %s", words);
	return error_set(err, ERROR_DENIED, "%s answers with status %ld; is it the enrolment of a cloud agent?", o->url, status);
}

static void set_request(CURL *e, const options *o, const char *body, buf *answer, char *text)
{
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "ilmare-certificate/" ILMARE_VERSION);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_ms);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)o->total_ms);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, text);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, answer);
	if (o->until_stdin_ends) {
		curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_progress);
	}
	if (o->ca_file) {
		curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL); /* else the system's authorities are believed as well */
	}
}

int request_send(const options *o, const char *body, buf *answer, error *err)
{
	size_t len = strlen(o->url);
	char text[CURL_ERROR_SIZE] = "", *url;
	struct curl_slist *headers = NULL;
	CURL *e;
	CURLcode rc;
	long status = 0;

	while (len > 0 && o->url[len - 1] == '/')
		len--;
	url = mem_printf("%.*s" PATH, (int)len, o->url);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	e = curl_easy_init();
	headers = curl_slist_append(headers, "Content-Type: application/json");
	if (!e || !headers)
		mem_fail();
	set_request(e, o, body, answer, text);
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	rc = curl_easy_perform(e);
	curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(e);
	curl_slist_free_all(headers);
	curl_global_cleanup();
	free(url);
	return rc == CURLE_OK ? judge(o, status, answer, err) : failed(o, rc, text, err);
}

/* ---- what comes ---- */

static int check(X509 *cert, const char *node, EVP_PKEY *key, error *err)
{
	char name[PKI_NAME_SIZE], now[32];
	EVP_PKEY *public = cert ? X509_get0_pubkey(cert) : NULL;
	const char *wrong = NULL;

	if (!public)
		wrong = "it cannot be read";
	else if (EVP_PKEY_eq(public, key) != 1)
		wrong = "it is for another key";
	else if (!pki_name(X509_get_subject_name(cert), name) || strcmp(name, node) != 0)
		wrong = "it is for another name";
	else if (X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0) != 1)
		wrong = "it is not one for a client";
	ERR_clear_error();
	if (wrong)
		return error_set(err, ERROR_CORRUPT, "the certificate that came is of no use: %s", wrong);
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0 || X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		return error_set(err, ERROR_CORRUPT, "the certificate that came is not valid by this machine's clock, %s", date_now(now));
	return 0;
}

char *request_certificates(const char *answer, size_t len, const char *node, EVP_PKEY *key, error *err)
{
	cJSON *body = NULL;
	const char *pem = NULL;
	char *found = NULL;
	int64_t version = 0;
	X509 *cert;

	if (json_parse(answer, len, ANSWER_MAX, &body, err) != 0 || json_get_int(body, "answer", "v", 1, JSON_MAX_INT, &version, err) != 1 ||
		version != 1 || json_get_string(body, "answer", "certificate", &pem, err) != 1) {
		error_set(err, ERROR_CORRUPT, "the answer is not one of a cloud agent's enrolment");
	} else {
		cert = pki_certificate_parse(pem, strlen(pem));
		if (check(cert, node, key, err) == 0)
			found = mem_strdup(pem);
		X509_free(cert);
	}
	cJSON_Delete(body);
	return found;
}
