/* See client.h for the contract. The handles of libcurl are driven by curl_multi_poll, so that a signal ends any wait at once.
 *
 * libcurl 7.88 signs the url as it stands, so s3_url.h writes it as it has to be signed; it takes the digest of what is sent and the time from
 * the headers x-amz-content-sha256 and X-Amz-Date, which are always given here: the time may be the store's. A range is set as an option, not as
 * a header, and so is not among what is signed.
 */
#include "transfer/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/random.h"
#include "common/version.h"
#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"

#define NOTHING_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum { REDIRECTS = 5, HEADERS_MAX = 64 * 1024, SKEW_S = 300, RETRY_AFTER_MAX_S = 120, POLL_MS = 500, WORK_PER_S = 10 * 1000 * 1000 };

struct client {
	session *s;
	CURLM *multi;
	CURL *easy;
	uint64_t seed;
	int64_t finish_by; /* 0: not told to finish */

	/* The request under way. */
	const request *q;
	reply *r;
	error *err;
	int code;         /* of a callback that ended it */
	size_t headers;   /* bytes */
	int64_t sent;     /* of the body */
	bool head_passed; /* on_head was called */
	char text[CURL_ERROR_SIZE];
};

/* ---- what comes ---- */

static size_t stop_with(client *c, int code)
{
	c->code = code;
	return 0;
}

static bool header_is(const char *line, size_t len, const char *name, char *out, size_t room)
{
	size_t n = strlen(name);
	if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
		return false;
	const char *value = line + n + 1, *end = line + len;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (unsigned char)end[-1] <= ' ')
		end--;
	/* One that does not fit is as good as none. */
	size_t size = (size_t)(end - value);
	out[0] = '\0';
	if (size < room && memchr(value, '\0', size) == NULL) {
		memcpy(out, value, size);
		out[size] = '\0';
	}
	return true;
}

static void take_header(reply *r, const char *line, size_t len)
{
	char value[128];
	/* Every store adds headers of its own, where it has no ETag for a file that was put below it, too. */
	r->of_store = r->of_store || (len > 6 && strncasecmp(line, "x-amz-", 6) == 0) || (len > 5 && strncasecmp(line, "ETag:", 5) == 0);
	if (header_is(line, len, "ETag", r->etag, sizeof r->etag) || header_is(line, len, "Last-Modified", r->modified, sizeof r->modified) ||
		header_is(line, len, "Date", r->date, sizeof r->date) ||
		header_is(line, len, "Retry-After", r->retry_after, sizeof r->retry_after) ||
		header_is(line, len, "Content-Type", r->type, sizeof r->type) ||
		header_is(line, len, "x-amz-bucket-region", r->region, sizeof r->region))
		return;
	if (header_is(line, len, "Content-Length", value, sizeof value)) {
		if (!reply_length(value, &r->length))
			r->length = -1;
	} else if (header_is(line, len, "Content-Range", value, sizeof value)) {
		if (!reply_content_range(value, &r->from, &r->total))
			r->from = r->total = -1;
	} else if (header_is(line, len, "Transfer-Encoding", value, sizeof value)) {
		r->chunked = strcasestr(value, "chunked") != NULL;
	} else if (header_is(line, len, "x-amz-server-side-encryption", value, sizeof value)) {
		r->not_md5 = r->not_md5 || strcmp(value, "AES256") != 0;
	} else if (header_is(line, len, "x-amz-server-side-encryption-customer-algorithm", value, sizeof value)) {
		r->not_md5 = true;
	}
}

static void forget_headers(reply *r)
{
	buf body = r->body;
	*r = (reply){.length = -1, .from = -1, .total = -1, .body = body};
}

static size_t on_header(char *line, size_t one, size_t len, void *ctx)
{
	client *c = ctx;
	(void)one;
	c->headers += len;
	if (c->headers > HEADERS_MAX) {
		error_set(c->err, ERROR_LIMIT, "%s: the server sends more than %d bytes of headers", c->q->of->shown, HEADERS_MAX);
		return stop_with(c, ERROR_LIMIT);
	}
	/* Of an answer that is not the last one (100 Continue, a redirect) nothing counts. */
	if (len > 5 && memcmp(line, "HTTP/", 5) == 0)
		forget_headers(c->r);
	else
		take_header(c->r, line, len);
	return len;
}

