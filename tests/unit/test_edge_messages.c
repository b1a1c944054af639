/* Which documents and inventories are believed: rules 10, 11, 13 and 15, bounds, and bad input. */
#include "tests/unit/edge_harness.h"

static bool holds(const bench *b, const char *uid)
{
	assert_int_equal(edge_agent_record(b->agent, uid) != NULL, bench_job(b, uid) != NULL);
	return bench_job(b, uid) != NULL;
}

static void test_a_new_store_takes_nothing_before_its_birth_was_answered(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_DEPLOY, PHASE_READY);
	(void)state;

	bench_init(&b);
	b.linked = true;
	edge_agent_link(b.agent, true, b.now);
	bench_inventory(&b, "session-of-another-life", U1, NULL);
	bench_send(&b, &d);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	assert_false(holds(&b, U1));
	assert_int_equal(b.n_datasets, 0);
	assert_int_equal(b.asked[EDGE_DEPLOY], 0);
	assert_false(edge_agent_in_session(b.agent));
	assert_false(b.meta.confirmed);
	/* J was deleted: the answer does not list it, and what is retained of it is refused. */
	bench_inventory(&b, NULL, U2, NULL);
	bench_send_at(&b, &d, (stamp){100, 2});
	bench_turn(&b);
	assert_false(holds(&b, U1));
	assert_true(b.meta.confirmed);
	assert_true(edge_agent_in_session(b.agent));
	/* J was not: it goes on. */
	bench_inventory(&b, NULL, U1, NULL);
	bench_send_at(&b, &d, (stamp){100, 2});
	bench_turn(&b);
	assert_true(holds(&b, U1));
	assert_int_equal(b.asked[EDGE_DEPLOY], 0); /* held, but not of this session */
	bench_send(&b, &d);
	assert_int_equal(b.asked[EDGE_DEPLOY], 1);
	bench_fini(&b);
}

/* Answer and documents in one turn: one commit. */
static void test_one_turn_one_commit(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	b.linked = true;
	edge_agent_link(b.agent, true, b.now);
	bench_inventory(&b, NULL, U1, NULL);
	bench_send_at(&b, &d, bench_stamp(&b));
	d.position.phase = PHASE_COMPLETED;
	bench_send_at(&b, &d, bench_stamp(&b));
	d.job.uid = U2;
	d.job.name = "job2";
	bench_send(&b, &d);
	assert_int_equal(b.commits, 1);
	assert_true(holds(&b, U1) && holds(&b, U2));
	assert_int_equal(bench_job(&b, U1)->desired->position.phase, PHASE_COMPLETED);
	/* An unconfirmed store that loses this commit has accepted nothing. */
	bench_fini(&b);
	bench_init(&b);
	b.hold[EDGE_COMMIT] = true;
	bench_inventory(&b, NULL, U1, NULL);
	bench_send(&b, &d);
	bench_restart(&b);
	assert_false(edge_agent_in_session(b.agent));
	assert_null(edge_agent_record(b.agent, U1));
	bench_fini(&b);
}

static void test_older_and_equal_stamps(void **state)
{
	bench b;
	desired d = bench_desired(U1, 2, STAGE_EVAL, PHASE_RUNNING);
	int commits;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d, (stamp){100, 50});
	bench_turn(&b);
	commits = b.commits;
	d.position.round = 1;
	bench_send_at(&b, &d, (stamp){100, 50});
	bench_send_at(&b, &d, (stamp){100, 49});
	bench_send_at(&b, &d, (stamp){99, 1000});
	bench_turn(&b);
	assert_int_equal(b.commits, commits);
	assert_int_equal(bench_job(&b, U1)->desired->position.round, 2);
	/* A newer one may go back: the cluster was restored. */
	bench_send_at(&b, &d, (stamp){101, 1});
	bench_turn(&b);
	assert_int_equal(bench_job(&b, U1)->desired->position.round, 1);
	bench_fini(&b);
}

