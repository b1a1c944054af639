/* Deployed versions: what is told of each, which are listed, and going back to one of them. */
#include "tests/unit/deploy_kit.h"

/* ---- what is told of versions ---- */

static void versions_tell_what_they_are(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	cJSON *metrics = cJSON_Parse("{\"precision\":[0.9,0.8]}");
	deploy_version *all;
	size_t n;
	digest d;
	serve(f, "old");
	train(f, "new");
	deploy_plan plan = plan_of(f, 4);
	plan.uid = "u-1";
	plan.format = "pb";
	plan.metrics = metrics;
	model_info info;
	assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	version v = told_of(f, 4);
	assert_string_equal(v.uid, "u-1");
	assert_string_equal(v.name, "new.pb");
	assert_string_equal(v.format, "pb");
	assert_true(digest_equal(&v.sha256, &info.sha256) && v.bytes == 3 && v.of == -1 && !v.folder);
	assert_true(cJSON_Compare(v.metrics, metrics, true));
	version_fini(&v);
	v = told_of(f, 0);
	digest_of("old", 3, &d);
	assert_string_equal(v.name, "model.pb");
	assert_true(digest_equal(&v.sha256, &d) && v.bytes == 3 && v.format == NULL && v.metrics == NULL);
	version_fini(&v);
	assert_int_equal(deploy_versions(f->out, NULL, &all, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_true(all[0].round == 4 && all[1].round == 0 && digest_equal(&all[1].sha256, &d));
	assert_string_equal(all[0].name, "new.pb");
	deploy_versions_free(all, n);
	cJSON_Delete(metrics);
	free_fixture(f);
}

/* A version 0 without a model, one of before there was such a file, and one with another: nothing that a rollback could go back to. */
static void versions_that_tell_nothing_are_not_listed(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	deploy_version *all;
	size_t n;
	char *old = mem_printf("%s/deployed/2/x", f->out), *other = mem_printf("%s/deployed/3/" VERSION_FILE, f->out);
	assert_int_equal(deploy_versions(f->out, NULL, &all, &n, NULL), 0);
	assert_int_equal(n, 0);
	train(f, "new");
	deploy(f, 5);
	put(old, "2");
	put(other, "{\"v\":1,\"round\":3,\"model\":{\"name\":\"../x\",\"sha256\":\"\",\"bytes\":1}}");
	version v = told_of(f, 0);
	assert_null(v.name);
	version_fini(&v);
	assert_int_equal(deploy_versions(f->out, NULL, &all, &n, NULL), 0);
	assert_true(n == 1 && all[0].round == 5);
	deploy_versions_free(all, n);
	free(old);
	free(other);
	free_fixture(f);
}

/* A job that was made again under its name has its folder, and its own rounds. */
static void versions_of_an_earlier_job(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	deploy_version *all;
	size_t n;
	serve(f, "old");
	for (int round = 1; round <= 9; round++) {
		char text[16];
		int of_job = round <= 6 ? round : round - 6;
		snprintf(text, sizeof text, "m%d", round);
		train(f, text);
		deploy_plan plan = plan_of(f, of_job);
		model_info info;
		plan.uid = round <= 6 ? "u-1" : "u-2";
		assert_int_equal(deploy_run(&plan, &info, NULL), 0);
		if (round == 7)
			assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n1/\n1/new.pb=m7\n5/\n5/new.pb=m5\n6/\n6/new.pb=m6\n");
	}
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n1/\n1/new.pb=m7\n2/\n2/new.pb=m8\n3/\n3/new.pb=m9\n");
	assert_int_equal(deploy_versions(f->out, "u-2", &all, &n, NULL), 0);
	assert_true(n == 4 && all[0].round == 3 && all[3].round == 0);
	deploy_versions_free(all, n);
	assert_int_equal(deploy_versions(f->out, "u-3", &all, &n, NULL), 0);
	assert_true(n == 1 && all[0].round == 0);
	deploy_versions_free(all, n);
	free_fixture(f);
}

static void a_model_may_be_called_like_the_file(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	char *from = mem_printf("%s/train/" VERSION_FILE, f->folder);
	serve(f, "old");
	train(f, "new");
	put(from, "{}");
	f->steps[0].from = from;
	deploy(f, 1);
	version v = told_of(f, 1);
	assert_string_equal(v.name, VERSION_FILE ".model");
	version_fini(&v);
	assert_tree(f->folder, "out/deployed/1", VERSION_FILE ".model={}\n");
	assert_tree(f->folder, "serve", "model.pb={}\n");
	free(from);
	free_fixture(f);
}

/* ---- rollback ---- */

static void a_rollback_keeps_what_it_goes_back_to(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	cJSON *metrics = cJSON_CreateNumber(0.5);
	for (int round = 1; round <= 3; round++) {
		char text[16];
		snprintf(text, sizeof text, "m%d", round);
		train(f, text);
		deploy_plan plan = plan_of(f, round);
		model_info info;
		plan.format = "pb";
		plan.metrics = round == 1 ? metrics : NULL;
		assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	}
	rollback r = back_to(f, 1, "new.pb", "m1");
	f->steps[0].from = r.from;
	deploy_plan plan = plan_of(f, 7);
	model_info info;
	plan.format = "of round 7";
	plan.back = &r.back;
	for (int i = 0; i < 2; i++) { /* and again, as after a crash */
		assert_int_equal(deploy_run(&plan, &info, NULL), 0);
		assert_true(digest_equal(&info.sha256, &r.back.sha256));
		assert_tree(f->folder, "serve", "model.pb=m1\n");
		assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n1/\n1/new.pb=m1\n2/\n2/new.pb=m2\n3/\n3/new.pb=m3\n7/\n7/new.pb=m1\n");
	}
	version v = told_of(f, 7);
	assert_int_equal(v.of, 1);
	assert_string_equal(v.format, "pb");
	assert_true(cJSON_Compare(v.metrics, metrics, true));
	version_fini(&v);
	/* With the next deployment the oldest go as ever. */
	train(f, "m8");
	f->steps[0].from = f->from;
	deploy(f, 8);
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n3/\n3/new.pb=m3\n7/\n7/new.pb=m1\n8/\n8/new.pb=m8\n");
	cJSON_Delete(metrics);
	free(r.from);
	free_fixture(f);
}

static void a_rollback_to_what_was_there_first(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "m1");
	deploy(f, 1);
	rollback r = back_to(f, 0, "model.pb", "old");
	f->steps[0].from = r.from;
	deploy_plan plan = plan_of(f, 2);
	model_info info;
	plan.back = &r.back;
	assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	assert_tree(f->folder, "serve", "model.pb=old\n");
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n1/\n1/new.pb=m1\n2/\n2/model.pb=old\n");
	free(r.from);
	free_fixture(f);
}

static void a_rollback_to_something_else_touches_nothing(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	error err = {0};
	serve(f, "old");
	train(f, "m1");
	deploy(f, 1);
	train(f, "m2");
	deploy(f, 2);
	rollback r = back_to(f, 1, "new.pb", "m1");
	f->steps[0].from = r.from;
	put(r.from, "m?");
	deploy_plan plan = plan_of(f, 3);
	model_info info;
	plan.back = &r.back;
	assert_int_equal(deploy_run(&plan, &info, &err), ERROR_CHANGED);
	assert_non_null(strstr(err.text, "version 1 is not what was deployed"));
	assert_int_equal(unlink(r.from), 0);
	assert_int_equal(deploy_run(&plan, &info, &err), ERROR_NOT_FOUND);
	assert_tree(f->folder, "serve", "model.pb=m2\n");
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n1/\n2/\n2/new.pb=m2\n");
	free(r.from);
	free_fixture(f);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_tell_what_they_are),
		cmocka_unit_test(versions_that_tell_nothing_are_not_listed),
		cmocka_unit_test(versions_of_an_earlier_job),
		cmocka_unit_test(a_model_may_be_called_like_the_file),
		cmocka_unit_test(a_rollback_keeps_what_it_goes_back_to),
		cmocka_unit_test(a_rollback_to_what_was_there_first),
		cmocka_unit_test(a_rollback_to_something_else_touches_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
