/* Eval/Waiting and Deploy: data for the evaluation, the decision, the copy in a session of its own, and hot updates. */
#include "tests/unit/edge_harness.h"

#include <cjson/cJSON.h>

static desired deploy_desired(enum phase phase, cJSON *metrics_new, cJSON *metrics_old)
{
	static model results[2];
	desired d = bench_desired(U1, 1, STAGE_DEPLOY, phase);

	results[0] = (model){.format = "pb", .url = "/out/train/new.pb", .metrics = metrics_new};
	results[1] = (model){.format = "pb", .url = "/models/old.pb", .metrics = metrics_old};
	d.eval_results = results;
	d.n_eval_results = 2;
	return d;
}

typedef struct fixture {
	bench b;
	cJSON *better, *worse;
} fixture;

static void fixture_open(fixture *f)
{
	bench_init(&f->b);
	bench_ready(&f->b);
	f->better = cJSON_Parse("{\"acc\":0.9}");
	f->worse = cJSON_Parse("{\"acc\":0.8}");
}

static void fixture_close(fixture *f)
{
	bench_fini(&f->b);
	cJSON_Delete(f->better);
	cJSON_Delete(f->worse);
}

/* ---- eval ---- */

static void test_eval_data_is_written_and_reported(void **state)
{
	bench b;
	desired d = bench_desired(U1, 3, STAGE_EVAL, PHASE_WAITING);
	report *rep;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	b.fail_code[EDGE_WRITE_EVAL] = ERROR_NO_SPACE;
	b.fail_count[EDGE_WRITE_EVAL] = 2;
	bench_send(&b, &d);
	assert_null(bench_row(&b, 3, STAGE_EVAL, REPORT_READY));
	bench_sleep(&b, 10000);
	assert_int_equal(b.evals, 1);
	rep = bench_report(&b, 3, STAGE_EVAL, REPORT_READY);
	assert_string_equal(rep->input.data_url, "/out/data/eval/3/data.txt");
	assert_int_equal(rep->input.n_models, 2);
	assert_string_equal(rep->input.models[0].url, "/out/train/new.pb");
	assert_false(rep->has_range);
	report_free(rep);
	bench_send(&b, &d);
	assert_int_equal(b.evals, 1);
	bench_fini(&b);
}

static void test_eval_without_its_samples_fails(void **state)
{
	bench b;
	desired d = bench_desired(U1, 3, STAGE_EVAL, PHASE_WAITING);
	report *rep;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	b.fail_code[EDGE_WRITE_EVAL] = ERROR_NOT_FOUND;
	b.fail_count[EDGE_WRITE_EVAL] = 1;
	bench_send(&b, &d);
	bench_sleep(&b, 600 * 1000);
	rep = bench_report(&b, 3, STAGE_EVAL, REPORT_FAILED);
	assert_string_equal(rep->reason, "SamplesMissing");
	report_free(rep);
	assert_int_equal(b.asked[EDGE_WRITE_EVAL], 1);
	assert_null(bench_row(&b, 3, STAGE_EVAL, REPORT_READY));
	bench_fini(&b);
}

