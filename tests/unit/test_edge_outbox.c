/* What goes out and when: reports with back-off and settling, presence, and an agent that sleeps. */
#include "tests/unit/edge_harness.h"

static void open_with_report(bench *b)
{
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_WAITING);

	bench_init(b);
	bench_ready(b);
	bench_send(b, &d);
	assert_int_equal(bench_said(b, "/eval/ready"), 1);
}

static void test_backoff_doubles_with_jitter_to_its_maximum(void **state)
{
	bench b;
	(void)state;

	open_with_report(&b);
	bench_sleep(&b, 2001);
	assert_int_equal(bench_said(&b, "/eval/ready") >= 2, 1);
	bench_sleep(&b, 3600 * 1000);
	bench_quiet(&b);
	bench_sleep(&b, INT64_C(24) * 3600 * 1000);
	/* Between 0 and 10 minutes each: five on average, so about 288 a day. */
	assert_in_range(bench_said(&b, "/eval/ready"), 200, 400);
	assert_in_range(bench_wake(&b), 1, 10 * 60 * 1000);
	bench_fini(&b);
}

/* Rows that wait for different times go out in the same few turns. */
static void test_repeats_come_in_steps(void **state)
{
	bench b;
	(void)state;

	open_with_report(&b);
	bench_sleep(&b, 7);
	for (int i = 0; i < 8; i++) {
		int before = bench_said(&b, "/eval/ready");

		bench_sleep(&b, bench_wake(&b));
		assert_int_equal(bench_said(&b, "/eval/ready"), before + 1);
		assert_int_equal(b.now.mono_ms % (b.config.retry_min_ms / 16), 0);
	}
	bench_fini(&b);
}

static void test_offline_nothing_goes_out_and_a_new_link_sends_all(void **state)
{
	bench b;
	(void)state;

	open_with_report(&b);
	bench_sleep(&b, 7200 * 1000);
	edge_agent_link(b.agent, false, b.now);
	bench_turn(&b);
	bench_quiet(&b);
	assert_int_equal(bench_wake(&b), -1);
	bench_sleep(&b, 86400 * 1000);
	assert_int_equal(b.n_out, 0);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/eval/ready"), 1);
	assert_int_equal(bench_said(&b, "/presence/" NODE), 1);
	bench_sleep(&b, 2001); /* from the smallest window on */
	assert_true(bench_said(&b, "/eval/ready") >= 2);
	/* The link was away for a moment: what waits for its turn in minutes goes out now. */
	bench_sleep(&b, 7200 * 1000);
	while (bench_wake(&b) < 1000)
		bench_sleep(&b, 1000);
	bench_quiet(&b);
	edge_agent_link(b.agent, false, b.now);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/eval/ready"), 1);
	bench_fini(&b);
}

/* A link without room takes nothing, and what was to be said is not taken as said. */
static void test_without_room_nothing_goes_out(void **state)
{
	bench b;
	(void)state;

	open_with_report(&b);
	bench_quiet(&b);
	edge_agent_room(b.agent, false);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(b.n_out, 0);
	assert_int_equal(bench_wake(&b), -1);
	edge_agent_room(b.agent, true);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/presence/" NODE), 1);
	assert_int_equal(bench_said(&b, "/eval/ready"), 1);
	bench_fini(&b);
}

