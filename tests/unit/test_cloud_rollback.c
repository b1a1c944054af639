/* Rollback: each annotation leads to one rollback or one refusal, in the stage where the job waits, wherever the agent ends in between. */
#include "tests/unit/cloud_harness.h"

#define ASKED "ilmare/rollback-to"
#define TAKEN "ilmare/rollback"

static const char *annotation(const harness *h, const char *name)
{
	const cJSON *all = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "metadata"), "annotations");
	const cJSON *text = json_member(all, name);
	return cJSON_IsString(text) ? text->valuestring : NULL;
}

static void set(harness *h, const char *value)
{
	cJSON *metadata = cJSON_GetObjectItemCaseSensitive(harness_object(h, OBJECT_JOB, "j"), "metadata");
	cJSON *all = cJSON_GetObjectItemCaseSensitive(metadata, "annotations");
	if (all == NULL)
		all = cJSON_AddObjectToObject(metadata, "annotations");
	cJSON_DeleteItemFromObjectCaseSensitive(all, ASKED);
	json_put_string(all, ASKED, value);
	harness_touch(h, OBJECT_JOB, "j");
}

static int said(const harness *h, const char *reason)
{
	const cJSON *event;
	int n = 0;
	cJSON_ArrayForEach(event, h->events) {
		n += strcmp(event->valuestring, reason) == 0;
	}
	return n;
}

/* Until the job waits for samples that do not come, and no annotation is left. */
static void settle(harness *h, device *dev)
{
	for (int i = 0; i < 400; i++) {
		harness_run(h);
		position p = harness_position(h, "j");
		if (p.stage == STAGE_TRAIN && p.phase == PHASE_WAITING && p.round > dev->last_round && annotation(h, ASKED) == NULL &&
			annotation(h, TAKEN) == NULL)
			return;
		if (device_pass(h, dev))
			harness_advance(h, 1000);
		else
			harness_wake(h, 15 * 60 * 1000);
	}
	char text[48];
	position_format(harness_position(h, "j"), text);
	fail_msg("it never comes to rest: %s", text);
}

/* So many rounds that deployed; then Train/Waiting. */
static harness *world_of(int64_t rounds, device *dev)
{
	harness *h = harness_world();
	*dev = (device){.node = "edge-1", .job = "j", .metric = 0.9, .last_round = rounds};
	h->keeps = true;
	settle(h, dev);
	harness_expect(h, "j", rounds + 1, STAGE_TRAIN, PHASE_WAITING);
	return h;
}

static const cJSON *deployed(const harness *h)
{
	static cJSON *own;
	cJSON_Delete(own);
	own = harness_member(h, "j");
	return json_member(own, "deployed");
}

static int number(const cJSON *obj, const char *name)
{
	const cJSON *n = json_member(obj, name);
	return cJSON_IsNumber(n) ? n->valueint : -1;
}

static void assert_gone_back(harness *h, int64_t round, int64_t to, int64_t content)
{
	char hex[DIGEST_HEX_SIZE];
	digest d;
	memset(&d, (int)content, sizeof d);
	digest_hex(&d, hex);
	assert_int_equal(number(deployed(h), "round"), round);
	assert_int_equal(number(deployed(h), "of"), to);
	assert_string_equal(json_member(deployed(h), "sha256")->valuestring, hex);
	assert_null(annotation(h, ASKED));
	assert_null(annotation(h, TAKEN));
}

