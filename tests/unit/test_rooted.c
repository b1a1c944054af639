/* Urls to paths: links of a file system that is mounted below a folder stay below it; what is no local file is refused and said. */
#include "tests/unit/unit.h"

#include "edge-agent/storage/rooted.h"

static void links_stay_below_the_root(void **state)
{
	static const char *const table[][2] = {
		{"/srv/m.npz", "/srv/m.npz"},
		{"/missing/m.npz", "/missing/m.npz"},
		{"/abs/m.npz", "/srv/m.npz"},         /* a folder on the way */
		{"/srv/abs.npz", "/srv/m.npz"},       /* the file itself */
		{"/srv/new.npz", "/srv/deep/x.npz"},  /* leads to what is not there yet */
		{"/srv/rel.npz", "/srv/m.npz"},       /* relative */
		{"/srv/out.npz", "/etc/m.npz"},       /* `..` ends at the root */
		{"/srv/deep/../m.npz", "/srv/m.npz"}, /* also in the url */
		{"/abs//./", "/srv/"},
		{"/two/m.npz", "/srv/m.npz"}, /* one that leads to one */
		{"/", "/"},
	};
	static const char *const links[][2] = {{"/srv", "abs"}, {"/srv/m.npz", "srv/abs.npz"}, {"/srv/deep/x.npz", "srv/new.npz"},
		{"../srv/./m.npz", "srv/rel.npz"}, {"../../../../etc/m.npz", "srv/out.npz"}, {"abs", "two"}, {"/loop", "loop"}};
	char *root = unit_folder(), *srv = mem_printf("%s/srv/deep", root), *with_slash = mem_printf("%s/", root), *path;
	error err = {0};
	(void)state;

	assert_int_equal(file_make_dirs(srv, 0755, NULL), 0);
	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
		char *at = mem_printf("%s/%s", root, links[i][1]);
		assert_int_equal(symlink(links[i][0], at), 0);
		free(at);
	}
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char *expected = mem_printf("%s%s", root, table[i][1]);
		assert_int_equal(rooted_path(i % 2 ? root : with_slash, table[i][0], &path, &err), 0);
		assert_string_equal(path, expected);
		free(path);
		free(expected);
	}
	assert_int_equal(rooted_path(root, "/loop/x", &path, &err), ERROR_INVALID);
	assert_null(path);
	free(with_slash);
	free(srv);
	unit_folder_remove(root);
}

static void without_a_root_the_kernel_follows(void **state)
{
	char *path;
	(void)state;
	assert_int_equal(rooted_path("", "/srv/../x/", &path, NULL), 0);
	assert_string_equal(path, "/srv/../x/");
	free(path);
	assert_int_equal(rooted_path(NULL, "/a://b", &path, NULL), 0);
	free(path);
}

static void what_is_no_local_file(void **state)
{
	static const char *const roots[] = {"", "/rootfs"};
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char *path;
		error err = {0};
		assert_int_equal(rooted_path(roots[i], "s3://bucket/pts.csv", &path, &err), ERROR_UNSUPPORTED);
		assert_string_equal(err.text,
			"s3://bucket/pts.csv is neither a path from the root nor an s3:// url, and one of them is needed here");
		assert_int_equal(rooted_path(roots[i], "data/pts.csv", &path, &err), ERROR_INVALID);
		assert_non_null(strstr(err.text, "an absolute path is needed"));
		assert_int_equal(rooted_path(roots[i], "", &path, &err), ERROR_INVALID);
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_stay_below_the_root),
		cmocka_unit_test(without_a_root_the_kernel_follows),
		cmocka_unit_test(what_is_no_local_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
