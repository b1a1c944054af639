/* Topics: each form there and back, names at their limits, and what must be refused. */
#include "proto/topic.h"
#include "tests/unit/unit.h"

#define N63 "a23456789012345678901234567890123456789012345678901234567890123"
#define N253 N63 "." N63 "." N63 ".a23456789012345678901234567890123456789012345678901234567890z"

static const struct {
	const char *text;
	topic topic;
} forms[] = {
	{"ilmare/v1/ns/default/job/helmet/state", {.kind = TOPIC_STATE, .ns = "default", .name = "helmet"}},
	{"ilmare/v1/ns/a/job/b.c-d/node/n-1/train/ready",
		{.kind = TOPIC_REPORT, .ns = "a", .name = "b.c-d", .node = "n-1", .stage = STAGE_TRAIN, .what = REPORT_READY}},
	{"ilmare/v1/ns/a/job/b/node/n/eval/completed",
		{.kind = TOPIC_REPORT, .ns = "a", .name = "b", .node = "n", .stage = STAGE_EVAL, .what = REPORT_COMPLETED}},
	{"ilmare/v1/ns/a/job/b/node/n/deploy/failed",
		{.kind = TOPIC_REPORT, .ns = "a", .name = "b", .node = "n", .stage = STAGE_DEPLOY, .what = REPORT_FAILED}},
	{"ilmare/v1/ns/a/job/b/node/n/deploy/written",
		{.kind = TOPIC_REPORT, .ns = "a", .name = "b", .node = "n", .stage = STAGE_DEPLOY, .what = REPORT_WRITTEN}},
	{"ilmare/v1/ns/a/job/b/node/n/infer/stats", {.kind = TOPIC_STATS, .ns = "a", .name = "b", .node = "n"}},
	{"ilmare/v1/ns/a/dataset/b/node/n/status", {.kind = TOPIC_DATASET_STATUS, .ns = "a", .name = "b", .node = "n"}},
	{"ilmare/v1/node/n/job/a/b", {.kind = TOPIC_DESIRED, .ns = "a", .name = "b", .node = "n"}},
	{"ilmare/v1/node/n/dataset/a/b", {.kind = TOPIC_DATASET, .ns = "a", .name = "b", .node = "n"}},
	{"ilmare/v1/node/n/inventory", {.kind = TOPIC_INVENTORY, .node = "n"}},
	{"ilmare/v1/node/n/credential/request", {.kind = TOPIC_CREDENTIAL_REQUEST, .node = "n"}},
	{"ilmare/v1/node/n/credential/response", {.kind = TOPIC_CREDENTIAL_RESPONSE, .node = "n"}},
	{"ilmare/v1/presence/n", {.kind = TOPIC_PRESENCE, .node = "n"}},
	{"ilmare/v1/presence/cloud", {.kind = TOPIC_PRESENCE, .node = "cloud"}},
	/* Levels that look like others. */
	{"ilmare/v1/node/node/job/job/job", {.kind = TOPIC_DESIRED, .ns = "job", .name = "job", .node = "node"}},
	{"ilmare/v1/node/dataset/job/ns/inventory", {.kind = TOPIC_DESIRED, .ns = "ns", .name = "inventory", .node = "dataset"}},
	{"ilmare/v1/node/" N253 "/job/" N63 "/" N253, {.kind = TOPIC_DESIRED, .ns = N63, .name = N253, .node = N253}},
	{"ilmare/v1/ns/" N63 "/job/" N253 "/node/" N253 "/deploy/completed",
		{.kind = TOPIC_REPORT, .ns = N63, .name = N253, .node = N253, .stage = STAGE_DEPLOY, .what = REPORT_COMPLETED}},
};

static void each_form_there_and_back(void **state)
{
	(void)state;
	assert_int_equal(strlen(N63), NAME_MAX_NS);
	assert_int_equal(strlen(N253), NAME_MAX_NAME);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const topic *wanted = &forms[i].topic;
		topic t;
		error err = {0};

		if (topic_parse(TOPIC_ROOT, forms[i].text, &t, &err) != 0)
			fail_msg("%s", err.text);
		assert_int_equal(t.kind, wanted->kind);
		assert_string_equal(t.ns, wanted->ns);
		assert_string_equal(t.name, wanted->name);
		assert_string_equal(t.node, wanted->node);
		assert_int_equal(t.stage, wanted->stage);
		assert_int_equal(t.what, wanted->what);
		char *text = topic_format(TOPIC_ROOT, wanted);
		assert_string_equal(text, forms[i].text);
		free(text);
	}
}

