/* Deployments: what is kept and in which order, and that failing or being killed at any step, and running again, comes out the same. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <sys/stat.h>

#include "edge-agent/storage/deploy.h"
#include "tests/unit/fault_kit.h"

FAULT_CALL(int, mkdir, false, (const char *path, mode_t mode), (path, mode))
FAULT_CALL(int, mkdirat, false, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT_CALL(int, mkostemp, false, (char *path, int flags), (path, flags))
FAULT_CALL(ssize_t, write, false, (int fd, const void *data, size_t len), (fd, data, len))
FAULT_FSYNC
FAULT_CALL(int, rename, false, (const char *from, const char *to), (from, to))
FAULT_CALL(int, renameat2, false, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
FAULT_CALL(int, unlink, true, (const char *path), (path))
FAULT_CALL(int, unlinkat, true, (int fd, const char *path, int flags), (fd, path, flags))

char *__real_mkdtemp(char *path);
char *__wrap_mkdtemp(char *path);
char *__wrap_mkdtemp(char *path)
{
	return fault_here(false) ? NULL : __real_mkdtemp(path);
}

typedef struct fixture {
	char *folder;
	char *out, *served, *eval, *config, *from, *from_eval;
	deploy_step steps[3];
} fixture;

/* Serving a file at `served`, evaluating against a folder at `eval`, and a small file at the end. */
static fixture *make_fixture(void)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->out = mem_printf("%s/out", f->folder);
	f->served = mem_printf("%s/serve/model.pb", f->folder);
	f->eval = mem_printf("%s/eval/model", f->folder);
	f->config = mem_printf("%s/hot/model_config.json", f->folder);
	f->from = mem_printf("%s/train/new.pb", f->folder);
	f->from_eval = mem_printf("%s/train/new", f->folder);
	f->steps[0] = (deploy_step){.to = f->served, .from = f->from};
	f->steps[1] = (deploy_step){.to = f->eval, .from = f->from_eval};
	f->steps[2] = (deploy_step){.to = f->config, .text = "{\"v\":1}"};
	return f;
}

static void free_fixture(fixture *f)
{
	unit_folder_remove(f->folder);
	free(f->out);
	free(f->served);
	free(f->eval);
	free(f->config);
	free(f->from);
	free(f->from_eval);
	free(f);
}

static void put(const char *path, const char *text)
{
	error err = {0};
	char *parent = file_parent(path);
	if (file_make_dirs(parent, 0755, &err) != 0 || file_write(path, text, strlen(text), 0644, &err) != 0)
		fail_msg("%s", err.text);
	free(parent);
}

/* The models that training made. */
static void train(fixture *f, const char *text)
{
	char *a = mem_printf("%s/a", f->from_eval), *b = mem_printf("%s/b", f->from_eval);
	put(f->from, text);
	put(a, text);
	put(b, text);
	free(a);
	free(b);
}

static void serve(fixture *f, const char *text)
{
	char *a = mem_printf("%s/a", f->eval);
	put(f->served, text);
	put(a, text);
	free(a);
}

static deploy_plan plan_of(fixture *f, int64_t round)
{
	return (deploy_plan){.output_dir = f->out, .round = round, .steps = f->steps, .n = 3};
}

static void deploy(fixture *f, int64_t round)
{
	deploy_plan plan = plan_of(f, round);
	model_info info;
	error err = {0};
	if (deploy_run(&plan, &info, &err) != 0)
		fail_msg("%s", err.text);
}

/* All names below a folder with the text of each file, one a line, sorted: "name=text", folders "name/". */
static void list(const char *path, const char *below, buf *out)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
			char *child = mem_printf("%s/%s", path, name), *shown = mem_printf("%s%s%s", below, *below != '\0' ? "/" : "", name);
			buf text = {0};
			if (file_read(child, 1000, &text, NULL) == 0) {
				buf_printf(out, "%s=%s\n", shown, buf_text(&text));
			} else {
				buf_printf(out, "%s/\n", shown);
				list(child, shown, out);
			}
			buf_fini(&text);
			free(child);
			free(shown);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

