/* The documents with few members (dataset, inventory, presence, state), the pieces that travel in conditions too, and times. */
#include "common/json.h"
#include "proto/document.h"
#include "tests/unit/document_check.h"
#include "tests/unit/unit.h"

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define STAMP "\"stamp\":{\"epoch\":1796008260,\"gen\":12}"
#define HEAD_ROWS                                                                                                                          \
	{"v", MEMBER_NUMBER, true}, {"ts", MEMBER_STRING, true}, {"stamp", MEMBER_OBJECT, true}, {"stamp.epoch", MEMBER_NUMBER, true},         \
	{                                                                                                                                      \
		"stamp.gen", MEMBER_NUMBER, true                                                                                                   \
	}
#define ROWS(r) r, sizeof(r) / sizeof(r[0])

CHECK_CODEC(dataset_doc, "dataset");
CHECK_CODEC(inventory, "inventory");
CHECK_CODEC(presence, "presence");
CHECK_CODEC(job_state, "state");

static const char dataset_text[] =
	"{\"v\":1,\"ts\":\"t\"," STAMP ",\"node\":\"n\",\"dataset\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"u\","
	"\"url\":\"/d.txt\",\"format\":\"txt\"},"
	"\"credentials\":[{\"secret\":\"s3\",\"version\":\"7\",\"urls\":[\"s3://b/d.txt\"]}]}";
static const member dataset_rows[] = {
	HEAD_ROWS,
	{"node", MEMBER_STRING, true},
	{"dataset", MEMBER_OBJECT, true},
	{"dataset.namespace", MEMBER_STRING, true},
	{"dataset.name", MEMBER_STRING, true},
	{"dataset.uid", MEMBER_STRING, true},
	{"dataset.url", MEMBER_STRING, true},
	{"dataset.format", MEMBER_STRING, true},
	{"credentials", MEMBER_ARRAY, false},
	{"credentials[]", MEMBER_OBJECT, false},
	{"credentials[].secret", MEMBER_STRING, true},
	{"credentials[].version", MEMBER_STRING, false},
	{"credentials[].urls", MEMBER_ARRAY, true},
	{"credentials[].urls[]", MEMBER_STRING, false},
};

static const char inventory_text[] =
	"{\"v\":1,\"ts\":\"t\"," STAMP ",\"node\":\"n\",\"session\":\"s\",\"jobs\":[\"u1\",\"u2\"],\"datasets\":[\"d1\"]}";
static const member inventory_rows[] = {
	HEAD_ROWS,
	{"node", MEMBER_STRING, true},
	{"session", MEMBER_STRING, false},
	{"jobs", MEMBER_ARRAY, true},
	{"jobs[]", MEMBER_STRING, false},
	{"datasets", MEMBER_ARRAY, true},
	{"datasets[]", MEMBER_STRING, false},
};

static const char presence_text[] =
	"{\"v\":1,\"ts\":\"t\",\"node\":\"cloud\",\"online\":true,\"version\":\"0.1.0\",\"session\":\"s\",\"client\":\"c\",\"epoch\":"
	"1796008260,\"capabilities\":[\"txt\",\"csv\"]}";
static const member presence_rows[] = {
	{"v", MEMBER_NUMBER, true},
	{"ts", MEMBER_STRING, false},
	{"node", MEMBER_STRING, true},
	{"online", MEMBER_BOOL, true},
	{"version", MEMBER_STRING, true},
	{"session", MEMBER_STRING, true},
	{"client", MEMBER_STRING, false},
	{"epoch", MEMBER_NUMBER, false},
	{"capabilities", MEMBER_ARRAY, false},
	{"capabilities[]", MEMBER_STRING, false},
};

static const char state_text[] =
	"{\"v\":1,\"ts\":\"t\"," STAMP
	",\"job\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"u\"},\"round\":12,\"stage\":\"Train\",\"phase\":\"Running\","
	"\"since\":\"t1\",\"reason\":\"R\",\"message\":\"m\",\"ended\":{\"round\":12,\"stage\":\"Train\",\"phase\":\"Failed\",\"reason\":\"R\","
	"\"message\":\"m\"}"
	",\"waiting\":{\"samples\":7,\"trigger\":\"num_of_samples > "
	"500\"},\"metrics\":{\"new\":{\"p\":0.9},"
	"\"old\":{\"p\":[0.8,0.7]}},\"deployed\":{\"round\":10,\"sha256\":\"" HEX "\",\"since\":\"t2\"},\"failures\":0}";