static void refused(const char *root, const char *text)
{
	topic t = {.kind = TOPIC_INVENTORY, .node = "untouched"};
	error err = {0};

	if (topic_parse(root, text, &t, &err) != ERROR_INVALID)
		fail_msg("taken: %s", text);
	assert_string_equal(t.node, "untouched");
	if (err.text[0] == '\0' || strpbrk(err.text, "\n\r\t\x1b") != NULL || strlen(err.text) > 300)
		fail_msg("a bad error text: %s", err.text);
	assert_int_equal(topic_parse(root, text, &t, NULL), ERROR_INVALID);
}

static void hostile_topics_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"/",
		"ilmare",
		"ilmare/v1",
		"ilmare/v1/",
		"ilmare/v1//",
		"ilmare/v1x/presence/n",
		"ilmare/v1xpresence/n",
		"ilmare/v2/presence/n",
		"ilmare/v/presence/n",
		"/ilmare/v1/presence/n",
		"x/ilmare/v1/presence/n",
		"ILMARE/v1/presence/n",
		"ilmare/v1/presence/",
		"ilmare/v1/presence",
		"ilmare/v1//presence/n",
		"ilmare/v1/presence/n/",
		"ilmare/v1/presence/n/x",
		"ilmare/v1/Presence/n",
		"ilmare/v1/presence/N",
		"ilmare/v1/presence/+",
		"ilmare/v1/presence/#",
		"ilmare/v1/presence/n+",
		"ilmare/v1/#",
		"ilmare/v1/+/n",
		"ilmare/v1/node/+/inventory",
		"ilmare/v1/presence/-n",
		"ilmare/v1/presence/n-",
		"ilmare/v1/presence/.n",
		"ilmare/v1/presence/n.",
		"ilmare/v1/presence/a..b",
		"ilmare/v1/presence/a.-b",
		"ilmare/v1/presence/a-.b",
		"ilmare/v1/presence/a_b",
		"ilmare/v1/presence/a b",
		"ilmare/v1/presence/..",
		"ilmare/v1/presence/n\n",
		"ilmare/v1/presence/\x1b[2J",
		"ilmare/v1/presence/\x7f",
		"ilmare/v1/presence/n\xc3\xbc",
		"ilmare/v1/presence/\xff",
		"ilmare/v1/presence/%6e",
		"ilmare/v1/node/cloud/inventory",
		"ilmare/v1/node/cloud/job/a/b",
		"ilmare/v1/ns/a/job/b/node/cloud/train/ready",
		"ilmare/v1/node/n/inventory/x",
		"ilmare/v1/node/n/Inventory",
		"ilmare/v1/node//inventory",
		"ilmare/v1/node/n/job/a",
		"ilmare/v1/node/n/job/a.b/c",
		"ilmare/v1/node/n/job/a/b/c",
		"ilmare/v1/node/n/credential/x",
		"ilmare/v1/ns/a/job/b/node/n/train/written",
		"ilmare/v1/ns/a/job/b/node/n/eval/written",
		"ilmare/v1/ns/a/job/b/node/n/train/running",
		"ilmare/v1/ns/a/job/b/node/n/Train/ready",
		"ilmare/v1/ns/a/job/b/node/n/infer/ready",
		"ilmare/v1/ns/a/job/b/node/n/train/stats",
		"ilmare/v1/ns/a/job/b/node/n/train",
		"ilmare/v1/ns/a/job/b/node/n/train/ready/x",
		"ilmare/v1/ns/a/job/b/node/n/train/ready/",
		"ilmare/v1/ns/a/dataset/b/state",
		"ilmare/v1/ns/a/job/b/status",
		"ilmare/v1/ns/a/job//state",
		"ilmare/v1/ns//job/b/state",
		"$SYS/broker/version",
		"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z",
		"ilmare/v1/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
		"ilmare/v1/ns/" N63 "x/job/b/state",
		"ilmare/v1/presence/" N253 "xx",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused(TOPIC_ROOT, wrong[i]);
}

static void long_topics_are_refused(void **state)
{
	char text[4000];

	(void)state;
	for (size_t len = 19 + NAME_MAX_NAME + 1; len < sizeof(text) - 1; len += len < 1300 ? 1 : 97) {
		memset(text, 'a', len);
		text[len] = '\0';
		memcpy(text, "ilmare/v1/presence/", 19);
		refused(TOPIC_ROOT, text);
		memset(text + 19, '/', len - 19);
		refused(TOPIC_ROOT, text);
	}
}

