/* Train/Waiting on the dataset node: trigger, allocation, write once, adoption, cursors. What goes wrong is in test_edge_train_faults.c. */
#include "tests/unit/edge_harness.h"

static void open_with(bench *b, void (*change)(desired *d))
{
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);

	if (change != NULL)
		change(&d);
	bench_ready(b);
	bench_send(b, &d);
	bench_view(b);
	bench_turn(b);
}

static void assert_range(const bench *b, int64_t round, int64_t from, int64_t to)
{
	report *rep = bench_report(b, round, STAGE_TRAIN, REPORT_READY);

	assert_int_equal(rep->range.from, from);
	assert_int_equal(rep->range.to, to);
	assert_int_equal(rep->range.end.sample, to);
	assert_int_equal(bench_row(b, round, STAGE_TRAIN, REPORT_READY)->from, from);
	assert_int_equal(bench_folder(b, round)->manifest.range.from, from);
	assert_int_equal(bench_folder(b, round)->manifest.range.to, to);
	report_free(rep);
}

static void test_round_is_allocated_written_and_reported(void **state)
{
	bench b;
	report *rep;
	(void)state;

	bench_init(&b);
	open_with(&b, NULL);
	assert_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY));
	bench_append(&b, 3);
	bench_sleep(&b, 60000);
	assert_range(&b, 1, 0, 3);
	rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_READY);
	assert_string_equal(rep->input.data_url, "/out/data/train/1/data.txt");
	assert_string_equal(rep->input.output_dir, "/out/train/1");
	assert_string_equal(rep->input.models[0].url, "/models/initial.pb");
	assert_null(rep->input.data_index_url);
	assert_string_equal(rep->store, b.meta.store);
	report_free(rep);
	assert_int_equal(bench_said(&b, "job/job/node/edge-1/train/ready"), 1);
	assert_true(bench_job(&b, U1)->alloc.written);
	/* Late samples wait for the next round. */
	bench_append(&b, 5);
	bench_sleep(&b, 120000);
	assert_range(&b, 1, 0, 3);
	bench_fini(&b);
}

static void remote(desired *d)
{
	d->output_dir = "s3://bucket/out///";
	d->dataset.url = "s3://bucket/ds.csv";
	d->dataset.format = FORMAT_CSV;
}

static void test_remote_dataset_has_an_index(void **state)
{
	bench b;
	report *rep;
	dataset_view v = {.looked = true, .generation = 1, .samples = 2, .size = 20};
	(void)state;

	bench_init(&b);
	b.samples = 2;
	open_with(&b, remote);
	edge_agent_dataset(b.agent, "s3://bucket/ds.csv", FORMAT_CSV, &v, b.now);
	bench_turn(&b);
	rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_READY);
	assert_string_equal(rep->input.data_url, "s3://bucket/out/data/train/1/data.csv");
	assert_string_equal(rep->input.data_index_url, "s3://bucket/out/data/train/1/dataIndex.txt");
	report_free(rep);
	bench_fini(&b);
}

static void test_checks_keep_their_period_and_an_idle_agent_sleeps(void **state)
{
	bench b;
	(void)state;

	bench_init(&b);
	b.samples = 1;
	open_with(&b, NULL); /* the first check is at once */
	assert_range(&b, 1, 0, 1);
	bench_fini(&b);

	bench_init(&b);
	open_with(&b, NULL);
	assert_int_equal(bench_wake(&b), -1); /* checked, nothing there, nothing to wait for */
	bench_append(&b, 1);
	bench_turn(&b);
	assert_int_equal(bench_wake(&b), 60000);
	bench_sleep(&b, 59999);
	assert_null(bench_folder(&b, 1));
	bench_sleep(&b, 1);
	assert_range(&b, 1, 0, 1);
	bench_fini(&b);
}

static void at_once(edge_config *c)
{
	c->check_on_arrival = true;
}

static void test_check_on_arrival(void **state)
{
	bench b;
	(void)state;

	bench_init_with(&b, at_once);
	open_with(&b, NULL);
	bench_append(&b, 1);
	bench_turn(&b);
	assert_range(&b, 1, 0, 1);
	bench_fini(&b);
}

static void half_and_two(desired *d)
{
	d->train_prob = 0.5;
	d->train.threshold = 2;
}

