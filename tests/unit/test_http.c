/* The HTTP server: answers now and later, and each of its bounds. */
#include "tests/unit/http_client.h"

#include <stdbool.h>

#include "common/http/server.h"
#include "common/json.h"

enum { BODY_MAX = 1000, CONNECTIONS = 4, REQUEST_MS = 80, ANSWER_MS = 120 };

typedef struct fixture {
	uv_loop_t loop;
	http_server *server;
	bool later; /* requests are not answered from inside */
	int requests, gone;
	uint64_t last, last_gone;
	buf method, path, body;
} fixture;

static int on_begin(void *ctx, const http_request *r, const char **message)
{
	(void)ctx;
	assert_null(r->body);
	if (strncmp(r->path, "/no", 3) != 0)
		return 0;
	*message = "not \"here\"";
	return 404;
}

static void on_request(void *ctx, const http_request *r)
{
	fixture *f = ctx;

	f->requests++;
	f->last = r->id;
	buf_clear(&f->method);
	buf_clear(&f->path);
	buf_clear(&f->body);
	buf_puts(&f->method, r->method);
	buf_puts(&f->path, r->path);
	buf_add(&f->body, r->body, r->len);
	assert_int_equal(r->body[r->len], 0);
	if (!f->later)
		http_answer(f->server, r->id, 200, "text/plain", "fine", 4);
}

static void on_gone(void *ctx, uint64_t id)
{
	fixture *f = ctx;

	f->gone++;
	f->last_gone = id;
}

static const http_events events_of_test = {.begin = on_begin, .request = on_request, .gone = on_gone};

static http_config config_of_test(void)
{
	http_config c;

	http_config_init(&c);
	c.body_max = BODY_MAX;
	c.connections = CONNECTIONS;
	c.request_ms = REQUEST_MS;
	c.answer_ms = ANSWER_MS;
	return c;
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	http_events events = events_of_test;
	http_config config = config_of_test();
	error err;

	events.ctx = f;
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_int_equal(http_server_start(&f->loop, &config, &events, &f->server, &err), 0);
	assert_true(http_server_port(f->server) > 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;

	http_server_stop(f->server);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0); /* nothing is left on it */
	buf_fini(&f->method);
	buf_fini(&f->path);
	buf_fini(&f->body);
	free(f);
	return 0;
}

static void open_client(fixture *f, http_client *c)
{
	client_open(c, &f->loop, http_server_port(f->server));
}

/* The two members of a body that http_answer_status made. */
static void assert_members(buf *body, int status, const char *message)
{
	cJSON *tree = NULL;

	assert_int_equal(json_parse(buf_text(body), body->len, 4096, &tree, NULL), 0);
	assert_int_equal(cJSON_GetArraySize(tree), 2);
	assert_int_equal(cJSON_GetObjectItemCaseSensitive(tree, "Status")->valueint, status);
	if (message)
		assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "Message")->valuestring, message);
	cJSON_Delete(tree);
	buf_fini(body);
}

static void wait_requests(fixture *f, http_client *c, int n)
{
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	while (f->requests < n && uv_hrtime() / 1000000 < end)
		client_turn(c);
	assert_int_equal(f->requests, n);
}