static void test_back_and_on(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(3, &dev);
	set(h, "1");
	harness_run(h);
	harness_expect(h, "j", 4, STAGE_DEPLOY, PHASE_READY);
	assert_null(annotation(h, ASKED));
	assert_string_equal(harness_last(h, "j", "message"), "back to the model of round 1");
	desired *doc = harness_desired(h, "edge-1", "j");
	assert_true(doc->has_rollback && doc->rollback_round == 1 && doc->rollback_sha256.b[0] == 1);
	assert_int_equal(doc->n_copies, 1);
	assert_int_equal(doc->n_eval_results, 0);
	assert_string_equal(doc->copies[0].from.url, "/out/deployed/1/m.pb");
	assert_string_equal(doc->copies[0].to.url, "/models/serve.pb");
	desired_free(doc);
	settle(h, &dev);
	harness_expect(h, "j", 5, STAGE_TRAIN, PHASE_WAITING);
	assert_gone_back(h, 4, 1, 1);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 4));
	job_state *s = harness_state(h, "j");
	assert_string_equal(s->ended_reason, "RolledBack");
	assert_true(s->has_deployed_of && s->deployed_of == 1 && s->n_versions == 5 && s->versions[0] == 4 && s->versions[4] == 0);
	job_state_free(s);
	/* Training goes on from what round 1 left. */
	doc = harness_desired(h, "edge-1", "j");
	assert_false(doc->has_rollback);
	assert_string_equal(doc->base.url, "/out/train/1/ckpt");
	desired_free(doc);
	/* And the next round is one as any other. */
	dev.last_round = 5;
	settle(h, &dev);
	harness_expect(h, "j", 6, STAGE_TRAIN, PHASE_WAITING);
	assert_int_equal(number(deployed(h), "round"), 5);
	assert_int_equal(number(deployed(h), "of"), -1);
	harness_free(h);
}

/* Back to a rollback: what was there first; and what that was. */
static void test_back_and_forth(void **state)
{
	(void)state;
	static const struct {
		const char *to;
		int64_t round, content;
		const char *base;
	} ways[] = {
		{"0", 3, 255, "/models/initial.ckpt"},
		{"2", 4, 2, "/out/train/2/ckpt"},
		{"3", 5, 255, "/models/initial.ckpt"},
		{"4", 6, 2, "/out/train/2/ckpt"},
	};
	device dev;
	harness *h = world_of(2, &dev);
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		set(h, ways[i].to);
		settle(h, &dev);
		harness_expect(h, "j", ways[i].round + 1, STAGE_TRAIN, PHASE_WAITING);
		assert_gone_back(h, ways[i].round, atoi(ways[i].to), ways[i].content);
		desired *doc = harness_desired(h, "edge-1", "j");
		assert_string_equal(doc->base.url, ways[i].base);
		desired_free(doc);
	}
	harness_free(h);
}

static void assert_refused(harness *h, const char *value, const char *why)
{
	position before = harness_position(h, "j");
	int n = said(h, "RollbackRefused");
	char *since = json_print(deployed(h)), *now;
	set(h, value);
	harness_run(h);
	harness_wake(h, 10);
	assert_int_equal(position_compare(harness_position(h, "j"), before), 0);
	assert_null(annotation(h, ASKED));
	assert_null(annotation(h, TAKEN));
	assert_int_equal(said(h, "RollbackRefused"), n + 1);
	cJSON *own = harness_member(h, "j");
	const char *text = harness__text(own, "rollback", "refused");
	if (strstr(text, why) == NULL)
		fail_msg("%s: %s", value, text);
	cJSON_Delete(own);
	now = json_print(deployed(h));
	assert_true((now == NULL) == (since == NULL) && (now == NULL || strcmp(now, since) == 0));
	free(now);
	free(since);
}

static void test_refused(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(2, &dev);
	assert_refused(h, "7", "no model of round 7 is kept; kept: 0, 1, 2");
	assert_refused(h, "7", "no model of round 7"); /* said again if it is asked again */
	assert_refused(h, "last", "'last' is not the number of a round; kept: 0, 1, 2");
	assert_refused(h, "", "'' is not the number");
	assert_refused(h, "-1", "'-1' is not the number");
	assert_refused(h, "99999999999999999999", "is not the number");
	assert_refused(h, "2", "the model of round 2 is the one that serves");
	/* A long one is cut between its characters. */
	assert_refused(h, "ääääääääääääääääääääääääääääääääääääääääääääääää", "is not the number");
	set(h, "1");
	settle(h, &dev);
	assert_gone_back(h, 3, 1, 1);
	assert_refused(h, "1", "the model of round 1 is the one that serves"); /* by way of round 3 */
	harness_free(h);
	h = harness_world();
	assert_refused(h, "0", "no model of round 0 is kept; kept: none");
	harness_free(h);
}

