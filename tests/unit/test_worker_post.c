/* The body of a worker's post: what scripts of all versions send, and what must be answered with 400, 413 and 422. */
#include "common/json.h"
#include "proto/worker.h"
#include "tests/unit/unit.h"

#define WORKER "train-worker-abc"

/* A body with these members in place of its own; NULL leaves one out. */
typedef struct body {
	const char *name, *ns, *owner, *owner_kind, *kind, *status, *results, *owner_info;
} body;

static const body good = {"\"" WORKER "\"", "\"factory\"", "\"helmet\"", "\"incrementallearningjob\"", "\"train\"", "\"completed\"",
	"[{\"format\":\"pb\",\"url\":\"/m/a.pb\",\"metrics\":{\"loss\":0.1}}]", "{\"currentRound\":1}"};

static void add(buf *b, const char *name, const char *value)
{
	if (value != NULL)
		buf_printf(b, "%c\"%s\":%s", b->len == 0 ? '{' : ',', name, value);
}

static char *text_of(const body *b)
{
	buf text = {0};

	add(&text, "name", b->name);
	add(&text, "namespace", b->ns);
	add(&text, "ownerName", b->owner);
	add(&text, "ownerKind", b->owner_kind);
	add(&text, "kind", b->kind);
	add(&text, "status", b->status);
	add(&text, "results", b->results);
	add(&text, "ownerInfo", b->owner_info);
	buf_putc(&text, '}');
	return buf_detach(&text);
}

/* Taken, and what is encoded gives the same again. */
static worker_post *taken_text(const char *worker, const char *text)
{
	worker_post *post, *again;
	int http = 0;
	error err = {0};

	if (worker_post_decode(worker, text, strlen(text), &post, &http, &err) != 0)
		fail_msg("%d %s: %.300s", http, err.text, text);
	char *once = worker_post_encode(post);
	assert_int_equal(worker_post_decode(worker, once, strlen(once), &again, &http, &err), 0);
	char *twice = worker_post_encode(again);
	assert_string_equal(once, twice);
	free(once);
	free(twice);
	worker_post_free(again);
	return post;
}

static worker_post *taken(const body *b)
{
	char *text = text_of(b);
	worker_post *post = taken_text(WORKER, text);

	free(text);
	return post;
}

static void refused_text(const char *worker, const char *text, size_t len, int http, const char *words)
{
	worker_post *post = (worker_post *)&good;
	int got = 0;
	error err = {0};

	assert_int_not_equal(worker_post_decode(worker, text, len, &post, &got, &err), 0);
	assert_null(post);
	if (got != http || strstr(err.text, words) == NULL)
		fail_msg("%d '%s' instead of %d '%s': %.300s", got, err.text, http, words, text);
}

static void refused(const body *b, int http, const char *words)
{
	char *text = text_of(b);

	refused_text(WORKER, text, strlen(text), http, words);
	free(text);
}

static void a_training(void **state)
{
	worker_post *post = taken(&good);

	(void)state;
	assert_string_equal(post->worker, WORKER);
	assert_string_equal(post->ns, "factory");
	assert_string_equal(post->job, "helmet");
	assert_int_equal(post->kind, POST_TRAIN);
	assert_int_equal(post->status, POST_COMPLETED);
	assert_int_equal(post->n_results, 1);
	assert_string_equal(post->results[0].url, "/m/a.pb");
	assert_non_null(json_member(post->results[0].metrics, "loss"));
	assert_non_null(json_member(post->owner_info, "currentRound"));
	worker_post_free(post);
	worker_post_free(NULL);
}