static const member state_rows[] = {
	HEAD_ROWS,
	{"job", MEMBER_OBJECT, true},
	{"job.namespace", MEMBER_STRING, true},
	{"job.name", MEMBER_STRING, true},
	{"job.uid", MEMBER_STRING, true},
	{"round", MEMBER_NUMBER, true},
	{"stage", MEMBER_STRING, true},
	{"phase", MEMBER_STRING, true},
	{"since", MEMBER_STRING, true},
	{"reason", MEMBER_STRING, true},
	{"message", MEMBER_STRING, true},
	{"ended", MEMBER_OBJECT, false},
	{"ended.round", MEMBER_NUMBER, true},
	{"ended.stage", MEMBER_STRING, true},
	{"ended.phase", MEMBER_STRING, true},
	{"ended.reason", MEMBER_STRING, true},
	{"ended.message", MEMBER_STRING, true},
	{"waiting", MEMBER_OBJECT, false},
	{"waiting.samples", MEMBER_NUMBER, false},
	{"waiting.trigger", MEMBER_STRING, false},
	{"metrics", MEMBER_OBJECT, false},
	{"metrics.new", MEMBER_ANY, false},
	{"metrics.old", MEMBER_ANY, false},
	{"deployed", MEMBER_OBJECT, false},
	{"deployed.round", MEMBER_NUMBER, true},
	{"deployed.sha256", MEMBER_STRING, false},
	{"deployed.since", MEMBER_STRING, false},
	{"failures", MEMBER_NUMBER, true},
};

static void each_member_in_all_ways(void **state)
{
	(void)state;
	document_check(&dataset_doc_codec, dataset_text, ROWS(dataset_rows));
	document_check(&inventory_codec, inventory_text, ROWS(inventory_rows));
	document_check(&presence_codec, presence_text, ROWS(presence_rows));
	document_check(&job_state_codec, state_text, ROWS(state_rows));
}

static void absent_is_not_zero(void **state)
{
	char *text = document_with(state_text, "waiting.samples", NULL);
	job_state *s = document_taken(&job_state_codec, text);

	(void)state;
	assert_true(s->has_waiting);
	assert_int_equal(s->waiting_samples, -1);
	job_state_free(s);
	free(text);
	presence *p = document_taken(&presence_codec, "{\"v\":1,\"node\":\"n\",\"online\":false,\"version\":\"1\",\"session\":\"s\"}");
	assert_null(p->ts);
	assert_int_equal(p->epoch, 0);
	assert_int_equal(p->n_capabilities, 0);
	assert_false(p->online);
	presence_free(p);
	inventory *inv = document_taken(&inventory_codec, "{\"v\":1,\"ts\":\"t\"," STAMP ",\"node\":\"n\",\"jobs\":[],\"datasets\":[]}");
	assert_null(inv->session);
	assert_int_equal(inv->n_jobs + inv->n_datasets, 0);
	inventory_free(inv);
}

