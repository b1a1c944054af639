/* Workers' posts: the answer for every standing of a job, durability before 200, results that come too early, and results that never come. */
#include "tests/unit/edge_harness.h"

static desired running(enum stage stage, int64_t round)
{
	return bench_desired(U1, round, stage, PHASE_RUNNING);
}

static void open_at(bench *b, const desired *d)
{
	desired copy = *d;

	bench_init(b);
	bench_ready(b);
	bench_send(b, &copy);
}

static int post_of(bench *b, enum post_kind kind, enum post_status status, enum worker_kind worker, int64_t round)
{
	char name[WORKER_NAME_SIZE];
	uint64_t id;

	bench_worker(worker, U1, round, name);
	id = bench_post(b, kind, status, name);
	bench_turn(b);
	return b->replies[id];
}

static void test_result_is_durable_before_200(void **state)
{
	bench b;
	desired d = running(STAGE_EVAL, 1);
	char name[WORKER_NAME_SIZE];
	uint64_t id;
	report *rep;
	(void)state;

	open_at(&b, &d);
	b.hold[EDGE_COMMIT] = true;
	bench_worker(WORKER_EVAL, U1, 1, name);
	id = bench_post(&b, POST_EVAL, POST_COMPLETED, name);
	bench_turn(&b);
	assert_int_equal(b.replies[id], 0);
	b.hold[EDGE_COMMIT] = false;
	b.fail_code[EDGE_COMMIT] = ERROR_NO_SPACE;
	b.fail_count[EDGE_COMMIT] = 2;
	bench_end_held(&b, 0, ERROR_NO_SPACE);
	bench_turn(&b);
	assert_int_equal(b.replies[id], 0);
	assert_int_equal(bench_said(&b, "/eval/completed"), 0);
	bench_sleep(&b, 10000);
	assert_int_equal(b.replies[id], 200);
	rep = bench_report(&b, 1, STAGE_EVAL, REPORT_COMPLETED);
	assert_int_equal(rep->output.n_models, 1);
	assert_string_equal(rep->output.models[0].url, "/out/train/new.pb");
	assert_non_null(rep->output.models[0].metrics);
	assert_non_null(rep->output.owner_info);
	assert_false(rep->has_range);
	report_free(rep);
	assert_true(bench_said(&b, "/eval/completed") >= 1);
	/* A repeat, in this life and the next. */
	assert_int_equal(bench_completed(&b, WORKER_EVAL, 1), 200);
	bench_restart(&b);
	assert_int_equal(bench_completed(&b, WORKER_EVAL, 1), 200);
	assert_int_equal(bench_job(&b, U1)->n_rows, 1);
	bench_fini(&b);
}

static void test_connection_is_gone_but_the_result_stays(void **state)
{
	bench b;
	desired d = running(STAGE_EVAL, 1);
	char name[WORKER_NAME_SIZE];
	uint64_t id;
	(void)state;

	open_at(&b, &d);
	b.hold[EDGE_COMMIT] = true;
	bench_worker(WORKER_EVAL, U1, 1, name);
	id = bench_post(&b, POST_EVAL, POST_COMPLETED, name);
	bench_turn(&b);
	edge_agent_post_gone(b.agent, id);
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_int_equal(b.replies[id], 0);
	assert_non_null(bench_row(&b, 1, STAGE_EVAL, REPORT_COMPLETED));
	bench_fini(&b);
}

/* Rule 8: the range is that of the manifest on disk, also when the store never knew it. */
static void test_train_result_carries_the_range_on_disk(void **state)
{
	bench b;
	desired d = running(STAGE_TRAIN, 1);
	report *rep;
	(void)state;

	open_at(&b, &d);
	b.samples = 5;
	b.folders[b.n_folders++] = (folder){.output_dir = OUT,
		.round = 1,
		.manifest = {.uid = U1, .round = 1, .range = {.from = 0, .to = 2, .end = bench_cursor(&b, 2, 2)}, .begin = bench_cursor(&b, 0, 0)}};
	b.fail_code[EDGE_LOOK] = ERROR_IO;
	b.fail_count[EDGE_LOOK] = 2;
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 0); /* waits until the folder can be read */
	bench_sleep(&b, 10000);
	assert_int_equal(b.replies[b.next_post], 200);
	rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_COMPLETED);
	assert_true(rep->has_range);
	assert_int_equal(rep->range.from, 0);
	assert_int_equal(rep->range.to, 2);
	report_free(rep);
	bench_fini(&b);
}

