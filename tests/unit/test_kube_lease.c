/* The Lease: one that leads at a time, whatever the server answers and whoever stops; the epoch only goes up; nothing after the fence. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/kube/lease.h"
#include "common/json.h"

enum { DURATION = 15000, RENEW = 10000, RETRY = 2000 };

/* The API server's part: one object with a version. */
typedef struct server {
	cJSON *object;
	int version;
	moment now;
	bool down;
} server;

static lease *agent(const char *identity)
{
	lease_config config = {
		.ns = "ilmare", .name = "cloud", .identity = identity, .duration_ms = DURATION, .renew_ms = RENEW, .retry_ms = RETRY, .seed = 3};

	return lease_new(&config);
}

static int store(server *s, const char *body)
{
	cJSON *next = NULL;
	const char *had;
	char version[16];

	assert_int_equal(json_parse(body, strlen(body), 100000, &next, NULL), 0);
	had = cJSON_GetStringValue(json_member(json_member(next, "metadata"), "resourceVersion"));
	snprintf(version, sizeof version, "%d", s->version);
	if (s->object != NULL && (had == NULL || strcmp(had, version) != 0)) {
		cJSON_Delete(next);
		return ERROR_CONFLICT;
	}
	snprintf(version, sizeof version, "%d", ++s->version);
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(next, "metadata"), "resourceVersion");
	json_put_string(cJSON_GetObjectItemCaseSensitive(next, "metadata"), "resourceVersion", version);
	cJSON_Delete(s->object);
	s->object = next;
	return 0;
}

/* All that the agent wants to ask now is asked and answered. Returns the number of requests. */
static int step(server *s, lease *l)
{
	lease_request request;
	int n = 0;

	while (lease_next(l, s->now, &request)) {
		int code = s->down ? ERROR_TIMEOUT : 0;

		n++;
		if (code == 0 && request.body != NULL)
			code = store(s, request.body);
		else if (code == 0 && s->object == NULL)
			code = ERROR_NOT_FOUND;
		lease_answer(l, code, code != 0 ? "no" : "", code == 0 ? s->object : NULL, s->now);
		free(request.path);
		free(request.body);
		assert_true(n < 10);
	}
	return n;
}

static const char *holder(const server *s)
{
	return json_member(json_member(s->object, "spec"), "holderIdentity")->valuestring;
}

static void the_first_one_leads(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a"), *b = agent("b");
	int64_t fence;

	(void)state;
	step(&s, a);
	assert_true(lease_leads(a));
	assert_int_equal(lease_epoch(a), 1796000000);
	assert_int_equal(lease_fence(a), 5000 + RENEW);
	assert_string_equal(json_member(json_member(json_member(s.object, "metadata"), "annotations"), "ilmare/epoch")->valuestring,
		"1796000000");
	step(&s, b);
	assert_false(lease_leads(b));
	assert_string_equal(lease_holder(b), "a");
	/* It is renewed with one request each time, and the other one never gets it. */
	fence = lease_fence(a);
	for (int i = 0; i < 60; i++) {
		s.now.mono_ms += 1000;
		assert_in_range(step(&s, a), 0, 1);
		step(&s, b);
		assert_false(lease_leads(b));
	}
	assert_true(lease_leads(a));
	assert_int_equal(lease_epoch(a), 1796000000);
	assert_true(lease_fence(a) > fence + 50000);
	cJSON_Delete(s.object);
	lease_free(a);
	lease_free(b);
}

static void a_dead_leader_is_followed(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a"), *b = agent("b");
	int64_t since;

	(void)state;
	step(&s, a);
	step(&s, b);
	since = s.now.mono_ms;
	while (!lease_leads(b)) {
		s.now.mono_ms += 250;
		step(&s, b);
		/* Never before it has lasted, nor long after. */
		assert_true(!lease_leads(b) || s.now.mono_ms - since >= DURATION);
		assert_true(s.now.mono_ms - since <= DURATION + 3 * RETRY);
	}
	assert_true(s.now.mono_ms >= lease_fence(a));
	assert_int_equal(lease_epoch(b), 1796000001);
	/* The old one comes back: its write is refused, and it looks. */
	step(&s, a);
	assert_false(lease_leads(a));
	assert_string_equal(holder(&s), "b");
	cJSON_Delete(s.object);
	lease_free(a);
	lease_free(b);
}

