/* Train/Waiting on the dataset node when things go wrong: files that change or cannot be read, commits that fail, jobs that move or go
 * while the shell is at work. */
#include "tests/unit/edge_harness.h"

static void at_once(edge_config *c)
{
	c->check_on_arrival = true;
}

static void open_with(bench *b, int64_t samples)
{
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);

	bench_init_with(b, at_once);
	b->blind = true;
	bench_ready(b);
	b->samples = samples;
	bench_send(b, &d);
	bench_view(b);
}

static void assert_round_done(bench *b, int64_t to)
{
	report *rep = bench_report(b, 1, STAGE_TRAIN, REPORT_READY);

	assert_int_equal(rep->range.from, 0);
	assert_int_equal(rep->range.to, to);
	assert_int_equal(bench_folder(b, 1)->manifest.range.to, to);
	assert_int_equal(b->n_folders, 1);
	report_free(rep);
}

static void test_each_action_is_tried_again(void **state)
{
	static const enum edge_action_kind kinds[] = {EDGE_LOOK, EDGE_LOCATE, EDGE_MEASURE, EDGE_WRITE};
	static const int codes[] = {ERROR_IO, ERROR_DENIED, ERROR_NO_SPACE, ERROR_LIMIT};
	(void)state;

	for (size_t k = 0; k < 4; k++) {
		for (size_t c = 0; c < 4; c++) {
			bench b;
			desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);

			bench_init_with(&b, at_once);
			bench_ready(&b);
			b.fail_code[kinds[k]] = codes[c];
			b.fail_count[kinds[k]] = 1000;
			b.samples = 2;
			bench_send(&b, &d);
			bench_dataset_doc(&b, "ds-1", "ds", URL);
			assert_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY));
			assert_true(bench_wake(&b) > 0);
			assert_true(bench_wake(&b) <= 5000);
			bench_sleep(&b, 6000);
			assert_non_null(strstr(bench_last(&b, "/dataset/ds/node/edge-1/status")->payload, "it did not work"));
			b.fail_count[kinds[k]] = 0;
			bench_sleep(&b, 14000);
			assert_round_done(&b, 2);
			assert_null(strstr(bench_last(&b, "/dataset/ds/node/edge-1/status")->payload, "it did not work"));
			bench_fini(&b);
		}
	}
}

static void test_backoff_grows_and_stays_bounded(void **state)
{
	bench b;
	(void)state;

	open_with(&b, 2);
	b.fail_code[EDGE_LOCATE] = ERROR_IO;
	b.fail_count[EDGE_LOCATE] = 1000000;
	bench_sleep(&b, 24 * 3600 * 1000);
	/* 1 s doubling to 5 min: some ten tries, then one in 2.5 to 5 minutes. */
	assert_in_range(b.asked[EDGE_LOCATE], 288, 600);
	b.fail_count[EDGE_LOCATE] = 0;
	bench_sleep(&b, 300000);
	assert_round_done(&b, 2);
	bench_fini(&b);
}

static void test_file_changes_between_allocation_and_write(void **state)
{
	bench b;
	(void)state;

	open_with(&b, 3);
	b.hold[EDGE_WRITE] = true;
	bench_turn(&b);
	assert_true(bench_job(&b, U1)->has_alloc);
	b.hold[EDGE_WRITE] = false;
	b.generation++;
	b.version++;
	b.samples = 2;
	bench_end_held(&b, 0, 0); /* finds out: CHANGED */
	bench_turn(&b);
	assert_false(bench_job(&b, U1)->has_alloc);
	bench_view(&b);
	bench_sleep(&b, 2000);
	assert_round_done(&b, 2);
	bench_fini(&b);
}

static void test_file_changed_while_the_agent_was_down(void **state)
{
	bench b;
	(void)state;

	open_with(&b, 3);
	b.hold[EDGE_WRITE] = true;
	bench_turn(&b);
	b.hold[EDGE_WRITE] = false;
	b.jobs[0]->alloc.begin = bench_cursor(&b, 0, 0);
	bench_replace(&b, 4);
	bench_restart(&b);
	bench_view(&b);
	bench_sleep(&b, 2000);
	assert_round_done(&b, 4);
	bench_fini(&b);
}

/* LOCATE looks at the file itself and may see it before the watcher does. */
static void test_looking_and_watching_do_not_chase_each_other(void **state)
{
	bench b;
	(void)state;

	open_with(&b, 3);
	b.generation++;
	bench_turn(&b);
	assert_int_equal(b.asked[EDGE_LOCATE], 1);
	assert_int_equal(b.asked[EDGE_MEASURE], 0);
	assert_int_equal(bench_wake(&b), -1);
	bench_view(&b);
	bench_turn(&b);
	assert_int_equal(b.asked[EDGE_LOCATE], 1);
	assert_round_done(&b, 3);
	bench_fini(&b);
}

static void test_a_file_that_cannot_be_read_waits(void **state)
{
	bench b;
	(void)state;

	open_with(&b, 3);
	b.file_error = "no such file";
	bench_view(&b);
	bench_sleep(&b, 600000);
	assert_int_equal(b.asked[EDGE_LOCATE], 0);
	assert_int_equal(bench_wake(&b), -1);
	b.file_error = NULL;
	bench_view(&b);
	bench_turn(&b);
	assert_round_done(&b, 3);
	bench_fini(&b);
}