static void test_train_result_without_a_manifest_or_on_another_node(void **state)
{
	static const int looks[] = {ERROR_OK, ERROR_NOT_FOUND, ERROR_CORRUPT};
	report *rep;
	bench b;
	desired d = running(STAGE_TRAIN, 1);
	(void)state;

	for (size_t i = 0; i < 3; i++) {
		open_at(&b, &d);
		b.fail_code[EDGE_LOOK] = looks[i];
		b.fail_count[EDGE_LOOK] = looks[i] != 0;
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
		rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_COMPLETED);
		assert_false(rep->has_range);
		report_free(rep);
		bench_fini(&b);
	}
	d.roles = ROLE_TRAIN;
	open_at(&b, &d);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
	assert_int_equal(b.asked[EDGE_LOOK], 0);
	bench_fini(&b);
}

enum { NONE = -1 };

/* The whole table of judge.c for train and eval. */
static void test_answers(void **state)
{
	static const struct {
		enum stage stage;
		int64_t round;
		enum phase phase;
		unsigned roles;
		int row; /* of (worker_round, worker's stage), put into the store: REPORT_COMPLETED, REPORT_FAILED or NONE */
		enum worker_kind worker;
		int64_t worker_round;
		int status;
		bool kept, stored;
	} rows[] = {
		/* the present stage */
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 200, false, true},
		{STAGE_TRAIN, 5, PHASE_READY, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 200, false, true},
		{STAGE_TRAIN, 5, PHASE_WAITING, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 200, false, true},
		{STAGE_EVAL, 5, PHASE_STARTING, ROLE_EVAL, NONE, WORKER_EVAL, 5, 200, false, true},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, REPORT_COMPLETED, WORKER_TRAIN, 5, 200, false, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, REPORT_FAILED, WORKER_TRAIN, 5, 409, false, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_DATASET, NONE, WORKER_TRAIN, 5, 200, true, false},
		/* over */
		{STAGE_TRAIN, 5, PHASE_COMPLETED, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 409, false, false},
		{STAGE_TRAIN, 5, PHASE_FAILED, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 409, false, false},
		{STAGE_EVAL, 5, PHASE_WAITING, ROLE_TRAIN, NONE, WORKER_TRAIN, 5, 409, false, false},
		{STAGE_EVAL, 5, PHASE_WAITING, ROLE_TRAIN, REPORT_COMPLETED, WORKER_TRAIN, 5, 200, false, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 4, 409, false, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, REPORT_COMPLETED, WORKER_EVAL, 4, 200, false, false},
		{STAGE_TRAIN, 70, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 6, 409, false, false},
		/* ahead, or unknown */
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_EVAL, 5, 200, true, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 6, 200, true, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 13, 200, true, false},
		{STAGE_TRAIN, 5, PHASE_RUNNING, ROLE_TRAIN, NONE, WORKER_TRAIN, 1000, 200, true, false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bench b;
		desired d = bench_desired(U1, rows[i].round, rows[i].stage, rows[i].phase);
		enum stage stage = rows[i].worker == WORKER_TRAIN ? STAGE_TRAIN : STAGE_EVAL;

		d.roles = rows[i].roles;
		open_at(&b, &d);
		if (rows[i].row != NONE) {
			record *r = b.jobs[0];

			r->rows = arena_alloc(r->mem, sizeof(*r->rows));
			r->rows[r->n_rows++] = (outbox_row){.position = {rows[i].worker_round, stage, PHASE_FAILED},
				.what = (enum report_what)rows[i].row,
				.seq = 1,
				.from = -1,
				.payload = "{}"};
			b.meta.seq = 1;
			bench_restart(&b);
		}
		if (bench_completed(&b, rows[i].worker, rows[i].worker_round) != rows[i].status)
			fail_msg("row %zu: %d", i, b.replies[b.next_post]);
		if ((b.n_kept == 1) != rows[i].kept)
			fail_msg("row %zu: kept", i);
		if ((bench_row(&b, rows[i].worker_round, stage, REPORT_COMPLETED) != NULL) != (rows[i].stored || rows[i].row == REPORT_COMPLETED))
			fail_msg("row %zu: stored", i);
		bench_fini(&b);
	}
}