/* The cluster was restored to before the evaluation, and the store knows nothing of its beginning: what the worker brought is no beginning. */
static void test_eval_result_without_its_ready(void **state)
{
	bench b;
	desired d = bench_desired(U1, 3, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send(&b, &d);
	assert_int_equal(bench_completed(&b, WORKER_EVAL, 3), 200);
	d.position.phase = PHASE_WAITING;
	bench_send(&b, &d);
	assert_non_null(bench_row(&b, 3, STAGE_EVAL, REPORT_READY));
	assert_non_null(bench_row(&b, 3, STAGE_EVAL, REPORT_COMPLETED));
	bench_fini(&b);
}

static void test_eval_needs_role_models_and_waiting(void **state)
{
	bench b;
	desired d = bench_desired(U1, 3, STAGE_EVAL, PHASE_READY);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send(&b, &d);
	d.position.phase = PHASE_WAITING;
	d.roles = ROLE_EVAL | ROLE_TRAIN | ROLE_DEPLOY;
	bench_send(&b, &d);
	d.roles = ROLE_DATASET;
	d.n_eval_models = 0;
	bench_send(&b, &d);
	assert_int_equal(b.evals, 0);
	assert_int_equal(bench_wake(&b), -1);
	d.n_eval_models = 2;
	bench_send(&b, &d);
	assert_non_null(bench_row(&b, 3, STAGE_EVAL, REPORT_READY));
	bench_fini(&b);
}

/* ---- the decision ---- */

static void test_better_model_is_ready_and_nothing_is_copied_yet(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.better, f.worse);
	bench_send(&f.b, &d);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	bench_sleep(&f.b, 600000);
	assert_int_equal(f.b.asked[EDGE_DEPLOY], 0);
	assert_int_equal(bench_said(&f.b, "/deploy/ready") > 0, 1);
	fixture_close(&f);
}

static void test_worse_or_unknown_is_not_better_with_a_reason(void **state)
{
	fixture f;
	desired d;
	report *rep;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.worse, f.better);
	bench_send(&f.b, &d);
	rep = bench_report(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_string_equal(rep->reason, "NotBetter");
	assert_non_null(strstr(rep->message, "acc_delta is -0.1, not > 0"));
	report_free(rep);
	assert_string_equal(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED)->reason, "NotBetter");
	fixture_close(&f);

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.better, f.worse);
	d.n_eval_results = 1;
	bench_send(&f.b, &d);
	rep = bench_report(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_string_equal(rep->reason, "NotBetter");
	assert_non_null(strstr(rep->message, "1 results"));
	report_free(rep);
	fixture_close(&f);

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.better, f.worse);
	d.deploy.metric = "f1_delta[0]";
	bench_send(&f.b, &d);
	rep = bench_report(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_non_null(strstr(rep->message, "f1"));
	report_free(rep);
	fixture_close(&f);
}

static void test_window_of_the_deployment(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.better, f.worse);
	d.deploy.has_timer = true;
	d.deploy.start = 700;
	d.deploy.end = 710;
	bench_send(&f.b, &d);
	assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	assert_int_equal(bench_wake(&f.b), 60000);
	f.b.now.minute = 705;
	bench_sleep(&f.b, 59999);
	assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	bench_sleep(&f.b, 1);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	fixture_close(&f);
}

static void test_a_decision_that_could_not_be_stored_is_made_again(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.better, f.worse);
	f.b.fail_code[EDGE_COMMIT] = ERROR_IO;
	f.b.fail_count[EDGE_COMMIT] = 3;
	bench_send(&f.b, &d);
	bench_sleep(&f.b, 20000);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	fixture_close(&f);
}

/* ---- the copy ---- */

static void test_copy_needs_a_document_of_this_session(void **state)
{
	fixture f;
	desired d;
	report *rep;
	digest expected;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_READY, f.better, f.worse);
	f.b.hold[EDGE_DEPLOY] = true;
	bench_send(&f.b, &d);
	assert_int_equal(f.b.n_held, 1);
	f.b.hold[EDGE_DEPLOY] = false;
	bench_restart(&f.b); /* the store says Deploy/Ready; the cluster may be rounds further */
	bench_sleep(&f.b, 600000);
	assert_int_equal(f.b.asked[EDGE_DEPLOY], 1);
	bench_inventory(&f.b, NULL, U1, NULL);
	bench_sleep(&f.b, 600000);
	assert_int_equal(f.b.asked[EDGE_DEPLOY], 1); /* the document is still the one of before */
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 1);
	rep = bench_report(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN);
	digest_of("/out/train/new.pb", strlen("/out/train/new.pb"), &expected);
	assert_true(digest_equal(&rep->sha256, &expected));
	report_free(rep);
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 1);
	fixture_close(&f);
}

