/* The HTTP server with a certificate: nothing but TLS, and a certificate that is exchanged while requests are under way. */
#include "tests/unit/http_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/http/server.h"
#include "common/pki.h"

enum { REQUEST_MS = 200, ANSWER_MS = 250 };

typedef struct pair {
	char *cert, *key;
	X509 *x509;
} pair;

typedef struct fixture {
	uv_loop_t loop;
	http_server *server;
	pair a, b;
	bool later;
	int requests, gone;
	http_server *last_server;
	uint64_t last, last_gone;
} fixture;

typedef struct tls_client {
	http_client tcp;
	SSL_CTX *ctx;
	SSL *ssl;
} tls_client;

static int on_begin(void *ctx, const http_request *r, const char **message)
{
	(void)ctx;
	(void)message;
	assert_string_equal(r->peer, "127.0.0.1");
	return 0;
}

static void on_request(void *ctx, const http_request *r)
{
	fixture *f = ctx;

	f->requests++;
	f->last = r->id;
	f->last_server = r->server;
	if (!f->later)
		http_answer(r->server, r->id, 200, "text/plain", "fine", 4);
}

static void on_gone(void *ctx, uint64_t id)
{
	fixture *f = ctx;

	f->gone++;
	f->last_gone = id;
}

static pair pair_make(long serial)
{
	EVP_PKEY *key = pki_key_new(NULL);
	buf cert = {0}, secret = {0};
	pair p = {.x509 = X509_new()};

	ASN1_INTEGER_set(X509_get_serialNumber(p.x509), serial);
	X509_gmtime_adj(X509_getm_notBefore(p.x509), 0);
	X509_gmtime_adj(X509_getm_notAfter(p.x509), 3600);
	X509_set_pubkey(p.x509, key);
	assert_true(X509_sign(p.x509, key, EVP_sha256()) > 0);
	assert_int_equal(pki_certificate_print(p.x509, &cert, NULL), 0);
	assert_int_equal(pki_key_print(key, &secret, NULL), 0);
	EVP_PKEY_free(key);
	p.cert = buf_detach(&cert);
	p.key = buf_detach(&secret);
	return p;
}

static void pair_free(pair *p)
{
	free(p->cert);
	free(p->key);
	X509_free(p->x509);
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	http_events events = {.ctx = f, .begin = on_begin, .request = on_request, .gone = on_gone};
	http_config config;
	error err;

	f->a = pair_make(1);
	f->b = pair_make(2);
	http_config_init(&config);
	config.body_max = 1000;
	config.request_ms = REQUEST_MS;
	config.answer_ms = ANSWER_MS;
	config.secret = true;
	config.certificate = f->a.cert;
	config.key = f->a.key;
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_int_equal(http_server_start(&f->loop, &config, &events, &f->server, &err), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;

	http_server_stop(f->server);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0); /* nothing is left on it, of older servers neither */
	pair_free(&f->a);
	pair_free(&f->b);
	free(f);
	return 0;
}

/* Until it is done, with turns of the loop in between; false if it fails. */
static bool go_on(tls_client *c, int (*step)(SSL *ssl))
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	while (uv_hrtime() / 1000000 < end) {
		int rc, why;

		ERR_clear_error();
		rc = step(c->ssl);
		if (rc > 0)
			return true;
		why = SSL_get_error(c->ssl, rc);
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			return false;
		uv_run(c->tcp.loop, UV_RUN_NOWAIT);
		poll(NULL, 0, 1);
	}
	fail_msg("no answer in time");
	return false;
}

static void tls_open(fixture *f, tls_client *c)
{
	client_open(&c->tcp, &f->loop, http_server_port(f->server));
	assert_int_equal(fcntl(c->tcp.fd, F_SETFL, O_NONBLOCK), 0);
	c->ctx = SSL_CTX_new(TLS_client_method());
	c->ssl = SSL_new(c->ctx);
	assert_int_equal(SSL_set_fd(c->ssl, c->tcp.fd), 1);
	assert_true(go_on(c, SSL_connect));
}

static void tls_close(tls_client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	client_close(&c->tcp);
}

static bool shows(const tls_client *c, const pair *p)
{
	X509 *cert = SSL_get0_peer_certificate(c->ssl);

	return cert && X509_cmp(cert, p->x509) == 0;
}

static void tls_ask(tls_client *c)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

	assert_int_equal(SSL_write(c->ssl, text, sizeof text - 1), sizeof text - 1);
}

static char answer[1024];
static size_t answer_len;

static int read_some(SSL *ssl)
{
	int n = SSL_read(ssl, answer + answer_len, (int)(sizeof answer - 1 - answer_len));

	answer_len += n > 0 ? (size_t)n : 0;
	answer[answer_len] = 0;
	return n;
}