static void rivals(void **state)
{
	static const struct {
		const char *members;
		bool cloud, edge; /* a rival of the cloud agent "c" of session "s"; of the edge agent "n" of this session */
	} rows[] = {
		{"\"node\":\"cloud\",\"online\":true,\"session\":\"other\",\"client\":\"c\"", true, false},
		{"\"node\":\"cloud\",\"online\":true,\"session\":\"s\",\"client\":\"c\"", false, false},
		{"\"node\":\"cloud\",\"online\":false,\"session\":\"other\",\"client\":\"c\"", false, false},
		{"\"node\":\"cloud\",\"online\":true,\"session\":\"other\",\"client\":\"c2\"", false, false}, /* it may take over the lead */
		{"\"node\":\"cloud\",\"online\":true,\"session\":\"other\"", false, false},
		{"\"node\":\"n\",\"online\":true,\"session\":\"other\"", false, true},
		{"\"node\":\"n\",\"online\":true,\"session\":\"s\"", false, false},
		{"\"node\":\"n\",\"online\":1,\"session\":\"other\"", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *text = mem_printf("{\"v\":1,\"version\":\"1\",%s}", rows[i].members);

		assert_int_equal(presence_is_rival(text, strlen(text), "s", "c"), rows[i].cloud);
		assert_int_equal(presence_is_rival(text, strlen(text), "s", "n"), rows[i].edge);
		free(text);
	}
	assert_false(presence_is_rival("", 0, "s", "n"));
}

static void inventories_are_bounded(void **state)
{
	(void)state;
	for (int extra = 0; extra < 2; extra++) {
		buf b = {0};

		buf_puts(&b, "{\"v\":1,\"ts\":\"t\"," STAMP ",\"node\":\"n\",\"datasets\":[],\"jobs\":[");
		for (int i = 0; i < DOCUMENT_MAX_INVENTORY + extra; i++)
			buf_printf(&b, "%s\"uid-%d\"", i == 0 ? "" : ",", i);
		buf_puts(&b, "]}");
		if (extra == 0) {
			inventory *inv = document_taken(&inventory_codec, b.data);

			assert_int_equal(inv->n_jobs, DOCUMENT_MAX_INVENTORY);
			assert_string_equal(inv->jobs[DOCUMENT_MAX_INVENTORY - 1], "uid-4095");
			inventory_free(inv);
		} else {
			document_refused(&inventory_codec, b.data, ERROR_INVALID, "at most 4096");
		}
		buf_fini(&b);
	}
}

static void stamps_are_ordered(void **state)
{
	static const stamp ordered[] = {{0, 0}, {0, 1}, {1, 0}, {1, 2}, {2, 1}, {INT64_C(9007199254740990), 5}, {INT64_C(9007199254740991), 0}};
	const int n = sizeof(ordered) / sizeof(ordered[0]);

	(void)state;
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			int c = stamp_compare(ordered[i], ordered[j]);

			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
	}
}

static void cursors_and_models_alone(void **state)
{
	cJSON *tree = cJSON_Parse("{\"sample\":5,\"size\":60,\"digest\":\"" HEX "\"}");
	cursor c, other;
	error err = {0};

	(void)state;
	assert_int_equal(cursor_decode(tree, "ilmare.cursor", &c, &err), 0);
	cJSON *again = cursor_encode(&c);
	assert_true(json_equal(tree, again));
	cJSON_Delete(again);
	other = c;
	assert_true(cursor_equal(&c, &other));
	other.digest.b[31] ^= 1;
	assert_false(cursor_equal(&c, &other));
	other = c;
	other.size++;
	assert_false(cursor_equal(&c, &other));
	other = c;
	other.sample++;
	assert_false(cursor_equal(&c, &other));
	cJSON_DeleteItemFromObject(tree, "size");
	assert_int_equal(cursor_decode(tree, "ilmare.cursor", &c, &err), ERROR_INVALID);
	assert_string_equal(err.text, "ilmare.cursor.size is missing");
	assert_int_equal(cursor_decode(NULL, "ilmare.cursor", &c, &err), ERROR_INVALID);
	cJSON_Delete(tree);

	arena *mem = arena_new();
	model m;
	tree = cJSON_Parse("{\"format\":\"pb\",\"url\":\"/m\",\"device_soc_versions\":[\"a\"],\"metrics\":{\"p\":1}}");
	assert_int_equal(model_decode(mem, tree, "output.models[0]", &m, &err), 0);
	again = model_encode(&m);
	assert_true(json_equal(tree, again));
	cJSON_Delete(again);
	assert_int_equal(model_decode(mem, NULL, "output.models[0]", &m, &err), ERROR_INVALID);
	assert_string_equal(err.text, "output.models[0].url is missing");
	cJSON_Delete(tree);
	arena_free(mem);
}

static void dataset_formats(void **state)
{
	enum dataset_format f = FORMAT_TXT;

	(void)state;
	assert_true(dataset_format_parse("csv", &f));
	assert_int_equal(f, FORMAT_CSV);
	assert_string_equal(dataset_format_name(FORMAT_TXT), "txt");
	assert_string_equal(dataset_format_name(FORMAT_CSV), "csv");
	assert_false(dataset_format_parse("CSV", &f));
	assert_false(dataset_format_parse("", &f));
}