static bool is_taken(const client *c)
{
	return c->q->on_data != NULL && (c->r->status == 200 || c->r->status == 206);
}

static int pass_head(client *c)
{
	if (c->head_passed || c->q->on_head == NULL)
		return 0;
	c->head_passed = true;
	c->code = c->q->on_head(c->q->ctx, c->r, c->err);
	return c->code;
}

static size_t on_body(char *data, size_t one, size_t len, void *ctx)
{
	client *c = ctx;
	long status = 0;
	(void)one;
	if (c->code != 0)
		return 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	c->r->status = (int)status;
	if (is_taken(c)) {
		if (pass_head(c) != 0)
			return 0;
		c->code = c->q->on_data(c->q->ctx, data, len, c->err);
		return c->code == 0 ? len : 0;
	}
	if (c->r->body.len + len > c->q->body_max) {
		error_set(c->err, ERROR_LIMIT, "%s: the server answers with more than %zu bytes", c->q->of->shown, c->q->body_max);
		return stop_with(c, ERROR_LIMIT);
	}
	buf_add(&c->r->body, data, len);
	return len;
}

/* ---- what goes ---- */

static void set_sent(client *c, int64_t sent)
{
	if (c->q->counts)
		atomic_fetch_add(&c->s->bytes, sent - c->sent);
	c->sent = sent;
}

static size_t on_read(char *out, size_t one, size_t room, void *ctx)
{
	client *c = ctx;
	const request *q = c->q;
	int64_t left = q->len - c->sent;
	room *= one;
	size_t want = left < (int64_t)room ? (size_t)left : room;
	if (q->fd < 0) {
		memcpy(out, q->memory + q->offset + c->sent, want);
	} else if (want > 0) {
		ssize_t n;
		do
			n = pread(q->fd, out, want, (off_t)(q->offset + c->sent));
		while (n < 0 && errno == EINTR);
		if (n <= 0) {
			c->code = n == 0 ? error_set(c->err, ERROR_CHANGED, "the file became shorter while it was sent") :
							   error_errno(c->err, errno, "cannot read the file that is sent");
			return CURL_READFUNC_ABORT;
		}
		want = (size_t)n;
	}
	set_sent(c, c->sent + (int64_t)want);
	return want;
}

static int on_seek(void *ctx, curl_off_t to, int origin)
{
	client *c = ctx;
	if (origin != SEEK_SET || to < 0 || to > c->q->len)
		return CURL_SEEKFUNC_CANTSEEK;
	set_sent(c, to);
	return CURL_SEEKFUNC_OK;
}

/* ---- a request ---- */

static struct curl_slist *header(struct curl_slist *list, const char *name, const char *value)
{
	char *line = mem_printf("%s: %s", name, value);
	struct curl_slist *more = curl_slist_append(list, line);
	free(line);
	if (more == NULL)
		mem_fail();
	return more;
}

static struct curl_slist *sign(client *c, struct curl_slist *headers)
{
	session *s = c->s;
	char date[17], *provider = mem_printf("aws:amz:%s:s3", s->store.region);
	if (s->key_id != NULL) {
		reply_date_amz(session_time(s), date);
		headers = header(headers, "x-amz-content-sha256", c->q->sha256[0] != '\0' ? c->q->sha256 : NOTHING_SHA256);
		headers = header(headers, "X-Amz-Date", date);
		curl_easy_setopt(c->easy, CURLOPT_AWS_SIGV4, provider);
		curl_easy_setopt(c->easy, CURLOPT_USERNAME, s->key_id);
		curl_easy_setopt(c->easy, CURLOPT_PASSWORD, s->secret);
	}
	free(provider);
	return headers;
}