static void each_cut_of_a_topic_is_refused(void **state)
{
	const char *whole = "ilmare/v1/ns/alpha/job/beta/node/gamma/train/ready";
	char text[80];

	(void)state;
	for (size_t len = 0; len < strlen(whole); len++) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)len, whole);
		refused(TOPIC_ROOT, text);
	}
}

static void the_root_is_configurable(void **state)
{
	topic t;

	(void)state;
	assert_int_equal(topic_parse("site/7/il", "site/7/il/presence/n", &t, NULL), 0);
	assert_int_equal(t.kind, TOPIC_PRESENCE);
	refused("site/7/il", "ilmare/v1/presence/n");
	refused("site/7/il", "site/7/ilx/presence/n");
	char *text = topic_format("x", &t);
	assert_string_equal(text, "x/presence/n");
	free(text);
}

static void roots(void **state)
{
	static const char *const wrong[] = {"", "/", "a/", "/a", "a//b", "a/+/b", "#", "a#", "$share", "a b", "a\n", "a\xc3\xbc"};
	char text[300];

	(void)state;
	assert_true(topic_root_valid("ilmare/v1"));
	assert_true(topic_root_valid("A/b/c_d.e$f"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(topic_root_valid(wrong[i]));
	memset(text, 'a', sizeof(text));
	text[TOPIC_ROOT_MAX] = '\0';
	assert_true(topic_root_valid(text));
	text[TOPIC_ROOT_MAX] = 'a';
	text[TOPIC_ROOT_MAX + 1] = '\0';
	assert_false(topic_root_valid(text));
}

static void filters(void **state)
{
	/* Sorted by kind; that of reports covers stats. What is answered with credentials is not heard. */
	static const char *const wanted[] = {"r/ns/+/job/+/state", "r/ns/+/job/+/node/+/+/+", "r/ns/+/dataset/+/node/+/status",
		"r/node/+/job/+/+", "r/node/+/dataset/+/+", "r/node/+/inventory", "r/node/+/credential/request", "r/presence/+"};
	char *edge = topic_edge_filter("r", "n");
	char **cloud = topic_cloud_filters("r");
	size_t n = 0;

	(void)state;
	assert_string_equal(edge, "r/node/n/#");
	free(edge);
	for (; cloud[n] != NULL; n++) {
		assert_true(n < sizeof(wanted) / sizeof(wanted[0]));
		assert_string_equal(cloud[n], wanted[n]);
		free(cloud[n]);
	}
	free(cloud);
	assert_int_equal(n, sizeof(wanted) / sizeof(wanted[0]));
}

static void names(void **state)
{
	char text[400];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t len = 0; len < 300; len++) {
		text[len] = '\0';
		assert_int_equal(name_valid(text), len >= 1 && len <= 253);
		assert_int_equal(name_valid_ns(text), len >= 1 && len <= 63);
		assert_int_equal(name_valid_node(text), len >= 1 && len <= 253);
		text[len] = 'a';
	}
	assert_true(name_valid("cloud"));
	assert_true(name_valid_ns("cloud"));
	assert_false(name_valid_node("cloud"));
	assert_true(name_valid_node("cloud.x"));
	assert_true(name_valid("0.1-2.z"));
	assert_false(name_valid_ns("a.b"));
	for (int c = 1; c < 256; c++) {
		char middle[] = {'a', (char)c, 'b', '\0'};
		char first[] = {(char)c, 'b', '\0'};
		char last[] = {'a', (char)c, '\0'};
		int plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		assert_int_equal(name_valid(middle), plain || c == '-' || c == '.');
		assert_int_equal(name_valid_ns(middle), plain || c == '-');
		assert_int_equal(name_valid(first), plain);
		assert_int_equal(name_valid(last), plain);
	}
}

static void report_words(void **state)
{
	enum report_what w = REPORT_FAILED;

	(void)state;
	for (int i = REPORT_READY; i <= REPORT_WRITTEN; i++) {
		assert_true(report_what_parse(report_what_word((enum report_what)i), &w));
		assert_int_equal(w, i);
	}
	assert_false(report_what_parse("Ready", &w));
	assert_false(report_what_parse("", &w));
	assert_string_equal(report_what_word((enum report_what)9), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_there_and_back),
		cmocka_unit_test(hostile_topics_are_refused),
		cmocka_unit_test(long_topics_are_refused),
		cmocka_unit_test(each_cut_of_a_topic_is_refused),
		cmocka_unit_test(the_root_is_configurable),
		cmocka_unit_test(roots),
		cmocka_unit_test(filters),
		cmocka_unit_test(names),
		cmocka_unit_test(report_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
