/* Lists and watches of one kind: what is told, what is asked next, and what becomes of it when the server does what servers do. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/kube/reflector.h"
#include "common/json.h"

typedef struct world {
	reflector *r;
	moment now;
	buf told;   /* "+ns/name@version " or "-ns/name " */
	char *path; /* of the last request */
} world;

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	world *w = ctx;
	const cJSON *metadata = json_member(object, "metadata");

	assert_int_equal(kind, OBJECT_JOB);
	if (object != NULL)
		buf_printf(&w->told, "+%s/%s@%s ", ns, name, json_member(metadata, "resourceVersion")->valuestring);
	else
		buf_printf(&w->told, "-%s/%s ", ns, name);
	cJSON_Delete(object);
}

static int setup(void **state)
{
	world *w = mem_alloc(sizeof *w);

	w->now.mono_ms = 1000;
	w->r = reflector_new(OBJECT_JOB, NULL, 7, on_object, w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	world *w = *state;

	reflector_free(w->r);
	buf_fini(&w->told);
	free(w->path);
	free(w);
	return 0;
}

static enum reflector_step next(world *w)
{
	reflector_request request = {0};
	enum reflector_step step = reflector_next(w->r, w->now, &request);

	if (step != REFLECTOR_WAIT) {
		free(w->path);
		w->path = request.path;
	}
	if (step == REFLECTOR_WATCH)
		assert_in_range(request.idle_ms, 240 * 1000, 360 * 1000);
	return step;
}

static void told(world *w, const char *expected)
{
	assert_string_equal(buf_text(&w->told), expected);
	buf_clear(&w->told);
}

static cJSON *object(const char *name, const char *version)
{
	cJSON *o = cJSON_CreateObject(), *metadata = cJSON_CreateObject();

	json_put_string(metadata, "namespace", "n");
	json_put_string(metadata, "name", name);
	json_put_string(metadata, "resourceVersion", version);
	json_put(o, "metadata", metadata);
	return o;
}

/* items: "a@1 b@2" */
static void page(world *w, const char *items, const char *version, const char *token)
{
	cJSON *list = cJSON_CreateObject(), *metadata = cJSON_CreateObject(), *array = cJSON_CreateArray();
	char *text = mem_strdup(items), *rest = NULL;

	json_put_string(metadata, "resourceVersion", version);
	json_put_string(metadata, "continue", token);
	json_put(list, "metadata", metadata);
	for (char *item = strtok_r(text, " ", &rest); item != NULL; item = strtok_r(NULL, " ", &rest)) {
		char *at = strchr(item, '@');

		*at = 0;
		cJSON_AddItemToArray(array, object(item, at + 1));
	}
	json_put(list, "items", array);
	free(text);
	reflector_page(w->r, list, w->now);
}

static void status_event(world *w, int code)
{
	cJSON *status = cJSON_CreateObject();

	json_put_int(status, "code", code);
	json_put_string(status, "message", "says the server");
	reflector_event(w->r, WATCH_ERROR, status, w->now);
}

/* A list of a@1 and b@2, and a watch from 10. */
static void begin(world *w)
{
	assert_int_equal(next(w), REFLECTOR_LIST);
	assert_false(reflector_synced(w->r));
	page(w, "a@1 b@2", "10", NULL);
	told(w, "+n/a@1 +n/b@2 ");
	assert_true(reflector_synced(w->r));
	assert_int_equal(next(w), REFLECTOR_WATCH);
	assert_non_null(strstr(w->path, "resourceVersion=10"));
	assert_non_null(strstr(w->path, "allowWatchBookmarks=true"));
}

static void pages_are_one_list(void **state)
{
	world *w = *state;

	assert_int_equal(next(w), REFLECTOR_LIST);
	assert_string_equal(w->path, "/apis/sedna.io/v1alpha1/incrementallearningjobs?limit=200");
	page(w, "a@1", "10", "t=1&2");
	assert_false(reflector_synced(w->r));
	assert_int_equal(next(w), REFLECTOR_LIST);
	assert_string_equal(w->path, "/apis/sedna.io/v1alpha1/incrementallearningjobs?limit=200&continue=t%3D1%262");
	page(w, "b@2", "10", "");
	told(w, "+n/a@1 +n/b@2 ");
	assert_true(reflector_synced(w->r));
}

static void an_empty_list_may_be_null(void **state)
{
	world *w = *state;
	cJSON *list = NULL;
	static const char text[] = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}";

	next(w);
	assert_int_equal(json_parse(text, strlen(text), 1000, &list, NULL), 0);
	reflector_page(w->r, list, w->now);
	assert_true(reflector_synced(w->r));
	told(w, "");
}

