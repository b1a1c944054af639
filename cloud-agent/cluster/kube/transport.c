/* See transport.h for the contract.
 *
 * libcurl calls back from inside its own functions, where it must not be called again. So what it brings is put aside (pending bytes, finished
 * calls), and given to the callers by `deliver`, from the loop, when libcurl has returned. A request that cannot even be begun is answered from
 * there too.
 */
#include "cloud-agent/cluster/kube/transport.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/mem.h"

enum { KEEP_IDLE_S = 30, KEEP_INTERVAL_S = 10, USER_TIMEOUT_MS = 60 * 1000, CA_CACHE_S = 60, CONNECTIONS = 8, ERROR_BODY_MAX = 64 * 1024 };
enum { RETRY_AFTER_MAX_S = 3600 };
/* A secret answer that is larger leaves pieces of it in memory as it grows. */
enum { SECRET_ROOM = 64 * 1024 };

struct transport_call {
	transport *owner;
	transport_call *prev, *next;
	CURL *easy; /* NULL: it could not be begun */
	struct curl_slist *headers;
	char *body, *token_header;
	void *ctx;
	void (*chunk)(void *ctx, const char *data, size_t len);
	void (*done)(void *ctx, const transport_answer *answer);
	buf answer, pending;
	bool secret;
	size_t answer_max;
	int64_t retry_after_ms;
	char text[512]; /* CURL_ERROR_SIZE at least */
	int code;
	bool too_long, finished, cancelled, in_callback;
};

typedef struct watched { /* a socket of libcurl's */
	uv_poll_t poll;
	transport *owner;
	curl_socket_t fd;
} watched;

struct transport {
	uv_loop_t *loop;
	transport_config config;
	char *server, *agent;
	CURLM *multi;
	uv_timer_t timer;   /* libcurl's */
	uv_timer_t deliver; /* 0 ms: something is to be delivered */
	transport_call *calls;
	bool fresh, closed;
	int open; /* handles whose close callback is to come */
};

static void on_deliver(uv_timer_t *timer);

static void deliver_soon(transport *t)
{
	uv_timer_start(&t->deliver, on_deliver, 0, 0);
}

/* ---- libcurl's callbacks: nothing but putting aside ---- */

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
	transport_call *c = ctx;
	size_t len = size * n;
	long status = 0;

	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (c->chunk && status / 100 == 2) {
		buf_add(&c->pending, data, len);
		deliver_soon(c->owner);
		return len;
	}
	if (c->answer.len + len > (c->chunk ? (size_t)ERROR_BODY_MAX : c->answer_max)) {
		c->too_long = true;
		return 0;
	}
	buf_add(&c->answer, data, len);
	return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
	static const char name[] = "retry-after:";
	transport_call *c = ctx;
	size_t len = size * n;
	char value[64];

	if (len > sizeof name - 1 && strncasecmp(data, name, sizeof name - 1) == 0) {
		snprintf(value, sizeof value, "%.*s", (int)(len - (sizeof name - 1)), data + sizeof name - 1);
		c->retry_after_ms = transport_retry_after(value, clock_now().unix_ms);
	}
	return len;
}

static int on_socket_made(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
	unsigned timeout = USER_TIMEOUT_MS;

	(void)ctx;
	(void)purpose;
	/* What was sent and is not acknowledged within this time ends the connection, whatever the retransmissions do. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
	return CURL_SOCKOPT_OK;
}

/* ---- the loop ---- */

static void finish(transport *t, transport_call *c, CURLcode result)
{
	(void)t;
	c->finished = true;
	switch (result) {
	case CURLE_OK:
		c->code = 0;
		return;
	case CURLE_OPERATION_TIMEDOUT:
		c->code = ERROR_TIMEOUT;
		break;
	case CURLE_WRITE_ERROR:
		c->code = c->too_long ? ERROR_LIMIT : ERROR_OFFLINE;
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		c->code = ERROR_DENIED;
		break;
	default:
		c->code = ERROR_OFFLINE;
		break;
	}
	if (c->too_long)
		snprintf(c->text, sizeof c->text, "the answer is longer than %zu bytes", c->answer_max);
	else if (c->text[0] == 0)
		snprintf(c->text, sizeof c->text, "%s", curl_easy_strerror(result));
}

static void take_finished(transport *t)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(t->multi, &left)) != NULL) {
		transport_call *c = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		finish(t, c, message->data.result);
	}
}

static void act(transport *t, curl_socket_t fd, int flags)
{
	int running;

	curl_multi_socket_action(t->multi, fd, flags, &running);
	take_finished(t);
	deliver_soon(t);
}