static void fires_on_none(desired *d)
{
	d->train.threshold = 0;
}

static void test_samples_for_training_count_and_none_is_no_round(void **state)
{
	bench b;
	(void)state;

	bench_init_with(&b, at_once);
	open_with(&b, half_and_two);
	bench_append(&b, 3);
	bench_turn(&b);
	assert_null(bench_folder(&b, 1));
	bench_append(&b, 1);
	bench_turn(&b);
	assert_range(&b, 1, 0, 4);
	bench_fini(&b);

	bench_init_with(&b, at_once);
	open_with(&b, fires_on_none);
	bench_sleep(&b, 600000);
	assert_int_equal(b.asked[EDGE_MEASURE], 0);
	assert_int_equal(bench_wake(&b), -1);
	bench_append(&b, 1);
	bench_turn(&b);
	assert_range(&b, 1, 0, 1);
	bench_fini(&b);
}

static void in_the_evening(desired *d)
{
	d->train.has_timer = true;
	d->train.start = 20 * 60;
	d->train.end = 24 * 60;
}

static void test_window_is_waited_for(void **state)
{
	bench b;
	(void)state;

	bench_init(&b);
	b.samples = 4;
	open_with(&b, in_the_evening);
	bench_sleep(&b, 180000);
	assert_null(bench_folder(&b, 1));
	b.now.minute = 20 * 60;
	bench_sleep(&b, 60000);
	assert_range(&b, 1, 0, 4);
	bench_fini(&b);
}

static void small_rounds(edge_config *c)
{
	c->round_bytes_max = 2 * SAMPLE_BYTES;
	c->check_on_arrival = true;
}

static void test_a_round_takes_a_bounded_size(void **state)
{
	bench b;
	(void)state;

	bench_init_with(&b, small_rounds);
	b.samples = 5;
	open_with(&b, NULL);
	assert_range(&b, 1, 0, 2);
	bench_fini(&b);
}

/* Training of this round has completed, and used what lies before the cursor. */
static void trained(desired *d, int64_t round, cursor used)
{
	d->has_trained = d->has_cursor = true;
	d->trained_round = round;
	d->trained_models = &d->base;
	d->n_trained_models = 1;
	d->cursor = used;
}

/* Rules 4 and 5: the document's cursor alone says what is used. */
static void test_used_samples_are_not_taken_again(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 2;
	open_with(&b, NULL);
	trained(&d, 1, bench_cursor(&b, 2, 2));
	bench_send(&b, &d);
	assert_false(bench_job(&b, U1)->has_alloc);
	bench_sleep(&b, 600000);
	assert_null(bench_folder(&b, 2));
	bench_append(&b, 1);
	bench_turn(&b);
	assert_range(&b, 2, 2, 3);
	bench_fini(&b);
}

static void test_failed_round_gives_its_samples_back(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 2;
	open_with(&b, NULL);
	bench_append(&b, 1);
	bench_send(&b, &d);
	bench_turn(&b);
	assert_range(&b, 2, 0, 3);
	assert_non_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY)); /* kept for the round before (rule 2) */
	assert_true(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY)->settled);
	d.position.round = 3;
	bench_send(&b, &d);
	assert_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY));
	assert_range(&b, 3, 0, 3);
	bench_fini(&b);
}

static void test_lost_store_adopts_the_folder(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	edge_counters seen;
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 1;
	open_with(&b, NULL);
	bench_append(&b, 1);
	bench_lose_store(&b);
	bench_inventory(&b, NULL, U1, NULL);
	bench_send(&b, &d);
	bench_view(&b);
	bench_turn(&b);
	assert_range(&b, 1, 0, 1);
	assert_int_equal(b.n_folders, 1);
	assert_true(bench_job(&b, U1)->alloc.written);
	edge_agent_counters(b.agent, &seen);
	assert_int_equal(seen.rounds_adopted, 1);
	assert_int_equal(seen.rounds_written, 0);
	bench_fini(&b);
}