static void test_crash_between_copy_and_commit_copies_again(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_READY, f.better, f.worse);
	f.b.crash_at = f.b.steps + 2; /* commit of the document, then the copy */
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 1);
	assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN));
	bench_inventory(&f.b, NULL, U1, NULL);
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 2);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN));
	fixture_close(&f);
}

static void test_copy_that_cannot_be_made_fails_with_a_reason(void **state)
{
	static const struct {
		int code, tries;
		const char *reason;
	} rows[] = {
		{ERROR_NOT_FOUND, 1, "ModelMissing"},
		{ERROR_INVALID, 1, "DeployFailed"},
		{ERROR_UNSUPPORTED, 1, "DeployFailed"},
		{ERROR_DENIED, 10, "DeployFailed"},
		{ERROR_IO, 10, "DeployFailed"},
		{ERROR_CORRUPT, 10, "DeployFailed"},
		{ERROR_NO_SPACE, 0, NULL},
		{ERROR_TIMEOUT, 0, NULL},
		{ERROR_CHANGED, 0, NULL},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fixture f;
		desired d;

		fixture_open(&f);
		d = deploy_desired(PHASE_READY, f.better, f.worse);
		f.b.fail_code[EDGE_DEPLOY] = rows[i].code;
		f.b.fail_count[EDGE_DEPLOY] = 1000;
		bench_send(&f.b, &d);
		bench_sleep(&f.b, 6 * 3600 * 1000);
		if (rows[i].reason != NULL) {
			report *rep = bench_report(&f.b, 1, STAGE_DEPLOY, REPORT_FAILED);

			assert_string_equal(rep->reason, rows[i].reason);
			assert_string_equal(rep->message, "it did not work");
			report_free(rep);
			assert_int_equal(f.b.asked[EDGE_DEPLOY], rows[i].tries);
		} else {
			assert_true(f.b.asked[EDGE_DEPLOY] > 20);
			assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_FAILED));
			f.b.fail_count[EDGE_DEPLOY] = 0;
			bench_sleep(&f.b, 300000);
			assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN));
		}
		fixture_close(&f);
	}
}

/* Trace 9, c: the decision of an earlier life of the store was applied. */
static void test_the_cluster_decides(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_WAITING, f.worse, f.better);
	bench_send(&f.b, &d);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED));
	d.position.phase = PHASE_READY;
	bench_send(&f.b, &d);
	assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED));
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN));
	/* And restored to before the decision: the model is in place, so the answer was yes. */
	d.position.phase = PHASE_WAITING;
	bench_send(&f.b, &d);
	assert_non_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_READY));
	assert_null(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_COMPLETED));
	assert_false(bench_row(&f.b, 1, STAGE_DEPLOY, REPORT_WRITTEN)->settled);
	assert_int_equal(f.b.copies, 1);
	fixture_close(&f);
}

static void test_without_the_role_nothing_happens(void **state)
{
	static const enum phase phases[] = {PHASE_WAITING, PHASE_READY};
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		fixture f;
		desired d;

		fixture_open(&f);
		d = deploy_desired(phases[i], f.better, f.worse);
		d.roles = ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL;
		bench_send(&f.b, &d);
		assert_int_equal(bench_job(&f.b, U1)->n_rows, 0);
		assert_int_equal(f.b.copies, 0);
		fixture_close(&f);
	}
}

/* ---- hot update ---- */

static int inference_post(bench *b, enum post_status status, int64_t round)
{
	char name[WORKER_NAME_SIZE];
	uint64_t id;

	bench_worker(WORKER_INFERENCE, U1, round, name);
	id = bench_post(b, POST_DEPLOY, status, name);
	bench_turn(b);
	return b->replies[id];
}

static desired hot_desired(fixture *f, enum phase phase)
{
	desired d = deploy_desired(phase, f->better, f->worse);

	d.hot_update = true;
	d.position.round = 4;
	return d;
}