static void set_method(client *c)
{
	const request *q = c->q;
	if (strcmp(q->method, "HEAD") == 0) {
		curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
	} else if (q->has_body || strcmp(q->method, "PUT") == 0 || strcmp(q->method, "POST") == 0) {
		curl_easy_setopt(c->easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->len);
		curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(c->easy, CURLOPT_READDATA, c);
		curl_easy_setopt(c->easy, CURLOPT_SEEKFUNCTION, on_seek);
		curl_easy_setopt(c->easy, CURLOPT_SEEKDATA, c);
		curl_easy_setopt(c->easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
		curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, q->method);
	} else {
		curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, q->method);
	}
}

static void set_common(client *c, char *url)
{
	CURL *e = c->easy;
	session *s = c->s;
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "ilmare-transfer/" ILMARE_VERSION);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)s->connect_ms);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)((s->stall_ms + 999) / 1000 + c->q->work / WORK_PER_S));
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->text);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
	if (s->ca_file != NULL && s->ca_file[0] != '\0') {
		curl_easy_setopt(e, CURLOPT_CAINFO, s->ca_file);
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL); /* else the system's authorities are believed as well */
	}
}

/* Everything is set anew for each request; connections and sessions of TLS stay. */
static struct curl_slist *set_request(client *c)
{
	const request *q = c->q;
	struct curl_slist *headers = NULL;
	char range[32];
	bool s3 = q->of->kind == LOCATION_S3;
	char *url = s3 ? s3_url(&c->s->store, q->of->bucket, q->bucket ? NULL : q->of->key, q->query, q->n_query) : mem_strdup(q->of->url);
	curl_easy_reset(c->easy);
	set_common(c, url);
	/* Newer libraries do not sign a path that they may not tidy up; so they are told only where tidying up would change it. */
	if (s3 && s3_has_dots(q->of->key))
		curl_easy_setopt(c->easy, CURLOPT_PATH_AS_IS, 1L);
	set_method(c);
	if (!s3) {
		curl_easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, 1L);
		curl_easy_setopt(c->easy, CURLOPT_MAXREDIRS, (long)REDIRECTS);
		curl_easy_setopt(c->easy, CURLOPT_REDIR_PROTOCOLS_STR, strncmp(url, "https:", 6) == 0 ? "https" : "https,http");
	}
	free(url);
	curl_easy_setopt(c->easy, CURLOPT_FRESH_CONNECT, q->once ? 1L : 0L);
	if (q->from > 0) {
		(void)snprintf(range, sizeof range, "%lld-", (long long)q->from);
		curl_easy_setopt(c->easy, CURLOPT_RANGE, range);
	}
	if (q->if_match != NULL)
		headers = header(headers, "If-Match", q->if_match);
	if (q->if_none_match != NULL)
		headers = header(headers, "If-None-Match", q->if_none_match);
	if (q->copy_source != NULL)
		headers = header(headers, "x-amz-copy-source", q->copy_source);
	if (q->content_md5 != NULL)
		headers = header(headers, "Content-MD5", q->content_md5);
	if (q->has_body)
		headers = header(headers, "Content-Type", "application/octet-stream");
	if (s3)
		headers = sign(c, headers);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers);
	return headers;
}

static bool must_stop(const client *c)
{
	return c->finish_by != 0 ? session_now_ms() > c->finish_by : cancelled();
}

static CURLcode run(client *c, bool *stopped)
{
	struct curl_waitfd wake = {.fd = cancel_fd(), .events = CURL_WAIT_POLLIN};
	int running = 1, left;
	CURLMsg *message;
	*stopped = false;
	curl_multi_add_handle(c->multi, c->easy);
	while (running > 0) {
		*stopped = must_stop(c);
		if (*stopped || curl_multi_perform(c->multi, &running) != CURLM_OK)
			break;
		session_tick(c->s);
		if (running > 0)
			curl_multi_poll(c->multi, &wake, c->finish_by != 0 ? 0 : 1, POLL_MS, NULL);
	}
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	while ((message = curl_multi_info_read(c->multi, &left)) != NULL) {
		if (message->msg == CURLMSG_DONE)
			result = message->data.result;
	}
	curl_multi_remove_handle(c->multi, c->easy);
	return result;
}

