/* Deployments and rollbacks that fail or are killed at any step: every target is whole, and running again comes out the same. */
#include "tests/unit/deploy_kit.h"

#include <sys/stat.h>

FAULT_CALL(int, mkdir, false, (const char *path, mode_t mode), (path, mode))
FAULT_CALL(int, mkdirat, false, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT_CALL(int, mkostemp, false, (char *path, int flags), (path, flags))
FAULT_CALL(ssize_t, write, false, (int fd, const void *data, size_t len), (fd, data, len))
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
		cmocka_unit_test(failing_anywhere_can_be_repeated),
		cmocka_unit_test(killed_anywhere_can_be_repeated),
		cmocka_unit_test(a_rollback_that_fails_or_is_killed_anywhere_can_be_repeated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
