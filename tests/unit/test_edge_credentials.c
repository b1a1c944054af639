/* Credentials on a device: what is asked for, when and how often; what is believed; what is held for a url, and over a restart. */
#include "tests/unit/edge_harness.h"

#define ASKS_AT TOPIC_ROOT "/node/" NODE "/credential/request"
#define ANSWERED_AT TOPIC_ROOT "/node/" NODE "/credential/response"

static void send_with(bench *b, const char *uid, credential_need *needs, size_t n)
{
	desired d = bench_desired(uid, 1, STAGE_TRAIN, PHASE_WAITING);

	d.credentials = needs;
	d.n_credentials = n;
	bench_send(b, &d);
}

/* One Secret "s3" in this version for s3://b/out. */
static void send_version(bench *b, const char *version)
{
	const char *urls[] = {"s3://b/out"};
	credential_need need = {.secret = "s3", .version = version, .urls = urls, .n_urls = 1};

	send_with(b, U1, &need, 1);
}

static void ready(bench *b, bool secure)
{
	edge_agent_secure(b->agent, secure);
	bench_ready(b);
}

static char *response(const char *secret, const char *rest)
{
	return mem_printf("{\"v\":1,\"ts\":\"t\",\"node\":\"" NODE
					  "\",\"of\":{\"kind\":\"job\",\"namespace\":\"ns\",\"name\":\"job\",\"uid\":\"" U1 "\"},\"secret\":\"%s\",%s}",
		secret, rest);
}

static int deliver(bench *b, const char *to, char *payload, bool retained)
{
	error err = {0};
	int code = edge_agent_response(b->agent, to, payload, strlen(payload), retained, b->question.correlation, b->question.correlation_len,
		b->now, &err);

	assert_null(strstr(err.text, "the-key"));
	free(payload);
	bench_turn(b);
	return code;
}

static void answer(bench *b, const char *version)
{
	char *rest =
		mem_printf("\"version\":\"%s\",\"endpoint\":\"http://minio:9000\",\"accessKeyId\":\"id-%s\",\"secretAccessKey\":\"the-key-%s\"",
			version, version, version);

	assert_int_equal(deliver(b, ANSWERED_AT, response("s3", rest), false), 0);
	free(rest);
}

static void expect(const bench *b, const char *uid, const char *url, enum credential_state state, const char *key_id)
{
	credential_keys keys;

	assert_int_equal(edge_agent_credential_for(b->agent, uid, url, &keys), state);
	if (key_id == NULL)
		assert_null(keys.access_key_id);
	else
		assert_string_equal(keys.access_key_id, key_id);
}

static void asked_for_and_held(void **state)
{
	bench b;
	edge_counters counts;
	credential_keys keys;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_version(&b, "7");
	expect(&b, U1, "s3://b/out/x", CREDENTIAL_AWAITED, NULL);
	bench_sleep(&b, 2000); /* within the smallest window */
	assert_int_equal(b.question.n, 1);
	assert_string_equal(b.question.topic, ASKS_AT);
	assert_string_equal(b.question.response_topic, ANSWERED_AT);
	assert_int_equal(b.question.correlation_len, 16);
	assert_non_null(strstr(b.question.payload,
		"\"of\":{\"kind\":\"job\",\"namespace\":\"ns\",\"name\":\"job\",\"uid\":\"" U1 "\"},\"secret\":\"s3\""));
	answer(&b, "7");
	assert_int_equal(edge_agent_credential_for(b.agent, U1, "s3://b/out/x", &keys), CREDENTIAL_HELD);
	assert_string_equal(keys.secret_access_key, "the-key-7");
	assert_string_equal(keys.endpoint, "http://minio:9000");
	assert_string_equal(keys.version, "7");
	assert_true(keys.newest);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, 1);
	edge_agent_counters(b.agent, &counts);
	assert_int_equal(counts.credentials_wanted, 1);
	assert_int_equal(counts.credentials_held, 1);
	assert_int_equal(counts.credentials_asked, 1);
	assert_int_equal(b.keeps, 0); /* memory alone, unless it is told otherwise */
	bench_fini(&b);
}

static void nothing_over_a_link_that_is_not_secure(void **state)
{
	bench b;

	(void)state;
	bench_init(&b);
	ready(&b, false);
	send_version(&b, "7");
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, 0);
	edge_agent_link(b.agent, false, b.now);
	edge_agent_secure(b.agent, true);
	bench_sleep(&b, 60 * 1000);
	assert_int_equal(b.question.n, 0);
	edge_agent_link(b.agent, true, b.now);
	bench_sleep(&b, 2000);
	assert_int_equal(b.question.n, 1);
	bench_fini(&b);
}

