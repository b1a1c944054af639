/* Deployments: what comes where, what is kept of the models before, and which plans are refused before anything is touched. */
#include "tests/unit/deploy_kit.h"

/* How often the file of this path was opened. */
static struct {
	const char *path;
	int n;
} opened;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	opened.n += opened.path != NULL && strcmp(path, opened.path) == 0;
	return __real_open(path, flags, mode);
}

static void first_deployment_keeps_what_was_there(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "new");
	deploy_plan plan = plan_of(f, 4);
	model_info info;
	digest d;
	assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	digest_of("new", 3, &d);
	assert_true(digest_equal(&d, &info.sha256));
	assert_tree(f->folder, "out", "deployed/\ndeployed/0/\ndeployed/0/model.pb=old\ndeployed/4/\ndeployed/4/new.pb=new\n");
	assert_tree(f->folder, "serve", "model.pb=new\n");
	assert_tree(f->folder, "eval", "model/\nmodel/a=new\nmodel/b=new\n");
	assert_tree(f->folder, "hot", "model_config.json={\"v\":1}\n");
	free_fixture(f);
}

/* Once for its digest, once for the version, once for what serves: a model is large, and flash is slow. */
static void a_model_is_read_three_times(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "new");
	opened.path = f->from;
	opened.n = 0;
	deploy(f, 4);
	opened.path = NULL;
	assert_int_equal(opened.n, 3);
	free_fixture(f);
}

static void nothing_was_there(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	train(f, "one");
	deploy(f, 1);
	assert_tree(f->folder, "out", "deployed/\ndeployed/0/\ndeployed/1/\ndeployed/1/new.pb=one\n");
	train(f, "two");
	deploy(f, 2); /* what is served now is not what was there first */
	assert_tree(f->folder, "out/deployed", "0/\n1/\n1/new.pb=one\n2/\n2/new.pb=two\n");
	free_fixture(f);
}

static void three_versions_are_kept(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	for (int round = 1; round <= 12; round++) {
		char text[16];
		snprintf(text, sizeof text, "m%d", round);
		train(f, text);
		deploy(f, round);
	}
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n10/\n10/new.pb=m10\n11/\n11/new.pb=m11\n12/\n12/new.pb=m12\n");
	/* Going back to an older one keeps that one too. */
	char *kept = mem_printf("%s/deployed/10/new.pb", f->out);
	f->steps[0].from = kept;
	deploy(f, 10);
	assert_tree(f->folder, "serve", "model.pb=m10\n");
	assert_tree(f->folder, "out/deployed", "0/\n0/model.pb=old\n10/\n10/new.pb=m10\n11/\n11/new.pb=m11\n12/\n12/new.pb=m12\n");
	free(kept);
	free_fixture(f);
}

static void without_an_output_folder(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	train(f, "new");
	deploy_plan plan = plan_of(f, 1);
	model_info info;
	plan.output_dir = NULL;
	assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	assert_tree(f->folder, "serve", "model.pb=new\n");
	free_fixture(f);
}

static void bad_plans(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	model_info info;
	deploy_plan plan = plan_of(f, 1);
	assert_int_equal(deploy_run(&plan, &info, NULL), ERROR_NOT_FOUND); /* nothing was trained */
	train(f, "new");
	plan.main = 2;
	assert_int_equal(deploy_run(&plan, &info, NULL), ERROR_INVALID);
	plan.main = 3;
	assert_int_equal(deploy_run(&plan, &info, NULL), ERROR_INVALID);
	plan = plan_of(f, 0);
	assert_int_equal(deploy_run(&plan, &info, NULL), ERROR_INVALID);
	f->steps[1].text = "both";
	plan = plan_of(f, 1);
	assert_int_equal(deploy_run(&plan, &info, NULL), ERROR_INVALID);
	assert_int_not_equal(access(f->out, F_OK), 0);
	free_fixture(f);
}

/* ---- a file and a folder ---- */

static void assert_refused(fixture *f, int64_t round, const char *part)
{
	deploy_plan plan = plan_of(f, round);
	model_info info;
	error err = {0};
	buf before = {0}, after = {0};
	list(f->folder, "", &before);
	assert_int_equal(deploy_run(&plan, &info, &err), ERROR_INVALID);
	assert_non_null(strstr(err.text, part));
	list(f->folder, "", &after);
	assert_string_equal(buf_text(&after), buf_text(&before));
	buf_fini(&before);
	buf_fini(&after);
}

static void a_file_takes_no_folders_place(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	char *folder = mem_printf("%s/serve", f->folder), *slash = mem_printf("%s/", f->served);
	serve(f, "old");
	train(f, "new");
	f->steps[0].to = folder;
	assert_refused(f, 1, "/serve is a folder, but the new model");
	assert_refused(f, 1, "new.pb is a file and would replace all of it: give the Model another url, or move away what is there");
	f->steps[0].to = slash; /* of a file */
	assert_refused(f, 1, "names a folder, but the new model");
	f->steps[0].to = f->served;
	f->steps[1].to = folder; /* not the model that serves: looked at beforehand all the same */
	f->steps[1].from = f->from;
	assert_refused(f, 1, "/serve is a folder");
	f->steps[1] = (deploy_step){.to = f->eval, .from = f->from_eval};
	f->steps[2].to = folder;
	assert_refused(f, 1, "/serve is a folder, not a file");
	free(slash);
	free(folder);
	free_fixture(f);
}

static void a_folder_takes_no_files_place(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "new");
	f->steps[0].from = f->from_eval;
	assert_refused(f, 1, "model.pb is a file, but the new model");
	free_fixture(f);
}

/* A job whose script begins to save a folder, and then a file again: what is there is known to be ours. */
static void what_we_deployed_may_change_its_kind(void **state)
{
	(void)state;
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "m1");
	deploy(f, 1);
	train(f, "m2");
	f->steps[0].from = f->from_eval;
	deploy(f, 2);
	assert_tree(f->folder, "serve", "model.pb/\nmodel.pb/a=m2\nmodel.pb/b=m2\n");
	char *added = mem_printf("%s/mine", f->served);
	put(added, "not of a model");
	f->steps[0].from = f->from;
	assert_refused(f, 3, "model.pb is a folder, but");
	assert_int_equal(unlink(added), 0);
	deploy(f, 3);
	assert_tree(f->folder, "serve", "model.pb=m2\n");
	/* What tells of a version is no model. */
	char *told = mem_printf("%s/deployed/3/" VERSION_FILE, f->out);
	buf text = {0};
	assert_int_equal(file_read(told, VERSION_MAX, &text, NULL), 0);
	put(f->served, buf_text(&text));
	f->steps[0].from = f->from_eval;
	assert_refused(f, 4, "model.pb is a file, but");
	f->steps[0].from = f->from;
	buf_fini(&text);
	free(told);
	/* What was there first is no deployment of ours, although a copy of it is kept. */
	assert_int_equal(unlink(f->served), 0);
	put(f->served, "old");
	f->steps[0].from = f->from_eval;
	assert_refused(f, 4, "model.pb is a file, but");
	free(added);
	free_fixture(f);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_deployment_keeps_what_was_there),
		cmocka_unit_test(a_model_is_read_three_times),
		cmocka_unit_test(nothing_was_there),
		cmocka_unit_test(three_versions_are_kept),
		cmocka_unit_test(without_an_output_folder),
		cmocka_unit_test(bad_plans),
		cmocka_unit_test(a_file_takes_no_folders_place),
		cmocka_unit_test(a_folder_takes_no_files_place),
		cmocka_unit_test(what_we_deployed_may_change_its_kind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
