/* Credentials on the wire. A response with its keys leaves none of them in an error, or in memory that was given back. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "proto/document.h"
#include "tests/unit/document_check.h"
#include "tests/unit/unit.h"

CHECK_CODEC(credential_request, "request");
CHECK_CODEC(credential_response, "response");

#define OF "\"of\":{\"kind\":\"job\",\"namespace\":\"a\",\"name\":\"j\",\"uid\":\"u-1\"},\"secret\":\"s3\""
#define OF_ROWS                                                                                                                            \
	{"v", MEMBER_NUMBER, true}, {"ts", MEMBER_STRING, true}, {"node", MEMBER_STRING, true}, {"of", MEMBER_OBJECT, true},                   \
		{"of.kind", MEMBER_STRING, true}, {"of.namespace", MEMBER_STRING, true}, {"of.name", MEMBER_STRING, true},                         \
		{"of.uid", MEMBER_STRING, true},                                                                                                   \
	{                                                                                                                                      \
		"secret", MEMBER_STRING, true                                                                                                      \
	}

static const char request_text[] = "{\"v\":1,\"ts\":\"t\",\"node\":\"n\"," OF "}";
static const member request_rows[] = {OF_ROWS};

static const char keys_text[] = "{\"v\":1,\"ts\":\"t\",\"node\":\"n\"," OF ",\"version\":\"7\",\"endpoint\":\"https://minio:9000\","
								"\"accessKeyId\":\"the-id\",\"secretAccessKey\":\"CANARY/+=\\\"\\\\\"}";
static const member keys_rows[] = {
	OF_ROWS,
	{"version", MEMBER_STRING, true},
	{"endpoint", MEMBER_STRING, false},
	{"accessKeyId", MEMBER_STRING, true},
	{"secretAccessKey", MEMBER_STRING, true},
};

static void each_member_in_all_ways(void **state)
{
	(void)state;
	document_check(&credential_request_codec, request_text, request_rows, sizeof request_rows / sizeof request_rows[0]);
	document_check(&credential_response_codec, keys_text, keys_rows, sizeof keys_rows / sizeof keys_rows[0]);
}

static void an_answer_has_keys_or_a_reason(void **state)
{
	credential_response *r = document_taken(&credential_response_codec, keys_text);
	char *without;

	(void)state;
	assert_null(r->reason);
	assert_int_equal(r->of.kind, CREDENTIAL_JOB);
	assert_string_equal(r->secret_access_key, "CANARY/+=\"\\");
	credential_response_free(r);

	r = document_taken(&credential_response_codec,
		"{\"v\":1,\"ts\":\"t\",\"node\":\"n\",\"of\":{\"kind\":\"dataset\",\"namespace\":\"a\",\"name\":\"d\",\"uid\":\"u\"},\"secret\":"
		"\"s\","
		"\"reason\":\"NotNamed\",\"message\":\"no\\n\"}");
	assert_string_equal(r->reason, "NotNamed");
	assert_int_equal(r->of.kind, CREDENTIAL_DATASET);
	assert_null(r->access_key_id);
	credential_response_free(r);

	without = document_with(keys_text, "accessKeyId", NULL);
	document_refused(&credential_response_codec, without, ERROR_INVALID, "response.accessKeyId is missing");
	free(without);
}

static void a_refused_answer_says_nothing_of_its_keys(void **state)
{
	static const char *const wrong[][2] = {{"secretAccessKey", "\"CANARY\\u0001\""}, {"secretAccessKey", "[\"CANARY\"]"},
		{"secretAccessKey", "{\"CANARY\":\"CANARY\"}"}, {"accessKeyId", "\"CANARY\\n\""}, {"version", "1"}, {"of.kind", "\"pod\""}};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char *text = document_with(keys_text, wrong[i][0], wrong[i][1]);
		credential_response *r;
		error err = {0};

		assert_int_equal(credential_response_decode(text, strlen(text), &r, &err), ERROR_INVALID);
		assert_null(strstr(err.text, "CANARY"));
		free(text);
	}
	/* Cut anywhere: not JSON. */
	for (size_t len = 0; len < strlen(keys_text); len++) {
		credential_response *r;
		error err = {0};

		assert_int_not_equal(credential_response_decode(keys_text, len, &r, &err), 0);
		assert_null(strstr(err.text, "CANARY"));
	}
}

static void bounds(void **state)
{
	char longest[TEXT_MAX_KEY + 4] = "\"";
	char *text;

	(void)state;
	memset(longest + 1, 'k', TEXT_MAX_KEY + 1);
	longest[TEXT_MAX_KEY + 1] = '"';
	text = document_with(keys_text, "secretAccessKey", longest);
	credential_response_free(document_taken(&credential_response_codec, text));
	free(text);
	longest[TEXT_MAX_KEY + 1] = 'k';
	longest[TEXT_MAX_KEY + 2] = '"';
	text = document_with(keys_text, "secretAccessKey", longest);
	document_refused(&credential_response_codec, text, ERROR_INVALID, "longer than");
	free(text);
	document_refused(&credential_request_codec,
		"{\"v\":1,\"ts\":\"t\",\"node\":\"n\",\"of\":{\"kind\":\"job\",\"namespace\":\"a\",\"name\":\"j\",\"uid\":\"u\"},\"secret\":\"a/"
		"b\"}",
		ERROR_INVALID, "request.secret");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_in_all_ways),
		cmocka_unit_test(an_answer_has_keys_or_a_reason),
		cmocka_unit_test(a_refused_answer_says_nothing_of_its_keys),
		cmocka_unit_test(bounds),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
