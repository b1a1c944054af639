/* Paths, errors and versions of the API; the pieces of a watch; the limiter; Events. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/kube/limiter.h"
#include "cloud-agent/cluster/kube/recorder.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "cloud-agent/cluster/kube/slim.h"
#include "cloud-agent/cluster/kube/watch_lines.h"
#include "common/json.h"

static void path(char *made, const char *expected)
{
	assert_string_equal(made, expected);
	free(made);
}

static void paths(void **state)
{
	(void)state;
	path(resource_path(OBJECT_JOB, "n", "j", "status"), "/apis/sedna.io/v1alpha1/namespaces/n/incrementallearningjobs/j/status");
	path(resource_path(OBJECT_POD, "n", NULL, NULL), "/api/v1/namespaces/n/pods");
	path(resource_path(OBJECT_NODE, NULL, "edge-1", NULL), "/api/v1/nodes/edge-1");
	path(resource_path(OBJECT_POD, "../x", "a/b?c", NULL), "/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc");
	path(resource_list_path(OBJECT_POD, NULL, 200, NULL), "/api/v1/pods?labelSelector=incrementallearningjob.sedna.io%2Fuid&limit=200");
	path(resource_watch_path(OBJECT_SECRET, "n", "12", 300),
		"/api/v1/namespaces/n/secrets?watch=1&allowWatchBookmarks=true&resourceVersion=12&timeoutSeconds=300");
	assert_non_null(strstr(resource_accept(OBJECT_SECRET, false), "as=PartialObjectMetadataList;"));
	assert_non_null(strstr(resource_accept(OBJECT_SECRET, true), "as=PartialObjectMetadata;"));
	assert_null(resource_accept(OBJECT_POD, false));
	assert_null(resource_accept(OBJECT_POD, true));
}

static void errors(void **state)
{
	static const struct {
		int status;
		const char *body;
		int code;
		const char *text;
	} cases[] = {
		{409, "{\"reason\":\"AlreadyExists\",\"message\":\"pods \\\"p\\\" already exists\"}", ERROR_EXISTS,
			"409: pods \"p\" already exists"},
		{409, "{\"reason\":\"Conflict\",\"message\":\"modified\"}", ERROR_CONFLICT, "409: modified"},
		{403, "{\"message\":\"forbidden\"}", ERROR_DENIED, "403: forbidden"},
		{401, "", ERROR_DENIED, "401"},
		{404, "404 page not found\n", ERROR_NOT_FOUND, "404: 404 page not found"},
		{410, "{}", ERROR_CHANGED, "410"},
		{413, "{}", ERROR_LIMIT, "413"},
		{422, "{\"message\":\"spec.containers: Required value\"}", ERROR_INVALID, "422: spec.containers: Required value"},
		{500, "{\"message\":\"etcdserver: request is too large\"}", ERROR_LIMIT, "500: etcdserver: request is too large"},
		{500, "<html>", ERROR_OFFLINE, "500: <html>"},
		{503, "[1,2", ERROR_OFFLINE, "503: [1,2"},
		{504, "{\"message\":\"timeout\"}", ERROR_TIMEOUT, "504: timeout"},
		{429, "{\"message\":\"slow down\"}", ERROR_OFFLINE, "429: slow down"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		error err = {0};

		assert_int_equal(resource_error(cases[i].status, cases[i].body, strlen(cases[i].body), &err), cases[i].code);
		assert_string_equal(err.text, cases[i].text);
	}
}

static void versions(void **state)
{
	(void)state;
	assert_true(resource_newer("10", "9"));
	assert_false(resource_newer("9", "10"));
	assert_false(resource_newer("9", "9"));
	assert_false(resource_newer("009", "9"));
	assert_true(resource_newer("18446744073709551617", "18446744073709551616"));
	/* Another kind of version: every change counts. */
	assert_true(resource_newer("a", "b"));
	assert_true(resource_newer("b", "a"));
	assert_false(resource_newer("a", "a"));
}

static void on_event(void *ctx, enum watch_type type, cJSON *object)
{
	char *text = json_print(object);

	buf_printf(ctx, "%d%s ", type, text);
	free(text);
	cJSON_Delete(object);
}

