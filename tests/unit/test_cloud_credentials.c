/* Which Secrets a node's documents name, and who gets their keys: a node that is named, for what it does, from a link that is secure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tests/unit/cloud_harness.h"
#include "tests/unit/unit.h"

#define ASKS_AT "ilmare/v1/node/edge-1/credential/request"
#define ANSWERED_AT "ilmare/v1/node/edge-1/credential/response"

static void set_text(harness *h, enum object_kind kind, const char *name, const char *member, const char *value)
{
	cJSON *spec = cJSON_GetObjectItemCaseSensitive(harness_object(h, kind, name), "spec");
	cJSON_DeleteItemFromObjectCaseSensitive(spec, member);
	json_put_string(spec, member, value);
	harness_touch(h, kind, name);
}

static void put_secret(harness *h, const char *name)
{
	cJSON *object = cJSON_CreateObject(), *metadata = cJSON_CreateObject();
	json_put_string(metadata, "name", name);
	json_put(object, "metadata", metadata);
	harness_put(h, OBJECT_SECRET, object);
}

/* Job j of edge-1 in an object store, with a Secret for its outputs, its dataset with another. */
static harness *remote_world(void)
{
	harness *h = harness_world();
	controller_secure(h->c, true);
	put_secret(h, "out");
	put_secret(h, "in");
	set_text(h, OBJECT_DATASET, "d", "url", "s3://bucket/d.txt");
	set_text(h, OBJECT_DATASET, "d", "credentialName", "in");
	set_text(h, OBJECT_JOB, "j", "outputDir", "s3://bucket/out");
	set_text(h, OBJECT_JOB, "j", "credentialName", "out");
	assert_true(harness_run(h));
	return h;
}

static const credential_need *need(const desired *d, const char *secret)
{
	for (size_t i = 0; i < d->n_credentials; i++) {
		if (strcmp(d->credentials[i].secret, secret) == 0)
			return &d->credentials[i];
	}
	return NULL;
}

static bool has_url(const credential_need *n, const char *url)
{
	for (size_t i = 0; i < n->n_urls; i++) {
		if (strcmp(n->urls[i], url) == 0)
			return true;
	}
	return false;
}

static char *request_text(const char *node, const char *kind, const char *name, const char *uid, const char *secret)
{
	return mem_printf("{\"v\":1,\"ts\":\"t\",\"node\":\"%s\",\"of\":{\"kind\":\"%s\",\"namespace\":\"default\",\"name\":\"%s\",\"uid\":\"%"
					  "s\"},\"secret\":\"%s\"}",
		node, kind, name, uid, secret);
}

/* Fed alone: 0, or the refusal of the message. Takes the payload. */
static int feed(harness *h, const char *topic_text, char *payload, const message_reply *reply, bool retained)
{
	error err = {0};
	int code = controller_request(h->c, topic_text, payload, strlen(payload), retained, reply, h->now, &err);
	assert_true(code == 0 || err.text[0] != '\0');
	free(payload);
	return code;
}

static int feed_usual(harness *h, char *payload)
{
	message_reply reply = {.topic = ANSWERED_AT, .correlation = "c-1", .correlation_len = 3};
	return feed(h, ASKS_AT, payload, &reply, false);
}

static const char *uid_of(const harness *h, enum object_kind kind, const char *name)
{
	return harness__text(harness_object(h, kind, name), "metadata", "uid");
}

/* What the shell is to answer: "" with keys, else the reason; NULL: nothing. Valid until the next. */
static const char *asked(harness *h, const char *kind, const char *name, const char *uid, const char *secret)
{
	int before = h->credential.n;
	assert_int_equal(feed_usual(h, request_text("edge-1", kind, name, uid, secret)), 0);
	assert_true(harness_run(h));
	return h->credential.n > before ? h->credential.reason : NULL;
}