/* Nothing goes out, and no file is touched, before what it depends on is committed. */
static void test_every_commit_may_fail(void **state)
{
	(void)state;
	for (int good = 0; good < 4; good++) {
		bench b;
		desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);

		bench_init_with(&b, at_once);
		bench_ready(&b);
		b.samples = 2;
		b.hold[EDGE_COMMIT] = true;
		bench_send(&b, &d);
		for (int i = 0; i < good && b.n_held > 0; i++) {
			bench_end_held(&b, b.n_held - 1, 0);
			bench_view(&b);
			bench_turn(&b);
		}
		if (b.n_held == 0 || b.held[b.n_held - 1].ended) {
			bench_fini(&b);
			continue;
		}
		bench_sleep(&b, 1000);
		assert_int_equal(bench_said(&b, "/train/ready"), 0);
		bench_end_held(&b, b.n_held - 1, ERROR_NO_SPACE);
		b.hold[EDGE_COMMIT] = false;
		b.fail_code[EDGE_COMMIT] = ERROR_NO_SPACE;
		b.fail_count[EDGE_COMMIT] = 4;
		bench_sleep(&b, 2000);
		assert_int_equal(bench_said(&b, "/train/ready"), 0);
		bench_sleep(&b, 60000);
		bench_view(&b);
		bench_sleep(&b, 60000);
		assert_round_done(&b, 2);
		assert_true(bench_said(&b, "/train/ready") >= 1);
		bench_fini(&b);
	}
}

static void test_job_goes_while_its_folder_is_written(void **state)
{
	bench b;
	desired d = bench_desired(U2, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	open_with(&b, 2);
	b.hold[EDGE_WRITE] = true;
	bench_turn(&b);
	bench_inventory(&b, NULL, U2, NULL);
	bench_send(&b, &d);
	assert_null(bench_job(&b, U1));
	assert_non_null(bench_job(&b, U2));
	b.asked[EDGE_LOOK] = 0;
	bench_view(&b);
	bench_sleep(&b, 120000);
	/* The same output folder: the new job waits for the old one's writer. */
	assert_int_equal(b.asked[EDGE_LOOK], 0);
	b.hold[EDGE_WRITE] = false;
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_true(b.folders[0].moved_aside);
	assert_string_equal(bench_folder(&b, 1)->manifest.uid, U2);
	assert_non_null(record_row(bench_job(&b, U2), 1, STAGE_TRAIN, REPORT_READY));
	bench_fini(&b);
}

static void test_result_of_an_earlier_position_is_not_taken(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_READY);
	(void)state;

	open_with(&b, 2);
	b.hold[EDGE_WRITE] = true;
	bench_turn(&b);
	bench_send(&b, &d); /* a late `ready` of an earlier life of the store was applied */
	b.hold[EDGE_WRITE] = false;
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY));
	d.position.phase = PHASE_WAITING;
	bench_send(&b, &d);
	bench_turn(&b);
	assert_round_done(&b, 2);
	bench_fini(&b);
}

static void test_outside_waiting_nothing_is_written(void **state)
{
	static const enum phase phases[] = {PHASE_READY, PHASE_STARTING, PHASE_RUNNING, PHASE_COMPLETED, PHASE_FAILED};
	(void)state;

	for (size_t i = 0; i < 5; i++) {
		bench b;
		desired d = bench_desired(U1, 1, STAGE_TRAIN, phases[i]);

		open_with(&b, 2);
		b.hold[EDGE_WRITE] = true;
		bench_turn(&b);
		bench_restart(&b); /* allocated, not yet written */
		bench_send_at(&b, &d, bench_stamp(&b));
		b.asked[EDGE_WRITE] = 0;
		bench_sleep(&b, 600000);
		assert_int_equal(b.asked[EDGE_WRITE], 0);
		assert_int_equal(b.n_folders, 0);
		bench_fini(&b);
	}
}

static void test_missing_parts_are_said(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	bench_ready(&b);
	b.samples = 2;
	d.has_base = false;
	bench_send(&b, &d);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_sleep(&b, 600000);
	assert_non_null(strstr(bench_last(&b, "/status")->payload, "names no model to train from"));
	assert_int_equal(bench_wake(&b), -1);
	d.has_base = true;
	d.train.metric = "accuracy";
	bench_send(&b, &d);
	bench_sleep(&b, 600000);
	assert_non_null(strstr(bench_last(&b, "/status")->payload, "accuracy"));
	assert_int_equal(bench_wake(&b), -1);
	d.train.metric = "num_of_samples";
	bench_send(&b, &d);
	bench_sleep(&b, 600000);
	assert_round_done(&b, 2);
	assert_null(strstr(bench_last(&b, "/status")->payload, "accuracy"));
	bench_fini(&b);
}

static void test_role_goes(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	const char *url;
	enum dataset_format format;
	(void)state;

	open_with(&b, 2);
	b.hold[EDGE_WRITE] = true;
	bench_turn(&b);
	assert_true(edge_agent_watch(b.agent, 0, &url, &format));
	d.roles = ROLE_TRAIN;
	bench_send(&b, &d);
	assert_false(bench_job(&b, U1)->has_alloc);
	assert_false(edge_agent_watch(b.agent, 0, &url, &format));
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_action_is_tried_again),
		cmocka_unit_test(test_backoff_grows_and_stays_bounded),
		cmocka_unit_test(test_file_changes_between_allocation_and_write),
		cmocka_unit_test(test_file_changed_while_the_agent_was_down),
		cmocka_unit_test(test_looking_and_watching_do_not_chase_each_other),
		cmocka_unit_test(test_a_file_that_cannot_be_read_waits),
		cmocka_unit_test(test_every_commit_may_fail),
		cmocka_unit_test(test_job_goes_while_its_folder_is_written),
		cmocka_unit_test(test_result_of_an_earlier_position_is_not_taken),
		cmocka_unit_test(test_outside_waiting_nothing_is_written),
		cmocka_unit_test(test_missing_parts_are_said),
		cmocka_unit_test(test_role_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