/* Metrics that came from somewhere else and are too deep to travel make no document at all. */
static void too_deep_to_write(void **state)
{
	cJSON *deep = cJSON_CreateArray();
	job_state s = {.ts = "t", .job = {"a", "b", "u"}, .position = {1, STAGE_TRAIN, PHASE_WAITING}, .since = "t", .waiting_samples = -1};

	(void)state;
	for (int i = 0; i < 40; i++) {
		cJSON *around = cJSON_CreateArray();

		cJSON_AddItemToArray(around, deep);
		deep = around;
	}
	s.metrics_new = deep;
	assert_null(job_state_encode(&s));
	cJSON_Delete(deep);
}

/* ---- times ---- */

static void times_there_and_back(void **state)
{
	/* Made with Python: datetime(…, tzinfo=utc).timestamp() * 1000. */
	static const struct {
		int64_t ms;
		const char *text;
	} times[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{1796011506789, "2026-11-30T04:05:06.789Z"},
		{951782400000, "2000-02-29T00:00:00.000Z"},
		{951868799999, "2000-02-29T23:59:59.999Z"},
		{4107542400000, "2100-03-01T00:00:00.000Z"},
		{1709164800000, "2024-02-29T00:00:00.000Z"},
		{-62135596800000, "0001-01-01T00:00:00.000Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		char text[32];
		int64_t ms = 1;

		time_format(times[i].ms, text);
		assert_string_equal(text, times[i].text);
		assert_int_equal(time_parse(text, &ms), 0);
		assert_true(ms == times[i].ms);
	}
	/* Every day of 9,999 years has its own text, and they follow each other. */
	char before[32] = "0000-12-31";
	for (int64_t day = -719162; day <= 2932896; day += 1 + (day & 7)) {
		char text[32];
		int64_t ms;

		time_format(day * 86400000, text);
		assert_int_equal(time_parse(text, &ms), 0);
		assert_true(ms == day * 86400000 && strcmp(before, text) < 0);
		memcpy(before, text, sizeof(text));
	}
}

static void times_outside_four_digits(void **state)
{
	char text[32];

	(void)state;
	time_format(INT64_MAX, text);
	assert_string_equal(text, "9999-12-31T23:59:59.999Z");
	time_format(INT64_MIN, text);
	assert_string_equal(text, "0000-01-01T00:00:00.000Z");
}

static void other_spellings_of_times(void **state)
{
	static const char *const same[] = {"2026-11-30T04:05:06Z", "2026-11-30t04:05:06z", "2026-11-30T04:05:06.0Z",
		"2026-11-30T05:05:06+01:00", "2026-11-29T22:35:06-05:30", "2026-11-30T04:05:06.000000000Z", "2026-11-30T04:05:06.0009999Z",
		"2026-11-30T04:05:06+00:00"};
	static const char *const wrong[] = {"", "2026", "2026-11-30", "2026-11-30T04:05:06", "2026-11-30 04:05:06Z", "2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-00T00:00:00Z",
		"2026-11-30T24:00:00Z", "2026-11-30T00:60:00Z", "2026-11-30T00:00:61Z", "2026-11-30T04:05:06.Z", "2026-11-30T04:05:06+1:00",
		"2026-11-30T04:05:06+0100", "2026-11-30T04:05:06+24:00", "2026-11-30T04:05:06ZZ", "2026-11-30T04:05:06Z ", " 2026-11-30T04:05:06Z",
		"+026-11-30T04:05:06Z", "20261130T040506Z"};
	int64_t ms = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(time_parse(same[i], &ms), 0);
		assert_true(ms == 1796011506000);
	}
	ms = 7;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (time_parse(wrong[i], &ms) != ERROR_INVALID)
			fail_msg("taken: %s", wrong[i]);
		assert_true(ms == 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_in_all_ways),
		cmocka_unit_test(absent_is_not_zero),
		cmocka_unit_test(rivals),
		cmocka_unit_test(inventories_are_bounded),
		cmocka_unit_test(stamps_are_ordered),
		cmocka_unit_test(cursors_and_models_alone),
		cmocka_unit_test(dataset_formats),
		cmocka_unit_test(too_deep_to_write),
		cmocka_unit_test(times_there_and_back),
		cmocka_unit_test(times_outside_four_digits),
		cmocka_unit_test(other_spellings_of_times),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
