/* Names of workers and pods, held against values made elsewhere, and at their limits. */
#include "proto/worker.h"
#include "tests/unit/unit.h"

#define UID "5b3e2f7c-9a41-4d0e-8c56-1f2ad93b7e10"

/* Made with Python:
 *   base64.b32encode(hashlib.sha256(f"{uid}/{round}/{stage}".encode()).digest()).decode().lower()[:10] */
static const struct {
	enum worker_kind kind;
	const char *uid;
	int64_t round;
	const char *worker, *pod;
} known[] = {
	{WORKER_TRAIN, UID, 1, "train-worker-qgn3wlkzd4", "helmet-train-qgn3wlkzd4"},
	{WORKER_TRAIN, UID, 12, "train-worker-tjk7xz6o74", "helmet-train-tjk7xz6o74"},
	{WORKER_EVAL, UID, 12, "eval-worker-brh2g6oojo", "helmet-eval-brh2g6oojo"},
	{WORKER_INFERENCE, UID, 0, "inferworker-5tx3wvwjtq", "helmet-inference-5tx3wvwjtq"},
	{WORKER_INFERENCE, UID, 12, "inferworker-diki2uaml5", "helmet-inference-diki2uaml5"},
	{WORKER_TRAIN, UID, INT64_C(9007199254740991), "train-worker-yqblvnooj3", "helmet-train-yqblvnooj3"},
	{WORKER_TRAIN, "u1", 1, "train-worker-s3ghj2u6rs", "helmet-train-s3ghj2u6rs"},
};

static void known_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		char worker[WORKER_NAME_SIZE], pod[POD_NAME_SIZE];

		worker_name(known[i].kind, known[i].uid, known[i].round, worker);
		assert_string_equal(worker, known[i].worker);
		pod_name(known[i].kind, "helmet", known[i].uid, known[i].round, pod);
		assert_string_equal(pod, known[i].pod);
	}
}

static void pod_names_of_long_jobs(void **state)
{
	static const struct {
		const char *job, *begin;
	} jobs[] = {
		{"a.b.c", "a.b.c-train-"},
		{"a23456789012345678901234567890123456789z", "a23456789012345678901234567890123456789z-train-"},
		{"a23456789012345678901234567890123456789zb", "a23456789012345678901234567890123456789z-train-"},
		{"a2345678901234567890123456789012345678-.b", "a2345678901234567890123456789012345678-train-"},
	};
	char pod[POD_NAME_SIZE], job[NAME_MAX_NAME + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		pod_name(WORKER_TRAIN, jobs[i].job, UID, 12, pod);
		assert_int_equal(strncmp(pod, jobs[i].begin, strlen(jobs[i].begin)), 0);
		assert_string_equal(pod + strlen(jobs[i].begin), "tjk7xz6o74");
	}
	for (size_t len = 1; len <= NAME_MAX_NAME; len++) {
		memset(job, 'j', len);
		job[len] = '\0';
		for (int k = WORKER_TRAIN; k <= WORKER_INFERENCE; k++) {
			pod_name((enum worker_kind)k, job, UID, 1, pod);
			assert_true(strlen(pod) <= 63 && name_valid(pod));
		}
	}
	/* Two long names that differ at the end only: the uid keeps their pods apart. */
	char other[POD_NAME_SIZE];
	pod_name(WORKER_TRAIN, job, "u1", 1, pod);
	pod_name(WORKER_TRAIN, job, "u2", 1, other);
	assert_string_not_equal(pod, other);
}

static void filled(char *text, size_t len, char c)
{
	memset(text, c, len);
	text[len] = '\0';
}

static void labels(void **state)
{
	char text[300], wanted[80], label[64], other[64];

	(void)state;
	for (size_t len = 0; len <= 63; len++) {
		filled(text, len, 'a');
		label_value(text, label);
		assert_string_equal(label, text);
	}
	/* The ends are base32(SHA-256(text)) as above. */
	filled(text, 64, 'a');
	label_value(text, label);
	filled(wanted, 52, 'a');
	strcat(wanted, "-77qfj7t24d");
	assert_string_equal(label, wanted);

	filled(text, 253, 'n');
	label_value(text, label);
	assert_int_equal(strlen(label), 63);
	assert_string_equal(label + 52, "-d4qdnzk6ls");

	filled(text, 200, 'a');
	strcat(text, "b");
	label_value(text, label);
	assert_string_equal(label + 52, "-qmgi2immed");
	text[200] = 'c';
	label_value(text, other);
	assert_string_equal(other + 52, "-xwm7rnulit");

	/* Cut to end in a letter or digit. */
	filled(text, 51, 'x');
	strcat(text, ".yyyyyyyyyyyyyyyyyyyy");
	label_value(text, label);
	filled(wanted, 51, 'x');
	strcat(wanted, "-3sbvavence");
	assert_string_equal(label, wanted);
}

static void kinds(void **state)
{
	static const char *const words[] = {"train", "eval", "inference"};
	enum worker_kind k = WORKER_EVAL;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_string_equal(worker_kind_word((enum worker_kind)i), words[i]);
		assert_true(worker_kind_parse(words[i], &k));
		assert_int_equal(k, i);
	}
	assert_false(worker_kind_parse("deploy", &k));
	assert_false(worker_kind_parse("Train", &k));
	assert_string_equal(worker_kind_word((enum worker_kind)5), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(pod_names_of_long_jobs),
		cmocka_unit_test(labels),
		cmocka_unit_test(kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