/* ---- what became of it ---- */

static int transport_failed(client *c, CURLcode result, bool *retry)
{
	const char *why = c->text[0] != '\0' ? c->text : curl_easy_strerror(result), *hint = "";
	int code = ERROR_OFFLINE;
	*retry = true;
	switch (result) {
	case CURLE_PEER_FAILED_VERIFICATION:
		*retry = false;
		code = ERROR_DENIED;
		hint = "; the authority of the certificate can be named by SSL_CERT_FILE, and the clock of this machine must be right";
		break;
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_URL_MALFORMAT:
		*retry = false;
		code = ERROR_INVALID;
		break;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
		*retry = false;
		code = ERROR_UNSUPPORTED;
		hint = "; a redirect to another protocol, or one after the other, is not followed";
		break;
	case CURLE_OPERATION_TIMEDOUT:
		code = ERROR_TIMEOUT;
		break;
	case CURLE_BAD_FUNCTION_ARGUMENT:
	case CURLE_FAILED_INIT:
	case CURLE_NOT_BUILT_IN:
	case CURLE_UNKNOWN_OPTION:
	case CURLE_AUTH_ERROR:
		*retry = false;
		code = ERROR_UNSUPPORTED;
		hint = "; this version of libcurl cannot make the request";
		break;
	case CURLE_OUT_OF_MEMORY:
		mem_fail();
	default:
		break;
	}
	return error_set(c->err, code, "%s: %s%s", c->q->of->shown, why, hint);
}

static int refused(client *c, bool *retry)
{
	const request *q = c->q;
	reply *r = c->r;
	bool s3 = q->of->kind == LOCATION_S3;
	int status = r->status;
	/* An error that a store says with status 200, as at the end of an upload. */
	if (status < 300)
		status = strcmp(r->error.code, "InternalError") == 0 || strcmp(r->error.code, "SlowDown") == 0 ||
				strcmp(r->error.code, "ServiceUnavailable") == 0 ?
			500 :
			400;
	verdict v = reply_judge(status, r->error.code);
	*retry = v.retry;
	buf b = {0};
	buf_printf(&b, "%s: the server says %d", q->of->shown, r->status);
	if (r->error.code[0] != '\0')
		buf_printf(&b, " %s", r->error.code);
	size_t len = strlen(r->error.message);
	while (len > 0 && strchr(". ", r->error.message[len - 1]) != NULL)
		len--;
	if (len > 0)
		buf_printf(&b, ": %.*s", (int)len, r->error.message);
	const char *region = r->error.region[0] != '\0' ? r->error.region : r->region;
	if (s3 && v.code == ERROR_DENIED && c->s->key_id == NULL)
		buf_puts(&b, "; the request was not signed, since ACCESS_KEY_ID and SECRET_ACCESS_KEY are not set");
	else if (s3 && v.code == ERROR_DENIED && q->permission != NULL &&
		(r->error.code[0] == '\0' || strcmp(r->error.code, "AccessDenied") == 0))
		buf_printf(&b, "; has the key of ACCESS_KEY_ID the permission %s", q->permission);
	else if (v.say[0] != '\0' && (s3 || v.code != ERROR_DENIED) && (s3 || v.code != ERROR_UNSUPPORTED))
		buf_printf(&b, "; %s", v.say);
	if (s3 && region[0] != '\0' && strcmp(region, c->s->store.region) != 0)
		buf_printf(&b, "; the bucket is in the region %s", region);
	int code = error_set(c->err, v.code, "%s", buf_text(&b));
	buf_fini(&b);
	return code;
}

/* 0: it was answered with 2xx. */
static int once(client *c, bool *retry)
{
	const request *q = c->q;
	reply *r = c->r;
	bool stopped;
	struct curl_slist *headers = set_request(c);
	CURLcode result = run(c, &stopped);
	curl_slist_free_all(headers);
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	r->status = (int)status;
	if (c->code != 0)
		return c->code;
	if (stopped)
		return error_set(c->err, ERROR_CANCELLED, "%s: stopped on request", q->of->shown);
	if (result != CURLE_OK)
		return transport_failed(c, result, retry);
	if (is_taken(c))
		return pass_head(c);
	bool is_error = s3_error_parse(buf_text(&r->body), r->body.len, &r->error);
	if (status / 100 == 2 && !(is_error && q->of->kind == LOCATION_S3))
		return 0;
	return refused(c, retry);
}