static void on_timer(uv_timer_t *timer)
{
	act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_wanted(CURLM *multi, long ms, void *ctx)
{
	transport *t = ctx;

	(void)multi;
	if (t->closed)
		return 0;
	if (ms < 0)
		uv_timer_stop(&t->timer);
	else
		uv_timer_start(&t->timer, on_timer, (uint64_t)ms, 0);
	return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	watched *w = poll->data;
	int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);

	act(w->owner, w->fd, status < 0 ? CURL_CSELECT_ERR : flags);
}

static void on_watched_closed(uv_handle_t *handle)
{
	watched *w = handle->data;

	w->owner->open--;
	free(w);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
	transport *t = ctx;
	watched *w = of_socket;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w) {
			uv_poll_stop(&w->poll);
			curl_multi_assign(t->multi, fd, NULL);
			uv_close((uv_handle_t *)&w->poll, on_watched_closed);
		}
		return 0;
	}
	if (!w) {
		w = mem_alloc(sizeof *w);
		w->owner = t;
		w->fd = fd;
		w->poll.data = w;
		if (uv_poll_init_socket(t->loop, &w->poll, fd) != 0) {
			free(w);
			return -1;
		}
		t->open++;
		curl_multi_assign(t->multi, fd, w);
	}
	uv_poll_start(&w->poll, (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0), on_ready);
	return 0;
}

/* ---- giving what came to the callers ---- */

static void call_unlink(transport_call *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		c->owner->calls = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void call_end(transport_call *c)
{
	if (!c->easy)
		return;
	curl_multi_remove_handle(c->owner->multi, c->easy);
	curl_easy_cleanup(c->easy);
	c->easy = NULL;
}

static void call_free(transport_call *c)
{
	call_unlink(c);
	call_end(c);
	curl_slist_free_all(c->headers);
	wipe(c->token_header);
	wipe(c->body);
	if (c->secret && c->answer.data)
		explicit_bzero(c->answer.data, c->answer.cap);
	buf_fini(&c->answer);
	buf_fini(&c->pending);
	free(c);
}

static void give_chunk(transport_call *c)
{
	buf bytes = c->pending;

	c->pending = (buf){0};
	c->in_callback = true;
	c->chunk(c->ctx, bytes.data, bytes.len);
	c->in_callback = false;
	buf_fini(&bytes);
	if (c->cancelled || c->owner->closed)
		call_free(c);
}

static void give_answer(transport_call *c)
{
	transport_answer answer = {
		.code = c->code, .text = c->text, .retry_after_ms = c->retry_after_ms, .body = buf_text(&c->answer), .len = c->answer.len};
	long status = 0;

	if (c->easy)
		curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	answer.status = (int)status;
	if (c->code == ERROR_TIMEOUT)
		c->owner->fresh = true;
	else if (c->code == 0)
		c->owner->fresh = false;
	c->in_callback = true;
	c->done(c->ctx, &answer);
	call_free(c);
}

static transport_call *next_to_give(transport *t)
{
	for (transport_call *c = t->calls; c; c = c->next) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed has left the list */
		if (!c->in_callback && (c->pending.len > 0 || c->finished))
			return c;
	}
	return NULL;
}

static void on_deliver(uv_timer_t *timer)
{
	transport *t = timer->data;
	transport_call *c;

	while (!t->closed && (c = next_to_give(t)) != NULL) {
		if (c->pending.len > 0)
			give_chunk(c);
		else
			give_answer(c);
	}
}

/* ---- requests ---- */

static void set_pem(CURL *easy, CURLoption file_option, CURLoption blob_option, const char *file, const char *pem)
{
	struct curl_blob blob = {.data = (void *)(uintptr_t)pem, .len = pem ? strlen(pem) : 0, .flags = CURL_BLOB_COPY};

	if (pem)
		curl_easy_setopt(easy, blob_option, &blob);
	else if (file)
		curl_easy_setopt(easy, file_option, file);
}

static void header(transport_call *c, const char *name, const char *value)
{
	char *line = mem_printf("%s: %s", name, value);

	c->headers = curl_slist_append(c->headers, line);
	free(line);
}

static int set_identity(transport_call *c, error *err)
{
	transport_identity who = {0};
	int code = c->owner->config.identity(c->owner->config.identity_ctx, &who, err);

	if (code != 0)
		return code;
	set_pem(c->easy, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB, who.ca_file, who.ca);
	if (who.ca_file || who.ca) /* else the system's authorities are believed as well */
		curl_easy_setopt(c->easy, CURLOPT_CAPATH, NULL);
	set_pem(c->easy, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB, who.certificate_file, who.certificate);
	set_pem(c->easy, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB, who.key_file, who.key);
	if (who.token) {
		c->token_header = mem_printf("Authorization: Bearer %s", who.token);
		c->headers = curl_slist_append(c->headers, c->token_header);
	}
	return 0;
}