static void kinds_and_statuses(void **state)
{
	static const char *const kinds[] = {"train", "eval", "deploy", "inference"};
	static const char *const statuses[] = {NULL, "running", "completed", "failed"};

	(void)state;
	for (int k = 0; k < 4; k++) {
		for (int s = 0; s < 4; s++) {
			char kind[20], status[20];
			body b = good;

			(void)snprintf(kind, sizeof(kind), "\"%s\"", kinds[k]);
			b.kind = kind;
			(void)snprintf(status, sizeof(status), "\"%s\"", s == 0 ? "" : statuses[s]);
			/* Missing, null and empty are the same, and only an inference worker may leave it out. */
			for (int way = 0; way < (s == 0 ? 3 : 1); way++) {
				b.status = way == 0 ? status : way == 1 ? NULL : "null";
				if (s == 0 && k != POST_INFERENCE) {
					refused(&b, 422, "status");
					continue;
				}
				worker_post *post = taken(&b);
				assert_int_equal(post->kind, k);
				assert_int_equal(post->status, s);
				worker_post_free(post);
			}
		}
	}
}

static void owner_kinds(void **state)
{
	static const char *const unknown[] = {"\"\"", "\"federatedlearningjob\"", "\"INCREMENTALLEARNINGJOB\"", "\"incrementalLearningJob\"",
		"\"incrementallearningjobs\"", "null", NULL};
	body b = good;

	(void)state;
	b.owner_kind = "\"IncrementalLearningJob\"";
	worker_post_free(taken(&b));
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		b.owner_kind = unknown[i];
		refused(&b, 422, "ownerKind");
	}
	b.owner_kind = "7";
	refused(&b, 400, "ownerKind");
}

static void names_must_agree(void **state)
{
	static const struct {
		const char *path, *name;
	} cases[] = {{"a", "\"b\""}, {"b", "\"b \""}, {"", "\"\""}, {"A", "\"A\""}, {"w\xc3\xbc", "\"w\xc3\xbc\""}, {"../x", "\"../x\""},
		{"a", NULL}, {"a", "null"}, {"a", "7"}, {"a", "[\"a\"]"}};
	char *long_name = mem_alloc(256 + 2);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		body b = good;

		b.name = cases[i].name;
		char *text = text_of(&b);
		refused_text(cases[i].path, text, strlen(text), 400, "name");
		free(text);
	}
	for (size_t len = 253; len <= 255; len++) {
		char quoted[300];
		body b = good;

		memset(long_name, 'w', len);
		long_name[len] = '\0';
		(void)snprintf(quoted, sizeof(quoted), "\"%s\"", long_name);
		b.name = quoted;
		char *text = text_of(&b);
		if (len == 253)
			worker_post_free(taken_text(long_name, text));
		else
			refused_text(long_name, text, strlen(text), 400, "name");
		free(text);
	}
	free(long_name);
}

static void wrong_members(void **state)
{
	static const struct {
		size_t member;
		const char *json;
		int http;
		const char *words;
	} cases[] = {
#define AT(m) offsetof(body, m)
		{AT(ns), NULL, 400, "namespace"},
		{AT(ns), "\"\"", 400, "namespace"},
		{AT(ns), "\"a.b\"", 400, "namespace"},
		{AT(ns), "{}", 400, "namespace"},
		{AT(owner), NULL, 400, "ownerName"},
		{AT(owner), "\"a/b\"", 400, "ownerName"},
		{AT(owner), "\"+\"", 400, "ownerName"},
		{AT(kind), NULL, 422, "kind"},
		{AT(kind), "\"\"", 422, "kind"},
		{AT(kind), "\"Train\"", 422, "kind"},
		{AT(kind), "1", 400, "kind"},
		{AT(status), "\"Completed\"", 422, "status"},
		{AT(status), "\"done\"", 422, "status"},
		{AT(status), "true", 400, "status"},
		{AT(results), "{}", 400, "results"},
		{AT(results), "\"x\"", 400, "results"},
		{AT(results), "[7]", 400, "results"},
		{AT(results), "[null]", 400, "results"},
		{AT(results), "[{\"url\":7}]", 400, "url"},
		{AT(results), "[{\"url\":\"/a\\u0001\"}]", 400, "url"},
		{AT(results), "[{\"url\":\"/a\",\"format\":[]}]", 400, "format"},
		{AT(results), "[{\"url\":\"/a\",\"device_soc_versions\":\"x\"}]", 400, "device_soc_versions"},
		{AT(results), "[{\"url\":\"/a\",\"device_soc_versions\":[1]}]", 400, "device_soc_versions"},
		{AT(results), "[]", 422, "results"},
		{AT(results), NULL, 422, "results"},
		{AT(results), "null", 422, "results"},
		{AT(results), "[{\"format\":\"pb\"}]", 422, "results"},
		{AT(results), "[{\"url\":\"\"},{\"url\":null}]", 422, "results"},
		{AT(owner_info), "[]", 400, "ownerInfo"},
		{AT(owner_info), "\"x\"", 400, "ownerInfo"},
#undef AT
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		body b = good;

		*(const char **)((char *)&b + cases[i].member) = cases[i].json;
		refused(&b, cases[i].http, cases[i].words);
	}
}

