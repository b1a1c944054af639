/* Old rounds go; what is somebody else's, or still needed, stays; and none is ever half there. */
#include "tests/unit/dataset_kit.h"

#include <sys/stat.h>

#include "common/file.h"
#include "edge-agent/dataset/manifest.h"
#include "edge-agent/dataset/retention.h"
#include "tests/unit/fault_kit.h"

FAULT_CALL(int, rename, false, (const char *from, const char *to), (from, to))
FAULT_CALL(int, unlinkat, false, (int at, const char *name, int flags), (at, name, flags))

#define UID "8c5d7b5e-1c1f-4b8e-9a53-0f5a2f4f0a11"
#define OTHER "11111111-1c1f-4b8e-9a53-0f5a2f4f0a11"

static void put(const char *out, const char *place, const char *text)
{
	char *path = mem_printf("%s/data/%s", out, place), *dir = mem_strdup(path);
	*strrchr(dir, '/') = '\0';
	assert_int_equal(file_make_dirs(dir, 0755, NULL), 0);
	assert_int_equal(file_write(path, text, strlen(text), 0644, NULL), 0);
	free(dir);
	free(path);
}

/* The folders of a round as a round leaves them. */
static void add(const char *out, const char *uid, int64_t round, int64_t in_folder)
{
	manifest m = {
		.round = round, .format = FORMAT_TXT, .from = round * 10, .to = round * 10 + 1, .train_prob = 1, .train = 1, .n_files = 1};
	m.before.sample = m.from;
	m.after.sample = m.to;
	m.after.size = 2;
	snprintf(m.uid, sizeof m.uid, "%s", uid);
	snprintf(m.files[0].name, sizeof m.files[0].name, "data.txt");
	m.files[0].samples = 1;
	m.files[0].bytes = 2;
	char *text = manifest_encode(&m), place[64];
	snprintf(place, sizeof place, "train/%d/manifest.json", (int)in_folder);
	put(out, place, text);
	snprintf(place, sizeof place, "train/%d/data.txt", (int)in_folder);
	put(out, place, "x\n");
	snprintf(place, sizeof place, "eval/%d/data.txt", (int)in_folder);
	put(out, place, "x\n");
	free(text);
}

static bool there(const char *out, const char *place)
{
	struct stat st;
	char *path = mem_printf("%s/data/%s", out, place);
	bool found = lstat(path, &st) == 0;
	free(path);
	return found;
}

static void test_old_rounds_go(void **state)
{
	(void)state;
	char *out = unit_folder();
	for (int i = 1; i <= 5; i++)
		add(out, UID, i, i);
	rounds_remove_before(out, UID, 4);
	for (int i = 1; i <= 5; i++) {
		char train[32], eval[32];
		snprintf(train, sizeof train, "train/%d/data.txt", i);
		snprintf(eval, sizeof eval, "eval/%d/data.txt", i);
		assert_int_equal(there(out, train), i >= 4);
		assert_int_equal(there(out, eval), i >= 4);
	}
	rounds_remove_before(out, UID, 0); /* and below nothing there is nothing */
	assert_true(there(out, "train/4/data.txt"));
	unit_folder_remove(out);
}

static void test_what_is_not_ours_stays(void **state)
{
	(void)state;
	char *out = unit_folder();
	add(out, OTHER, 1, 1);
	add(out, UID, 7, 2); /* says that it is another round */
	put(out, "train/3/notes.txt", "no manifest");
	put(out, "train/4.aside-8c5d7b5e-1/data.txt", "x\n");
	put(out, "train/4", "a file");
	add(out, UID, 5, 5);
	rounds_remove_before(out, UID, 100);
	assert_true(there(out, "train/1/data.txt") && there(out, "eval/1/data.txt"));
	assert_true(there(out, "train/2/data.txt") && there(out, "eval/2/data.txt"));
	assert_true(there(out, "train/3/notes.txt"));
	assert_true(there(out, "train/4") && there(out, "train/4.aside-8c5d7b5e-1/data.txt"));
	assert_false(there(out, "train/5") || there(out, "eval/5"));
	unit_folder_remove(out);
}

static void remove_first(void *out)
{
	rounds_remove_before(out, UID, 2);
}

/* The n-th call fails, or is the last one; a folder under its name is whole then, and the next time all is removed. */
static bool interrupted(int n, bool killed)
{
	char *out = unit_folder();
	bool happened;
	add(out, UID, 1, 1);
	add(out, UID, 2, 2);
	if (killed) {
		happened = fault_kill_at(n, remove_first, out);
	} else {
		fault_arm(FAULT_ERROR, n, EIO);
		remove_first(out);
		happened = fault_happened();
	}
	if (there(out, "train/1"))
		assert_true(there(out, "train/1/data.txt") && there(out, "train/1/manifest.json"));
	if (there(out, "eval/1"))
		assert_true(there(out, "eval/1/data.txt"));
	remove_first(out);
	assert_false(there(out, "train/1") || there(out, "eval/1") || there(out, "train/.1.old") || there(out, "eval/.1.old"));
	assert_true(there(out, "train/2/data.txt") && there(out, "eval/2/data.txt"));
	unit_folder_remove(out);
	return happened;
}

static void test_a_removal_that_is_interrupted(void **state)
{
	(void)state;
	for (int killed = 0; killed < 2; killed++) {
		int n = 1;
		while (interrupted(n, killed))
			n++;
		assert_true(n > 6); /* two renames, and what was in two folders */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_rounds_go),
		cmocka_unit_test(test_what_is_not_ours_stays),
		cmocka_unit_test(test_a_removal_that_is_interrupted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
