/* The folder of manifests while it is watched: what is added, edited, taken away, moved, half written, or cannot be read. */
#include "tests/integration/local_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"

#define MODEL(name, url) "apiVersion: sedna.io/v1alpha1\nkind: Model\nmetadata: {name: " name "}\nspec: {url: " url ", format: pb}\n"

static bool url_is(const lab *l, const char *name, const char *url)
{
	return strcmp(lab_text(lab_object(l, "Model", name), "spec.url"), url) == 0;
}

static char *uid_of(const lab *l, const char *name)
{
	return mem_strdup(lab_text(lab_object(l, "Model", name), "metadata.uid"));
}

static bool gone(const lab *l, const char *name)
{
	const cJSON *object = lab_object(l, "Model", name);
	return object == NULL || cJSON_IsNull(object);
}

static void changes_take_effect(void **state)
{
	lab *l = *state;
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_start(l);
	assert_true(url_is(l, "x", "/1"));
	char *x = uid_of(l, "x");
	lab_put(l, "b.yml", MODEL("y", "/2") "---\n" MODEL("z", "/3"));
	loop_until(&l->loop, url_is(l, "z", "/3"), 20000);
	lab_put(l, "a.yaml", MODEL("x", "/4"));
	loop_until(&l->loop, url_is(l, "x", "/4"), 20000);
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	assert_true(lab_number(lab_object(l, "Model", "x"), "metadata.generation") == 2);
	lab_put(l, "b.yml", MODEL("y", "/2")); /* a document less */
	loop_until(&l->loop, gone(l, "z"), 20000);
	lab_drop(l, "a.yaml"); /* a file less */
	loop_until(&l->loop, gone(l, "x"), 20000);
	assert_true(url_is(l, "y", "/2"));
	lab_put(l, "a.yaml", MODEL("x", "/4"));
	loop_until(&l->loop, url_is(l, "x", "/4"), 20000);
	assert_string_not_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x); /* another object */
	free(x);
}

#define DATASET "apiVersion: sedna.io/v1alpha1\nkind: Dataset\nmetadata: {name: d}\nspec: {url: /d, format: txt, nodeName: n}\n---\n"
#define SECRET "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n---\n"
#define WORKER "template: {spec: {containers: [{command: [a]}]}}"
#define TRIGGER "trigger: {condition: {operator: gt, threshold: 1, metric: num_of_samples}}"
#define JOB                                                                                                                                \
	"apiVersion: sedna.io/v1alpha1\nkind: IncrementalLearningJob\nmetadata: {name: j}\nspec:\n  dataset: {name: d, trainProb: 1}\n"        \
	"  initialModel: {name: m}\n  trainSpec: {" WORKER ", " TRIGGER "}\n  evalSpec: {" WORKER "}\n"                                        \
	"  deploySpec: {model: {name: m}, " WORKER ", " TRIGGER "}\n  outputDir: /out\n---\n"

/* A job never misses what its own file brings along. */
static void what_changes_at_once_is_told_at_once(void **state)
{
	lab *l = *state;
	lab_start(l);
	buf_clear(&l->order);
	lab_put(l, "a.yaml", JOB MODEL("m", "/1") "---\n" DATASET SECRET);
	loop_until(&l->loop, url_is(l, "m", "/1"), 20000);
	assert_string_equal(buf_text(&l->order), "[+Secret/s +Dataset/d +Model/m +IncrementalLearningJob/j ]");
	buf_clear(&l->order);
	lab_put(l, "a.yaml", MODEL("n", "/1"));
	loop_until(&l->loop, gone(l, "m"), 20000);
	assert_string_equal(buf_text(&l->order), "[+Model/n ][-IncrementalLearningJob/j -Model/m -Dataset/d -Secret/s ]");
}

static void a_moved_document_is_the_same_object(void **state)
{
	lab *l = *state;
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_start(l);
	char *x = uid_of(l, "x"), *from = mem_printf("%s/a.yaml", l->manifests), *to = mem_printf("%s/b.yaml", l->manifests);
	assert_int_equal(rename(from, to), 0);
	lab_put(l, "c.yaml", MODEL("seen", "/1"));
	loop_until(&l->loop, url_is(l, "seen", "/1"), 20000);
	loop_for(&l->loop, 200);
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	/* As some editors write: away first, then anew. */
	assert_int_equal(unlink(to), 0);
	loop_for(&l->loop, 50);
	lab_put(l, "b.yaml", MODEL("x", "/2"));
	loop_until(&l->loop, url_is(l, "x", "/2"), 20000);
	loop_for(&l->loop, 200);
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	free(x);
	free(from);
	free(to);
}