static void assert_tree(const char *folder, const char *below, const char *expected)
{
	buf b = {0};
	char *path = mem_printf("%s/%s", folder, below);
	list(path, "", &b);
	assert_string_equal(buf_text(&b), expected);
	buf_fini(&b);
	free(path);
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
	/* What was there first is no deployment of ours, although a copy of it is kept. */
	assert_int_equal(unlink(f->served), 0);
	put(f->served, "old");
	f->steps[0].from = f->from_eval;
	assert_refused(f, 4, "model.pb is a file, but");
	free(added);
	free_fixture(f);
}

/* Old or new, each target whole; a small file may not be there yet. */
static void assert_targets_whole(fixture *f)
{
	buf b = {0};
	list(f->folder, "", &b);
	const char *text = buf_text(&b);
	assert_true((strstr(text, "serve/model.pb=old\n") != NULL) != (strstr(text, "serve/model.pb=new\n") != NULL));
	assert_true((strstr(text, "eval/model/a=old\n") != NULL) != (strstr(text, "eval/model/a=new\neval/model/b=new\n") != NULL));
	buf_fini(&b);
}

static const char AFTER[] = "deployed/\ndeployed/0/\ndeployed/0/model.pb=old\ndeployed/2/\ndeployed/2/x=2\ndeployed/3/\ndeployed/3/x=3\n"
							"deployed/5/\ndeployed/5/new.pb=new\n";

static fixture *before_deployment(void)
{
	fixture *f = make_fixture();
	serve(f, "old");
	train(f, "new");
	for (int i = 1; i <= 3; i++) {
		char *path = mem_printf("%s/deployed/%d/x", f->out, i), text[2] = {(char)('0' + i), '\0'};
		put(path, text);
		free(path);
	}
	return f;
}

static void assert_all_done(fixture *f)
{
	assert_tree(f->folder, "out", AFTER);
	assert_tree(f->folder, "serve", "model.pb=new\n");
	assert_tree(f->folder, "eval", "model/\nmodel/a=new\nmodel/b=new\n");
	assert_tree(f->folder, "hot", "model_config.json={\"v\":1}\n");
}

static void failing_anywhere_can_be_repeated(void **state)
{
	(void)state;
	bool happened = true;
	for (int n = 1; happened; n++) {
		fixture *f = before_deployment();
		deploy_plan plan = plan_of(f, 5);
		model_info info;
		fault_arm(FAULT_ERROR, n, ENOSPC);
		int code = deploy_run(&plan, &info, NULL);
		happened = fault_happened();
		/* Only removing an old version may fail without failing the deployment. */
		assert_true(code == (happened ? ERROR_NO_SPACE : 0) || (code == 0 && n > 39));
		assert_targets_whole(f);
		deploy(f, 5);
		assert_all_done(f);
		free_fixture(f);
		assert_true(happened || n > 39);
	}
}

static void deploy_in_child(void *arg)
{
	deploy_plan plan = plan_of(arg, 5);
	model_info info;
	(void)deploy_run(&plan, &info, NULL);
}

static void killed_anywhere_can_be_repeated(void **state)
{
	(void)state;
	bool killed = true;
	for (int n = 1; killed; n++) {
		fixture *f = before_deployment();
		killed = fault_kill_at(n, deploy_in_child, f);
		assert_targets_whole(f);
		deploy(f, 5);
		assert_all_done(f);
		free_fixture(f);
		assert_true(killed || n > 39);
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_deployment_keeps_what_was_there),
		cmocka_unit_test(nothing_was_there),
		cmocka_unit_test(three_versions_are_kept),
		cmocka_unit_test(without_an_output_folder),
		cmocka_unit_test(bad_plans),
		cmocka_unit_test(a_file_takes_no_folders_place),
		cmocka_unit_test(a_folder_takes_no_files_place),
		cmocka_unit_test(what_we_deployed_may_change_its_kind),
		cmocka_unit_test(failing_anywhere_can_be_repeated),
		cmocka_unit_test(killed_anywhere_can_be_repeated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
