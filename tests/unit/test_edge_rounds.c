/* Whole rounds, ended and begun again at every action; and the edge's part of the schedules on which earlier rules broke. */
#include "tests/unit/edge_cloud.h"

enum { ROUNDS = 4 };

enum fault { NO_FAULT, CRASH_BEFORE, CRASH_AFTER, STORE_LOST, COMMIT_FAILS, FAULTS };

static void at_once(edge_config *c)
{
	c->check_on_arrival = true;
}

/* The step at which the fault strikes; returns how many there were. */
static int run(enum fault fault, int step)
{
	bench *b = mem_alloc(sizeof(*b));
	cloud c;
	int steps;

	bench_init_with(b, at_once);
	b->fault_store = fault == STORE_LOST;
	b->fault_commit = fault == COMMIT_FAILS;
	b->crash_at = fault == NO_FAULT ? 0 : step;
	b->crash_before = fault == CRASH_BEFORE;
	b->fail_code[EDGE_COMMIT] = ERROR_NO_SPACE;
	cloud_init(&c, b);
	b->linked = true;
	edge_agent_link(b->agent, true, b->now);
	cloud_run(&c, ROUNDS);
	cloud_check(&c);
	if (fault != STORE_LOST)
		assert_int_equal(c.failures, 0);
	if (fault != STORE_LOST) {
		assert_int_equal(c.refused, 1);
		assert_int_equal(c.trained[3].to, 6);
	}
	steps = b->steps;
	bench_fini(b);
	free(b);
	return steps;
}

static void test_rounds(void **state)
{
	int steps = run(NO_FAULT, 0);
	(void)state;

	assert_in_range(steps, 50, 400);
}

static void test_a_fault_at_every_action(void **state)
{
	int steps = run(NO_FAULT, 0);
	(void)state;

	for (int fault = CRASH_BEFORE; fault < FAULTS; fault++) {
		for (int step = 1; step <= steps; step++)
			run((enum fault)fault, step);
	}
}

/* ---- schedules ---- */

static void begin(bench *b, cloud *c, int64_t samples)
{
	bench_init_with(b, at_once);
	cloud_init(c, b);
	b->linked = true;
	edge_agent_link(b->agent, true, b->now);
	bench_append(b, samples);
}

static desired at(const cloud *c, int64_t round, enum stage stage, enum phase phase)
{
	desired d = bench_desired(U1, round, stage, phase);

	d.has_cursor = d.has_trained = c->has_cursor;
	d.trained_round = 1;
	d.trained_models = &d.base;
	d.n_trained_models = 1;
	d.cursor = c->cursor;
	return d;
}

/* 1. Round 1 failed without the node; "settled" is not "used": its sample is trained in round 2, once. */
static void test_settled_is_not_accepted(void **state)
{
	bench b;
	cloud c;
	desired d;
	(void)state;

	begin(&b, &c, 2);
	bench_inventory(&b, NULL, U1, NULL);
	d = at(&c, 1, STAGE_TRAIN, PHASE_WAITING);
	bench_send(&b, &d);
	d = at(&c, 1, STAGE_TRAIN, PHASE_RUNNING);
	bench_send(&b, &d);
	assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
	d = at(&c, 2, STAGE_TRAIN, PHASE_WAITING); /* nodeSilenceLimit: the cursor does not cover it */
	bench_send(&b, &d);
	bench_turn(&b);
	assert_true(bench_row(&b, 1, STAGE_TRAIN, REPORT_COMPLETED)->settled);
	assert_int_equal(bench_folder(&b, 2)->manifest.range.from, 0);
	assert_int_equal(bench_folder(&b, 2)->manifest.range.to, 2);
	bench_fini(&b);
}