static void test_local_jobs_need_none(void **state)
{
	(void)state;
	harness *h = harness_world();
	put_secret(h, "s");
	set_text(h, OBJECT_JOB, "j", "credentialName", "s");
	set_text(h, OBJECT_DATASET, "d", "credentialName", "s");
	assert_true(harness_run(h));
	assert_null(strstr(harness_retained(h, DESIRED_OF_J), "credentials"));
	assert_null(strstr(harness_retained(h, DATASET_OF_D), "credentials"));
	harness_free(h);
}

static void test_each_url_has_the_secret_of_its_pod(void **state)
{
	(void)state;
	harness *h = remote_world();
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->n_credentials, 2);
	assert_int_equal(need(d, "in")->n_urls, 1);
	assert_true(has_url(need(d, "in"), "s3://bucket/d.txt"));
	assert_true(has_url(need(d, "out"), "s3://bucket/out"));
	assert_string_equal(need(d, "out")->version, harness__text(harness_object(h, OBJECT_SECRET, "out"), "metadata", "resourceVersion"));
	desired_free(d);
	/* A Model's own before the job's. */
	put_secret(h, "models");
	set_text(h, OBJECT_MODEL, "serve", "url", "s3://models/serve.pb");
	set_text(h, OBJECT_MODEL, "serve", "credentialName", "models");
	assert_true(harness_run(h));
	d = harness_desired(h, "edge-1", "j");
	assert_true(has_url(need(d, "models"), "s3://models/serve.pb"));
	desired_free(d);
	/* Without one of its own, the job's; without that, its dataset's. */
	set_text(h, OBJECT_MODEL, "serve", "credentialName", NULL);
	assert_true(harness_run(h));
	d = harness_desired(h, "edge-1", "j");
	assert_true(has_url(need(d, "out"), "s3://models/serve.pb"));
	desired_free(d);
	set_text(h, OBJECT_JOB, "j", "credentialName", NULL);
	assert_true(harness_run(h));
	d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->n_credentials, 1);
	assert_int_equal(need(d, "in")->n_urls, 3);
	desired_free(d);
	assert_non_null(strstr(harness_retained(h, DATASET_OF_D), "\"credentials\":[{\"secret\":\"in\""));
	harness_free(h);
}

static void test_a_change_of_a_secret_is_told(void **state)
{
	(void)state;
	harness *h = remote_world();
	char *before = mem_strdup(harness_retained(h, DESIRED_OF_J)), *set_before = mem_strdup(harness_retained(h, DATASET_OF_D));
	harness_touch(h, OBJECT_SECRET, "in");
	assert_true(harness_run(h));
	desired *d = harness_desired(h, "edge-1", "j");
	assert_string_equal(need(d, "in")->version, harness__text(harness_object(h, OBJECT_SECRET, "in"), "metadata", "resourceVersion"));
	desired_free(d);
	assert_string_not_equal(before, harness_retained(h, DESIRED_OF_J));
	assert_string_not_equal(set_before, harness_retained(h, DATASET_OF_D));
	harness_remove(h, OBJECT_SECRET, "in");
	assert_true(harness_run(h));
	d = harness_desired(h, "edge-1", "j");
	assert_null(need(d, "in")->version);
	desired_free(d);
	/* One that nobody names changes nothing. */
	free(before);
	before = mem_strdup(harness_retained(h, DESIRED_OF_J));
	put_secret(h, "other");
	assert_true(harness_run(h));
	assert_string_equal(before, harness_retained(h, DESIRED_OF_J));
	free(before);
	free(set_before);
	harness_free(h);
}

