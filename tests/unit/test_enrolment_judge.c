/* Who gets a certificate: the judge with answers of the API server as they are, right, wrong, late and of somebody else. */
#include "cloud-agent/enrolment/judge.h"
#include "cloud-agent/enrolment/questions.h"
#include "common/json.h"
#include "tests/unit/unit.h"

#define KEY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER_KEY "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define NOW INT64_C(1700000000000) /* 2023-11-14 */

typedef struct fixture {
	enrol_settings settings;
	enrol_request request;
	enrol_facts facts;
	enrol_verdict verdict;
} fixture;

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);

	f->settings = (enrol_settings){.ns = "ilmare",
		.account_ns = "ilmare",
		.account_name = "edge",
		.prefix = "once-",
		.denied = "edge-8\nedge-9",
		.reserved = "operator"};
	f->request = (enrol_request){.way = ENROL_BY_POD, .node = "edge-1", .token = "a.b.c"};
	f->facts = (enrol_facts){.request = &f->request, .now_ms = NOW, .mem = arena_new()};
	strcpy(f->facts.key, KEY);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;

	arena_free(f->facts.mem);
	free(f);
	return 0;
}

static enum enrol_step judge(fixture *f)
{
	enrol_judge(&f->settings, &f->facts, &f->verdict);
	return f->verdict.step;
}

static void refused(fixture *f, const char *words)
{
	assert_int_equal(judge(f), ENROL_REFUSE);
	assert_int_equal(f->verdict.status, 403);
	if (!strstr(f->verdict.text, words))
		fail_msg("\"%s\" is not in: %s", words, f->verdict.text);
}

/* The server's answer to this step. */
static void answer(fixture *f, enum enrol_step step, const char *text)
{
	cJSON *object = cJSON_Parse(text);

	assert_non_null(object);
	enrol_question_answered(&f->facts, step, 0, "", object);
	cJSON_Delete(object);
}

static void error_of(fixture *f, enum enrol_step step, int code)
{
	enrol_question_answered(&f->facts, step, code, "words", NULL);
}

/* ---- pods ---- */

#define REVIEW(ok, audience, user, extra)                                                                                                  \
	"{\"status\":{\"authenticated\":" ok ",\"audiences\":[\"" audience "\"],\"user\":{\"username\":\"" user "\",\"extra\":{" extra "}}}}"
#define BOUND "\"authentication.kubernetes.io/pod-name\":[\"edge-x\"],\"authentication.kubernetes.io/pod-uid\":[\"u-1\"]"
#define EDGE "system:serviceaccount:ilmare:edge"
#define GOOD_REVIEW REVIEW("true", "ilmare-enrolment", EDGE, BOUND)
#define POD(uid, node, more)                                                                                                               \
	"{\"metadata\":{\"uid\":\"" uid "\"" more "},\"spec\":{\"nodeName\":\"" node "\"},\"status\":{\"phase\":\"Running\"}}"

static void test_pod(void **state)
{
	fixture *f = *state;
	enrol_question q;

	assert_int_equal(judge(f), ENROL_REVIEW);
	enrol_question_make(&f->settings, &f->facts, ENROL_REVIEW, &q);
	assert_string_equal(q.method, "POST");
	assert_string_equal(q.path, "/apis/authentication.k8s.io/v1/tokenreviews");
	assert_string_equal(q.body,
		"{\"apiVersion\":\"authentication.k8s.io/"
		"v1\",\"kind\":\"TokenReview\",\"spec\":{\"token\":\"a.b.c\",\"audiences\":[\"ilmare-enrolment\"]}}");
	free(q.body);
	answer(f, ENROL_REVIEW, GOOD_REVIEW);
	assert_int_equal(judge(f), ENROL_POD);
	enrol_question_make(&f->settings, &f->facts, ENROL_POD, &q);
	assert_string_equal(q.path, "/api/v1/namespaces/ilmare/pods/edge-x");
	answer(f, ENROL_POD, POD("u-1", "edge-1", ""));
	assert_int_equal(judge(f), ENROL_SIGN);
}

static void test_reviews(void **state)
{
	static const char *const rows[][2] = {
		{REVIEW("false", "ilmare-enrolment", EDGE, BOUND), "does not accept"},
		{"{\"status\":{\"error\":\"too old\"}}", "too old"},
		{"{}", "does not accept"},
		{"{\"status\":{\"authenticated\":\"true\"}}", "does not accept"},
		{REVIEW("true", "other", EDGE, BOUND), "audience"},
		{"{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"" EDGE "\",\"extra\":{" BOUND "}}}}", "audience"},
		{REVIEW("true", "ilmare-enrolment", "system:serviceaccount:other:edge", BOUND), "service account"},
		{REVIEW("true", "ilmare-enrolment", "system:serviceaccount:ilmare:edge2", BOUND), "service account"},
		{REVIEW("true", "ilmare-enrolment", "admin", BOUND), "service account"},
		{REVIEW("true", "ilmare-enrolment", EDGE, ""), "not bound"},
		{REVIEW("true", "ilmare-enrolment", EDGE, "\"authentication.kubernetes.io/pod-name\":[\"x\"]"), "not bound"},
		{REVIEW("true", "ilmare-enrolment", EDGE,
			 "\"authentication.kubernetes.io/pod-name\":[\"../x\"],\"authentication.kubernetes.io/pod-uid\":[\"u\"]"),
			"not bound"},
	};
	fixture *f = *state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		memset(&f->facts.review, 0, sizeof f->facts.review);
		answer(f, ENROL_REVIEW, rows[i][0]);
		refused(f, rows[i][1]);
	}
}