static void a_leader_without_a_server_ends_at_its_fence(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a");

	(void)state;
	step(&s, a);
	s.down = true;
	while (s.now.mono_ms < 5000 + RENEW) {
		assert_true(lease_leads(a));
		assert_true(lease_wake(a) <= lease_fence(a));
		s.now.mono_ms += 100;
		step(&s, a);
	}
	assert_false(lease_leads(a));
	/* Back again: a new reign, with a higher epoch, though nobody else was there. */
	s.down = false;
	s.now.mono_ms += 3000;
	step(&s, a);
	assert_true(lease_leads(a));
	assert_int_equal(lease_epoch(a), 1796000001);
	cJSON_Delete(s.object);
	lease_free(a);
}

static void given_back_it_is_taken_at_once(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a"), *b = agent("b");

	(void)state;
	step(&s, a);
	step(&s, b);
	lease_release(a);
	assert_false(lease_leads(a));
	assert_false(lease_over(a));
	assert_int_equal(step(&s, a), 1);
	assert_true(lease_over(a) && lease_released(a));
	assert_string_equal(holder(&s), "");
	s.now.mono_ms += RETRY + RETRY / 5;
	step(&s, b);
	assert_true(lease_leads(b));
	/* Of one who does not hold it there is nothing to wait for. */
	lease_release(a);
	assert_int_equal(step(&s, a), 0);
	cJSON_Delete(s.object);
	lease_free(a);
	lease_free(b);
}

/* A write of `a` is under way when it leaves: done or not, answered with success, a conflict, or not at all. In the end `a` does not hold it, and
 * `most` requests were enough. */
static void leave(server *s, lease *a, bool done, int code, int most)
{
	lease_request request;
	int before;

	assert_true(lease_next(a, s->now, &request));
	assert_string_equal(request.method, s->object != NULL ? "PUT" : "POST");
	if (done)
		assert_int_equal(store(s, request.body), 0);
	free(request.path);
	free(request.body);
	lease_release(a);
	assert_false(lease_leads(a));
	before = s->version;
	assert_int_equal(step(s, a), 0); /* nothing before the answer */
	assert_false(lease_over(a));
	lease_answer(a, code, code != 0 ? "no" : "", code == 0 ? s->object : NULL, s->now);
	assert_in_range(step(s, a), 0, most);
	assert_true(lease_over(a));
	assert_true(s->version <= before + 1);
	if (s->object != NULL)
		assert_string_not_equal(holder(s), "a");
}

static void given_back_while_a_write_is_under_way(void **state)
{
	static const struct {
		bool done;
		int code, most;
		bool released;
	} cases[] = {
		{true, 0, 1, true},
		{true, ERROR_TIMEOUT, 2, true}, /* it arrived, which is only seen by reading */
		{true, ERROR_OFFLINE, 2, true},
		{false, ERROR_TIMEOUT, 2, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (int renewal = 0; renewal < 2; renewal++) {
			server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
			lease *a = agent("a"), *b = agent("b");

			if (renewal == 0) {
				/* The first one: it is to be taken. */
				lease_request request;

				assert_true(lease_next(a, s.now, &request));
				free(request.path);
				lease_answer(a, ERROR_NOT_FOUND, "no", NULL, s.now);
			} else {
				step(&s, a);
				s.now.mono_ms += RETRY * 2;
			}
			leave(&s, a, cases[i].done, cases[i].code, cases[i].most);
			assert_true(lease_released(a) == (s.object != NULL));
			step(&s, b);
			assert_true(lease_leads(b));
			cJSON_Delete(s.object);
			lease_free(a);
			lease_free(b);
		}
	}
}

/* Somebody else changed the Lease meanwhile, or took it: what is theirs stays. */
static void given_back_in_conflict(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		bool taken = i % 2 == 1, busy = i >= 2;
		server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
		lease *a = agent("a");
		cJSON *metadata, *spec;
		char version[16];

		step(&s, a);
		s.now.mono_ms += RETRY * 2;
		metadata = cJSON_GetObjectItemCaseSensitive(s.object, "metadata");
		spec = cJSON_GetObjectItemCaseSensitive(s.object, "spec");
		snprintf(version, sizeof version, "%d", ++s.version);
		cJSON_ReplaceItemInObjectCaseSensitive(metadata, "resourceVersion", cJSON_CreateString(version));
		if (taken)
			cJSON_ReplaceItemInObjectCaseSensitive(spec, "holderIdentity", cJSON_CreateString("c"));
		if (busy) {
			leave(&s, a, false, ERROR_CONFLICT, 2);
		} else {
			lease_release(a);
			assert_int_equal(step(&s, a), taken ? 2 : 3);
			assert_true(lease_over(a));
		}
		assert_true(lease_released(a) == !taken);
		assert_string_equal(holder(&s), taken ? "c" : "");
		cJSON_Delete(s.object);
		lease_free(a);
	}
}