/* Not while a worker is at work; but as soon as the job waits, in any stage. */
static void test_taken_where_the_job_waits(void **state)
{
	(void)state;
	static const struct {
		enum stage stage;
		enum phase phase;
		enum stage taken_in; /* the stage before whose Waiting it is taken */
		int64_t round;
	} rows[] = {
		{STAGE_TRAIN, PHASE_STARTING, STAGE_EVAL, 3},
		{STAGE_EVAL, PHASE_WAITING, STAGE_EVAL, 3},
		{STAGE_EVAL, PHASE_STARTING, STAGE_DEPLOY, 3},
		{STAGE_DEPLOY, PHASE_WAITING, STAGE_DEPLOY, 3},
		{STAGE_DEPLOY, PHASE_STARTING, STAGE_TRAIN, 4},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		device dev;
		harness *h = world_of(2, &dev);
		dev.last_round = 3;
		device_until(h, &dev, rows[i].stage, rows[i].phase);
		set(h, "1");
		if (rows[i].phase != PHASE_WAITING) {
			harness_run(h);
			assert_non_null(annotation(h, ASKED));
		}
		settle(h, &dev);
		harness_expect(h, "j", rows[i].round + 1, STAGE_TRAIN, PHASE_WAITING);
		assert_gone_back(h, rows[i].round, 1, 1);
		/* What was trained in the round that ended there stays used; the model is built upon by nobody. */
		desired *doc = harness_desired(h, "edge-1", "j");
		assert_int_equal(doc->cursor.sample, 30);
		assert_string_equal(doc->base.url, "/out/train/1/ckpt");
		desired_free(doc);
		harness_free(h);
	}
}

/* The agent ends after any number of its actions; another one goes on. The answer to any write is lost. */
static void test_once_whatever_ends_when(void **state)
{
	(void)state;
	static const char *const values[] = {"1", "9"};
	for (int n = 0; n < 80; n++) {
		for (size_t i = 0; i < 2; i++) {
			device dev;
			harness *h = world_of(2, &dev);
			set(h, values[i]);
			if (n % 2 == 0) {
				h->budget = n / 2;
				harness_run(h);
				h->budget = -1;
				harness_restart(h);
			} else {
				h->budget = n / 2;
				harness_run(h);
				h->budget = -1;
				h->lose_answer = true;
			}
			dev.last_round = 2;
			settle(h, &dev);
			if (i == 0) {
				assert_gone_back(h, 3, 1, 1);
				harness_expect(h, "j", 4, STAGE_TRAIN, PHASE_WAITING);
			} else {
				harness_expect(h, "j", 3, STAGE_TRAIN, PHASE_WAITING);
				assert_null(annotation(h, ASKED));
				assert_true(said(h, "RollbackRefused") >= 1);
			}
			harness_free(h);
		}
	}
}

/* Set anew between any two steps, the same round: another wish, that is decided for itself. */
static void test_set_anew(void **state)
{
	(void)state;
	for (int n = 1; n < 12; n++) {
		device dev;
		harness *h = world_of(2, &dev);
		set(h, "9");
		h->budget = n;
		harness_run(h);
		h->budget = -1;
		bool still = annotation(h, ASKED) != NULL;
		set(h, "9");
		harness_restart(h);
		settle(h, &dev);
		assert_null(annotation(h, ASKED));
		if (said(h, "RollbackRefused") < (still ? 1 : 2))
			fail_msg("n %d: %d", n, said(h, "RollbackRefused"));
		harness_free(h);
	}
}