static void test_pods(void **state)
{
	static const char *const rows[][2] = {
		{POD("u-1", "edge-2", ""), "is on node \"edge-2\""},
		{POD("u-1", "", ""), "is on node \"\""},
		{POD("u-2", "edge-1", ""), "is gone"},
		{POD("u-1", "edge-1", ",\"deletionTimestamp\":\"2023-11-14T00:00:00Z\""), "being deleted"},
		{"{\"metadata\":{\"uid\":\"u-1\"},\"spec\":{\"nodeName\":\"edge-1\"},\"status\":{\"phase\":\"Failed\"}}", "has ended"},
		{"{}", "is gone"},
	};
	fixture *f = *state;

	answer(f, ENROL_REVIEW, GOOD_REVIEW);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		answer(f, ENROL_POD, rows[i][0]);
		refused(f, rows[i][1]);
	}
	error_of(f, ENROL_POD, ERROR_NOT_FOUND);
	refused(f, "is gone");
}

/* ---- one-time tokens ---- */

/* The token is "0123456789abcdef". */
#define SHA256 "OWY5ZjUxMTFmN2IyN2E3ODFmMWYxZGRkZTVlYmMyZGQyYjc5NmJmYzczNjVjOWMyOGI1NDhlNTY0MTc2OTI5Zg=="
#define SHA256_OTHER "MGY5ZjUxMTFmN2IyN2E3ODFmMWYxZGRkZTVlYmMyZGQyYjc5NmJmYzczNjVjOWMyOGI1NDhlNTY0MTc2OTI5Zg=="
#define EDGE_1 "ZWRnZS0x"
#define EDGE_2 "ZWRnZS0y"
#define IN_TIME "MjAyMy0xMi0wMVQwMDowMDowMFo=" /* 2023-12-01T00:00:00Z */
#define OVER "MjAyMy0xMS0wMVQwMDowMDowMFo="    /* 2023-11-01T00:00:00Z */
#define SECRET(type, node, sum, expires, more)                                                                                             \
	"{\"type\":\"" type "\",\"metadata\":{\"uid\":\"u-s\",\"resourceVersion\":\"17\"" more "},\"data\":{\"node\":\"" node                  \
	"\",\"tokenSha256\":\"" sum "\",\"expires\":\"" expires "\"}}"
#define BOUND_TO(key) ",\"annotations\":{\"ilmare/enrolment-key\":\"" key "\"}"
#define TYPE "ilmare/enrolment"

static void by_token(fixture *f)
{
	f->request.way = ENROL_BY_TOKEN;
	f->request.token = "0123456789abcdef";
}

static void test_token(void **state)
{
	fixture *f = *state;
	enrol_question q;

	by_token(f);
	assert_int_equal(judge(f), ENROL_SECRET);
	enrol_question_make(&f->settings, &f->facts, ENROL_SECRET, &q);
	assert_string_equal(q.path, "/api/v1/namespaces/ilmare/secrets/once-edge-1");
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, ""));
	assert_int_equal(judge(f), ENROL_BIND);
	enrol_question_make(&f->settings, &f->facts, ENROL_BIND, &q);
	assert_string_equal(q.method, "PATCH");
	assert_string_equal(q.body,
		"{\"metadata\":{\"uid\":\"u-s\",\"resourceVersion\":\"17\",\"annotations\":{\"ilmare/enrolment-key\":\"" KEY "\"}}}");
	free(q.body);
	answer(f, ENROL_BIND, "{}");
	assert_int_equal(judge(f), ENROL_SIGN);
}

/* The answer was lost: the same key needs no binding any more. Another key gets nothing. */
static void test_bound_already(void **state)
{
	fixture *f = *state;

	by_token(f);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, BOUND_TO(KEY)));
	assert_int_equal(judge(f), ENROL_SIGN);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, BOUND_TO(OTHER_KEY)));
	refused(f, "another key");
}

/* Two replicas at once: who comes second reads it again, and finds the key of the first. */
static void test_race(void **state)
{
	fixture *f = *state;

	by_token(f);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, ""));
	assert_int_equal(judge(f), ENROL_BIND);
	error_of(f, ENROL_BIND, ERROR_CONFLICT);
	assert_int_equal(judge(f), ENROL_SECRET);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, BOUND_TO(OTHER_KEY)));
	refused(f, "another key");
	/* It was changed by somebody else: bound at the next try, but not for ever. */
	for (int i = 1; i < ENROL_BINDS_MAX; i++) {
		answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, ""));
		assert_int_equal(judge(f), ENROL_BIND);
		error_of(f, ENROL_BIND, ERROR_CONFLICT);
	}
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, ""));
	assert_int_equal(judge(f), ENROL_LATER);
	assert_int_equal(f->verdict.status, 503);
}