static void a_broken_file_removes_nothing(void **state)
{
	lab *l = *state;
	lab_put(l, "a.yaml", MODEL("x", "/1") "---\n" MODEL("y", "/1"));
	lab_start(l);
	char *x = uid_of(l, "x");
	lab_put(l, "a.yaml", "apiVersion: sedna.io/v1alpha1\nkind: Mo");
	lab_put(l, "seen.yaml", MODEL("seen", "/1"));
	loop_until(&l->loop, url_is(l, "seen", "/1"), 20000);
	loop_for(&l->loop, 250);
	assert_true(url_is(l, "x", "/1"));
	/* Nor after a start that never saw it whole. */
	lab_stop(l);
	lab_start(l);
	loop_for(&l->loop, 250);
	assert_true(url_is(l, "x", "/1") && url_is(l, "y", "/1"));
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	lab_put(l, "a.yaml", MODEL("x", "/2"));
	loop_until(&l->loop, url_is(l, "x", "/2") && gone(l, "y"), 20000);
	free(x);
}

static void an_object_that_is_described_twice_stays_as_it_is(void **state)
{
	lab *l = *state;
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_start(l);
	lab_put(l, "b.yaml", MODEL("x", "/2") "---\n" MODEL("seen", "/1") "---\n" MODEL("n", "/1") "---\n" MODEL("n", "/2"));
	loop_until(&l->loop, url_is(l, "seen", "/1"), 20000);
	loop_for(&l->loop, 250);
	assert_true(url_is(l, "x", "/1"));
	assert_true(gone(l, "n"));
	lab_drop(l, "a.yaml");
	loop_until(&l->loop, url_is(l, "x", "/2"), 20000);
}

static void a_missing_folder_is_not_an_empty_one(void **state)
{
	lab *l = *state;
	error err = {0};
	char *away = mem_printf("%s/away", l->folder);
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_start(l);
	char *x = uid_of(l, "x");
	assert_int_equal(rename(l->manifests, away), 0);
	loop_for(&l->loop, 300);
	assert_true(url_is(l, "x", "/1"));
	lab_stop(l);
	assert_int_equal(lab_try_start(l, &err), 0);
	loop_for(&l->loop, 300);
	assert_false(l->synced);
	assert_int_equal(l->told, 1);
	assert_int_equal(rename(away, l->manifests), 0);
	loop_until(&l->loop, l->synced, 20000); /* within a few seconds */
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	/* A folder that was replaced is watched again, once it was looked at. */
	assert_int_equal(rename(l->manifests, away), 0);
	assert_int_equal(mkdir(l->manifests, 0755), 0);
	lab_put(l, "a.yaml", MODEL("x", "/9"));
	lab_stop(l);
	l->config.rescan_ms = 50;
	lab_start(l);
	assert_true(url_is(l, "x", "/9"));
	assert_int_equal(rename(l->manifests, away) == 0, 0);
	char *other = mem_printf("%s/other", l->folder);
	assert_int_equal(rename(l->manifests, other), 0);
	assert_int_equal(rename(away, l->manifests), 0);
	loop_until(&l->loop, url_is(l, "x", "/1"), 20000);
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "metadata.uid"), x);
	free(other);
	free(away);
	free(x);
}

static void nothing_begins_before_all_could_be_read(void **state)
{
	lab *l = *state;
	error err = {0};
	char *path = mem_printf("%s/b.yaml", l->manifests);
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	assert_int_equal(symlink("/nowhere/at/all", path), 0);
	assert_int_equal(lab_try_start(l, &err), 0);
	loop_until(&l->loop, l->cluster->ops->trouble(l->cluster) != NULL, 20000);
	assert_string_equal(l->cluster->ops->trouble(l->cluster),
		"nothing begins before all manifests could be read: b.yaml: No such file or directory");
	loop_for(&l->loop, 300);
	assert_false(l->synced);
	assert_int_equal(unlink(path), 0);
	loop_until(&l->loop, l->synced, 20000);
	assert_null(l->cluster->ops->trouble(l->cluster));
	assert_true(url_is(l, "x", "/1"));
	free(path);
}