/* Rules 1 and 2, for every position a document can show. */
static void test_settling(void **state)
{
	static const struct {
		enum stage stage;
		enum phase phase;
		int64_t round;
		bool settled;
	} rows[] = {
		{STAGE_EVAL, PHASE_WAITING, 1, false},
		{STAGE_TRAIN, PHASE_COMPLETED, 1, false},
		{STAGE_EVAL, PHASE_READY, 1, true},
		{STAGE_EVAL, PHASE_STARTING, 1, true},
		{STAGE_EVAL, PHASE_RUNNING, 1, true},
		{STAGE_EVAL, PHASE_COMPLETED, 1, true},
		{STAGE_EVAL, PHASE_FAILED, 1, true},
		{STAGE_DEPLOY, PHASE_WAITING, 1, true},
		{STAGE_TRAIN, PHASE_WAITING, 2, true},
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bench b;
		desired d = bench_desired(U1, rows[i].round, rows[i].stage, rows[i].phase);
		edge_counters seen;

		open_with_report(&b);
		bench_quiet(&b);
		d.roles = ROLE_TRAIN;
		bench_send(&b, &d);
		if (bench_row(&b, 1, STAGE_EVAL, REPORT_READY)->settled != rows[i].settled)
			fail_msg("row %zu", i);
		bench_sleep(&b, 3600 * 1000);
		assert_int_equal(bench_said(&b, "/eval/ready") == 0, rows[i].settled);
		edge_agent_counters(b.agent, &seen);
		assert_int_equal(seen.settled, rows[i].settled);
		assert_int_equal(seen.unsettled, !rows[i].settled);
		if (rows[i].settled)
			assert_int_equal(bench_wake(&b), -1);
		bench_fini(&b);
	}
}

static void test_documents_never_bring_a_report_forward(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_READY);
	int before;
	(void)state;

	open_with_report(&b);
	bench_sleep(&b, 7200 * 1000);
	before = bench_said(&b, "/eval/ready");
	for (int i = 0; i < 100; i++) {
		d.position.phase = i % 2 == 0 ? PHASE_READY : PHASE_WAITING;
		bench_send(&b, &d);
	}
	assert_true(bench_said(&b, "/eval/ready") <= before + 1);
	assert_false(bench_row(&b, 1, STAGE_EVAL, REPORT_READY)->settled);
	bench_sleep(&b, 600 * 1000);
	assert_true(bench_said(&b, "/eval/ready") > before);
	bench_fini(&b);
}

static void test_rows_of_old_rounds_go(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_TRAIN, PHASE_RUNNING);
	(void)state;

	open_with_report(&b);
	bench_send(&b, &d);
	assert_non_null(bench_row(&b, 1, STAGE_EVAL, REPORT_READY));
	d.position.round = 3;
	bench_send(&b, &d);
	assert_null(bench_row(&b, 1, STAGE_EVAL, REPORT_READY));
	bench_fini(&b);
}

/* The order is that of the commits, over all jobs, also after a restart. */
static void test_lowest_seq_first(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_WAITING);
	int64_t last = 0;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	for (int i = 4; i > 0; i--) {
		char name[16], uid[16];

		snprintf(name, sizeof(name), "job-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i);
		d.job.name = name;
		d.job.uid = uid;
		bench_send(&b, &d);
	}
	bench_quiet(&b);
	bench_restart(&b);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/eval/ready"), 4);
	for (size_t i = 0; i < b.n_out; i++) {
		report *rep;

		if (strstr(b.out[i].topic, "/eval/ready") == NULL)
			continue;
		assert_int_equal(report_decode(b.out[i].payload, strlen(b.out[i].payload), STAGE_EVAL, REPORT_READY, &rep, NULL), 0);
		assert_true(rep->seq > last);
		last = rep->seq;
		report_free(rep);
	}
	assert_int_equal(b.meta.seq, 4);
	bench_fini(&b);
}

static void test_presence(void **state)
{
	bench b;
	presence *p;
	const said *birth;
	char *to, *payload;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	birth = bench_last(&b, "/presence/" NODE);
	assert_true(birth->retained);
	assert_int_equal(presence_decode(birth->payload, strlen(birth->payload), &p, NULL), 0);
	assert_true(p->online);
	assert_string_equal(p->session, b.session);
	assert_string_equal(p->version, "1.0");
	assert_non_null(p->ts);
	presence_free(p);
	edge_agent_will(b.agent, &to, &payload);
	assert_string_equal(to, birth->topic);
	assert_int_equal(presence_decode(payload, strlen(payload), &p, NULL), 0);
	assert_int_equal(p->epoch, 0);
	assert_false(p->online);
	assert_string_equal(p->session, b.session);
	presence_free(p);
	free(to);
	free(payload);
	edge_agent_farewell(b.agent, &to, &payload);
	assert_int_equal(presence_decode(payload, strlen(payload), &p, NULL), 0);
	assert_false(p->online);
	presence_free(p);
	free(to);
	free(payload);
	edge_agent_link(b.agent, false, b.now);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/presence/" NODE), 2);
	bench_fini(&b);
}

