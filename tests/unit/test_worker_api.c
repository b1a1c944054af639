/* The worker endpoint: paths, methods, what is refused before the core hears of it, and the pages for people and monitors. */
#include "tests/unit/http_client.h"

#include <stdbool.h>

#include "edge-agent/worker-api/worker_api.h"

#define GOOD_BODY                                                                                                                          \
	"{\"name\":\"train-worker-a\",\"namespace\":\"ns\",\"ownerName\":\"job\",\"ownerKind\":\"incrementallearningjob\",\"kind\":\"train\"," \
	"\"status\":\"completed\",\"results\":[{\"format\":\"pb\",\"url\":\"/m\"}]}"

typedef struct fixture {
	uv_loop_t loop;
	worker_api *api;
	int posts, gone, reply; /* reply: status of an answer from inside; 0: none */
	uint64_t last;
	char worker[WORKER_NAME_SIZE];
	const char *token;
	bool is_ready;
} fixture;

static void on_post(void *ctx, uint64_t id, worker_post *post)
{
	fixture *f = ctx;

	f->posts++;
	f->last = id;
	snprintf(f->worker, sizeof f->worker, "%s", post->worker);
	worker_post_free(post);
	if (f->reply)
		worker_api_reply(f->api, id, f->reply, "said");
}

static void on_gone(void *ctx, uint64_t id)
{
	(void)id;
	((fixture *)ctx)->gone++;
}

static bool on_ready(void *ctx, const char **why)
{
	*why = "the disk is full";
	return ((fixture *)ctx)->is_ready;
}

static void on_metrics(void *ctx, buf *out)
{
	(void)ctx;
	buf_puts(out, "a_metric 1\n");
}

static void start(fixture *f, int observe_port)
{
	worker_api_config config = {.token = f->token, .observe_host = "127.0.0.1", .observe_port = observe_port};
	worker_api_events events = {.observe = {.ctx = f, .ready = on_ready, .metrics = on_metrics}, .post = on_post, .gone = on_gone};
	error err;

	http_config_init(&config.http);
	config.http.body_max = 4096;
	config.http.answer_ms = 100;
	assert_int_equal(worker_api_start(&f->loop, &config, &events, &f->api, &err), 0);
}

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);

	f->reply = 200;
	f->is_ready = true;
	uv_loop_init(&f->loop);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;

	worker_api_stop(f->api);
	worker_api_stop(f->api); /* again: nothing */
	uv_run(&f->loop, UV_RUN_DEFAULT);
	worker_api_free(f->api);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	free(f);
	return 0;
}

/* Status of METHOD PATH with this body; *text, if not NULL, gets the answer's body. */
static int ask(fixture *f, int port, const char *method, const char *path, const char *body, buf *text)
{
	char *request = mem_printf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", method, path, strlen(body), body);
	http_client c;
	int status;

	client_open(&c, &f->loop, port);
	client_puts(&c, request);
	status = client_answer_of(&c, text, strcmp(method, "HEAD") == 0);
	client_close(&c);
	free(request);
	return status;
}

static void test_token(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
	} rows[] = {
		{"POST", "/0123456789abcDEF-_/sedna/workers/train-worker-a/info", 200},
		{"POST", "/sedna/workers/train-worker-a/info", 403},
		{"POST", "/0123456789abcDEF-x/sedna/workers/train-worker-a/info", 403},
		{"POST", "/x123456789abcDEF-_/sedna/workers/train-worker-a/info", 403},
		{"POST", "/0123456789abcDEF-_x/sedna/workers/train-worker-a/info", 404},
		{"POST", "0123456789abcDEF-_/sedna/workers/train-worker-a/info", 403},
		{"POST", "/0123456789abcDEF-_", 404},
		{"POST", "/0123456789abcDEF-_/", 404},
		{"POST", "/", 403},
		{"GET", "/0123456789abcDEF-_/sedna/workers/train-worker-a/info", 405},
		{"GET", "/healthz", 200},
		{"GET", "/0123456789abcDEF-_/healthz", 404},
	};
	fixture *f = *state;
	int posts = 0;

	f->token = "0123456789abcDEF-_";
	start(f, -1);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int status = ask(f, worker_api_port(f->api), rows[i].method, rows[i].path, GOOD_BODY, NULL);

		if (status != rows[i].status)
			fail_msg("%s %s: %d, not %d", rows[i].method, rows[i].path, status, rows[i].status);
		posts += strcmp(rows[i].method, "POST") == 0 && status == 200;
		assert_int_equal(f->posts, posts);
	}
}

static void test_what_is_a_token(void **state)
{
	char longest[258];

	(void)state;
	memset(longest, 'a', 257);
	longest[257] = 0;
	assert_false(worker_token_valid(longest));
	longest[256] = 0;
	assert_true(worker_token_valid(longest));
	assert_true(worker_token_valid("0123456789abcdef"));
	assert_false(worker_token_valid("0123456789abcde"));
	assert_false(worker_token_valid(""));
	assert_false(worker_token_valid("0123456789abc/ef"));
	assert_false(worker_token_valid("0123456789abc ef"));
	assert_false(worker_token_valid("0123456789abc%ef"));
}