static void test_first_word_of_the_worker_after_written_decides(void **state)
{
	static const struct {
		enum post_status status;
		enum report_what what;
		const char *reason;
	} rows[] = {{POST_COMPLETED, REPORT_COMPLETED, NULL}, {POST_FAILED, REPORT_FAILED, "LoadFailed"}};
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		fixture f;
		desired d;
		const outbox_row *row;

		fixture_open(&f);
		d = hot_desired(&f, PHASE_WAITING);
		bench_send(&f.b, &d);
		assert_int_equal(inference_post(&f.b, rows[i].status, 0), 200); /* before there is anything new to load: its start */
		assert_int_equal(bench_job(&f.b, U1)->n_rows, 1);
		d.position.phase = PHASE_READY;
		bench_send(&f.b, &d);
		assert_int_equal(inference_post(&f.b, POST_RUNNING, 0), 200);
		assert_int_equal(inference_post(&f.b, rows[i].status, 9), 200); /* nobody's inference worker */
		assert_int_equal(bench_job(&f.b, U1)->n_rows, 2);
		assert_int_equal(inference_post(&f.b, rows[i].status, 2), 200);
		row = bench_row(&f.b, 4, STAGE_DEPLOY, rows[i].what);
		assert_non_null(row);
		if (rows[i].reason != NULL)
			assert_string_equal(row->reason, rows[i].reason);
		else
			assert_null(row->reason);
		assert_int_equal(inference_post(&f.b, rows[1 - i].status, 2), 200); /* only the first one counts */
		assert_int_equal(bench_job(&f.b, U1)->n_rows, 3);
		fixture_close(&f);
	}
}

/* The worker sees the new configuration before `written` is stored: what it says then waits for that. */
static void test_worker_is_faster_than_the_store(void **state)
{
	(void)state;
	for (int held_commit = 0; held_commit < 2; held_commit++) {
		fixture f;
		desired d;
		char name[WORKER_NAME_SIZE];
		uint64_t id;

		fixture_open(&f);
		d = hot_desired(&f, PHASE_READY);
		f.b.hold[EDGE_DEPLOY] = true;
		bench_send(&f.b, &d);
		bench_worker(WORKER_INFERENCE, U1, 2, name);
		if (held_commit) { /* the copy is made, its row is on its way */
			f.b.hold[EDGE_COMMIT] = true;
			bench_end_held(&f.b, 0, 0);
			bench_turn(&f.b);
		} else { /* nobody else waits */
			assert_int_equal(inference_post(&f.b, POST_RUNNING, 2), 200);
			assert_int_equal(inference_post(&f.b, POST_COMPLETED, 9), 200);
			assert_int_equal(bench_completed(&f.b, WORKER_TRAIN, 1), 409);
		}
		id = bench_post(&f.b, POST_DEPLOY, POST_COMPLETED, name);
		bench_turn(&f.b);
		assert_int_equal(f.b.replies[id], 0);
		f.b.hold[EDGE_DEPLOY] = f.b.hold[EDGE_COMMIT] = false;
		bench_end_held(&f.b, held_commit ? 1 : 0, 0);
		bench_turn(&f.b);
		assert_int_equal(f.b.replies[id], 200);
		assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_WRITTEN));
		assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
		assert_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED)->reason);
		fixture_close(&f);
	}
}

/* No copy, nothing to have loaded: it is answered, and says nothing of the next try. */
static void test_worker_speaks_during_a_copy_that_fails(void **state)
{
	fixture f;
	desired d;
	char name[WORKER_NAME_SIZE];
	uint64_t id;
	(void)state;

	fixture_open(&f);
	d = hot_desired(&f, PHASE_READY);
	f.b.hold[EDGE_DEPLOY] = true;
	bench_send(&f.b, &d);
	bench_worker(WORKER_INFERENCE, U1, 2, name);
	id = bench_post(&f.b, POST_DEPLOY, POST_COMPLETED, name);
	bench_turn(&f.b);
	f.b.hold[EDGE_DEPLOY] = false;
	bench_end_held(&f.b, 0, ERROR_NO_SPACE);
	bench_turn(&f.b);
	assert_int_equal(f.b.replies[id], 200);
	bench_sleep(&f.b, 10000);
	assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_WRITTEN));
	assert_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
	fixture_close(&f);
}