/* It ends whatever the server does. */
static void not_given_back(void **state)
{
	static const int codes[] = {ERROR_TIMEOUT, ERROR_CONFLICT, ERROR_DENIED, ERROR_NOT_FOUND};

	(void)state;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
		lease *a = agent("a");
		lease_request request;
		int n = 0;

		step(&s, a);
		lease_release(a);
		while (lease_next(a, s.now, &request)) {
			bool reads = request.body == NULL;

			free(request.path);
			free(request.body);
			lease_answer(a, reads ? 0 : codes[i], "no", reads ? s.object : NULL, s.now);
			assert_in_range(++n, 1, 4);
		}
		assert_true(lease_over(a));
		assert_false(lease_released(a));
		cJSON_Delete(s.object);
		lease_free(a);
	}
}

/* The answer to a write is lost: whether it arrived is looked up. */
static void a_lost_answer(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a");
	lease_request request;

	(void)state;
	step(&s, a);
	s.now.mono_ms += RETRY * 2;
	assert_true(lease_next(a, s.now, &request));
	assert_int_equal(store(&s, request.body), 0);
	free(request.path);
	free(request.body);
	lease_answer(a, ERROR_TIMEOUT, "timeout", NULL, s.now);
	assert_true(lease_leads(a));
	s.now.mono_ms += RETRY * 2;
	step(&s, a);
	assert_true(lease_leads(a));
	assert_int_equal(lease_fence(a), s.now.mono_ms + RENEW);
	cJSON_Delete(s.object);
	lease_free(a);
}

/* Why nobody leads is told as long as nobody does. */
static void what_is_wrong(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a"), *b = agent("b");

	(void)state;
	assert_string_equal(lease_trouble(a, s.now), "");
	s.down = true;
	step(&s, a);
	assert_string_equal(lease_trouble(a, s.now), "no agent leads: the Lease cloud in namespace ilmare cannot be read or written: no");
	s.down = false;
	s.now.mono_ms += RETRY * 2;
	step(&s, a);
	step(&s, b);
	s.down = true;
	s.now.mono_ms += RETRY * 2;
	step(&s, a);
	step(&s, b);
	assert_true(lease_leads(a));
	assert_string_equal(lease_trouble(a, s.now), "");
	assert_string_equal(lease_trouble(b, s.now), "");
	/* Until the time of whoever did is over. */
	s.now.mono_ms += DURATION;
	step(&s, a);
	step(&s, b);
	assert_string_not_equal(lease_trouble(b, s.now), "");
	assert_string_not_equal(lease_trouble(a, s.now), "");
	cJSON_Delete(s.object);
	lease_free(a);
	lease_free(b);
}

static void a_higher_epoch_is_wanted(void **state)
{
	server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
	lease *a = agent("a");

	(void)state;
	step(&s, a);
	lease_raise(a, 1800000000);
	step(&s, a);
	assert_true(lease_leads(a));
	assert_int_equal(lease_epoch(a), 1800000001);
	/* And it stays. */
	s.now.mono_ms += RETRY * 2;
	step(&s, a);
	assert_int_equal(lease_epoch(a), 1800000001);
	cJSON_Delete(s.object);
	lease_free(a);
}

/* An annotation that is no epoch, or one that none can follow. */
static void odd_epochs(void **state)
{
	static const char *const odd[] = {"", "x", "-5", "99999999999999999999", "1099511627776"};

	(void)state;
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		server s = {.now = {.mono_ms = 5000, .unix_ms = INT64_C(1796000000000)}};
		lease *a = agent("a"), *b = agent("b");
		cJSON *annotations;

		step(&s, a);
		annotations = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(s.object, "metadata"), "annotations");
		cJSON_DeleteItemFromObjectCaseSensitive(annotations, "ilmare/epoch");
		json_put_string(annotations, "ilmare/epoch", odd[i]);
		step(&s, b);
		s.now.mono_ms += DURATION + RETRY;
		step(&s, b);
		assert_true(lease_leads(b));
		assert_int_equal(lease_epoch(b), 1796000000);
		cJSON_Delete(s.object);
		lease_free(a);
		lease_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_one_leads),
		cmocka_unit_test(a_dead_leader_is_followed),
		cmocka_unit_test(a_leader_without_a_server_ends_at_its_fence),
		cmocka_unit_test(given_back_it_is_taken_at_once),
		cmocka_unit_test(given_back_while_a_write_is_under_way),
		cmocka_unit_test(given_back_in_conflict),
		cmocka_unit_test(not_given_back),
		cmocka_unit_test(a_lost_answer),
		cmocka_unit_test(what_is_wrong),
		cmocka_unit_test(a_higher_epoch_is_wanted),
		cmocka_unit_test(odd_epochs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
