/* The folder of manifests: what a broken, missing, repeated or unreadable file does to what is known. */
#include "tests/unit/unit.h"

#include <sys/stat.h>

#include "cloud-agent/cluster/local/catalog.h"
#include "common/log.h"

#define MODEL(name, url) "apiVersion: sedna.io/v1alpha1\nkind: Model\nmetadata: {name: " name "}\nspec: {url: " url ", format: pb}\n"

typedef struct fixture {
	char *folder;
	catalog *catalog;
} fixture;

static int setup(void **state)
{
	fixture *f = mem_alloc(sizeof *f);
	f->folder = unit_folder();
	f->catalog = catalog_new(f->folder);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	fixture *f = *state;
	catalog_free(f->catalog);
	unit_folder_remove(f->folder);
	free(f);
	return 0;
}

static void put(const fixture *f, const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", f->folder, name);
	error err = {0};
	if (file_write(path, text, strlen(text), 0644, &err) != 0)
		fail_msg("%s", err.text);
	free(path);
}

static void drop(const fixture *f, const char *name)
{
	char *path = mem_printf("%s/%s", f->folder, name);
	assert_int_equal(unlink(path), 0);
	free(path);
}

static bool look(const fixture *f)
{
	bool changed = false;
	error err = {0};
	if (catalog_look(f->catalog, &changed, &err) != 0)
		fail_msg("%s", err.text);
	return changed;
}

/* "file:name=url …" of all entries. */
static void check_entries(const fixture *f, const char *wanted)
{
	const catalog_entry *entries;
	size_t n = catalog_entries(f->catalog, &entries);
	buf text = {0};
	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "%s%s:%s=%s", i > 0 ? " " : "", entries[i].source, entries[i].manifest->name,
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entries[i].manifest->spec, "url")));
	assert_string_equal(buf_text(&text), wanted);
	buf_fini(&text);
}

static void check_unread(const fixture *f, const char *wanted)
{
	char *text = catalog_unread(f->catalog);
	if (wanted == NULL)
		assert_null(text);
	else
		assert_string_equal(text, wanted);
	free(text);
}

static void only_what_changed_is_read_again(void **state)
{
	const fixture *f = *state;
	put(f, "b.yaml", MODEL("y", "/y"));
	put(f, "a.yml", MODEL("x", "/x") "---\n" MODEL("z", "/z"));
	put(f, "readme.txt", "no");
	put(f, ".hidden.yaml", "no: [");
	assert_true(look(f));
	check_entries(f, "a.yml:x=/x b.yaml:y=/y a.yml:z=/z");
	assert_false(look(f));
	put(f, "b.yaml", MODEL("y", "/w"));
	assert_true(look(f));
	check_entries(f, "a.yml:x=/x b.yaml:y=/w a.yml:z=/z");
	drop(f, "b.yaml");
	assert_true(look(f));
	check_entries(f, "a.yml:x=/x a.yml:z=/z");
	assert_false(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "y", "b.yaml"));
}

static void a_broken_file_keeps_what_it_had(void **state)
{
	const fixture *f = *state;
	put(f, "a.yaml", MODEL("x", "/x") "---\n" MODEL("y", "/y"));
	look(f);
	put(f, "a.yaml", MODEL("x", "/new") "---\nkind: [\n");
	assert_true(look(f));
	check_entries(f, "a.yaml:x=/x a.yaml:y=/y"); /* not YAML: nothing new can be had */
	put(f, "a.yaml", MODEL("x", "/new") "---\nkind: Model\n");
	assert_true(look(f));
	check_entries(f, "a.yaml:x=/new a.yaml:y=/y");
	assert_true(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "older", "a.yaml"));
	put(f, "a.yaml", MODEL("x", "/new"));
	assert_true(look(f));
	check_entries(f, "a.yaml:x=/new");
	assert_false(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "older", "a.yaml"));
}

static void an_object_in_two_files_is_taken_from_neither(void **state)
{
	const fixture *f = *state;
	put(f, "a.yaml", MODEL("x", "/1") "---\n" MODEL("only", "/o"));
	put(f, "b.yaml", MODEL("x", "/2"));
	look(f);
	check_entries(f, "a.yaml:only=/o");
	assert_true(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "x", "a.yaml"));
	assert_false(catalog_keeps(f->catalog, OBJECT_DATASET, "default", "x", "a.yaml"));
	drop(f, "a.yaml");
	assert_true(look(f));
	check_entries(f, "b.yaml:x=/2");
	put(f, "b.yaml", MODEL("x", "/2") "---\n" MODEL("x", "/3"));
	look(f);
	check_entries(f, "");
}

static void a_double_names_both_places(void *arg)
{
	const fixture *f = arg;
	log_init("test", LOG_INFO);
	look(f);
	look(f);
	put(f, "c.yaml", MODEL("other", "/1"));
	look(f);
}

static void doubles_are_said_once(void **state)
{
	fixture *f = *state;
	buf out = {0};
	put(f, "a.yaml", MODEL("x", "/1"));
	put(f, "b.yaml", "---\n" MODEL("x", "/2"));
	unit_run(2, a_double_names_both_places, f, &out);
	const char *first = strstr(buf_text(&out), "error=\"Model default/x: a.yaml:1 b.yaml:2\"");
	assert_non_null(first);
	assert_null(strstr(first + 10, "Model default/x"));
	buf_fini(&out);
}

