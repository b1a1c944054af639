/* Rollback on the deploy node: what the document names is put in place and kept apart from everything else that the round may have been about. */
#include "tests/unit/edge_harness.h"

#include <cjson/cJSON.h>

static const char version_url[] = "/out/deployed/3/served.pb";

/* Round 7; rolled back to the version of round 3, or (of < 0) an ordinary deployment. */
static desired deployment(enum phase phase, int64_t of)
{
	static model results[2];
	static deploy_copy back;
	desired d = bench_desired(U1, 7, STAGE_DEPLOY, phase);

	if (of < 0) {
		results[0] = (model){.format = "pb", .url = "/out/train/new.pb", .metrics = NULL};
		d.eval_results = results;
		d.n_eval_results = 1;
		return d;
	}
	d.has_rollback = true;
	d.rollback_round = of;
	digest_of("model", 5, &d.rollback_sha256);
	back = (deploy_copy){.from = {.format = "pb", .url = version_url}, .to = d.copies[0].to};
	d.copies = &back;
	d.n_copies = 1;
	return d;
}

static void open_bench(bench *b)
{
	bench_init(b);
	bench_ready(b);
}

static void test_the_version_is_put_in_place(void **state)
{
	bench b;
	desired d = deployment(PHASE_READY, 3);
	report *rep;
	(void)state;

	open_bench(&b);
	bench_send(&b, &d);
	assert_int_equal(b.copies, 1);
	assert_string_equal(b.in_place, version_url);
	assert_true(b.back && b.of == 3 && digest_equal(&b.of_sha256, &d.rollback_sha256));
	rep = bench_report(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN);
	assert_true(rep->has_sha256 && rep->has_versions);
	report_free(rep);
	assert_int_equal(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN)->from, 3);
	bench_send(&b, &d);
	bench_restart(&b);
	bench_inventory(&b, NULL, U1, NULL);
	bench_send(&b, &d);
	assert_int_equal(b.copies, 1); /* once, whatever comes again */
	d.position.phase = PHASE_STARTING;
	bench_send(&b, &d);
	assert_non_null(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN));
	bench_fini(&b);
}

/* The samples that this round had taken wait again, as those of a failed round. */
static void test_samples_of_the_round_go_back(void **state)
{
	bench b;
	desired d = bench_desired(U1, 7, STAGE_TRAIN, PHASE_WAITING), back = deployment(PHASE_READY, 3);
	report *rep;
	sample_range first;
	(void)state;

	open_bench(&b);
	bench_append(&b, 5);
	bench_send(&b, &d);
	bench_sleep(&b, 60000);
	rep = bench_report(&b, 7, STAGE_TRAIN, REPORT_READY);
	first = rep->range;
	report_free(rep);
	bench_send(&b, &back);
	assert_false(bench_job(&b, U1)->has_alloc);
	d.position.round = 8;
	bench_send(&b, &d);
	bench_sleep(&b, 60000);
	rep = bench_report(&b, 8, STAGE_TRAIN, REPORT_READY);
	assert_true(rep->range.from == first.from && rep->range.to == first.to);
	report_free(rep);
	bench_fini(&b);
}

static void test_what_cannot_be_gone_back_to_fails(void **state)
{
	static const struct {
		int code;
		const char *reason;
	} rows[] = {{ERROR_NOT_FOUND, "VersionMissing"}, {ERROR_CHANGED, "VersionDamaged"}};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bench b;
		desired d = deployment(PHASE_READY, 3);
		report *rep;

		open_bench(&b);
		b.fail_code[EDGE_DEPLOY] = rows[i].code;
		b.fail_count[EDGE_DEPLOY] = 1000;
		bench_send(&b, &d);
		bench_sleep(&b, 3600 * 1000);
		rep = bench_report(&b, 7, STAGE_DEPLOY, REPORT_FAILED);
		assert_string_equal(rep->reason, rows[i].reason);
		report_free(rep);
		assert_int_equal(b.asked[EDGE_DEPLOY], 1);
		bench_fini(&b);
	}
}

/* What came wrong over the network, or was read back wrong, is another matter. */
static void test_a_copy_gone_wrong_is_made_again(void **state)
{
	bench b;
	desired d = deployment(PHASE_READY, 3);
	(void)state;

	open_bench(&b);
	b.fail_code[EDGE_DEPLOY] = ERROR_CORRUPT;
	b.fail_count[EDGE_DEPLOY] = 3;
	bench_send(&b, &d);
	bench_sleep(&b, 3600 * 1000);
	assert_int_equal(b.asked[EDGE_DEPLOY], 4);
	assert_non_null(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN));
	bench_fini(&b);
}

/* ---- a cluster that was set back goes another way ---- */

static void test_another_way_after_the_cluster_was_set_back(void **state)
{
	static const int64_t ways[][2] = {{-1, 3}, {3, 2}, {3, -1}};
	(void)state;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		bench b;
		desired first = deployment(PHASE_READY, ways[i][0]), before = deployment(PHASE_WAITING, -1);
		desired second;

		open_bench(&b);
		bench_send(&b, &first);
		assert_int_equal(b.copies, 1);
		bench_send(&b, &before);
		second = deployment(PHASE_READY, ways[i][1]);
		bench_send(&b, &second);
		assert_int_equal(b.copies, 2);
		assert_int_equal(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN)->from, ways[i][1]);
		bench_fini(&b);
	}
}

