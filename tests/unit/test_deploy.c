/* Deployments: what is kept and in which order, and that failing or being killed at any step, and running again, comes out the same. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <sys/stat.h>

#include "edge-agent/storage/deploy.h"
#include "edge-agent/storage/version.h"
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

/* All names below a folder with the text of each file, one a line, sorted: "name=text", folders "name/". What tells of versions is left out. */
static void list(const char *path, const char *below, buf *out)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, VERSION_FILE) != 0) {
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

/* ---- what is told of versions ---- */

static version told_of(fixture *f, int round)
{
	char *folder = mem_printf("%s/deployed/%d", f->out, round);
	version v;
	error err = {0};
	if (version_read(folder, &v, &err) != 0)
		fail_msg("%d: %s", round, err.text);
	assert_int_equal(v.round, round);
	free(folder);
	return v;
}

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

typedef struct rollback {
	deploy_back back;
	char *from;
} rollback;

static rollback back_to(fixture *f, int round, const char *name, const char *text)
{
	rollback r = {.back.of = round, .from = mem_printf("%s/deployed/%d/%s", f->out, round, name)};
	digest_of(text, strlen(text), &r.back.sha256);
	return r;
}

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

/* Old or new, each target whole; a small file may not be there yet. */
static void assert_targets_whole(fixture *f)
{
	buf b = {0};
	list(f->folder, "", &b);
	const char *text = buf_text(&b);
	assert_true((strstr(text, "serve/model.pb=old\n") != NULL) != (strstr(text, "serve/model.pb=new\n") != NULL));
	assert_true((strstr(text, "eval/model/a=old\n") != NULL) != (strstr(text, "eval/model/a=new\neval/model/b=new\n") != NULL));
	/* A version is there with what tells of it, or not at all. */
	for (int round = 0; round <= 5; round += 5) {
		char *folder = mem_printf("%s/deployed/%d", f->out, round);
		if (access(folder, F_OK) == 0) {
			version v = told_of(f, round);
			assert_string_equal(v.name, round == 0 ? "model.pb" : "new.pb");
			version_fini(&v);
		}
		free(folder);
	}
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

/* The same of a rollback: what it goes back to is there until it is done, although it is the oldest. */
static rollback before_rollback(fixture *f)
{
	serve(f, "old");
	for (int round = 1; round <= 4; round += round == 1 ? 2 : 1) {
		char text[16];
		snprintf(text, sizeof text, round == 1 ? "new" : "m%d", round);
		train(f, text);
		deploy_plan plan = plan_of(f, round);
		model_info info;
		plan.keep = 4;
		assert_int_equal(deploy_run(&plan, &info, NULL), 0);
	}
	rollback r = back_to(f, 1, "new.pb", "new");
	f->steps[0].from = r.from;
	return r;
}

typedef struct going_back {
	fixture *f;
	const deploy_back *back;
} going_back;

static int go_back(const going_back *g)
{
	deploy_plan plan = plan_of(g->f, 5);
	model_info info;
	plan.back = g->back;
	return deploy_run(&plan, &info, NULL);
}

static void go_back_in_child(void *arg)
{
	(void)go_back(arg);
}

static void a_rollback_that_fails_or_is_killed_anywhere_can_be_repeated(void **state)
{
	(void)state;
	for (int kill = 0; kill < 2; kill++) {
		bool happened = true;
		for (int n = 1; happened; n++) {
			fixture *f = make_fixture();
			rollback r = before_rollback(f);
			going_back g = {f, &r.back};
			if (kill == 1) {
				happened = fault_kill_at(n, go_back_in_child, &g);
			} else {
				fault_arm(FAULT_ERROR, n, EIO);
				(void)go_back(&g);
				happened = fault_happened();
			}
			buf b = {0};
			list(f->folder, "", &b);
			assert_true((strstr(buf_text(&b), "serve/model.pb=m4\n") != NULL) != (strstr(buf_text(&b), "serve/model.pb=new\n") != NULL));
			buf_fini(&b);
			assert_int_equal(go_back(&g), 0);
			assert_tree(f->folder, "serve", "model.pb=new\n");
			assert_tree(f->folder, "out/deployed",
				"0/\n0/model.pb=old\n1/\n1/new.pb=new\n3/\n3/new.pb=m3\n4/\n4/new.pb=m4\n5/\n5/new.pb=new\n");
			version v = told_of(f, 5);
			assert_int_equal(v.of, 1);
			version_fini(&v);
			free(r.from);
			free_fixture(f);
			assert_true(happened || n > 12);
		}
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_deployment_keeps_what_was_there),
		cmocka_unit_test(nothing_was_there),
		cmocka_unit_test(three_versions_are_kept),
		cmocka_unit_test(versions_tell_what_they_are),
		cmocka_unit_test(versions_that_tell_nothing_are_not_listed),
		cmocka_unit_test(versions_of_an_earlier_job),
		cmocka_unit_test(a_model_may_be_called_like_the_file),
		cmocka_unit_test(a_rollback_keeps_what_it_goes_back_to),
		cmocka_unit_test(a_rollback_to_what_was_there_first),
		cmocka_unit_test(a_rollback_to_something_else_touches_nothing),
		cmocka_unit_test(without_an_output_folder),
		cmocka_unit_test(bad_plans),
		cmocka_unit_test(a_file_takes_no_folders_place),
		cmocka_unit_test(a_folder_takes_no_files_place),
		cmocka_unit_test(what_we_deployed_may_change_its_kind),
		cmocka_unit_test(failing_anywhere_can_be_repeated),
		cmocka_unit_test(killed_anywhere_can_be_repeated),
		cmocka_unit_test(a_rollback_that_fails_or_is_killed_anywhere_can_be_repeated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