static void asked_again_later_and_later(void **state)
{
	bench b;
	int minute;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_version(&b, "7");
	bench_sleep(&b, 60 * 1000);
	minute = b.question.n;
	assert_in_range(minute, 4, 16);
	bench_sleep(&b, 3600 * 1000);
	assert_in_range(b.question.n - minute, 6, 40); /* the longest wait is ten minutes */
	/* A refusal is no end, and a new link begins anew. */
	assert_int_equal(deliver(&b, ANSWERED_AT, response("s3", "\"reason\":\"NotNow\""), false), 0);
	minute = b.question.n;
	bench_sleep(&b, 3600 * 1000);
	assert_true(b.question.n > minute);
	minute = b.question.n;
	edge_agent_link(b.agent, false, b.now);
	edge_agent_link(b.agent, true, b.now);
	bench_sleep(&b, 2000);
	assert_int_equal(b.question.n, minute + 1);
	/* There is no such Secret at present. */
	send_version(&b, NULL);
	minute = b.question.n;
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, minute);
	expect(&b, U1, "s3://b/out", CREDENTIAL_AWAITED, NULL);
	bench_fini(&b);
}

static void a_rotation(void **state)
{
	bench b;
	credential_keys keys;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_version(&b, "7");
	bench_sleep(&b, 2000);
	answer(&b, "7");
	send_version(&b, "8");
	assert_int_equal(edge_agent_credential_for(b.agent, U1, "s3://b/out", &keys), CREDENTIAL_HELD);
	assert_string_equal(keys.access_key_id, "id-7");
	assert_false(keys.newest);
	bench_sleep(&b, 2000);
	assert_int_equal(b.question.n, 2);
	/* Newer than the document: used, and asked for until they agree. */
	answer(&b, "9");
	expect(&b, U1, "s3://b/out", CREDENTIAL_HELD, "id-9");
	send_version(&b, "9");
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, 2);
	bench_fini(&b);
}

static void gone_when_no_document_names_it(void **state)
{
	bench b;
	edge_counters counts;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_version(&b, "7");
	bench_sleep(&b, 2000);
	answer(&b, "7");
	send_with(&b, U1, NULL, 0);
	expect(&b, NULL, "s3://b/out", CREDENTIAL_NONE, NULL);
	edge_agent_counters(b.agent, &counts);
	assert_int_equal(counts.credentials_wanted + counts.credentials_held, 0);
	/* And with the job. */
	send_version(&b, "7");
	bench_sleep(&b, 2000);
	answer(&b, "7");
	bench_inventory_at(&b, bench_stamp(&b), b.session, NULL);
	bench_turn(&b);
	expect(&b, NULL, "s3://b/out", CREDENTIAL_NONE, NULL);
	bench_fini(&b);
}

static void what_is_not_believed(void **state)
{
	static const char keys[] = "\"version\":\"7\",\"accessKeyId\":\"i\",\"secretAccessKey\":\"the-key\"";
	bench b;
	edge_counters before, after;
	char *text;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_version(&b, "7");
	bench_sleep(&b, 2000);
	edge_agent_counters(b.agent, &before);
	assert_int_equal(deliver(&b, ANSWERED_AT, response("s3", keys), true), ERROR_INVALID); /* retained */
	assert_int_equal(deliver(&b, ANSWERED_AT, response("other", keys), false), ERROR_INVALID);
	assert_int_equal(deliver(&b, TOPIC_ROOT "/node/edge-2/credential/response", response("s3", keys), false), ERROR_INVALID);
	assert_int_equal(deliver(&b, ANSWERED_AT, mem_strdup("{\"v\":1,\"secretAccessKey\":\"the-key\"}"), false), ERROR_INVALID);
	text = response("s3", keys);
	memcpy(strstr(text, NODE), "edge-2", 6);
	assert_int_equal(deliver(&b, ANSWERED_AT, text, false), ERROR_INVALID);
	text = response("s3", keys);
	assert_int_equal(bench_message(&b, ANSWERED_AT, text), ERROR_INVALID); /* without correlation data */
	free(text);
	/* Our own question, where a broker brings it back. */
	assert_int_equal(bench_message(&b, ASKS_AT, b.question.payload), 0);
	edge_agent_counters(b.agent, &after);
	assert_int_equal(after.messages_refused - before.messages_refused, 6);
	/* Of another question: it comes late, or was never asked. */
	b.question.correlation[0] ^= 1;
	assert_int_equal(deliver(&b, ANSWERED_AT, response("s3", keys), false), 0);
	b.question.correlation[0] ^= 1;
	b.question.correlation_len--;
	assert_int_equal(deliver(&b, ANSWERED_AT, response("s3", keys), false), 0);
	b.question.correlation_len++;
	expect(&b, NULL, "s3://b/out", CREDENTIAL_AWAITED, NULL);
	/* Over a link that came after it. */
	edge_agent_link(b.agent, false, b.now);
	assert_int_equal(deliver(&b, ANSWERED_AT, response("s3", keys), false), 0);
	expect(&b, NULL, "s3://b/out", CREDENTIAL_AWAITED, NULL);
	bench_fini(&b);
}