/* The user's way is no answer of the trigger. */
static void test_a_rollback_that_never_was_decides_nothing(void **state)
{
	bench b;
	desired back = deployment(PHASE_READY, 3), before = deployment(PHASE_WAITING, -1);
	report *rep;
	(void)state;

	open_bench(&b);
	bench_send(&b, &back);
	assert_non_null(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN));
	bench_send(&b, &before); /* with one result: nothing to compare */
	assert_null(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN));
	rep = bench_report(&b, 7, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_string_equal(rep->reason, "NotBetter");
	report_free(rep);
	bench_fini(&b);
}

/* What is being copied when the document changes its mind is not what it then asks for. */
static void test_a_copy_under_way_is_of_what_was_asked_for(void **state)
{
	bench b;
	desired first = deployment(PHASE_READY, -1), second;
	(void)state;

	open_bench(&b);
	b.hold[EDGE_DEPLOY] = true;
	bench_send(&b, &first);
	assert_int_equal(b.n_held, 1);
	second = deployment(PHASE_READY, 3);
	bench_send(&b, &second);
	b.hold[EDGE_DEPLOY] = false;
	bench_end_held(&b, 0, 0);
	bench_turn(&b);
	assert_int_equal(b.copies, 2);
	assert_true(b.back);
	assert_int_equal(bench_row(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN)->from, 3);
	bench_fini(&b);
}

/* ---- what is kept ---- */

static void test_versions_are_told_newest_first_and_bounded(void **state)
{
	bench b;
	desired d = deployment(PHASE_READY, -1);
	report *rep;
	(void)state;

	open_bench(&b);
	b.n_versions = 20;
	for (size_t i = 0; i < 20; i++) {
		b.versions[i] = (edge_version){.round = 19 - (int64_t)i, .name = "m.pb"};
		digest_of(&i, sizeof i, &b.versions[i].sha256);
	}
	bench_send(&b, &d);
	rep = bench_report(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN);
	assert_int_equal(rep->n_versions, DOCUMENT_MAX_VERSIONS);
	assert_int_equal(rep->versions[0].round, 19);
	assert_int_equal(rep->versions[14].round, 5);
	assert_int_equal(rep->versions[15].round, 0); /* what was there first is worth more than round 4 */
	assert_string_equal(rep->versions[15].url, "/out/deployed/0/m.pb");
	assert_true(digest_equal(&rep->versions[15].sha256, &b.versions[19].sha256));
	report_free(rep);
	bench_fini(&b);
}

/* What no document can hold is left out: else nobody would take the report. */
static void test_versions_that_cannot_be_told(void **state)
{
	static char longest[TEXT_MAX_URL + 1];
	bench b;
	desired d = deployment(PHASE_READY, -1);
	report *rep;
	(void)state;

	memset(longest, 'x', sizeof longest - 1);
	open_bench(&b);
	b.n_versions = 3;
	b.versions[0] = (edge_version){.round = 7, .name = "a\nb"};
	b.versions[1] = (edge_version){.round = 6, .name = longest};
	b.versions[2] = (edge_version){.round = 0, .name = "m.pb"};
	bench_send(&b, &d);
	rep = bench_report(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN);
	assert_true(rep->has_versions && rep->n_versions == 1 && rep->versions[0].round == 0);
	report_free(rep);
	bench_fini(&b);
}

static void test_the_end_says_what_written_said(void **state)
{
	bench b;
	desired d = deployment(PHASE_READY, 3);
	report *written, *completed;
	char name[WORKER_NAME_SIZE];
	(void)state;

	open_bench(&b);
	d.hot_update = true;
	b.n_versions = 1;
	b.versions[0] = (edge_version){.round = 7, .name = "m.pb"};
	bench_send(&b, &d);
	bench_worker(WORKER_INFERENCE, U1, 5, name);
	bench_post(&b, POST_DEPLOY, POST_COMPLETED, name);
	bench_turn(&b);
	written = bench_report(&b, 7, STAGE_DEPLOY, REPORT_WRITTEN);
	completed = bench_report(&b, 7, STAGE_DEPLOY, REPORT_COMPLETED);
	assert_true(completed->has_sha256 && digest_equal(&completed->sha256, &written->sha256));
	assert_true(completed->n_versions == 1 && completed->versions[0].round == 7);
	assert_int_equal(bench_row(&b, 7, STAGE_DEPLOY, REPORT_COMPLETED)->from, 3);
	report_free(written);
	report_free(completed);
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_version_is_put_in_place),
		cmocka_unit_test(test_samples_of_the_round_go_back),
		cmocka_unit_test(test_what_cannot_be_gone_back_to_fails),
		cmocka_unit_test(test_a_copy_gone_wrong_is_made_again),
		cmocka_unit_test(test_another_way_after_the_cluster_was_set_back),
		cmocka_unit_test(test_a_rollback_that_never_was_decides_nothing),
		cmocka_unit_test(test_a_copy_under_way_is_of_what_was_asked_for),
		cmocka_unit_test(test_versions_are_told_newest_first_and_bounded),
		cmocka_unit_test(test_versions_that_cannot_be_told),
		cmocka_unit_test(test_the_end_says_what_written_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