/* 5. Re-imaged: the range is that of the folder which the pod has read, in both runs. */
static void test_reimaged_device(void **state)
{
	(void)state;
	for (int lost_again = 0; lost_again < 2; lost_again++) {
		bench b;
		cloud c;
		desired d;
		report *rep;

		begin(&b, &c, 1);
		bench_inventory(&b, NULL, U1, NULL);
		d = at(&c, 1, STAGE_TRAIN, PHASE_WAITING);
		d.train.threshold = 1;
		bench_send(&b, &d);
		assert_int_equal(bench_folder(&b, 1)->manifest.range.to, 1);
		b.n_folders = 0;
		b.samples = 2;
		bench_lose_store(&b);
		bench_inventory(&b, NULL, U1, NULL);
		bench_send(&b, &d);
		bench_view(&b);
		bench_turn(&b);
		assert_int_equal(bench_folder(&b, 1)->manifest.range.to, 2);
		if (lost_again) {
			bench_lose_store(&b);
			bench_inventory(&b, NULL, U1, NULL);
		}
		d = at(&c, 1, STAGE_TRAIN, PHASE_RUNNING); /* the late `ready` [0,1) was applied */
		bench_send(&b, &d);
		assert_int_equal(bench_completed(&b, WORKER_TRAIN, 1), 200);
		rep = bench_report(&b, 1, STAGE_TRAIN, REPORT_COMPLETED);
		assert_int_equal(rep->range.from, 0);
		assert_int_equal(rep->range.to, 2);
		report_free(rep);
		bench_fini(&b);
	}
}

/* 9 e. The store of round 1 is restored at Deploy/Ready, the cluster is at round 2 with m2 in place. */
static void test_restored_deployment_is_not_repeated(void **state)
{
	bench b;
	cloud c;
	desired d;
	(void)state;

	begin(&b, &c, 0);
	bench_inventory(&b, NULL, U1, NULL);
	d = at(&c, 1, STAGE_DEPLOY, PHASE_READY);
	b.hold[EDGE_DEPLOY] = true;
	bench_send(&b, &d);
	b.hold[EDGE_DEPLOY] = false;
	bench_restart(&b);
	bench_sleep(&b, 3600 * 1000);
	bench_inventory(&b, NULL, U1, NULL);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.copies, 0);
	d = at(&c, 3, STAGE_TRAIN, PHASE_WAITING);
	bench_send(&b, &d);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.copies, 0);
	bench_fini(&b);
}

/* 12. Restarted leaders: an epoch above is believed whatever its generation, one below is not. */
static void test_epochs(void **state)
{
	bench b;
	cloud c;
	desired d;
	(void)state;

	begin(&b, &c, 0);
	bench_inventory(&b, NULL, U1, NULL);
	d = at(&c, 1, STAGE_EVAL, PHASE_RUNNING);
	bench_send_at(&b, &d, (stamp){100, 70});
	d = at(&c, 1, STAGE_EVAL, PHASE_COMPLETED);
	bench_send_at(&b, &d, (stamp){100, 1});
	bench_send_at(&b, &d, (stamp){1, 1});
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->desired->position.phase, PHASE_RUNNING);
	bench_send_at(&b, &d, (stamp){101, 1});
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->desired->position.phase, PHASE_COMPLETED);
	bench_fini(&b);
}

/* The cloud hears nothing for hours: all that the device can do goes on, within bounds, and it catches up. */
static void test_long_silence(void **state)
{
	bench *b = mem_alloc(sizeof(*b));
	cloud c;
	(void)state;

	begin(b, &c, 2);
	cloud_run(&c, 2);
	c.deaf = true;
	bench_append(b, 2);
	b->linked = false;
	edge_agent_link(b->agent, false, b->now);
	bench_sleep(b, INT64_C(7) * 86400 * 1000);
	assert_non_null(bench_row(b, 2, STAGE_TRAIN, REPORT_READY)); /* counted, triggered, written, offline */
	assert_non_null(bench_folder(b, 2));
	assert_true(bench_job(b, U1)->n_rows <= 14);
	c.deaf = false;
	c.heard = b->n_out;
	b->linked = true;
	edge_agent_link(b->agent, true, b->now);
	cloud_run(&c, 4);
	cloud_check(&c);
	bench_fini(b);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_a_fault_at_every_action),
		cmocka_unit_test(test_settled_is_not_accepted),
		cmocka_unit_test(test_reimaged_device),
		cmocka_unit_test(test_restored_deployment_is_not_repeated),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_long_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