static void one_question_for_a_secret_of_many(void **state)
{
	const char *outs[] = {"s3://b/out"}, *sets[] = {"s3://b/data.txt"};
	credential_need need = {.secret = "s3", .version = "7", .urls = outs, .n_urls = 1};
	dataset_doc set = {.ts = "t",
		.node = NODE,
		.dataset = {.ns = "ns", .name = "ds", .uid = "ds-1", .url = "s3://b/data.txt", .format = FORMAT_TXT},
		.credentials = &need,
		.n_credentials = 1};
	bench b;
	char *text;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_with(&b, U1, &need, 1);
	need.urls = sets;
	need.version = "8";
	set.stamp = bench_stamp(&b);
	text = dataset_doc_encode(&set);
	assert_int_equal(bench_message(&b, TOPIC_ROOT "/node/" NODE "/dataset/ns/ds", text), 0);
	free(text);
	bench_sleep(&b, 2000);
	assert_int_equal(b.question.n, 1);
	answer(&b, "8"); /* the newest document counts */
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, 1);
	expect(&b, U1, "s3://b/out/data/train/1", CREDENTIAL_HELD, "id-8");
	expect(&b, U1, "s3://b/data.txt", CREDENTIAL_NONE, NULL);
	expect(&b, "ds-1", "s3://b/data.txt", CREDENTIAL_HELD, "id-8");
	expect(&b, NULL, "s3://b/data.txt", CREDENTIAL_HELD, "id-8");
	expect(&b, NULL, "s3://b/data.txt2", CREDENTIAL_NONE, NULL);
	expect(&b, NULL, "s3://b", CREDENTIAL_NONE, NULL);
	bench_fini(&b);
}

static void the_longest_url_counts(void **state)
{
	const char *above[] = {"s3://b", "s3://c/"}, *below[] = {"s3://b/models/serve.pb"};
	credential_need needs[] = {
		{.secret = "s3", .version = "7", .urls = above, .n_urls = 2}, {.secret = "models", .version = "1", .urls = below, .n_urls = 1}};
	bench b;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	send_with(&b, U1, needs, 2);
	expect(&b, U1, "s3://b/models/serve.pb", CREDENTIAL_AWAITED, NULL);
	bench_sleep(&b, 2000);
	assert_int_equal(b.question.n, 2);
	/* The last one that was asked for is not known: answer it as it says. */
	assert_int_equal(deliver(&b, ANSWERED_AT,
						 response(strstr(b.question.payload, "\"secret\":\"s3\"") != NULL ? "s3" : "models",
							 "\"version\":\"7\",\"accessKeyId\":\"one\",\"secretAccessKey\":\"k\""),
						 false),
		0);
	if (strstr(b.question.payload, "\"secret\":\"s3\"") != NULL) {
		expect(&b, U1, "s3://b/models/other.pb", CREDENTIAL_HELD, "one");
		expect(&b, U1, "s3://c/x", CREDENTIAL_HELD, "one");
		expect(&b, U1, "s3://b/models/serve.pb", CREDENTIAL_AWAITED, NULL);
	} else {
		expect(&b, U1, "s3://b/models/serve.pb", CREDENTIAL_HELD, "one");
		expect(&b, U1, "s3://b/models/other.pb", CREDENTIAL_AWAITED, NULL);
	}
	bench_fini(&b);
}