static void set_options(transport_call *c, const transport_request *r)
{
	transport *t = c->owner;
	CURL *easy = c->easy;
	char *url = mem_printf("%s%s", t->server, r->path);

	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, t->fresh ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, t->agent);
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
	curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_CACHE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEP_IDLE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEP_INTERVAL_S);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_made);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)t->config.connect_ms);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->total_ms);
	if (r->idle_ms > 0) {
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)((r->idle_ms + 999) / 1000));
	}
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, c);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->text);
	header(c, "Accept", r->accept ? r->accept : "application/json");
	c->secret = r->secret;
	if (c->secret)
		buf_reserve(&c->answer, SECRET_ROOM);
	if (r->body) {
		c->body = mem_strdup(r->body);
		header(c, "Content-Type", r->content_type);
		c->headers = curl_slist_append(c->headers, "Expect:");
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(c->body));
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, c->body);
	}
	free(url);
}

transport_call *transport_begin(transport *t, const transport_request *r)
{
	transport_call *c = mem_alloc(sizeof *c);
	error err = {0};

	c->owner = t;
	c->ctx = r->ctx;
	c->chunk = r->chunk;
	c->done = r->done;
	c->answer_max = t->config.answer_max;
	c->next = t->calls;
	if (t->calls)
		t->calls->prev = c;
	t->calls = c;
	c->easy = curl_easy_init();
	if (!c->easy)
		abort(); /* out of memory, as in mem.h */
	set_options(c, r);
	c->code = set_identity(c, &err);
	curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers);
	if (c->code == 0 && curl_multi_add_handle(t->multi, c->easy) == CURLM_OK)
		return c;
	snprintf(c->text, sizeof c->text, "%s", c->code != 0 ? err.text : "libcurl does not take the request");
	if (c->code == 0)
		c->code = ERROR_INTERNAL;
	c->finished = true;
	deliver_soon(t);
	return c;
}

void transport_cancel(transport_call *c)
{
	if (c->in_callback)
		c->cancelled = true;
	else
		call_free(c);
}

/* ---- life ---- */

transport *transport_new(uv_loop_t *loop, const transport_config *config)
{
	transport *t = mem_alloc(sizeof *t);

	curl_global_init(CURL_GLOBAL_DEFAULT);
	t->loop = loop;
	t->config = *config;
	t->config.server = t->server = mem_strdup(config->server);
	t->config.agent = t->agent = mem_strdup(config->agent);
	t->multi = curl_multi_init();
	if (!t->multi)
		abort(); /* out of memory, as in mem.h */
	uv_timer_init(loop, &t->timer);
	uv_timer_init(loop, &t->deliver);
	t->timer.data = t->deliver.data = t;
	t->open = 2;
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	curl_multi_setopt(t->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
	curl_multi_setopt(t->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS);
	return t;
}

static void on_closed(uv_handle_t *handle)
{
	transport *t = handle->data;

	t->open--;
}

void transport_close(transport *t)
{
	if (!t || t->closed)
		return;
	for (transport_call *c = t->calls, *next; c; c = next) {
		next = c->next;
		call_end(c);
		if (!c->in_callback) /* else it is freed when that has returned */
			call_free(c);
	}
	curl_multi_cleanup(t->multi); /* closes the connections, and so what watches them */
	t->closed = true;
	uv_close((uv_handle_t *)&t->timer, on_closed);
	uv_close((uv_handle_t *)&t->deliver, on_closed);
}

void transport_free(transport *t)
{
	if (!t)
		return;
	transport_close(t);
	while (t->open > 0)
		uv_run(t->loop, UV_RUN_ONCE);
	free(t->server);
	free(t->agent);
	free(t);
}

int64_t transport_retry_after(const char *value, int64_t unix_ms)
{
	char *end;
	long seconds;
	int64_t ms;

	while (*value == ' ' || *value == '\t')
		value++;
	seconds = strtol(value, &end, 10);
	if (end != value && (*end == 0 || *end == '\r' || *end == '\n' || *end == ' ')) {
		if (seconds <= 0)
			return 0;
		return (seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * INT64_C(1000);
	}
	ms = curl_getdate(value, NULL);
	ms = ms < 0 ? 0 : ms * 1000 - unix_ms;
	if (ms < 0)
		return 0;
	return ms < RETRY_AFTER_MAX_S * INT64_C(1000) ? ms : RETRY_AFTER_MAX_S * INT64_C(1000);
}