static void test_bound_to_one_that_went(void **state)
{
	fixture *f = *state;

	by_token(f);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, IN_TIME, ""));
	error_of(f, ENROL_BIND, ERROR_NOT_FOUND);
	assert_int_equal(judge(f), ENROL_SECRET);
	error_of(f, ENROL_SECRET, ERROR_NOT_FOUND);
	refused(f, "none of node edge-1");
}

static void test_secrets(void **state)
{
	static const char *const rows[] = {
		SECRET(TYPE, EDGE_1, SHA256_OTHER, IN_TIME, ""),
		SECRET(TYPE, EDGE_1, "", IN_TIME, ""),
		SECRET(TYPE, EDGE_2, SHA256, IN_TIME, ""),
		SECRET("Opaque", EDGE_1, SHA256, IN_TIME, ""),
		SECRET("Opaque", EDGE_1, SHA256, OVER, ""),
		SECRET(TYPE, EDGE_2, SHA256, OVER, ""),
		"{\"type\":\"" TYPE "\",\"data\":{}}",
		"{}",
	};
	fixture *f = *state;

	by_token(f);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		answer(f, ENROL_SECRET, rows[i]);
		refused(f, "none of node edge-1");
	}
}

static void test_over(void **state)
{
	fixture *f = *state;
	enrol_question q;

	by_token(f);
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, OVER, BOUND_TO(KEY)));
	assert_int_equal(judge(f), ENROL_REMOVE);
	enrol_question_make(&f->settings, &f->facts, ENROL_REMOVE, &q);
	assert_string_equal(q.method, "DELETE");
	assert_non_null(strstr(q.body, "\"preconditions\":{\"uid\":\"u-s\",\"resourceVersion\":\"17\"}"));
	free(q.body);
	error_of(f, ENROL_REMOVE, ERROR_CONFLICT);
	refused(f, "time is over");
	/* With a wrong token it is removed as well, and nothing is told. */
	f->facts.removed = false;
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256_OTHER, OVER, ""));
	assert_int_equal(judge(f), ENROL_REMOVE);
	answer(f, ENROL_REMOVE, "{}");
	refused(f, "none of node edge-1");
	/* Its end is that moment itself, and none is an end too. */
	f->facts.secret.expires_ms = NOW;
	refused(f, "none of node edge-1");
	answer(f, ENROL_SECRET, SECRET(TYPE, EDGE_1, SHA256, "", ""));
	refused(f, "time is over");
}

/* ---- all ---- */

static void test_names(void **state)
{
	static const char *const rows[][2] = {{"cloud", "not for a device"}, {"broker", "not for a device"}, {"operator", "not for a device"},
		{"edge-8", "is denied"}, {"edge-9", "is denied"}};
	fixture *f = *state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (int way = ENROL_BY_POD; way <= ENROL_BY_CERTIFICATE; way++) {
			f->request.node = rows[i][0];
			f->request.way = (enum enrol_way)way;
			refused(f, rows[i][1]);
		}
	f->request.way = ENROL_BY_CERTIFICATE;
	for (const char *const *name = (const char *const[]){"edge-", "edge-88", "dge-8", "9", "oper", NULL}; *name; name++) {
		f->request.node = *name;
		assert_int_equal(judge(f), ENROL_SIGN);
	}
}

static void test_certificate(void **state)
{
	fixture *f = *state;

	f->request.way = ENROL_BY_CERTIFICATE;
	assert_int_equal(judge(f), ENROL_SIGN);
	error_set(&f->facts.proof, ERROR_DENIED, "why not");
	refused(f, "why not");
}

static void test_ways_that_are_closed(void **state)
{
	fixture *f = *state;

	f->settings.account_name = f->settings.account_ns = NULL;
	refused(f, "enrolment.serviceAccount");
	by_token(f);
	f->settings.prefix = NULL;
	refused(f, "enrolment.secretPrefix");
}

/* Whatever the step: what the API server cannot or may not say is no refusal. */
static void test_trouble(void **state)
{
	static const int codes[] = {ERROR_OFFLINE, ERROR_DENIED, ERROR_TIMEOUT, ERROR_INVALID};
	fixture *f = *state;

	for (int step = ENROL_REVIEW; step <= ENROL_REMOVE; step++)
		for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
			f->facts.trouble = (error){0};
			error_of(f, (enum enrol_step)step, codes[i]);
			assert_int_equal(judge(f), ENROL_LATER);
			assert_int_equal(f->verdict.status, 503);
		}
	f->facts.trouble = (error){0};
	error_of(f, ENROL_REVIEW, ERROR_NOT_FOUND); /* such an API server has no reviews */
	assert_int_equal(judge(f), ENROL_LATER);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {T(test_pod), T(test_reviews), T(test_pods), T(test_token), T(test_bound_already), T(test_race),
		T(test_bound_to_one_that_went), T(test_secrets), T(test_over), T(test_names), T(test_certificate), T(test_ways_that_are_closed),
		T(test_trouble)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