static void test_paths_and_methods(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
	} rows[] = {
		{"POST", "/sedna/workers/train-worker-a/info", 200},
		{"POST", "/sedna/workers/train-worker-a/info?a=b", 200},
		{"POST", "/sedna/workers/train%2Dworker-a/info", 200},
		{"GET", "/sedna/workers/train-worker-a/info", 405},
		{"PUT", "/sedna/workers/train-worker-a/info", 405},
		{"DELETE", "/sedna/workers/train-worker-a/info", 405},
		{"POST", "/sedna/workers/train-worker-b/info", 400},
		{"POST", "/sedna/workers/train-worker-a/info/", 404},
		{"POST", "/sedna/workers/train-worker-a", 404},
		{"POST", "/sedna/workers//info", 404},
		{"POST", "/sedna/workers/info", 404},
		{"POST", "/sedna//workers/train-worker-a/info", 404},
		{"POST", "/sedna/workers/a/b/info", 404},
		{"POST", "/sedna/workers/a%2Fb/info", 404},
		{"POST", "/sedna/workers/0123456789012345678901234567890123456789012345678901234567890123/info", 404},
		{"POST", "/", 404},
		{"POST", "/metrics", 405},
		{"GET", "/metrics/", 404},
	};
	fixture *f = *state;
	int posts = 0;

	start(f, -1);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int status = ask(f, worker_api_port(f->api), rows[i].method, rows[i].path, GOOD_BODY, NULL);

		if (status != rows[i].status)
			fail_msg("%s %s: %d, not %d", rows[i].method, rows[i].path, status, rows[i].status);
		posts += status == 200;
		assert_int_equal(f->posts, posts);
	}
	assert_string_equal(f->worker, "train-worker-a");
}

static void test_bodies(void **state)
{
	static const char path[] = "/sedna/workers/train-worker-a/info";
	fixture *f = *state;
	char *large = mem_alloc(5001);
	buf text = {0};

	start(f, -1);
	assert_int_equal(ask(f, worker_api_port(f->api), "POST", path, "{", &text), 400);
	assert_non_null(strstr(buf_text(&text), "\"Status\":400"));
	assert_int_equal(ask(f, worker_api_port(f->api), "POST", path, "", NULL), 400);
	assert_int_equal(
		ask(f, worker_api_port(f->api), "POST", path,
			"{\"name\":\"train-worker-a\",\"namespace\":\"ns\",\"ownerName\":\"job\",\"ownerKind\":\"other\",\"kind\":\"train\","
			"\"status\":\"running\"}",
			NULL),
		422);
	memset(large, ' ', 5000);
	assert_int_equal(ask(f, worker_api_port(f->api), "POST", path, large, NULL), 413);
	assert_int_equal(f->posts, 0);
	free(large);
	buf_fini(&text);
}

static void test_reply_later_and_never(void **state)
{
	fixture *f = *state;

	start(f, -1);
	f->reply = 409;
	assert_int_equal(ask(f, worker_api_port(f->api), "POST", "/sedna/workers/train-worker-a/info", GOOD_BODY, NULL), 409);
	f->reply = 0;
	assert_int_equal(ask(f, worker_api_port(f->api), "POST", "/sedna/workers/train-worker-a/info", GOOD_BODY, NULL), 503);
	assert_int_equal(f->gone, 1);
	worker_api_reply(f->api, f->last, 200, "too late");
}

static void test_pages(void **state)
{
	fixture *f = *state;
	buf text = {0};

	start(f, -1);
	assert_int_equal(worker_api_observe_port(f->api), worker_api_port(f->api));
	assert_int_equal(ask(f, worker_api_port(f->api), "GET", "/healthz", "", NULL), 200);
	assert_int_equal(ask(f, worker_api_port(f->api), "HEAD", "/readyz", "", NULL), 200);
	assert_int_equal(ask(f, worker_api_port(f->api), "GET", "/metrics", "", &text), 200);
	assert_string_equal(buf_text(&text), "a_metric 1\n");
	f->is_ready = false;
	assert_int_equal(ask(f, worker_api_port(f->api), "GET", "/readyz", "", &text), 503);
	assert_non_null(strstr(buf_text(&text), "the disk is full"));
	assert_int_equal(ask(f, worker_api_port(f->api), "GET", "/healthz", "", NULL), 200);
	buf_fini(&text);
}

static void test_pages_on_a_port_of_their_own(void **state)
{
	fixture *f = *state;

	start(f, 0);
	assert_int_not_equal(worker_api_observe_port(f->api), worker_api_port(f->api));
	assert_int_equal(ask(f, worker_api_port(f->api), "GET", "/metrics", "", NULL), 404);
	assert_int_equal(ask(f, worker_api_observe_port(f->api), "GET", "/metrics", "", NULL), 200);
	assert_int_equal(ask(f, worker_api_observe_port(f->api), "POST", "/metrics", "", NULL), 405);
	assert_int_equal(ask(f, worker_api_observe_port(f->api), "POST", "/sedna/workers/train-worker-a/info", GOOD_BODY, NULL), 404);
	assert_int_equal(f->posts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_paths_and_methods, setup, teardown),
		cmocka_unit_test_setup_teardown(test_token, setup, teardown),
		cmocka_unit_test(test_what_is_a_token),
		cmocka_unit_test_setup_teardown(test_bodies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reply_later_and_never, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pages_on_a_port_of_their_own, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