/* The store was restored to "allocated, not yet written", with another range than the folder has. */
static void test_the_folder_wins_over_a_restored_allocation(void **state)
{
	bench b;
	record *r;
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 1;
	open_with(&b, NULL);
	r = b.jobs[0];
	b.samples = 2;
	r->n_rows = 0;
	r->alloc.written = false;
	r->alloc.range = (sample_range){.from = 0, .to = 2, .end = bench_cursor(&b, 2, 2)};
	b.asked[EDGE_WRITE] = 0;
	bench_restart(&b);
	bench_turn(&b);
	assert_range(&b, 1, 0, 1);
	assert_int_equal(b.asked[EDGE_WRITE], 0);
	assert_int_equal(b.n_folders, 1);
	bench_fini(&b);
}

/* Also found out at the moment of writing, when the look came too early. */
static void test_writing_adopts_what_is_there(void **state)
{
	bench b;
	edge_counters seen;
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 2;
	b.hold[EDGE_WRITE] = true;
	open_with(&b, NULL);
	assert_int_equal(b.n_held, 1);
	b.folders[b.n_folders++] = (folder){.output_dir = OUT,
		.round = 1,
		.manifest = {.uid = U1, .round = 1, .range = {.from = 0, .to = 1, .end = bench_cursor(&b, 1, 1)}, .begin = bench_cursor(&b, 0, 0)}};
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_range(&b, 1, 0, 1);
	edge_agent_counters(b.agent, &seen);
	assert_int_equal(seen.rounds_adopted, 1);
	bench_fini(&b);
}

static void test_a_foreign_folder_is_moved_aside_only_in_session(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	open_with(&b, NULL);
	b.folders[b.n_folders++] = (folder){.output_dir = OUT, .round = 1, .manifest = {.uid = U2, .round = 1}};
	bench_restart(&b); /* the document is not of the new session */
	bench_append(&b, 1);
	bench_sleep(&b, 3000);
	assert_false(b.folders[0].moved_aside);
	assert_int_equal(b.n_folders, 1);
	bench_inventory(&b, NULL, U1, NULL);
	bench_send(&b, &d);
	bench_turn(&b);
	assert_true(b.folders[0].moved_aside);
	assert_range(&b, 1, 0, 1);
	bench_fini(&b);
}

/* Rule 5: a cursor that does not match leaves the whole file new, and numbers go on. */
static void test_a_replaced_file_is_new_as_a_whole(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 10;
	open_with(&b, NULL);
	trained(&d, 1, bench_cursor(&b, 10, 10));
	bench_replace(&b, 4);
	bench_send(&b, &d);
	bench_turn(&b);
	assert_range(&b, 2, 10, 14);
	assert_int_equal(bench_folder(&b, 2)->manifest.begin.size, 0);
	assert_int_equal(bench_job(&b, U1)->removed, 0); /* nothing waited in the old file */
	bench_fini(&b);
}

static void needs_five(desired *d)
{
	d->train.threshold = 5;
}

static void test_samples_that_left_before_a_round_are_counted(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	needs_five(&d);
	b.samples = 3;
	open_with(&b, needs_five);
	trained(&d, 1, bench_cursor(&b, 1, 1));
	bench_send(&b, &d);
	bench_turn(&b);
	bench_append(&b, 2); /* 4 wait */
	bench_turn(&b);
	bench_replace(&b, 1);
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->removed, 4);
	bench_restart(&b);
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->removed, 4);
	bench_fini(&b);
	/* Same beginning, another inode, a shorter end: the end is gone. */
	bench_init_with(&b, at_once);
	b.samples = 4;
	open_with(&b, needs_five);
	b.generation++;
	b.samples = 3;
	bench_view(&b);
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->removed, 1);
	bench_fini(&b);
}

static void from_end(desired *d)
{
	d->first_sample_end = true;
}

static void test_first_sample_end(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 7;
	open_with(&b, from_end);
	assert_true(bench_job(&b, U1)->has_base);
	assert_int_equal(bench_job(&b, U1)->base.sample, 7);
	assert_null(bench_folder(&b, 1));
	bench_append(&b, 2);
	bench_turn(&b);
	assert_range(&b, 1, 7, 9);
	/* The folder shows where it began, when the store that knew it is lost. */
	bench_append(&b, 4);
	bench_lose_store(&b);
	bench_inventory(&b, NULL, U1, NULL);
	from_end(&d);
	bench_send(&b, &d);
	bench_view(&b);
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->base.sample, 7);
	assert_range(&b, 1, 7, 9);
	bench_fini(&b);
}