static void events_are_told_once(void **state)
{
	world *w = *state;

	begin(w);
	reflector_event(w->r, WATCH_ADDED, object("c", "11"), w->now);
	reflector_event(w->r, WATCH_MODIFIED, object("a", "12"), w->now);
	reflector_event(w->r, WATCH_MODIFIED, object("a", "12"), w->now);
	reflector_event(w->r, WATCH_DELETED, object("b", "13"), w->now);
	reflector_event(w->r, WATCH_DELETED, object("b", "13"), w->now);
	told(w, "+n/c@11 +n/a@12 -n/b ");
	/* The server ends it: on from the last event. */
	w->now.mono_ms += 5000;
	reflector_ended(w->r, 0, "", 0, w->now);
	assert_int_equal(next(w), REFLECTOR_WATCH);
	assert_non_null(strstr(w->path, "resourceVersion=13&"));
	assert_true(reflector_synced(w->r));
}

static void a_bookmark_is_no_object(void **state)
{
	world *w = *state;
	cJSON *bookmark = cJSON_CreateObject(), *metadata = cJSON_CreateObject();

	begin(w);
	json_put_string(metadata, "resourceVersion", "40");
	json_put(bookmark, "metadata", metadata);
	reflector_event(w->r, WATCH_BOOKMARK, bookmark, w->now);
	told(w, "");
	reflector_ended(w->r, ERROR_OFFLINE, "cut", 0, w->now);
	w->now.mono_ms += 60000;
	assert_int_equal(next(w), REFLECTOR_WATCH);
	assert_non_null(strstr(w->path, "resourceVersion=40&"));
}

static void what_we_wrote_is_not_news(void **state)
{
	world *w = *state;
	cJSON *ours = object("a", "20");

	begin(w);
	reflector_wrote(w->r, ours);
	reflector_event(w->r, WATCH_MODIFIED, object("a", "15"), w->now); /* from before */
	reflector_event(w->r, WATCH_MODIFIED, object("a", "20"), w->now);
	told(w, "");
	reflector_event(w->r, WATCH_MODIFIED, object("a", "21"), w->now);
	told(w, "+n/a@21 ");
	cJSON_Delete(ours);
}

/* 410 as a status of the request, and as an event: the list anew, and what left meanwhile is gone. */
static void relists_after_410(void **state)
{
	world *w = *state;

	begin(w);
	status_event(w, 410);
	assert_false(reflector_synced(w->r));
	w->now.mono_ms += 1000; /* it came at once: not without end */
	assert_int_equal(next(w), REFLECTOR_LIST);
	assert_null(strstr(w->path, "resourceVersion"));
	told(w, "");
	page(w, "b@2 c@30", "31", NULL);
	told(w, "+n/c@30 -n/a ");
	assert_int_equal(next(w), REFLECTOR_WATCH);
	reflector_ended(w->r, ERROR_CHANGED, "410: too old", 0, w->now);
	w->now.mono_ms += 60000;
	assert_int_equal(next(w), REFLECTOR_LIST);
}

/* Made by us while a list is on its way that does not have it yet. */
static void a_list_from_before_a_write(void **state)
{
	world *w = *state;
	cJSON *ours = object("pod", "50");

	begin(w);
	reflector_relist(w->r, w->now);
	assert_int_equal(next(w), REFLECTOR_LIST);
	reflector_wrote(w->r, ours);
	page(w, "a@1 b@2", "45", NULL);
	told(w, "");
	cJSON_Delete(ours);
}