int client_once(client *c, const request *q, reply *r, bool *retry, error *err)
{
	error ignored = {0};
	*r = (reply){.length = -1, .from = -1, .total = -1};
	*retry = false;
	c->q = q;
	c->r = r;
	c->err = err != NULL ? err : &ignored;
	c->code = 0;
	c->headers = 0;
	c->sent = 0;
	c->head_passed = false;
	c->text[0] = '\0';
	int code = once(c, retry);
	if (code != 0)
		set_sent(c, 0);
	return code;
}

/* The store's date shows that our clock is off: true if it was corrected now, so that another attempt makes sense. */
static bool correct_clock(client *c, attempts *a, int code, const reply *r)
{
	session *s = c->s;
	int64_t theirs;
	if (s->key_id == NULL || (code != ERROR_CLOCK && code != ERROR_DENIED) || a->corrections > 0 || !reply_date(r->date, &theirs))
		return false;
	int64_t off = theirs - session_time(s);
	if (off > -SKEW_S && off < SKEW_S)
		return false;
	a->corrections++;
	atomic_fetch_add(&s->clock_offset, off);
	if (!atomic_exchange(&s->clock_corrected, true))
		log_warn("clock", "not that of the store, whose date is used for signing; set the clock of this machine",
			L_INT("secondsOff", -atomic_load(&s->clock_offset)));
	return true;
}

bool client_again(client *c, attempts *a, int code, bool retry, const reply *r, const error *err)
{
	session *s = c->s;
	if (c->finish_by != 0 || code == ERROR_CANCELLED)
		return false;
	if (correct_clock(c, a, code, r))
		return true;
	if (!retry || ++a->failures >= s->attempts)
		return false;
	int64_t wait = random_backoff(&c->seed, s->wait_min_ms, s->wait_max_ms, a->failures);
	int64_t asked = r->retry_after[0] != '\0' ? reply_retry_after(r->retry_after, session_time(s)) : -1;
	if (asked > RETRY_AFTER_MAX_S)
		asked = RETRY_AFTER_MAX_S;
	if (asked * 1000 > wait)
		wait = asked * 1000;
	log_warn("transfer", "failed, trying again", L_INT("failures", a->failures), L_INT("inMs", wait), L_STR("error", err->text));
	return cancel_sleep(wait);
}

int client_call(client *c, const request *q, reply *r, attempts *a, error *err)
{
	attempts own = {0};
	error said = {0};
	if (a == NULL)
		a = &own;
	for (;;) {
		bool retry;
		int code = client_once(c, q, r, &retry, &said);
		if (code == 0)
			return 0;
		if (!client_again(c, a, code, retry, r, &said)) {
			if (cancelled() && c->finish_by == 0)
				code = error_set(&said, ERROR_CANCELLED, "%s: stopped on request", q->of->shown);
			error_set(err, code, "%s", said.text);
			return code;
		}
		reply_fini(r);
	}
}

void reply_fini(reply *r)
{
	buf_fini(&r->body);
}

client *client_new(session *s)
{
	client *c = mem_alloc(sizeof *c);
	c->s = s;
	c->multi = curl_multi_init();
	c->easy = curl_easy_init();
	c->seed = clock_random_seed();
	if (c->multi == NULL || c->easy == NULL)
		mem_fail();
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 4L);
	return c;
}

void client_free(client *c)
{
	if (c == NULL)
		return;
	curl_easy_cleanup(c->easy);
	curl_multi_cleanup(c->multi);
	free(c);
}

session *client_session(client *c)
{
	return c->s;
}

void client_finish(client *c, int64_t ms)
{
	c->finish_by = session_now_ms() + ms;
}