static void metrics_of_any_shape(void **state)
{
	static const char *const metrics[] = {
		"null", "0.5", "[]", "[1,2]", "\"text\"", "true", "{}", "{\"p\":[0.1,0.2],\"q\":{\"r\":null}}", "[[[1]]]"};

	(void)state;
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		char *results = mem_printf("[{\"url\":\"/m\",\"metrics\":%s},{\"url\":\"/n\",\"format\":null}]", metrics[i]);
		body b = good;

		b.results = results;
		worker_post *post = taken(&b);
		assert_int_equal(post->n_results, 2);
		assert_string_equal(post->results[0].format, "");
		assert_string_equal(post->results[1].format, "");
		if (i == 0) {
			assert_null(post->results[0].metrics);
		} else {
			char *text = json_print(post->results[0].metrics);
			assert_string_equal(text, metrics[i]);
			free(text);
		}
		worker_post_free(post);
		free(results);
	}
}

static void results_without_a_url_are_left_out(void **state)
{
	body b = good;

	(void)state;
	b.results = "[{\"format\":\"a\"},{\"url\":\"/1\"},{\"url\":\"\"},{\"url\":\"/2/\",\"device_soc_versions\":[\"x\"]}]";
	worker_post *post = taken(&b);
	assert_int_equal(post->n_results, 2);
	assert_string_equal(post->results[0].url, "/1");
	assert_string_equal(post->results[1].url, "/2/");
	assert_int_equal(post->results[1].n_socs, 1);
	worker_post_free(post);
	/* Not for deploy and inference, and not for a failure: there is nothing to be left out of. */
	b.results = "[]";
	b.status = "\"failed\"";
	worker_post_free(taken(&b));
	b.status = "\"completed\"";
	b.kind = "\"deploy\"";
	worker_post_free(taken(&b));
}

static void not_json(void **state)
{
	static const char *const texts[] = {"", " ", "x", "{", "{}x", "[]", "null", "7", "\"x\"", "{\"name\":NaN}", "{'name':'x'}", "\xff",
		"<xml/>", "{\"name\":\"a\",\"name\":\"b\"}"};
	char *text = text_of(&good);

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		refused_text(WORKER, texts[i], strlen(texts[i]), 400, "body");
	for (size_t len = 0; len < strlen(text); len++)
		refused_text(WORKER, text, len, 400, "body");
	refused_text(WORKER, "{}\0{}", 5, 400, "body");
	free(text);
}

static void too_big(void **state)
{
	char *text = text_of(&good);
	size_t len = WORKER_BODY_MAX + 1;
	char *big = mem_alloc(len + 1);
	buf results = {0};
	body b = good;

	(void)state;
	memset(big, ' ', len);
	memcpy(big, text, strlen(text));
	refused_text(WORKER, big, len, 413, "body");
	big[len - 1] = '\0';
	worker_post_free(taken_text(WORKER, big));
	free(big);
	free(text);
	for (int n = 0; n < DOCUMENT_MAX_MODELS + 1; n++)
		buf_printf(&results, "%s{\"url\":\"/%d\"}", n == 0 ? "[" : ",", n);
	buf_putc(&results, ']');
	b.results = results.data;
	refused(&b, 413, "results");
	buf_fini(&results);
}