static void test_information_is_answered_and_not_stored(void **state)
{
	static const enum post_status statuses[] = {POST_RUNNING, POST_FAILED};
	bench b;
	desired d = running(STAGE_TRAIN, 5);
	int commits;
	(void)state;

	open_at(&b, &d);
	commits = b.commits;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(post_of(&b, POST_TRAIN, statuses[i], WORKER_TRAIN, 5), 200);
		assert_int_equal(post_of(&b, POST_TRAIN, statuses[i], WORKER_TRAIN, 99), 200);
		assert_int_equal(post_of(&b, POST_DEPLOY, statuses[i], WORKER_INFERENCE, 99), 200);
	}
	assert_int_equal(post_of(&b, POST_DEPLOY, POST_COMPLETED, WORKER_INFERENCE, 99), 200);
	assert_int_equal(post_of(&b, POST_INFERENCE, POST_NO_STATUS, WORKER_INFERENCE, 99), 200);
	assert_int_equal(b.commits, commits);
	assert_int_equal(b.n_kept, 0);
	bench_fini(&b);
}

/* In one turn with a document that changes what the post means: the document counts. */
static void test_post_and_document_in_one_turn(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_FAILED);
	char name[WORKER_NAME_SIZE];
	uint64_t id;
	(void)state;

	open_at(&b, &d);
	d.position.phase = PHASE_RUNNING; /* the cluster was restored */
	bench_send_at(&b, &d, bench_stamp(&b));
	bench_worker(WORKER_EVAL, U1, 1, name);
	id = bench_post(&b, POST_EVAL, POST_COMPLETED, name);
	bench_turn(&b);
	assert_int_equal(b.replies[id], 200);
	assert_non_null(bench_row(&b, 1, STAGE_EVAL, REPORT_COMPLETED));
	bench_fini(&b);
}

/* ---- provisional results (trace 18) ---- */

static void test_result_before_its_document(void **state)
{
	(void)state;
	for (int restarts = 0; restarts < 2; restarts++) {
		bench b;
		desired d = running(STAGE_TRAIN, 1);

		bench_init(&b);
		bench_ready(&b);
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
		assert_int_equal(b.n_kept, 1);
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200); /* a repeat takes no room */
		assert_int_equal(b.n_kept, 1);
		if (restarts)
			bench_restart(&b);
		d.roles = ROLE_TRAIN;
		d.worker_ended = true;
		bench_send(&b, &d);
		assert_int_equal(b.n_kept, 0);
		assert_non_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_COMPLETED));
		bench_sleep(&b, 600000);
		assert_null(bench_row(&b, 1, STAGE_TRAIN, REPORT_FAILED));
		assert_true(bench_said(&b, "/train/completed") >= 1);
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
		bench_fini(&b);
	}
}

/* The same on the dataset node: the manifest is read first, and the grace period does not cut it short. */
static void test_result_before_its_document_on_the_dataset_node(void **state)
{
	bench b;
	desired d = running(STAGE_TRAIN, 1);
	report *rep;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	b.folders[b.n_folders++] =
		(folder){.output_dir = OUT, .round = 1, .manifest = {.uid = U1, .round = 1, .range = {.to = 1, .end = {.sample = 1}}}};
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
	d.worker_ended = true;
	b.fail_code[EDGE_LOOK] = ERROR_IO;
	b.fail_count[EDGE_LOOK] = 1000;
	bench_send(&b, &d);
	bench_sleep(&b, 600000);
	assert_int_equal(bench_job(&b, U1)->n_rows, 0);
	b.fail_count[EDGE_LOOK] = 0;
	bench_sleep(&b, 300000);
	rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_COMPLETED);
	assert_int_equal(rep->range.to, 1);
	report_free(rep);
	assert_int_equal(b.n_kept, 0);
	bench_fini(&b);
}

static void test_result_of_a_round_that_is_over_is_dropped(void **state)
{
	bench b;
	desired d = running(STAGE_TRAIN, 2);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
	bench_send(&b, &d);
	assert_int_equal(b.n_kept, 0);
	assert_int_equal(bench_job(&b, U1)->n_rows, 0);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 409);
	bench_fini(&b);
}

static void little_room(edge_config *c)
{
	c->provisional_max = 3;
	c->provisional_ms = 3600 * 1000;
}