static const char stream[] =
	"{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"object\":{\"b\":2},\"type\":\"DELETED\"}\r\n\n{\"type\":\"ERROR\",\"object\":{}}\n";

static void a_stream_in_pieces_of_any_size(void **state)
{
	(void)state;
	for (size_t size = 1; size <= sizeof stream; size++) {
		watch_lines w;
		buf out = {0};
		error err = {0};

		watch_lines_init(&w, 100);
		for (size_t i = 0; i < sizeof stream - 1; i += size) {
			size_t n = sizeof stream - 1 - i < size ? sizeof stream - 1 - i : size;

			assert_int_equal(watch_lines_add(&w, stream + i, n, on_event, &out, &err), 0);
		}
		assert_string_equal(buf_text(&out), "0{\"a\":1} 2{\"b\":2} 4{} ");
		buf_fini(&out);
		watch_lines_fini(&w);
	}
}

static void what_is_no_event_ends_a_stream(void **state)
{
	static const struct {
		const char *data;
		int code;
	} cases[] = {
		{"{\"type\":\"ADDED\",\"object\":{}}\nnonsense\n", ERROR_INVALID},
		{"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"NEW\",\"object\":{}}\n", ERROR_INVALID},
		{"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\"}\n", ERROR_INVALID},
		{"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{\"x\":\"0123456789012345678901234567890123456789\"",
			ERROR_LIMIT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		watch_lines w;
		buf out = {0};
		error err = {0};

		watch_lines_init(&w, 60);
		assert_int_equal(watch_lines_add(&w, cases[i].data, strlen(cases[i].data), on_event, &out, &err), cases[i].code);
		assert_string_equal(buf_text(&out), "0{} ");
		buf_fini(&out);
		watch_lines_fini(&w);
	}
}

static void the_limiter(void **state)
{
	limiter l;
	int64_t now = 1000, sent = 0;

	(void)state;
	limiter_init(&l, 50, 100, now);
	while (limiter_take(&l, now))
		sent++;
	assert_int_equal(sent, 100);
	assert_int_equal(limiter_next(&l), now + 20);
	assert_false(limiter_take(&l, now + 19));
	assert_true(limiter_take(&l, now + 20));
	/* Fifty a second on average, whenever one asks. */
	for (sent = 0, now += 20; now < 1000 + 20 + 10000; now++)
		sent += limiter_take(&l, now);
	assert_in_range(sent, 499, 501);
	/* A year of silence fills it once. */
	now += INT64_C(366) * 24 * 3600 * 1000;
	for (sent = 0; limiter_take(&l, now); sent++)
		;
	assert_int_equal(sent, 100);
}

static void what_is_less_urgent_leaves_a_token(void **state)
{
	limiter l;
	int64_t now = 1000;

	(void)state;
	limiter_init(&l, 10, 2, now);
	assert_true(limiter_spare(&l, now));
	assert_true(limiter_take(&l, now));
	assert_false(limiter_spare(&l, now));
	assert_int_equal(limiter_next_spare(&l), now + 100);
	/* Nobody else asks: it fills by itself. */
	assert_false(limiter_spare(&l, now + 99));
	assert_true(limiter_spare(&l, now + 100));
	/* Half of it is left for others. */
	limiter_init(&l, 10, 4, now);
	assert_true(limiter_take(&l, now));
	assert_true(limiter_spare(&l, now));
	assert_true(limiter_take(&l, now));
	assert_false(limiter_spare(&l, now));
	assert_int_equal(limiter_next_spare(&l), now + 100);
	/* A bucket that holds one has none to leave. */
	limiter_init(&l, 10, 1, now);
	assert_true(limiter_spare(&l, now));
}

/* What it says stays; names that are usual are not copied any more, also in what is made of it. */
static void object_made_slim(void **state)
{
	static const char text[] = "{\"metadata\":{\"name\":\"n\",\"managedFields\":[{\"f:a\":{}}],\"labels\":{\"own.io/key\":\"v\"}},"
							   "\"spec\":[{\"name\":\"a\",\"env\":[{\"name\":\"b\",\"value\":\"managedFields\"}]}]}";
	static const char slim[] = "{\"metadata\":{\"name\":\"n\",\"labels\":{\"own.io/key\":\"v\"}},"
							   "\"spec\":[{\"name\":\"a\",\"env\":[{\"name\":\"b\",\"value\":\"managedFields\"}]}]}";
	cJSON *tree = NULL, *copy, *first;
	char *printed;

	(void)state;
	assert_int_equal(json_parse(text, strlen(text), 1000, &tree, NULL), 0);
	object_slim(tree);
	object_slim(tree);
	copy = cJSON_Duplicate(tree, 1);
	first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(tree, "spec"), 0)->child;
	assert_string_equal(first->string, "name");
	assert_ptr_equal(first->string, cJSON_GetObjectItemCaseSensitive(tree, "metadata")->child->string);
	cJSON_Delete(tree);
	json_put_string(copy, "kind", "Pod");
	cJSON_DeleteItemFromObjectCaseSensitive(copy, "kind");
	printed = json_print(copy);
	assert_string_equal(printed, slim);
	free(printed);
	cJSON_Delete(copy);
	object_slim(NULL);
}