static void test_nobody_confirms(void **state)
{
	fixture f;
	desired d;
	report *rep;
	(void)state;

	fixture_open(&f);
	d = hot_desired(&f, PHASE_READY);
	d.poll_period_s = 5;
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 1);
	bench_sleep(&f.b, 10 * 60 * 1000 - 1);
	assert_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
	bench_sleep(&f.b, 1);
	rep = bench_report(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_string_equal(rep->reason, "NotConfirmed");
	report_free(rep);
	fixture_close(&f);
	/* The worker's poll period may be longer than that. */
	fixture_open(&f);
	d = hot_desired(&f, PHASE_READY);
	d.poll_period_s = 600;
	bench_send(&f.b, &d);
	bench_sleep(&f.b, 6000 * 1000 - 1);
	assert_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
	bench_sleep(&f.b, 1);
	assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
	fixture_close(&f);
}

/* The store was lost after `written` had been applied: the position says that the model is in place. */
static void test_hot_update_after_the_store_was_lost(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = hot_desired(&f, PHASE_RUNNING);
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 0);
	assert_int_equal(inference_post(&f.b, POST_COMPLETED, 0), 200);
	assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_COMPLETED));
	/* And the cluster restored to before the decision: `completed` alone would not be taken there. */
	d.position.phase = PHASE_WAITING;
	bench_send(&f.b, &d);
	assert_non_null(bench_row(&f.b, 4, STAGE_DEPLOY, REPORT_READY));
	d.position.phase = PHASE_READY;
	bench_send(&f.b, &d);
	assert_int_equal(f.b.copies, 0);
	fixture_close(&f);
}

static void test_cold_deployment_is_done_with_written(void **state)
{
	fixture f;
	desired d;
	(void)state;

	fixture_open(&f);
	d = deploy_desired(PHASE_READY, f.better, f.worse);
	bench_send(&f.b, &d);
	assert_int_equal(inference_post(&f.b, POST_COMPLETED, 0), 200);
	f.b.linked = false;
	edge_agent_link(f.b.agent, false, f.b.now);
	bench_sleep(&f.b, 24 * 3600 * 1000);
	assert_int_equal(bench_job(&f.b, U1)->n_rows, 1);
	assert_int_equal(bench_wake(&f.b), -1);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eval_data_is_written_and_reported),
		cmocka_unit_test(test_eval_without_its_samples_fails),
		cmocka_unit_test(test_eval_result_without_its_ready),
		cmocka_unit_test(test_eval_needs_role_models_and_waiting),
		cmocka_unit_test(test_better_model_is_ready_and_nothing_is_copied_yet),
		cmocka_unit_test(test_worse_or_unknown_is_not_better_with_a_reason),
		cmocka_unit_test(test_window_of_the_deployment),
		cmocka_unit_test(test_a_decision_that_could_not_be_stored_is_made_again),
		cmocka_unit_test(test_copy_needs_a_document_of_this_session),
		cmocka_unit_test(test_crash_between_copy_and_commit_copies_again),
		cmocka_unit_test(test_copy_that_cannot_be_made_fails_with_a_reason),
		cmocka_unit_test(test_the_cluster_decides),
		cmocka_unit_test(test_without_the_role_nothing_happens),
		cmocka_unit_test(test_first_word_of_the_worker_after_written_decides),
		cmocka_unit_test(test_worker_is_faster_than_the_store),
		cmocka_unit_test(test_worker_speaks_during_a_copy_that_fails),
		cmocka_unit_test(test_nobody_confirms),
		cmocka_unit_test(test_hot_update_after_the_store_was_lost),
		cmocka_unit_test(test_cold_deployment_is_done_with_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