static void test_at_once(void **state)
{
	fixture *f = *state;
	http_client c;
	buf body = {0};

	open_client(f, &c);
	client_puts(&c, "POST /a%20b/%2e?query=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	assert_int_equal(client_answer(&c, &body), 200);
	assert_string_equal(buf_text(&body), "fine");
	assert_string_equal(buf_text(&f->method), "POST");
	assert_string_equal(buf_text(&f->path), "/a b/.");
	assert_string_equal(buf_text(&f->body), "hello");
	/* The connection stays; two more at once; no body is an empty one. */
	client_puts(&c, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_string_equal(buf_text(&f->path), "/2");
	assert_string_equal(buf_text(&f->body), "");
	assert_int_equal(f->requests, 3);
	assert_int_equal(f->gone, 0);
	buf_fini(&body);
	client_close(&c);
}

static void test_later(void **state)
{
	fixture *f = *state;
	http_client one, two;
	buf body = {0};
	uint64_t first;

	f->later = true;
	open_client(f, &one);
	open_client(f, &two);
	client_puts(&one, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_requests(f, &one, 1);
	first = f->last;
	client_puts(&two, "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_requests(f, &two, 2);
	assert_int_not_equal(first, f->last);
	http_answer_status(f->server, f->last, 409, "two");
	assert_int_equal(client_answer(&two, &body), 409);
	assert_members(&body, 409, "two");
	http_answer_status(f->server, first, 200, "one");
	assert_int_equal(client_answer(&one, &body), 200);
	assert_members(&body, 200, "one");
	/* Again, and one that never was: nothing. */
	http_answer_status(f->server, first, 500, "again");
	http_answer_status(f->server, 12345, 500, "nobody");
	client_turn(&one);
	assert_int_equal(one.in.len, 0);
	assert_int_equal(f->gone, 0);
	client_close(&one);
	client_close(&two);
}

static void test_refused_at_its_beginning(void **state)
{
	fixture *f = *state;
	http_client c;
	buf body = {0};

	open_client(f, &c);
	client_puts(&c, "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"); /* the body never comes */
	assert_int_equal(client_answer(&c, &body), 404);
	assert_members(&body, 404, "not \"here\"");
	assert_int_equal(f->requests, 0);
	client_close(&c);
}

/* n bytes of body, said as head, or in chunks if head has none. */
static int post(fixture *f, const char *head, size_t n, buf *body)
{
	char *data = mem_alloc(n + 1);
	http_client c;
	int status;

	memset(data, 'x', n);
	open_client(f, &c);
	client_puts(&c, "POST / HTTP/1.1\r\nHost: x\r\n");
	client_puts(&c, head);
	client_send(&c, data, n);
	free(data);
	status = client_answer(&c, body);
	client_close(&c);
	return status;
}

static void test_body_limit(void **state)
{
	fixture *f = *state;
	buf body = {0};

	assert_int_equal(post(f, "Content-Length: 1000\r\n\r\n", 1000, &body), 200);
	assert_int_equal(f->body.len, 1000);
	assert_int_equal(f->requests, 1);
	/* A little over it is read, so that the client, which reads only after it has written, sees the answer. */
	assert_int_equal(post(f, "Content-Length: 1001\r\n\r\n", 1001, &body), 413);
	assert_members(&body, 413, "the body is over 1000 bytes");
	assert_int_equal(post(f, "Content-Length: 2001\r\n\r\n", 0, &body), 413);
	assert_members(&body, 413, NULL);
	assert_int_equal(post(f, "Content-Length: 10737418240\r\n\r\n", 0, &body), 413);
	assert_members(&body, 413, NULL);
	assert_int_equal(f->requests, 1);
}

static void test_chunks(void **state)
{
	fixture *f = *state;
	http_client c;
	char piece[512];
	int sent = 0;

	open_client(f, &c);
	client_puts(&c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_string_equal(buf_text(&f->body), "abcde");
	/* Without an end: closed once twice the limit has come. */
	client_puts(&c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
	memset(piece, 'x', sizeof piece);
	while (!c.closed && sent < 1000) {
		client_puts(&c, "200\r\n");
		client_send(&c, piece, sizeof piece);
		client_puts(&c, "\r\n");
		sent++;
	}
	assert_in_range(sent, 4, 20); /* not as many as fit into the time of a request */
	assert_int_equal(f->requests, 1);
	client_close(&c);
}

static void test_lengths_that_disagree(void **state)
{
	fixture *f = *state;
	buf body = {0};

	assert_int_equal(post(f, "Content-Length: 5\r\nContent-Length: 7\r\n\r\n", 5, &body), 400);
	assert_int_equal(post(f, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 5, &body), 400);
	assert_members(&body, 400, NULL);
	assert_int_equal(post(f, "Content-Length: -1\r\n\r\n", 0, NULL), 400);
	assert_int_equal(f->requests, 0);
	buf_fini(&body);
}

static void test_client_leaves(void **state)
{
	fixture *f = *state;
	http_client c, witness;
	uint64_t end = uv_hrtime() / 1000000 + CLIENT_PATIENCE_MS;

	f->later = true;
	open_client(f, &witness);
	open_client(f, &c);
	client_puts(&c, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
	wait_requests(f, &c, 1);
	client_close(&c);
	/* Nobody looks at a suspended connection; it shows when the answer is due. */
	while (f->gone == 0 && uv_hrtime() / 1000000 < end)
		client_turn(&witness);
	assert_int_equal(f->gone, 1);
	assert_int_equal(f->last_gone, f->last);
	http_answer_status(f->server, f->last, 200, "too late");
	client_close(&witness);
}

static void test_answer_takes_too_long(void **state)
{
	fixture *f = *state;
	http_client c;
	buf body = {0};

	f->later = true;
	open_client(f, &c);
	client_puts(&c, "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&c, &body), 503);
	assert_members(&body, 503, NULL);
	assert_int_equal(f->gone, 1);
	http_answer_status(f->server, f->last, 200, "too late");
	client_turn(&c);
	assert_int_equal(c.in.len, 0);
	client_close(&c);
}

static void test_request_takes_too_long(void **state)
{
	static const char *const begun[] = {"G", "GET / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n123"};
	fixture *f = *state;
	buf body = {0};

	for (size_t i = 0; i < sizeof begun / sizeof begun[0]; i++) {
		http_client c;

		open_client(f, &c);
		client_puts(&c, begun[i]);
		assert_int_equal(client_answer(&c, &body), 408);
		assert_members(&body, 408, NULL);
		client_wait_closed(&c);
		client_close(&c);
	}
	assert_int_equal(f->requests, 0);
}

/* Between two requests a client awaits nothing: what it got would be taken for the answer to its next one. */
static void test_idle_connection_ends_without_a_word(void **state)
{
	fixture *f = *state;
	http_client c;

	open_client(f, &c);
	client_puts(&c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	client_wait_closed(&c);
	assert_int_equal(c.in.len, 0);
	client_close(&c);
}

static void test_slow_clients_give_way(void **state)
{
	fixture *f = *state;
	http_client slow[CONNECTIONS], good;

	for (int i = 0; i < CONNECTIONS; i++) {
		open_client(f, &slow[i]);
		client_puts(&slow[i], "POST / HTTP/1.1\r\n");
	}
	open_client(f, &good);
	client_puts(&good, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&good, NULL), 200);
	assert_int_equal(client_answer(&slow[0], NULL), 408); /* the one that was slow for longest */
	client_wait_closed(&slow[0]);
	for (int i = 0; i < CONNECTIONS; i++)
		client_close(&slow[i]);
	client_close(&good);
}

/* However many connections one address makes, one of another is not closed for them. */
static void test_many_of_one_address(void **state)
{
	fixture *f = *state;
	http_client many[3 * CONNECTIONS], first;

	client_open_from(&first, &f->loop, http_server_port(f->server), 2);
	client_puts(&first, "GET / HTTP/1.1\r\n");
	for (int i = 0; i < 3 * CONNECTIONS; i++) {
		open_client(f, &many[i]);
		client_puts(&many[i], "POST / HTTP/1.1\r\n");
		client_turn(&many[i]);
	}
	client_wait_closed(&many[0]);
	client_puts(&first, "Host: x\r\n\r\n");
	assert_int_equal(client_answer(&first, NULL), 200);
	for (int i = 0; i < 3 * CONNECTIONS; i++)
		client_close(&many[i]);
	client_close(&first);
}

static void test_all_wait_for_answers(void **state)
{
	fixture *f = *state;
	http_client waiting[CONNECTIONS], more;
	uint64_t ids[CONNECTIONS];
	buf body = {0};

	f->later = true;
	for (int i = 0; i < CONNECTIONS; i++) {
		open_client(f, &waiting[i]);
		client_puts(&waiting[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
		wait_requests(f, &waiting[i], i + 1);
		ids[i] = f->last;
	}
	open_client(f, &more);
	client_puts(&more, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&more, &body), 503);
	assert_members(&body, 503, NULL);
	assert_int_equal(f->requests, CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++) {
		http_answer(f->server, ids[i], 200, "text/plain", "", 0);
		assert_int_equal(client_answer(&waiting[i], NULL), 200);
		client_close(&waiting[i]);
	}
	client_close(&more);
}

static void test_stop_answers_who_waits(void **state)
{
	fixture *f = *state;
	http_client waits, sends, rests, late;
	static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	buf body = {0};

	f->later = true;
	open_client(f, &waits);
	open_client(f, &sends);
	open_client(f, &rests);
	open_client(f, &late);
	client_puts(&sends, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123");
	client_puts(&waits, request);
	wait_requests(f, &waits, 1);
	assert_int_equal(send(late.fd, request, sizeof request - 1, 0), sizeof request - 1); /* not read yet when it stops */
	http_server_stop(f->server);
	f->server = NULL;
	assert_int_equal(client_answer(&waits, &body), 503);
	assert_members(&body, 503, NULL);
	assert_int_equal(client_answer(&late, &body), 503);
	client_wait_closed(&sends);
	client_wait_closed(&rests);
	assert_int_equal(f->requests, 1);
	client_close(&waits);
	client_close(&sends);
	client_close(&rests);
	client_close(&late);
	buf_fini(&body);
}

static void test_starting(void **state)
{
	fixture *f = *state;
	http_config config = config_of_test();
	http_events events = events_of_test;
	http_server *other = NULL;
	error err;

	config.port = http_server_port(f->server);
	assert_int_equal(http_server_start(&f->loop, &config, &events, &other, &err), ERROR_EXISTS);
	assert_non_null(strstr(err.text, "in use"));
	config.host = "localhost";
	assert_int_equal(http_server_start(&f->loop, &config, &events, &other, &err), ERROR_INVALID);
	assert_non_null(strstr(err.text, "\"localhost\""));
	config.host = "203.0.113.1";
	assert_true(http_server_start(&f->loop, &config, &events, &other, &err) < 0);
	assert_null(other);
}

/* A socket that somebody else made, blocking as it may be. */
static void test_socket_of_somebody_else(void **state)
{
	fixture *f = *state;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	http_config config = config_of_test();
	http_events events = events_of_test;
	http_server *first = f->server;
	http_client c;
	error err;

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(fd, 8), 0);
	config.listen_fd = fd;
	events.ctx = f;
	assert_int_equal(http_server_start(&f->loop, &config, &events, &f->server, &err), 0);
	open_client(f, &c);
	client_puts(&c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
	http_server_stop(f->server);
	f->server = first;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_at_its_beginning, setup, teardown),
		cmocka_unit_test_setup_teardown(test_body_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chunks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lengths_that_disagree, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client_leaves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_takes_too_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_request_takes_too_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle_connection_ends_without_a_word, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_clients_give_way, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_of_one_address, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_wait_for_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stop_answers_who_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_socket_of_somebody_else, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