static void not_many_questions_at_once(void **state)
{
	const char *urls[] = {"s3://b"};
	char names[DOCUMENT_MAX_CREDENTIALS][8];
	credential_need needs[DOCUMENT_MAX_CREDENTIALS];
	desired d;
	bench b;

	(void)state;
	bench_init(&b);
	ready(&b, true);
	bench_inventory(&b, NULL, U1, U2, NULL);
	for (int j = 0; j < 2; j++) {
		for (size_t i = 0; i < DOCUMENT_MAX_CREDENTIALS; i++) {
			(void)snprintf(names[i], sizeof names[i], "s%d-%zu", j, i);
			needs[i] = (credential_need){.secret = names[i], .version = "1", .urls = urls, .n_urls = 1};
		}
		d = bench_desired(j == 0 ? U1 : U2, 1, STAGE_TRAIN, PHASE_WAITING);
		d.job.name = j == 0 ? "job" : "job-2";
		d.output_dir = j == 0 ? OUT : "/out-2";
		d.credentials = needs;
		d.n_credentials = DOCUMENT_MAX_CREDENTIALS;
		bench_send(&b, &d);
	}
	bench_sleep(&b, 1999);
	assert_int_equal(b.question.n, 8);
	bench_sleep(&b, 60 * 1000);
	assert_true(b.question.n > 16);
	bench_fini(&b);
}

static void keep(edge_config *c)
{
	c->keep_credentials = true;
}

static void kept_over_a_restart(void **state)
{
	bench b;

	(void)state;
	bench_init_with(&b, keep);
	ready(&b, true);
	send_version(&b, "7");
	bench_sleep(&b, 2000);
	b.fail_code[EDGE_KEEP] = ERROR_IO;
	b.fail_count[EDGE_KEEP] = 2;
	answer(&b, "7");
	assert_int_equal(b.keeps, 0);
	expect(&b, U1, "s3://b/out", CREDENTIAL_HELD, "id-7"); /* a full disk takes nothing away */
	bench_sleep(&b, 60 * 1000);
	assert_int_equal(b.keeps, 1);
	assert_non_null(strstr(b.keys_kept, "the-key-7"));

	b.linked = false;
	bench_restart(&b);
	expect(&b, U1, "s3://b/out", CREDENTIAL_HELD, "id-7");
	edge_agent_secure(b.agent, true);
	bench_ready(&b);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.question.n, 1);
	/* Nobody needs it any more. */
	send_with(&b, U1, NULL, 0);
	assert_int_equal(b.keeps, 2);
	assert_null(b.keys_kept);
	bench_fini(&b);
}

static void what_was_kept_may_be_anything(void **state)
{
	static const char *const texts[] = {"", "{", "[]", "{\"v\":2,\"credentials\":[]}", "{\"v\":1}", "{\"v\":1,\"credentials\":{\"a\":[1]}}",
		("{\"v\":1,\"credentials\":[1,null,{\"namespace\":\"ns\",\"secret\":\"s3\",\"version\":\"7\",\"accessKeyId\":1,\"secretAccessKey\":"
		 "\"x\"}]}")};
	bench b;

	(void)state;
	bench_init_with(&b, keep);
	ready(&b, true);
	send_version(&b, "7");
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		mem_replace(&b.keys_kept, texts[i]);
		bench_restart(&b);
		expect(&b, U1, "s3://b/out", CREDENTIAL_AWAITED, NULL);
	}
	/* Of a Secret that no stored document names: it goes from the disk too. */
	mem_replace(&b.keys_kept,
		"{\"v\":1,\"credentials\":[{\"namespace\":\"ns\",\"secret\":\"old\",\"version\":\"7\",\"accessKeyId\":\"a\",\"secretAccessKey\":"
		"\"b\"}]}");
	bench_restart(&b);
	bench_turn(&b);
	assert_null(b.keys_kept);
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_for_and_held),
		cmocka_unit_test(nothing_over_a_link_that_is_not_secure),
		cmocka_unit_test(asked_again_later_and_later),
		cmocka_unit_test(a_rotation),
		cmocka_unit_test(gone_when_no_document_names_it),
		cmocka_unit_test(what_is_not_believed),
		cmocka_unit_test(one_question_for_a_secret_of_many),
		cmocka_unit_test(the_longest_url_counts),
		cmocka_unit_test(not_many_questions_at_once),
		cmocka_unit_test(kept_over_a_restart),
		cmocka_unit_test(what_was_kept_may_be_anything),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