/* The status; 0: closed. Bodies end in "fine", or in the brace of the two members. */
static int tls_answer(tls_client *c)
{
	int status = 0;
	const char *body = NULL;

	answer_len = 0;
	while (!body || (!strstr(body, "fine") && !strchr(body, '}'))) {
		if (!go_on(c, read_some))
			return 0;
		body = strstr(answer, "\r\n\r\n");
	}
	sscanf(answer, "HTTP/1.1 %d", &status);
	return status;
}

static void wait_requests(fixture *f, int n)
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	while (f->requests < n && uv_hrtime() / 1000000 < end)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->requests, n);
}

static void test_served(void **state)
{
	fixture *f = *state;
	tls_client c;

	tls_open(f, &c);
	assert_true(shows(&c, &f->a));
	for (int i = 0; i < 2; i++) {
		tls_ask(&c);
		assert_int_equal(tls_answer(&c), 200);
	}
	tls_close(&c);
}

/* Who speaks plain HTTP gets no word of it, not when his time is over either. */
static void test_plain(void **state)
{
	fixture *f = *state;
	http_client c;

	client_open(&c, &f->loop, http_server_port(f->server));
	client_puts(&c, "GET / HTTP/1.1\r\n");
	client_wait_closed(&c);
	assert_null(strstr(buf_text(&c.in), "HTTP"));
	client_close(&c);
	client_open(&c, &f->loop, http_server_port(f->server));
	client_wait_closed(&c); /* after REQUEST_MS */
	assert_int_equal(c.in.len, 0);
	client_close(&c);
	assert_int_equal(f->requests, 0);
}

static void test_exchanged(void **state)
{
	fixture *f = *state;
	tls_client waits, idle, fresh;
	http_server *old = f->server;
	uint64_t id;
	error err = {0};

	f->later = true;
	tls_open(f, &idle);
	tls_open(f, &waits);
	tls_ask(&waits);
	wait_requests(f, 1);
	id = f->last;
	assert_int_equal(http_server_renew(&f->server, f->b.cert, f->b.key, &err), 0);
	assert_true(f->server != old);
	tls_open(f, &fresh);
	assert_true(shows(&fresh, &f->b));
	assert_true(shows(&idle, &f->a));
	/* Each request belongs to the server it came to, and ids are told apart. */
	tls_ask(&fresh);
	wait_requests(f, 2);
	assert_ptr_equal(f->last_server, f->server);
	assert_true(f->last != id);
	http_answer(f->server, f->last, 200, "text/plain", "fine", 4);
	assert_int_equal(tls_answer(&fresh), 200);
	/* One that had a connection before, and asks now. */
	tls_ask(&idle);
	wait_requests(f, 3);
	assert_ptr_equal(f->last_server, old);
	http_answer(old, f->last, 200, "text/plain", "fine", 4);
	assert_int_equal(tls_answer(&idle), 200);
	http_answer(old, id, 200, "text/plain", "fine", 4);
	assert_int_equal(tls_answer(&waits), 200);
	tls_close(&waits);
	tls_close(&idle);
	tls_close(&fresh);
}

/* A request at the old one that nobody answers: it is told so when the time of an answer is over, and the old one is no more. */
static void test_unanswered(void **state)
{
	fixture *f = *state;
	tls_client c;
	error err = {0};

	f->later = true;
	tls_open(f, &c);
	tls_ask(&c);
	wait_requests(f, 1);
	assert_int_equal(http_server_renew(&f->server, f->b.cert, f->b.key, &err), 0);
	assert_int_equal(tls_answer(&c), 503);
	assert_int_equal(f->gone, 1);
	assert_int_equal(f->last_gone, f->last);
	tls_close(&c);
}

/* Again and again, with connections at each; stopped with all of them there. */
static void test_many(void **state)
{
	fixture *f = *state;
	tls_client clients[6];
	error err = {0};

	for (size_t i = 0; i < 6; i++) {
		const pair *p = i % 2 ? &f->a : &f->b;

		assert_int_equal(http_server_renew(&f->server, p->cert, p->key, &err), 0);
		tls_open(f, &clients[i]);
		assert_true(shows(&clients[i], p));
	}
	http_server_stop(f->server);
	f->server = NULL;
	for (size_t i = 0; i < 6; i++)
		tls_close(&clients[i]);
}

static void test_unusable(void **state)
{
	fixture *f = *state;
	http_server *old = f->server;
	tls_client c;
	error err = {0};

	assert_int_equal(http_server_renew(&f->server, "nothing", f->b.key, &err), ERROR_IO);
	assert_non_null(strstr(err.text, "certificate"));
	assert_int_equal(http_server_renew(&f->server, f->b.cert, f->a.key, &err), ERROR_IO);
	assert_ptr_equal(f->server, old);
	tls_open(f, &c);
	assert_true(shows(&c, &f->a));
	tls_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_served, setup, teardown),
		cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exchanged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unanswered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unusable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