static void test_provisional_store_is_bounded(void **state)
{
	bench b;
	(void)state;

	bench_init_with(&b, little_room);
	bench_ready(&b);
	for (int round = 1; round <= 2; round++)
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, round), 200);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 3), 200);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 4), 503); /* by number */
	assert_int_equal(b.n_kept, 3);
	b.config.provisional_max = 64;
	b.config.provisional_bytes_max = 1000;
	bench_restart(&b);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 4), 503); /* by bytes */
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 3), 200);
	bench_sleep(&b, 3599 * 1000);
	assert_int_equal(b.n_kept, 3);
	bench_sleep(&b, 1000);
	assert_int_equal(b.n_kept, 0);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 4), 200);
	bench_fini(&b);
}

/* A name that nobody knows yet says little: what is posted under it for another job, or as another kind, is a result of its own. */
static void test_early_results_of_one_name(void **state)
{
	bench b;
	desired d = running(STAGE_EVAL, 1);
	char name[WORKER_NAME_SIZE];
	uint64_t ids[5];
	(void)state;

	bench_init_with(&b, little_room);
	bench_ready(&b);
	bench_worker(WORKER_EVAL, U1, 1, name);
	ids[0] = bench_post_of(&b, POST_EVAL, POST_COMPLETED, name, "other");
	ids[1] = bench_post_of(&b, POST_TRAIN, POST_COMPLETED, name, "job");
	ids[2] = bench_post_of(&b, POST_EVAL, POST_COMPLETED, name, "job");
	ids[3] = bench_post_of(&b, POST_EVAL, POST_COMPLETED, name, "job");
	ids[4] = bench_post_of(&b, POST_EVAL, POST_COMPLETED, name, "third"); /* no room */
	bench_turn(&b);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(b.replies[ids[i]], i < 4 ? 200 : 503);
	assert_int_equal(b.n_kept, 3);
	bench_restart(&b);
	bench_send(&b, &d);
	assert_non_null(bench_row(&b, 1, STAGE_EVAL, REPORT_COMPLETED));
	assert_int_equal(b.n_kept, 2);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.n_kept, 0);
	bench_fini(&b);
}

static void test_commit_failures_of_provisional_results(void **state)
{
	bench b;
	desired d = running(STAGE_EVAL, 1);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	b.fail_code[EDGE_COMMIT] = ERROR_IO;
	b.fail_count[EDGE_COMMIT] = 2;
	assert_int_equal(bench_completed(&b, WORKER_EVAL, 1), 0);
	assert_int_equal(b.n_kept, 0);
	bench_sleep(&b, 5000);
	assert_int_equal(b.replies[b.next_post], 200);
	b.fail_count[EDGE_COMMIT] = 2;
	bench_send(&b, &d);
	assert_int_equal(b.n_kept, 1);
	bench_sleep(&b, 5000);
	assert_int_equal(b.n_kept, 0);
	assert_non_null(bench_row(&b, 1, STAGE_EVAL, REPORT_COMPLETED));
	bench_fini(&b);
}

static void few_posts(edge_config *c)
{
	c->posts_max = 2;
}

static void test_waiting_posts_are_bounded(void **state)
{
	bench b;
	char name[WORKER_NAME_SIZE];
	(void)state;

	bench_init_with(&b, few_posts);
	bench_ready(&b);
	b.hold[EDGE_COMMIT] = true;
	for (int round = 1; round <= 4; round++) {
		bench_worker(WORKER_TRAIN, U1, round, name);
		(void)bench_post(&b, POST_TRAIN, POST_COMPLETED, name);
		bench_turn(&b);
	}
	assert_int_equal(b.replies[1], 0);
	assert_int_equal(b.replies[2], 0);
	assert_int_equal(b.replies[3], 503);
	assert_int_equal(b.replies[4], 503);
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_int_equal(b.replies[1], 200);
	assert_int_equal(b.replies[2], 200);
	bench_fini(&b);
}

/* ---- ResultsMissing ---- */