static void what_cannot_be_read_is_not_gone(void **state)
{
	const fixture *f = *state;
	bool changed;
	error err = {0};
	put(f, "a.yaml", MODEL("x", "/x"));
	look(f);
	check_unread(f, NULL);
	/* A folder or a link to nowhere in its place, as root can read everything. */
	drop(f, "a.yaml");
	char *path = mem_printf("%s/a.yaml", f->folder), *other = mem_printf("%s/b.yaml", f->folder);
	assert_int_equal(mkdir(path, 0755), 0);
	look(f);
	check_entries(f, "a.yaml:x=/x");
	assert_true(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "x", "a.yaml"));
	check_unread(f, NULL);
	assert_int_equal(symlink("/nowhere/at/all", other), 0);
	look(f);
	check_unread(f, "b.yaml: No such file or directory");
	assert_int_equal(unlink(other), 0);
	assert_int_equal(rmdir(path), 0);
	put(f, "a.yaml", MODEL("x", "/again"));
	look(f);
	check_entries(f, "a.yaml:x=/again");
	/* The folder itself. */
	char *away = mem_printf("%s.away", f->folder);
	assert_int_equal(rename(f->folder, away), 0);
	assert_int_equal(catalog_look(f->catalog, &changed, &err), ERROR_NOT_FOUND);
	check_entries(f, "a.yaml:x=/again");
	assert_int_equal(rename(away, f->folder), 0);
	assert_false(look(f));
	free(away);
	free(path);
	free(other);
}

/* What is no file holds no manifests, so nothing waits for it; what may hold some is waited for, by name. */
static void what_is_no_file_is_passed_over(void **state)
{
	const fixture *f = *state;
	char *folder = mem_printf("%s/zz.yaml", f->folder), *fifo = mem_printf("%s/y.yml", f->folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	put(f, "a.yaml", MODEL("x", "/x"));
	look(f);
	check_unread(f, NULL);
	check_entries(f, "a.yaml:x=/x");
	assert_false(look(f));
	/* What an earlier agent had from a file of this name stays. */
	assert_true(catalog_keeps(f->catalog, OBJECT_MODEL, "default", "older", "zz.yaml"));
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(unlink(fifo), 0);
	put(f, "zz.yaml", MODEL("z", "/z"));
	assert_true(look(f));
	check_entries(f, "a.yaml:x=/x zz.yaml:z=/z");
	free(folder);
	free(fifo);
}

static void every_file_that_is_waited_for_is_named(void **state)
{
	const fixture *f = *state;
	buf big = {0};
	while (big.len <= MANIFEST_FILE_MAX)
		buf_puts(&big, "# nothing but a comment that goes on and on and on and on\n");
	put(f, "big.yaml", buf_text(&big));
	for (int i = 0; i < 4; i++) {
		char *path = mem_printf("%s/link%d.yaml", f->folder, i);
		assert_int_equal(symlink("/nowhere/at/all", path), 0);
		free(path);
	}
	look(f);
	check_unread(f,
		"big.yaml: has more than 1048576 bytes; link0.yaml: No such file or directory; link1.yaml: No such file or directory; and 2 more");
	buf_fini(&big);
}

static void too_much_is_an_error(void **state)
{
	const fixture *f = *state;
	bool changed;
	error err = {0};
	put(f, "a.yaml", MODEL("x", "/x"));
	look(f);
	buf big = {0};
	while (big.len <= MANIFEST_FILE_MAX)
		buf_puts(&big, "# nothing but a comment that goes on and on and on and on\n");
	put(f, "a.yaml", buf_text(&big));
	look(f);
	check_entries(f, "a.yaml:x=/x");
	buf_fini(&big);
	for (int i = 0; i < CATALOG_FILES_MAX; i++) {
		char *path = mem_printf("%s/f%d.yaml", f->folder, i);
		FILE *file = fopen(path, "we");
		assert_non_null(file);
		fclose(file);
		free(path);
	}
	assert_int_equal(catalog_look(f->catalog, &changed, &err), ERROR_LIMIT);
	check_entries(f, "a.yaml:x=/x");
}

static void secrets_are_kept_in_memory(void **state)
{
	const fixture *f = *state;
	put(f, "s.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {K: v}\n");
	look(f);
	const cJSON *data = catalog_secret(f->catalog, "default", "s");
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(data, "K")), "v");
	assert_null(catalog_secret(f->catalog, "other", "s"));
	put(f, "s.yaml", "half written: [");
	look(f);
	assert_non_null(catalog_secret(f->catalog, "default", "s"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_what_changed_is_read_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_broken_file_keeps_what_it_had, setup, teardown),
		cmocka_unit_test_setup_teardown(an_object_in_two_files_is_taken_from_neither, setup, teardown),
		cmocka_unit_test_setup_teardown(doubles_are_said_once, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_file_is_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(every_file_that_is_waited_for_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(too_much_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(secrets_are_kept_in_memory, setup, teardown),
	};
	mem_init();
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