static void test_who_is_answered(void **state)
{
	(void)state;
	harness *h = remote_world();
	const char *job_uid = uid_of(h, OBJECT_JOB, "j"), *set_uid = uid_of(h, OBJECT_DATASET, "d");
	assert_string_equal(asked(h, "job", "j", job_uid, "out"), "");
	assert_string_equal(h->credential.topic, ANSWERED_AT);
	assert_string_equal(h->credential.node, "edge-1");
	assert_string_equal(h->credential.secret, "out");
	assert_memory_equal(h->credential.correlation, "c-1", 3);
	assert_int_equal(h->credential.correlation_len, 3);
	assert_string_equal(asked(h, "job", "j", job_uid, "in"), "");
	assert_string_equal(asked(h, "dataset", "d", set_uid, "in"), "");

	assert_string_equal(asked(h, "dataset", "d", set_uid, "out"), "NotReferred");
	assert_string_equal(asked(h, "job", "j", job_uid, "other"), "NotReferred");
	assert_string_equal(asked(h, "job", "j", "another-uid", "out"), "NotFound");
	assert_string_equal(asked(h, "job", "k", job_uid, "out"), "NotFound");
	assert_string_equal(asked(h, "dataset", "d", job_uid, "in"), "NotFound");
	harness_remove(h, OBJECT_SECRET, "out");
	assert_string_equal(asked(h, "job", "j", job_uid, "out"), "MissingSecret");
	/* What blocks the job keeps its documents as they are, and its Secrets where they are. */
	put_secret(h, "out");
	harness_remove(h, OBJECT_MODEL, "serve");
	assert_string_equal(asked(h, "job", "j", job_uid, "out"), "NotNow");
	cloud_counters counts;
	controller_counters(h->c, &counts);
	assert_int_equal(counts.credentials_asked, 10);
	assert_int_equal(counts.credentials_given, 3);
	assert_int_equal(counts.credentials_refused, 7);
	assert_int_equal(counts.credentials_dropped, 0);
	harness_free(h);
}

