/* Whole rounds, through the public API alone. */
#include "tests/unit/cloud_harness.h"

static void test_first_sight(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	harness_start(h);
	assert_true(harness_run(h));
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	assert_non_null(json_member(json_member(harness_object(h, OBJECT_JOB, "j"), "status"), "startTime"));
	desired *d = harness_desired(h, "edge-1", "j");
	assert_non_null(d);
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY);
	assert_true(d->has_base);
	assert_string_equal(d->base.url, "/models/initial.ckpt");
	assert_string_equal(d->output_dir, "/out");
	assert_string_equal(d->dataset.url, "/data/d.txt");
	assert_false(d->has_trained);
	desired_free(d);
	inventory *inv = harness_inventory(h, "edge-1");
	assert_int_equal(inv->n_jobs, 1);
	assert_int_equal(inv->n_datasets, 1);
	inventory_free(inv);
	harness_free(h);
}

static void test_round(void **state)
{
	(void)state;
	harness *h = harness_new();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	harness_add_world(h, "edge-1");
	harness_start(h);
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->deployed_round, 1);
	assert_true(d->has_deployed_sha256);
	assert_int_equal(d->trained_round, 1);
	assert_int_equal(d->cursor.sample, 10);
	assert_string_equal(d->base.url, "/out/train/1/ckpt");
	desired_free(d);
	assert_true(harness_has_pod(h, "j", WORKER_INFERENCE, 1));
	assert_false(harness_has_pod(h, "j", WORKER_INFERENCE, 0));
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_sight),
		cmocka_unit_test(test_round),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