static void test_results_missing(void **state)
{
	static const enum stage stages[] = {STAGE_TRAIN, STAGE_EVAL};
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		bench b;
		desired d = running(stages[i], 1);
		report *rep;

		d.worker_ended = true;
		open_at(&b, &d);
		assert_int_equal(bench_wake(&b), 60000);
		bench_sleep(&b, 59999);
		bench_send(&b, &d); /* said again: the grace period does not begin anew */
		assert_null(bench_row(&b, 1, stages[i], REPORT_FAILED));
		bench_sleep(&b, 1);
		rep = bench_report(&b, 1, stages[i], REPORT_FAILED);
		assert_string_equal(rep->reason, "ResultsMissing");
		report_free(rep);
		/* From then on the worker is refused, also after a restart. */
		bench_restart(&b);
		assert_int_equal(bench_completed(&b, stages[i] == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL, 1), 409);
		bench_fini(&b);
	}
}

static void test_results_missing_only_where_and_when_it_can_be(void **state)
{
	static const struct {
		enum stage stage;
		enum phase phase;
		unsigned roles;
		bool ended, said;
	} rows[] = {
		{STAGE_TRAIN, PHASE_RUNNING, ROLE_TRAIN, true, true},
		{STAGE_TRAIN, PHASE_STARTING, ROLE_TRAIN, true, true},
		{STAGE_TRAIN, PHASE_READY, ROLE_TRAIN, true, true},
		{STAGE_TRAIN, PHASE_RUNNING, ROLE_TRAIN, false, false},
		{STAGE_TRAIN, PHASE_WAITING, ROLE_TRAIN, true, false},
		{STAGE_TRAIN, PHASE_FAILED, ROLE_TRAIN, true, false},
		{STAGE_TRAIN, PHASE_RUNNING, ROLE_DATASET | ROLE_EVAL | ROLE_DEPLOY, true, false},
		{STAGE_EVAL, PHASE_RUNNING, ROLE_TRAIN, true, false},
		{STAGE_DEPLOY, PHASE_RUNNING, ROLE_DEPLOY | ROLE_TRAIN | ROLE_EVAL, true, false},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bench b;
		desired d = bench_desired(U1, 1, rows[i].stage, rows[i].phase);

		d.roles = rows[i].roles;
		d.worker_ended = rows[i].ended;
		open_at(&b, &d);
		bench_sleep(&b, 3600 * 1000);
		if ((bench_row(&b, 1, rows[i].stage, REPORT_FAILED) != NULL) != rows[i].said)
			fail_msg("row %zu", i);
		bench_fini(&b);
	}
}

static void test_what_the_worker_said_is_told(void **state)
{
	bench b;
	desired d = running(STAGE_TRAIN, 1);
	report *rep;
	(void)state;

	open_at(&b, &d);
	assert_int_equal(post_of(&b, POST_TRAIN, POST_FAILED, WORKER_TRAIN, 1), 200);
	d.worker_ended = true;
	bench_send(&b, &d);
	bench_sleep(&b, 60000);
	rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_FAILED);
	assert_non_null(strstr(rep->message, "said that it failed"));
	report_free(rep);
	bench_fini(&b);
}

static void test_a_result_within_the_grace_period(void **state)
{
	bench b;
	desired d = running(STAGE_EVAL, 1);
	(void)state;

	d.worker_ended = true;
	open_at(&b, &d);
	bench_sleep(&b, 59000);
	assert_int_equal(bench_completed(&b, WORKER_EVAL, 1), 200);
	bench_sleep(&b, 600000);
	assert_null(bench_row(&b, 1, STAGE_EVAL, REPORT_FAILED));
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result_is_durable_before_200),
		cmocka_unit_test(test_connection_is_gone_but_the_result_stays),
		cmocka_unit_test(test_train_result_carries_the_range_on_disk),
		cmocka_unit_test(test_train_result_without_a_manifest_or_on_another_node),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_information_is_answered_and_not_stored),
		cmocka_unit_test(test_post_and_document_in_one_turn),
		cmocka_unit_test(test_result_before_its_document),
		cmocka_unit_test(test_result_before_its_document_on_the_dataset_node),
		cmocka_unit_test(test_result_of_a_round_that_is_over_is_dropped),
		cmocka_unit_test(test_provisional_store_is_bounded),
		cmocka_unit_test(test_early_results_of_one_name),
		cmocka_unit_test(test_commit_failures_of_provisional_results),
		cmocka_unit_test(test_waiting_posts_are_bounded),
		cmocka_unit_test(test_results_missing),
		cmocka_unit_test(test_results_missing_only_where_and_when_it_can_be),
		cmocka_unit_test(test_what_the_worker_said_is_told),
		cmocka_unit_test(test_a_result_within_the_grace_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