static void test_another_node_gets_nothing(void **state)
{
	(void)state;
	harness *h = remote_world();
	message_reply reply = {.topic = "ilmare/v1/node/edge-2/credential/response", .correlation = "c", .correlation_len = 1};
	const char *topic_text = "ilmare/v1/node/edge-2/credential/request", *uid = uid_of(h, OBJECT_JOB, "j");
	/* Never heard of: no answer at all. */
	assert_int_equal(feed(h, topic_text, request_text("edge-2", "job", "j", uid, "out"), &reply, false), ERROR_DENIED);
	harness_birth(h, "edge-2", "s2");
	assert_true(harness_run(h));
	assert_int_equal(feed(h, topic_text, request_text("edge-2", "job", "j", uid, "out"), &reply, false), 0);
	assert_true(harness_run(h));
	assert_string_equal(h->credential.reason, "NotNamed");
	assert_int_equal(feed(h, topic_text, request_text("edge-2", "dataset", "d", uid_of(h, OBJECT_DATASET, "d"), "in"), &reply, false), 0);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 2);
	assert_string_equal(h->credential.reason, "NotNamed");
	assert_string_equal(h->credential.topic, "ilmare/v1/node/edge-2/credential/response");
	/* In edge-1's name; to edge-1's topic, or anybody's; retained; without what an answer needs. */
	assert_int_equal(feed(h, topic_text, request_text("edge-1", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	assert_int_equal(feed_usual(h, request_text("edge-2", "job", "j", uid, "out")), ERROR_INVALID);
	assert_int_equal(feed(h, ASKS_AT, request_text("edge-1", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	reply.topic = ANSWERED_AT;
	assert_int_equal(feed(h, topic_text, request_text("edge-2", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	assert_int_equal(feed(h, ASKS_AT, request_text("edge-1", "job", "j", uid, "out"), &reply, true), ERROR_INVALID);
	reply.topic = "ilmare/v1/node/edge-1/inventory";
	assert_int_equal(feed(h, ASKS_AT, request_text("edge-1", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	reply = (message_reply){.topic = ANSWERED_AT, .correlation = "", .correlation_len = 0};
	assert_int_equal(feed(h, ASKS_AT, request_text("edge-1", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	reply = (message_reply){.topic = ANSWERED_AT, .correlation = ASKS_AT ASKS_AT, .correlation_len = 65};
	assert_int_equal(feed(h, ASKS_AT, request_text("edge-1", "job", "j", uid, "out"), &reply, false), ERROR_INVALID);
	char *text = request_text("edge-1", "job", "j", uid, "out");
	error err = {0};
	assert_int_equal(controller_message(h->c, ASKS_AT, text, strlen(text), false, h->now, &err), ERROR_INVALID);
	free(text);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 2);
	harness_free(h);
}

static void test_over_a_link_that_is_not_secure(void **state)
{
	(void)state;
	harness *h = remote_world();
	controller_secure(h->c, false);
	assert_string_equal(asked(h, "job", "j", uid_of(h, OBJECT_JOB, "j"), "out"), "LinkNotSecure");
	controller_secure(h->c, true);
	assert_string_equal(asked(h, "job", "j", uid_of(h, OBJECT_JOB, "j"), "out"), "");
	harness_free(h);
}

static void test_who_does_not_lead_says_nothing(void **state)
{
	(void)state;
	harness *h = remote_world();
	const char *uid = uid_of(h, OBJECT_JOB, "j");
	controller_resign(h->c, h->now);
	assert_null(asked(h, "job", "j", uid, "out"));
	controller_lead(h->c, ++h->epoch, h->now);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 0);
	assert_string_equal(asked(h, "job", "j", uid, "out"), "");
	/* Half of the objects are no reason to refuse anybody. */
	controller_synced(h->c, false, h->now);
	assert_null(asked(h, "job", "j", uid, "out"));
	controller_synced(h->c, true, h->now);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 2);
	assert_string_equal(h->credential.reason, "");
	/* A new link: who asked before asks again. */
	controller_synced(h->c, false, h->now);
	assert_null(asked(h, "job", "j", uid, "out"));
	controller_link(h->c, true, h->now);
	controller_synced(h->c, true, h->now);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 2);
	harness_free(h);
}

static void test_bounds(void **state)
{
	(void)state;
	harness *h = remote_world();
	char name[16];
	const char *uid = uid_of(h, OBJECT_JOB, "j");
	cloud_counters counts;
	/* One node: so many at once, then four a second. */
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		assert_int_equal(feed_usual(h, request_text("edge-1", "job", "j", uid, name)), 0);
	}
	h->hang_answers = true;
	assert_true(harness_run(h));
	controller_counters(h->c, &counts);
	assert_int_equal(counts.credentials_dropped, 68);
	assert_int_equal(h->credential.n, 16); /* so many are answered at a time */
	for (int i = 0; i < 16; i++)
		controller_answered(h->c, true, h->now);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 32);
	for (int i = 0; i < 16; i++)
		controller_answered(h->c, true, h->now);
	h->hang_answers = false;
	harness_advance(h, 1000);
	for (int i = 0; i < 6; i++) {
		(void)snprintf(name, sizeof name, "s%d", i);
		assert_int_equal(feed_usual(h, request_text("edge-1", "job", "j", uid, name)), 0);
	}
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 36);
	/* The same again takes the place of the one that waits. */
	harness_advance(h, 60 * 1000);
	controller_room(h->c, false);
	for (int i = 0; i < 5; i++)
		assert_int_equal(feed_usual(h, request_text("edge-1", "job", "j", uid, "out")), 0);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 36);
	controller_room(h->c, true);
	assert_true(harness_run(h));
	assert_int_equal(h->credential.n, 37);
	assert_int_equal(controller_wake(h->c) > h->now.mono_ms, 1);
	harness_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_jobs_need_none),
		cmocka_unit_test(test_each_url_has_the_secret_of_its_pod),
		cmocka_unit_test(test_a_change_of_a_secret_is_told),
		cmocka_unit_test(test_who_is_answered),
		cmocka_unit_test(test_another_node_gets_nothing),
		cmocka_unit_test(test_over_a_link_that_is_not_secure),
		cmocka_unit_test(test_who_does_not_lead_says_nothing),
		cmocka_unit_test(test_bounds),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