static void an_expired_token(void **state)
{
	world *w = *state;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(next(w), REFLECTOR_LIST);
		assert_non_null(strstr(w->path, "limit=200"));
		page(w, "a@1", "10", "token");
		assert_int_equal(next(w), REFLECTOR_LIST);
		reflector_ended(w->r, ERROR_CHANGED, "410", 0, w->now);
		w->now.mono_ms += 60000;
	}
	/* It always expires: all in one. */
	assert_int_equal(next(w), REFLECTOR_LIST);
	assert_null(strstr(w->path, "limit"));
	page(w, "a@1 b@2", "20", NULL);
	told(w, "+n/a@1 +n/b@2 ");
	assert_true(reflector_synced(w->r));
}

static void failures_back_off(void **state)
{
	world *w = *state;
	int64_t last = 0;

	for (int i = 0; i < 12; i++) {
		int64_t wait;

		assert_int_equal(next(w), REFLECTOR_LIST);
		assert_int_equal(next(w), REFLECTOR_WAIT);
		reflector_ended(w->r, ERROR_OFFLINE, "connection refused", 0, w->now);
		wait = reflector_wake(w->r) - w->now.mono_ms;
		assert_in_range(wait, 500, 30000);
		assert_int_equal(next(w), REFLECTOR_WAIT);
		last = wait;
		w->now.mono_ms += wait;
	}
	assert_true(last >= 15000);
	assert_non_null(strstr(reflector_problem(w->r), "connection refused"));
	/* The server's word counts. */
	assert_int_equal(next(w), REFLECTOR_LIST);
	reflector_ended(w->r, ERROR_OFFLINE, "429", 120000, w->now);
	assert_int_equal(reflector_wake(w->r) - w->now.mono_ms, 120000);
	w->now.mono_ms += 120000;
	assert_int_equal(next(w), REFLECTOR_LIST);
	page(w, "", "1", NULL);
	assert_string_equal(reflector_problem(w->r), "");
}

static void watches_in_vain_lead_to_a_list(void **state)
{
	world *w = *state;

	begin(w);
	for (int i = 0; i < 3; i++) {
		if (i > 0)
			assert_int_equal(next(w), REFLECTOR_WATCH);
		status_event(w, 500);
		w->now.mono_ms += 60000;
	}
	assert_int_equal(next(w), REFLECTOR_LIST);
}

/* A proxy that ends each watch at once must not be asked without end. */
static void watches_that_end_at_once(void **state)
{
	world *w = *state;

	begin(w);
	reflector_ended(w->r, 0, "", 0, w->now);
	assert_true(reflector_wake(w->r) > w->now.mono_ms);
}

static void problems_say_what_to_do(void **state)
{
	world *w = *state;

	next(w);
	reflector_ended(w->r, ERROR_NOT_FOUND, "404: the server could not find the requested resource", 0, w->now);
	assert_non_null(strstr(reflector_problem(w->r), "kubectl apply -f helm/ilmare/crds/"));
	w->now.mono_ms += 60000;
	next(w);
	reflector_ended(w->r, ERROR_DENIED, "403: jobs is forbidden", 0, w->now);
	assert_non_null(strstr(reflector_problem(w->r), "list and watch for incrementallearningjobs in API group \"sedna.io\""));
	/* Where no rule of RBAC would help. */
	for (size_t i = 0; i < 2; i++) {
		w->now.mono_ms += 60000;
		next(w);
		reflector_ended(w->r, ERROR_DENIED, i == 0 ? "401: Unauthorized" : "SSL certificate problem: self-signed certificate", 0, w->now);
		assert_non_null(strstr(reflector_problem(w->r), i == 0 ? "does not accept the token" : "certificate authority that is given"));
		assert_null(strstr(reflector_problem(w->r), "list and watch"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pages_are_one_list, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_list_may_be_null, setup, teardown),
		cmocka_unit_test_setup_teardown(events_are_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_bookmark_is_no_object, setup, teardown),
		cmocka_unit_test_setup_teardown(what_we_wrote_is_not_news, setup, teardown),
		cmocka_unit_test_setup_teardown(relists_after_410, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_from_before_a_write, setup, teardown),
		cmocka_unit_test_setup_teardown(an_expired_token, setup, teardown),
		cmocka_unit_test_setup_teardown(failures_back_off, setup, teardown),
		cmocka_unit_test_setup_teardown(watches_in_vain_lead_to_a_list, setup, teardown),
		cmocka_unit_test_setup_teardown(watches_that_end_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(problems_say_what_to_do, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