/* 32 results with urls of `length` characters, each written as `unit`, and metrics that are too big for all of them. */
static char *heavy_body(size_t length, const char *unit)
{
	buf results = {0}, url = {0};
	body b = good;

	for (size_t i = 0; i < length; i++)
		buf_puts(&url, unit);
	for (int n = 0; n < DOCUMENT_MAX_MODELS; n++)
		buf_printf(&results, "%s{\"url\":\"%s\",\"format\":\"f\",\"metrics\":{\"a\":\"%05000d\",\"b\":1,\"c\":\"%02000d\"}}",
			n == 0 ? "[" : ",", url.data, n, n);
	buf_putc(&results, ']');
	b.results = results.data;
	char *text = text_of(&b);
	buf_fini(&results);
	buf_fini(&url);
	return text;
}

/* As much as is taken at all must fit into a report. A quote is two characters in JSON, so such urls weigh double. */
static void what_is_taken_fits_into_a_report(void **state)
{
	static const char *const units[] = {"u", "\\\""};
	int took = 0, refusals = 0;

	(void)state;
	for (size_t length = 1000; length <= TEXT_MAX_URL; length += 619) {
		for (int unit = 0; unit < 2; unit++) {
			char *text = heavy_body(length, units[unit]);
			worker_post *post;
			int http = 0;

			if (worker_post_decode(WORKER, text, strlen(text), &post, &http, NULL) == 0) {
				report r = {.ts = "t",
					.job = {"a", "b", "u"},
					.node = "n",
					.position = {1, STAGE_TRAIN, PHASE_COMPLETED},
					.store = "s",
					.has_output = true,
					.output = {post->results, post->n_results, post->owner_info}};
				report *back;
				char *sent = report_encode(&r);

				assert_int_equal(report_decode(sent, strlen(sent), STAGE_TRAIN, REPORT_COMPLETED, &back, NULL), 0);
				report_free(back);
				free(sent);
				worker_post_free(post);
				took++;
			} else {
				assert_int_equal(http, 413);
				refusals++;
			}
			free(text);
		}
	}
	assert_true(took > 0 && refusals > 0);
}

static void big_metrics_are_cut_and_marked(void **state)
{
	buf results = {0};
	body b = good;

	(void)state;
	buf_puts(&results, "[{\"url\":\"/m\",\"metrics\":{\"precision\":0.9,\"matrix\":[0");
	for (int i = 0; i < 40000; i++)
		buf_puts(&results, ",7");
	buf_puts(&results, "],\"recall\":0.8}}]");
	b.results = results.data;
	worker_post *post = taken(&b);
	char *text = json_print(post->results[0].metrics);
	assert_string_equal(text, "{\"precision\":0.9,\"recall\":0.8,\"truncated\":true}");
	free(text);
	worker_post_free(post);
	buf_fini(&results);
}

static void deep_values_are_cut_and_marked(void **state)
{
	(void)state;
	for (int depth = 1; depth <= 28; depth++) {
		char open[40] = "", close[40] = "";
		body b = good;

		memset(open, '[', (size_t)depth);
		memset(close, ']', (size_t)depth);
		char *value = mem_printf("{\"a\":1,\"b\":%s%s}", open, close);
		char *results = mem_printf("[{\"url\":\"/m\",\"metrics\":%s}]", value);
		b.results = results;
		b.owner_info = value;
		worker_post *post = taken(&b);
		char *metrics = json_print(post->results[0].metrics);
		char *info = json_print(post->owner_info);
		/* One level of the 16 is the object's own. */
		assert_string_equal(metrics, depth < 16 ? value : "{\"a\":1,\"truncated\":true}");
		assert_string_equal(info, metrics);
		free(metrics);
		free(info);
		free(results);
		free(value);
		worker_post_free(post);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_training),
		cmocka_unit_test(kinds_and_statuses),
		cmocka_unit_test(owner_kinds),
		cmocka_unit_test(names_must_agree),
		cmocka_unit_test(wrong_members),
		cmocka_unit_test(metrics_of_any_shape),
		cmocka_unit_test(results_without_a_url_are_left_out),
		cmocka_unit_test(not_json),
		cmocka_unit_test(too_big),
		cmocka_unit_test(what_is_taken_fits_into_a_report),
		cmocka_unit_test(big_metrics_are_cut_and_marked),
		cmocka_unit_test(deep_values_are_cut_and_marked),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