/* The birth or its answer may be lost: without an answer the agent would never act on what it is told. */
static void test_birth_is_repeated_until_it_is_answered(void **state)
{
	bench b;
	int births;
	(void)state;

	bench_init(&b);
	b.linked = true;
	edge_agent_link(b.agent, true, b.now);
	bench_sleep(&b, 3600 * 1000);
	assert_in_range(bench_said(&b, "/presence/" NODE), 10, 40);
	assert_in_range(bench_wake(&b), 1, 600 * 1000);
	bench_inventory(&b, "another", NULL, NULL);
	bench_sleep(&b, 1200 * 1000);
	births = bench_said(&b, "/presence/" NODE);
	bench_inventory(&b, NULL, NULL, NULL);
	bench_sleep(&b, 86400 * 1000);
	assert_int_equal(bench_said(&b, "/presence/" NODE), births);
	assert_int_equal(bench_wake(&b), -1);
	bench_fini(&b);
}

/* Rule 16, when only the devices remember: the leader finds the highest epoch in a birth. */
static void test_birth_tells_the_highest_epoch(void **state)
{
	bench b;
	presence *p;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	assert_int_equal(presence_decode(bench_last(&b, "/presence/" NODE)->payload, strlen(bench_last(&b, "/presence/" NODE)->payload), &p,
						 NULL),
		0);
	assert_int_equal(p->epoch, 100);
	presence_free(p);
	bench_send_at(&b, &d, (stamp){200, 1});
	bench_turn(&b);
	bench_restart(&b);
	bench_inventory_at(&b, (stamp){150, 1}, b.session, U1);
	bench_sleep(&b, 3000);
	assert_int_equal(presence_decode(bench_last(&b, "/presence/" NODE)->payload, strlen(bench_last(&b, "/presence/" NODE)->payload), &p,
						 NULL),
		0);
	assert_int_equal(p->epoch, 200);
	presence_free(p);
	bench_fini(&b);
}

static void test_an_idle_agent_does_nothing(void **state)
{
	bench b;
	int commits, steps;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	for (int i = 0; i < 10; i++) {
		char name[16], uid[16];
		desired d;

		snprintf(name, sizeof(name), "job-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i);
		d = bench_desired(uid, 1, STAGE_TRAIN, PHASE_WAITING);
		d.job.name = name;
		bench_send(&b, &d);
	}
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_sleep(&b, 60000);
	commits = b.commits;
	steps = b.steps;
	assert_int_equal(bench_wake(&b), -1);
	bench_sleep(&b, INT64_C(30) * 86400 * 1000);
	bench_view(&b);
	bench_turn(&b);
	assert_int_equal(b.commits, commits);
	assert_int_equal(b.steps, steps);
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff_doubles_with_jitter_to_its_maximum),
		cmocka_unit_test(test_repeats_come_in_steps),
		cmocka_unit_test(test_offline_nothing_goes_out_and_a_new_link_sends_all),
		cmocka_unit_test(test_without_room_nothing_goes_out),
		cmocka_unit_test(test_settling),
		cmocka_unit_test(test_documents_never_bring_a_report_forward),
		cmocka_unit_test(test_rows_of_old_rounds_go),
		cmocka_unit_test(test_lowest_seq_first),
		cmocka_unit_test(test_presence),
		cmocka_unit_test(test_birth_tells_the_highest_epoch),
		cmocka_unit_test(test_birth_is_repeated_until_it_is_answered),
		cmocka_unit_test(test_an_idle_agent_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