static void a_folder_among_the_manifests_holds_nothing_up(void **state)
{
	lab *l = *state;
	char *path = mem_printf("%s/zz.yaml", l->manifests);
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_put(l, "zz.yaml", MODEL("y", "/1"));
	lab_start(l);
	lab_stop(l);
	/* Also where a file was: nothing is deleted for it. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	lab_start(l);
	loop_for(&l->loop, 250);
	assert_true(url_is(l, "x", "/1") && url_is(l, "y", "/1"));
	assert_int_equal(rmdir(path), 0);
	free(path);
}

static void statuses_and_epochs_survive(void **state)
{
	lab *l = *state;
	lab_put(l, "a.yaml", MODEL("x", "/1"));
	lab_start(l);
	int64_t epoch = l->epoch;
	assert_true(epoch > 1700000000);
	char *version = mem_strdup(lab_text(lab_object(l, "Model", "x"), "metadata.resourceVersion"));
	assert_int_equal(lab_patch(l, OBJECT_MODEL, "x", version, "{\"metrics\":[{\"key\":\"a\",\"value\":\"1\"}]}"), 0);
	assert_string_equal(lab_text(l->object, "status.metrics.0.key"), "a");
	assert_int_equal(lab_patch(l, OBJECT_MODEL, "x", version, "{}"), ERROR_CONFLICT);
	assert_non_null(strstr(l->text, "was changed meanwhile"));
	assert_int_equal(lab_patch(l, OBJECT_DATASET, "none", version, "{}"), ERROR_NOT_FOUND);
	l->cluster->ops->raise_epoch(l->cluster, 7, epoch + 100);
	loop_until(&l->loop, l->answered, 20000);
	l->answered = false;
	assert_true(l->epoch == epoch + 101);
	lab_stop(l);
	lab_start(l);
	assert_true(l->epoch == epoch + 102);
	assert_string_equal(lab_text(lab_object(l, "Model", "x"), "status.metrics.0.key"), "a");
	free(version);
}

static void there_is_one_agent(void **state)
{
	lab *l = *state, second;
	error err = {0};
	lab_start(l);
	second = *l;
	second.objects = NULL;
	second.epoch = 0;
	assert_int_equal(lab_try_start(&second, &err), ERROR_EXISTS);
	char *wanted = mem_printf("the state folder %s is in use by another agent (process %d)", l->state, (int)getpid());
	assert_string_equal(err.text, wanted);
	second.cluster->ops->free(second.cluster);
	loop_fini(&second.loop);
	cJSON_Delete(second.objects);
	free(wanted);
}

static void a_configuration_is_checked(void **state)
{
	lab *l = *state;
	error err = {0};
	cluster_local_config config = l->config;
	config.supervisor = "/nowhere/ilmare-worker";
	assert_null(cluster_local_new(&l->loop, &config, &(cluster_events){0}, NULL, NULL, &err));
	assert_string_equal(err.text, "the program that runs workers, /nowhere/ilmare-worker: No such file or directory");
	config.manifests = "";
	assert_null(cluster_local_new(&l->loop, &config, &(cluster_events){0}, NULL, NULL, &err));
	assert_string_equal(err.text, "a folder of manifests is needed");
}

int main(void)
{
#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, lab_setup, lab_teardown)
	const struct CMUnitTest tests[] = {
		LAB_TEST(changes_take_effect),
		LAB_TEST(what_changes_at_once_is_told_at_once),
		LAB_TEST(a_moved_document_is_the_same_object),
		LAB_TEST(a_broken_file_removes_nothing),
		LAB_TEST(an_object_that_is_described_twice_stays_as_it_is),
		LAB_TEST(a_missing_folder_is_not_an_empty_one),
		LAB_TEST(nothing_begins_before_all_could_be_read),
		LAB_TEST(a_folder_among_the_manifests_holds_nothing_up),
		LAB_TEST(statuses_and_epochs_survive),
		LAB_TEST(there_is_one_agent),
		LAB_TEST(a_configuration_is_checked),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