static void test_inventory_removes_what_is_older_and_not_listed(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d, (stamp){100, 50});
	bench_inventory_at(&b, (stamp){100, 49}, NULL, NULL); /* older than the document */
	bench_turn(&b);
	assert_true(holds(&b, U1));
	bench_inventory_at(&b, (stamp){100, 51}, NULL, U1);
	bench_turn(&b);
	assert_true(holds(&b, U1));
	bench_inventory_at(&b, (stamp){100, 52}, NULL, NULL);
	bench_turn(&b);
	assert_false(holds(&b, U1));
	/* It stays gone: not listed, and its document is older; an inventory that was overtaken does not bring it back. */
	bench_inventory_at(&b, (stamp){100, 48}, NULL, U1);
	bench_send_at(&b, &d, (stamp){100, 51});
	bench_turn(&b);
	assert_false(holds(&b, U1));
	bench_send_at(&b, &d, (stamp){100, 53});
	bench_turn(&b);
	assert_true(holds(&b, U1));
	bench_fini(&b);
}

/* Trace 6, both orders. */
static void test_job_made_again(void **state)
{
	bench b;
	desired d1 = bench_desired(U1, 5, STAGE_EVAL, PHASE_RUNNING), d2 = bench_desired(U2, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d1, (stamp){100, 10});
	bench_turn(&b);
	bench_send_at(&b, &d2, (stamp){100, 12}); /* replaces u1 in one commit */
	bench_turn(&b);
	assert_true(holds(&b, U2) && !holds(&b, U1));
	bench_inventory_at(&b, (stamp){100, 11}, NULL, U1);
	bench_turn(&b);
	assert_true(holds(&b, U2) && !holds(&b, U1));
	bench_send_at(&b, &d1, (stamp){100, 11}); /* late */
	bench_turn(&b);
	assert_true(holds(&b, U2) && !holds(&b, U1));
	bench_inventory_at(&b, (stamp){100, 13}, NULL, U2);
	bench_turn(&b);
	assert_true(holds(&b, U2));
	bench_fini(&b);

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d1, (stamp){100, 10});
	bench_inventory_at(&b, (stamp){100, 11}, NULL, U1);
	bench_send_at(&b, &d2, (stamp){100, 12});
	bench_turn(&b);
	assert_true(holds(&b, U2) && !holds(&b, U1));
	bench_fini(&b);
}

/* A drop that is not committed yet, and what may come meanwhile. */
static void test_drop_and_return_around_a_commit(void **state)
{
	(void)state;
	for (int under_way = 0; under_way < 2; under_way++) {
		for (int fails = 0; fails < 2; fails++) {
			bench b;
			desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);

			bench_init(&b);
			bench_ready(&b);
			bench_send_at(&b, &d, (stamp){100, 10});
			bench_turn(&b);
			b.hold[EDGE_COMMIT] = true;
			bench_inventory_at(&b, (stamp){100, 20}, NULL, NULL);
			if (under_way)
				bench_turn(&b);
			bench_send_at(&b, &d, (stamp){100, 15}); /* older than what removed it */
			bench_turn(&b);
			d.position.round = 2;
			bench_send_at(&b, &d, (stamp){100, 21});
			bench_turn(&b);
			b.hold[EDGE_COMMIT] = false;
			bench_end_held(&b, 0, fails ? ERROR_IO : 0);
			bench_sleep(&b, 2000);
			assert_true(holds(&b, U1));
			assert_int_equal(bench_job(&b, U1)->desired->position.round, 2);
			assert_int_equal(edge_agent_record(b.agent, U1)->desired->position.round, 2);
			bench_fini(&b);
		}
	}
}

/* Both in one turn, the drop not stored yet: as if the document had come first, so nothing of the job is lost. */
static void test_return_before_the_drop_is_stored_keeps_the_rows(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_WAITING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d, (stamp){100, 10});
	bench_turn(&b);
	bench_inventory_at(&b, (stamp){100, 20}, NULL, NULL);
	bench_send_at(&b, &d, (stamp){100, 21});
	bench_turn(&b);
	assert_true(holds(&b, U1));
	assert_int_equal(bench_row(&b, 1, STAGE_EVAL, REPORT_READY)->seq, 1);
	bench_fini(&b);
}

static void test_late_document_does_not_save_a_job_that_is_being_dropped(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send_at(&b, &d, (stamp){100, 10});
	bench_turn(&b);
	bench_inventory_at(&b, (stamp){100, 20}, NULL, NULL);
	bench_send_at(&b, &d, (stamp){100, 15});
	bench_turn(&b);
	assert_false(holds(&b, U1));
	bench_fini(&b);
}