/* Rule 2, and the cluster restored: the same beginning replays what was reported, another one drops it. */
static void test_restored_cluster(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_READY);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 2;
	open_with(&b, NULL);
	bench_send(&b, &d);
	assert_true(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY)->settled);
	d.position.phase = PHASE_WAITING;
	bench_append(&b, 1);
	bench_quiet(&b);
	bench_send(&b, &d);
	assert_false(bench_row(&b, 1, STAGE_TRAIN, REPORT_READY)->settled);
	bench_sleep(&b, 10000);
	assert_true(bench_said(&b, "/train/ready") >= 1);
	assert_range(&b, 1, 0, 2);
	assert_int_equal(b.n_folders, 1);
	/* Round 1 again, but one sample was used before: another history. */
	trained(&d, 1, bench_cursor(&b, 1, 1));
	bench_send(&b, &d);
	bench_turn(&b);
	assert_true(b.folders[0].moved_aside);
	assert_range(&b, 1, 1, 3);
	bench_fini(&b);
}

/* The cursor changes while an allocation waits for its folder. */
static void test_an_allocation_that_begins_elsewhere_goes(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 3;
	b.fail_code[EDGE_WRITE] = ERROR_IO;
	b.fail_count[EDGE_WRITE] = 1;
	open_with(&b, NULL);
	assert_int_equal(bench_job(&b, U1)->alloc.range.from, 0);
	trained(&d, 1, bench_cursor(&b, 1, 1));
	bench_send(&b, &d);
	bench_sleep(&b, 10000);
	assert_range(&b, 1, 1, 3);
	assert_int_equal(b.n_folders, 1);
	bench_fini(&b);
}

/* The file is the same, but a restored cluster knows it by another cursor: nothing was taken out of it. */
static void test_another_cursor_removes_nothing(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 4;
	open_with(&b, needs_five);
	needs_five(&d);
	trained(&d, 1, (cursor){.sample = 2, .size = 20});
	bench_send(&b, &d);
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->removed, 0);
	bench_append(&b, 1); /* all five are new, numbered from 2 */
	bench_turn(&b);
	assert_range(&b, 1, 2, 7);
	bench_fini(&b);
}

static void test_another_file_is_located_anew(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_TRAIN, PHASE_WAITING);
	dataset_view v = {.looked = true, .generation = 1, .samples = 2, .size = 20};
	(void)state;

	bench_init_with(&b, at_once);
	b.samples = 3;
	open_with(&b, needs_five);
	assert_int_equal(b.asked[EDGE_LOCATE], 1);
	needs_five(&d);
	d.dataset.url = "/data/other.txt";
	bench_send(&b, &d);
	edge_agent_dataset(b.agent, "/data/other.txt", FORMAT_TXT, &v, b.now);
	bench_turn(&b);
	assert_int_equal(b.asked[EDGE_LOCATE], 2);
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_is_allocated_written_and_reported),
		cmocka_unit_test(test_remote_dataset_has_an_index),
		cmocka_unit_test(test_checks_keep_their_period_and_an_idle_agent_sleeps),
		cmocka_unit_test(test_check_on_arrival),
		cmocka_unit_test(test_samples_for_training_count_and_none_is_no_round),
		cmocka_unit_test(test_window_is_waited_for),
		cmocka_unit_test(test_a_round_takes_a_bounded_size),
		cmocka_unit_test(test_used_samples_are_not_taken_again),
		cmocka_unit_test(test_failed_round_gives_its_samples_back),
		cmocka_unit_test(test_lost_store_adopts_the_folder),
		cmocka_unit_test(test_the_folder_wins_over_a_restored_allocation),
		cmocka_unit_test(test_writing_adopts_what_is_there),
		cmocka_unit_test(test_a_foreign_folder_is_moved_aside_only_in_session),
		cmocka_unit_test(test_a_replaced_file_is_new_as_a_whole),
		cmocka_unit_test(test_samples_that_left_before_a_round_are_counted),
		cmocka_unit_test(test_first_sample_end),
		cmocka_unit_test(test_restored_cluster),
		cmocka_unit_test(test_an_allocation_that_begins_elsewhere_goes),
		cmocka_unit_test(test_another_cursor_removes_nothing),
		cmocka_unit_test(test_another_file_is_located_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