static void events_count(void **state)
{
	recorder *r = recorder_new("ilmare-cloud", "pod-1", 9);
	moment now = {.mono_ms = 1, .unix_ms = INT64_C(1796000000000)};
	recorder_request request, patch;

	(void)state;
	recorder_say(r, "n", "j", "u1", false, "TrainReady", "round 1", now);
	assert_true(recorder_due(r));
	assert_true(recorder_next(r, now, &request));
	assert_false(recorder_due(r));
	assert_string_equal(request.method, "POST");
	assert_string_equal(request.path, "/api/v1/namespaces/n/events");
	assert_non_null(strstr(request.body, "\"firstTimestamp\":\"2026-11-30T00:53:20Z\""));
	assert_non_null(strstr(request.body, "\"uid\":\"u1\""));
	/* One at a time. */
	recorder_say(r, "n", "j", "u1", false, "TrainReady", "round 1", now);
	assert_false(recorder_next(r, now, &patch));
	recorder_answer(r, request.id, 0);
	assert_true(recorder_next(r, now, &patch));
	assert_string_equal(patch.method, "PATCH");
	assert_non_null(strstr(patch.body, "\"count\":2"));
	assert_null(strstr(patch.body, "message"));
	/* Events expire: then it is a new one. */
	recorder_answer(r, patch.id, ERROR_NOT_FOUND);
	free(patch.path);
	free(patch.body);
	assert_true(recorder_next(r, now, &patch));
	assert_string_equal(patch.method, "POST");
	recorder_answer(r, patch.id, ERROR_DENIED);
	assert_int_equal(recorder_dropped(r), 1);
	free(patch.path);
	free(patch.body);
	assert_false(recorder_next(r, now, &patch));
	free(request.path);
	free(request.body);
	recorder_free(r);
}

static void events_are_bounded(void **state)
{
	recorder *r = recorder_new("ilmare-cloud", "pod-1", 9);
	moment now = {.mono_ms = 1, .unix_ms = INT64_C(1796000000000)};
	recorder_request request;
	char text[1200];
	int sent = 0;

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(text, sizeof text, "message %d", i);
		recorder_say(r, "n", "j", "u1", true, "R", text, now);
	}
	while (recorder_next(r, now, &request)) {
		recorder_answer(r, request.id, 0);
		free(request.path);
		free(request.body);
		sent++;
	}
	assert_int_equal(sent, 256);
	assert_int_equal(recorder_dropped(r), 44);
	/* 999 times x, then a letter of two bytes across the limit: cut before it. */
	memset(text, 'x', 999);
	strcpy(text + 999, "\xc3\xa9 and more");
	recorder_say(r, "n", "j", "u1", true, "R", text, now);
	assert_true(recorder_next(r, now, &request));
	assert_non_null(strstr(request.body, "xxx\",\"reporting"));
	free(request.path);
	free(request.body);
	recorder_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(errors),
		cmocka_unit_test(versions),
		cmocka_unit_test(a_stream_in_pieces_of_any_size),
		cmocka_unit_test(what_is_no_event_ends_a_stream),
		cmocka_unit_test(the_limiter),
		cmocka_unit_test(what_is_less_urgent_leaves_a_token),
		cmocka_unit_test(object_made_slim),
		cmocka_unit_test(events_count),
		cmocka_unit_test(events_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