static void test_first_commit_of_a_job_and_its_end(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	/* Gone before it was ever stored. */
	bench_send_at(&b, &d, (stamp){100, 10});
	bench_inventory_at(&b, (stamp){100, 11}, NULL, NULL);
	bench_turn(&b);
	assert_false(holds(&b, U1));
	/* Gone while it is being stored. */
	b.hold[EDGE_COMMIT] = true;
	bench_send_at(&b, &d, (stamp){100, 12});
	bench_turn(&b);
	bench_inventory_at(&b, (stamp){100, 13}, NULL, NULL);
	bench_turn(&b);
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, b.n_held - 1, 0);
	bench_turn(&b);
	assert_false(holds(&b, U1));
	bench_fini(&b);
}

static void test_empty_payload_is_no_news(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send(&b, &d);
	assert_int_equal(bench_message(&b, TOPIC_ROOT "/node/" NODE "/inventory", ""), 0);
	assert_int_equal(bench_message(&b, TOPIC_ROOT "/node/" NODE "/job/ns/job", ""), 0);
	assert_int_equal(bench_message(&b, TOPIC_ROOT "/node/" NODE "/dataset/ns/ds", ""), 0);
	bench_turn(&b);
	assert_true(holds(&b, U1));
	bench_fini(&b);
}

static void test_bad_messages_are_counted_and_change_nothing(void **state)
{
	static const struct {
		const char *to, *payload;
	} rows[] = {
		{TOPIC_ROOT "/node/" NODE "/job/ns/job", "not json"},
		{TOPIC_ROOT "/node/" NODE "/job/ns/job", "{\"v\":2}"},
		{TOPIC_ROOT "/node/" NODE "/inventory", "[]"},
		{TOPIC_ROOT "/node/" NODE "/dataset/ns/ds", "{}"},
		{TOPIC_ROOT "/node/edge-2/inventory", "{}"},
		{TOPIC_ROOT "/node/" NODE "/credential/x", "{}"},
		{TOPIC_ROOT "/ns/ns/job/job/state", "{}"},
		{TOPIC_ROOT "/presence/edge-2", "{}"},
		{"elsewhere", "{}"},
		{"", "{}"},
	};
	bench b;
	edge_counters seen;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	char *text;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(bench_message(&b, rows[i].to, rows[i].payload) < 0);
	/* A good document under the topic of another job, and one for another node. */
	d.stamp = bench_stamp(&b);
	text = desired_encode(&d);
	assert_true(bench_message(&b, TOPIC_ROOT "/node/" NODE "/job/ns/other", text) < 0);
	free(text);
	d.node = "edge-2";
	text = desired_encode(&d);
	assert_true(bench_message(&b, TOPIC_ROOT "/node/" NODE "/job/ns/job", text) < 0);
	free(text);
	bench_turn(&b);
	edge_agent_counters(b.agent, &seen);
	assert_int_equal(seen.messages_refused, (int)(sizeof(rows) / sizeof(rows[0])) + 2);
	assert_int_equal(seen.jobs, 0);
	bench_fini(&b);
}

static void few(edge_config *c)
{
	c->jobs_max = 2;
	c->datasets_max = 1;
}