/* The cluster has no rule for it: the job goes on, and it is said why nothing comes of the annotation. */
static void test_not_allowed(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(2, &dev);
	set(h, "1");
	h->refuse_annotate = ERROR_DENIED;
	harness_run(h);
	assert_string_equal(harness_reason(h, "j"), "ClusterDenied");
	assert_int_equal(h->annotations, 1);
	dev.last_round = 3;
	harness_run(h);
	device_pass(h, &dev); /* it goes on meanwhile */
	harness_run(h);
	harness_expect(h, "j", 3, STAGE_TRAIN, PHASE_STARTING);
	settle(h, &dev);
	assert_null(annotation(h, ASKED));
	assert_int_equal(number(deployed(h), "of"), 1);
	harness_free(h);
}

static void test_a_failed_rollback_is_a_failed_round(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(2, &dev);
	set(h, "1");
	harness_run(h);
	harness_report(h, "j", 3, STAGE_DEPLOY, REPORT_FAILED, &(says){.node = "edge-1", .reason = "VersionMissing", .message = "it is gone"});
	harness_run(h);
	harness_expect(h, "j", 3, STAGE_DEPLOY, PHASE_FAILED);
	assert_int_equal(number(deployed(h), "round"), 2);
	assert_int_equal(said(h, "DeployFailed"), 1);
	settle(h, &dev);
	harness_expect(h, "j", 4, STAGE_TRAIN, PHASE_WAITING);
	assert_int_equal(number(deployed(h), "of"), -1);
	assert_null(annotation(h, TAKEN));
	cJSON *own = harness_member(h, "j");
	assert_null(json_member(own, "rollback"));
	assert_int_equal(number(own, "failures"), 1);
	cJSON_Delete(own);
	harness_free(h);
}

/* `written` of a deployment that never was, since the cluster was set back to before it. */
static void test_another_deployment_does_not_count(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(2, &dev);
	set(h, "1");
	harness_run(h);
	h->keeps = false;
	harness_report(h, "j", 3, STAGE_DEPLOY, REPORT_WRITTEN, &(says){.node = "edge-1", .content = 3});
	harness_run(h);
	harness_expect(h, "j", 3, STAGE_DEPLOY, PHASE_READY);
	harness_report(h, "j", 3, STAGE_DEPLOY, REPORT_WRITTEN, &(says){.node = "edge-1", .content = 1});
	harness_run(h);
	harness_expect(h, "j", 3, STAGE_DEPLOY, PHASE_STARTING);
	harness_free(h);
}

/* Versions stand in the last condition alone, and take no more than their share of it. */
static void test_versions_are_bounded(void **state)
{
	(void)state;
	device dev;
	harness *h = world_of(20, &dev);
	const cJSON *conditions = json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), "conditions"), *condition;
	int n = 0;
	cJSON_ArrayForEach(condition, conditions) {
		const char *data = json_member(condition, "data")->valuestring;
		bool tells = strstr(data, "\"versions\"") != NULL;
		n += tells;
		assert_true(!tells || condition->next == NULL);
		assert_true(strlen(data) < 5000);
	}
	assert_int_equal(n, 1);
	cJSON *own = harness_member(h, "j");
	const cJSON *versions = json_member(own, "versions");
	assert_int_equal(number(cJSON_GetArrayItem(versions, 0), "round"), 20);
	cJSON_Delete(own);
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_back_and_on),
		cmocka_unit_test(test_back_and_forth),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_taken_where_the_job_waits),
		cmocka_unit_test(test_once_whatever_ends_when),
		cmocka_unit_test(test_set_anew),
		cmocka_unit_test(test_not_allowed),
		cmocka_unit_test(test_a_failed_rollback_is_a_failed_round),
		cmocka_unit_test(test_another_deployment_does_not_count),
		cmocka_unit_test(test_versions_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