static void test_bounds(void **state)
{
	bench b;
	edge_counters seen;
	(void)state;

	bench_init_with(&b, few);
	bench_ready(&b);
	for (int i = 0; i < 4; i++) {
		char name[32], uid[32];
		desired d;

		snprintf(name, sizeof(name), "job-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i);
		d = bench_desired(uid, 1, STAGE_EVAL, PHASE_RUNNING);
		d.job.name = name;
		bench_send(&b, &d);
		bench_send(&b, &d);
	}
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_dataset_doc(&b, "ds-2", "ds2", URL);
	edge_agent_counters(b.agent, &seen);
	assert_int_equal(seen.jobs, 2);
	assert_int_equal(seen.datasets, 1);
	assert_int_equal(seen.messages_refused, 5);
	assert_int_equal(b.n_jobs, 2);
	bench_fini(&b);
}

/* Many jobs that all have files to look at: few at a time, and all of them in the end. */
static void test_file_actions_at_a_time(void **state)
{
	bench b;
	size_t ended = 0;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_append(&b, 3);
	b.hold[EDGE_LOCATE] = true;
	for (int i = 0; i < 40; i++) {
		char name[32], uid[32], out[32];
		desired d;

		snprintf(name, sizeof(name), "job-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i);
		snprintf(out, sizeof(out), "/out/%d", i);
		d = bench_desired(uid, 1, STAGE_TRAIN, PHASE_WAITING);
		d.job.name = name;
		d.output_dir = out;
		bench_send(&b, &d);
	}
	bench_sleep(&b, 60 * 1000);
	assert_int_equal(b.n_held, 16);
	while (ended < b.n_held) {
		bench_end_held(&b, ended++, 0);
		bench_turn(&b);
		assert_true(b.n_held - ended <= 16);
	}
	assert_int_equal(ended, 40);
	bench_fini(&b);
}

static void test_datasets_follow_the_same_rules(void **state)
{
	bench b;
	const char *url;
	enum dataset_format format;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	assert_int_equal(b.n_datasets, 1);
	assert_true(edge_agent_watch(b.agent, 0, &url, &format));
	assert_string_equal(url, URL);
	assert_false(edge_agent_watch(b.agent, 1, &url, &format));
	bench_dataset_doc(&b, "ds-9", "ds", "/data/other.txt"); /* made again */
	assert_int_equal(b.n_datasets, 1);
	assert_string_equal(b.dataset_uids[0], "ds-9");
	assert_true(edge_agent_watch(b.agent, 0, &url, &format));
	assert_string_equal(url, "/data/other.txt");
	bench_restart(&b);
	assert_true(edge_agent_watch(b.agent, 0, &url, &format));
	bench_inventory(&b, NULL, U1, NULL); /* lists ds-1 */
	bench_turn(&b);
	assert_int_equal(b.n_datasets, 0);
	assert_false(edge_agent_watch(b.agent, 0, &url, &format));
	/* A commit that fails leaves the newest document to be stored. */
	b.fail_code[EDGE_COMMIT] = ERROR_IO;
	b.fail_count[EDGE_COMMIT] = 1;
	bench_dataset_doc(&b, "ds-2", "ds2", URL);
	assert_int_equal(b.n_datasets, 0);
	bench_sleep(&b, 2000);
	assert_int_equal(b.n_datasets, 1);
	bench_inventory(&b, NULL, U1, NULL);
	bench_turn(&b);
	assert_int_equal(b.n_datasets, 0);
	b.hold[EDGE_COMMIT] = true;
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_dataset_doc(&b, "ds-1", "ds", "/data/newer.txt");
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, b.n_held - 1, ERROR_IO);
	bench_sleep(&b, 2000);
	assert_int_equal(b.n_datasets, 1);
	assert_true(edge_agent_watch(b.agent, 0, &url, &format));
	assert_string_equal(url, "/data/newer.txt");
	bench_fini(&b);
}

static void test_restart_keeps_the_inventory(void **state)
{
	bench b;
	desired d = bench_desired(U1, 1, STAGE_EVAL, PHASE_RUNNING);
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_inventory_at(&b, (stamp){100, 40}, NULL, NULL);
	bench_turn(&b);
	bench_restart(&b);
	assert_false(edge_agent_in_session(b.agent));
	bench_send_at(&b, &d, (stamp){100, 39});
	bench_turn(&b);
	assert_false(holds(&b, U1));
	bench_send_at(&b, &d, (stamp){100, 41});
	bench_turn(&b);
	assert_true(holds(&b, U1));
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_store_takes_nothing_before_its_birth_was_answered),
		cmocka_unit_test(test_one_turn_one_commit),
		cmocka_unit_test(test_older_and_equal_stamps),
		cmocka_unit_test(test_inventory_removes_what_is_older_and_not_listed),
		cmocka_unit_test(test_job_made_again),
		cmocka_unit_test(test_drop_and_return_around_a_commit),
		cmocka_unit_test(test_return_before_the_drop_is_stored_keeps_the_rows),
		cmocka_unit_test(test_late_document_does_not_save_a_job_that_is_being_dropped),
		cmocka_unit_test(test_first_commit_of_a_job_and_its_end),
		cmocka_unit_test(test_empty_payload_is_no_news),
		cmocka_unit_test(test_bad_messages_are_counted_and_change_nothing),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_file_actions_at_a_time),
		cmocka_unit_test(test_datasets_follow_the_same_rules),
		cmocka_unit_test(test_restart_keeps_the_inventory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
