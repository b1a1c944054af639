/* The desired document, and triggers, which a job's spec has in the same shape. */
#include "common/json.h"
#include "proto/document.h"
#include "tests/unit/document_check.h"
#include "tests/unit/unit.h"

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

CHECK_CODEC(desired, "desired");

static const char full[] =
	"{\"v\":1,\"ts\":\"2026-11-30T18:05:12.480Z\",\"stamp\":{\"epoch\":1796008260,\"gen\":4503599627370496},\"node\":\"edge-1\","
	"\"job\":{\"namespace\":\"factory\",\"name\":\"helmet\",\"uid\":\"u-1\"},\"roles\":[\"dataset\",\"train\",\"eval\",\"deploy\"],"
	"\"position\":{\"round\":12,\"stage\":\"Deploy\",\"phase\":\"Waiting\"},\"workerEnded\":true,"
	"\"trained\":{\"round\":12,\"models\":[{\"format\":\"pb\",\"url\":\"/m/"
	"a.pb\",\"device_soc_versions\":[\"A310\",\"B\"],\"metrics\":{\"loss\":0.1}},"
	"{\"format\":\"\",\"url\":\"/m/ck\"}],\"cursor\":{\"sample\":4912,\"size\":208750,\"digest\":\"" HEX "\"}},"
	"\"deployed\":{\"round\":0,\"sha256\":\"" HEX "\"},"
	"\"evalResults\":[{\"format\":\"pb\",\"url\":\"/m/a.pb\",\"metrics\":{\"precision\":[0.9,1]}},{\"format\":\"pb\",\"url\":\"/m/"
	"old.pb\",\"metrics\":"
	"\"text\"}],"
	"\"dataset\":{\"namespace\":\"factory\",\"name\":\"images\",\"uid\":\"d-1\",\"url\":\"/d/a.csv\",\"format\":\"csv\",\"trainProb\":0.8,"
	"\"firstSample\":\"end\"},"
	"\"models\":{\"base\":{\"format\":\"ckpt\",\"url\":\"/m/base\"},\"eval\":[{\"format\":\"pb\",\"url\":\"/m/"
	"a.pb\"},{\"format\":\"pb\",\"url\":\"/m/"
	"old.pb\"}],\"deploy\":[{\"from\":{\"format\":\"pb\",\"url\":\"/m/a.pb\"},\"to\":{\"format\":\"pb\",\"url\":\"/m/served.pb\"}}]},"
	"\"triggers\":{\"train\":{\"checkPeriodSeconds\":60,\"timer\":{\"start\":\"20:00\",\"end\":\"24:00\"},\"condition\":{\"operator\":\">"
	"\","
	"\"threshold\":500,\"metric\":\"num_of_samples\"}},\"deploy\":{\"checkPeriodSeconds\":1,\"timer\":{\"start\":\"08:05\",\"end\":\"00:"
	"00\"},"
	"\"condition\":{\"operator\":\"<=\",\"threshold\":-0.25,\"metric\":\"precision_delta[1]\"}}},"
	"\"outputDir\":\"/data/out\",\"hotUpdate\":{\"pollPeriodSeconds\":60},"
	"\"credentials\":[{\"secret\":\"a.b\",\"version\":\"7\",\"urls\":[\"s3://b/in\",\"s3://b/out\"]},{\"secret\":\"c\",\"urls\":[\"s3://"
	"c\"]}]}";

#define MODEL_ROWS(at)                                                                                                                     \
	{at, MEMBER_OBJECT, false}, {at ".format", MEMBER_STRING, false},                                                                      \
	{                                                                                                                                      \
		at ".url", MEMBER_STRING, true                                                                                                     \
	}
#define DEPLOY_MODEL_ROWS(at)                                                                                                              \
	{at, MEMBER_OBJECT, true}, {at ".format", MEMBER_STRING, false},                                                                       \
	{                                                                                                                                      \
		at ".url", MEMBER_STRING, true                                                                                                     \
	}
#define TRIGGER_ROWS(at)                                                                                                                   \
	{at, MEMBER_OBJECT, true}, {at ".checkPeriodSeconds", MEMBER_NUMBER, false}, {at ".timer", MEMBER_OBJECT, false},                      \
		{at ".timer.start", MEMBER_STRING, true}, {at ".timer.end", MEMBER_STRING, true}, {at ".condition", MEMBER_OBJECT, false},         \
		{at ".condition.operator", MEMBER_STRING, true}, {at ".condition.threshold", MEMBER_NUMBER, true},                                 \
	{                                                                                                                                      \
		at ".condition.metric", MEMBER_STRING, true                                                                                        \
	}

static const member rows[] = {
	{"v", MEMBER_NUMBER, true},
	{"ts", MEMBER_STRING, true},
	{"stamp", MEMBER_OBJECT, true},
	{"stamp.epoch", MEMBER_NUMBER, true},
	{"stamp.gen", MEMBER_NUMBER, true},
	{"node", MEMBER_STRING, true},
	{"job", MEMBER_OBJECT, true},
	{"job.namespace", MEMBER_STRING, true},
	{"job.name", MEMBER_STRING, true},
	{"job.uid", MEMBER_STRING, true},
	{"roles", MEMBER_ARRAY, true},
	{"roles[]", MEMBER_STRING, false},
	{"position", MEMBER_OBJECT, true},
	{"position.round", MEMBER_NUMBER, true},
	{"position.stage", MEMBER_STRING, true},
	{"position.phase", MEMBER_STRING, true},
	{"workerEnded", MEMBER_BOOL, true},
	{"trained", MEMBER_OBJECT, false},
	{"trained.round", MEMBER_NUMBER, true},
	{"trained.models", MEMBER_ARRAY, true},
	MODEL_ROWS("trained.models[]"),
	{"trained.models[].device_soc_versions", MEMBER_ARRAY, false},
	{"trained.models[].device_soc_versions[]", MEMBER_STRING, false},
	{"trained.models[].metrics", MEMBER_ANY, false},
	{"trained.cursor", MEMBER_OBJECT, false},
	{"trained.cursor.sample", MEMBER_NUMBER, true},
	{"trained.cursor.size", MEMBER_NUMBER, true},
	{"trained.cursor.digest", MEMBER_STRING, true},
	{"deployed", MEMBER_OBJECT, false},
	{"deployed.round", MEMBER_NUMBER, true},
	{"deployed.sha256", MEMBER_STRING, false},
	{"evalResults", MEMBER_ARRAY, false},
	MODEL_ROWS("evalResults[]"),
	{"evalResults[].metrics", MEMBER_ANY, false},
	{"dataset", MEMBER_OBJECT, false},
	{"dataset.namespace", MEMBER_STRING, true},
	{"dataset.name", MEMBER_STRING, true},
	{"dataset.uid", MEMBER_STRING, true},
	{"dataset.url", MEMBER_STRING, true},
	{"dataset.format", MEMBER_STRING, true},
	{"dataset.trainProb", MEMBER_NUMBER, true},
	{"dataset.firstSample", MEMBER_STRING, false},
	{"models", MEMBER_OBJECT, false},
	MODEL_ROWS("models.base"),
	{"models.eval", MEMBER_ARRAY, false},
	MODEL_ROWS("models.eval[]"),
	{"models.deploy", MEMBER_ARRAY, false},
	{"models.deploy[]", MEMBER_OBJECT, false},
	DEPLOY_MODEL_ROWS("models.deploy[].from"),
	DEPLOY_MODEL_ROWS("models.deploy[].to"),
	{"triggers", MEMBER_OBJECT, true},
	TRIGGER_ROWS("triggers.train"),
	TRIGGER_ROWS("triggers.deploy"),
	{"outputDir", MEMBER_STRING, true},
	{"hotUpdate", MEMBER_OBJECT, false},
	{"hotUpdate.pollPeriodSeconds", MEMBER_NUMBER, true},
	{"credentials", MEMBER_ARRAY, false},
	{"credentials[]", MEMBER_OBJECT, false},
	{"credentials[].secret", MEMBER_STRING, true},
	{"credentials[].version", MEMBER_STRING, false},
	{"credentials[].urls", MEMBER_ARRAY, true},
	{"credentials[].urls[]", MEMBER_STRING, false},
};

static void each_member_in_all_ways(void **state)
{
	(void)state;
	document_check(&desired_codec, full, rows, sizeof(rows) / sizeof(rows[0]));
}

static void decoded_as_said(void **state)
{
	desired *d = document_taken(&desired_codec, full);

	(void)state;
	assert_int_equal(d->stamp.epoch, 1796008260);
	assert_int_equal(d->stamp.gen, DOCUMENT_MAX_INT);
	assert_string_equal(d->job.ns, "factory");
	assert_string_equal(d->job.uid, "u-1");
	assert_int_equal(d->roles, ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY);
	assert_int_equal(position_compare(d->position, (position){12, STAGE_DEPLOY, PHASE_WAITING}), 0);
	assert_true(d->worker_ended && d->has_trained && d->has_cursor && d->has_deployed && d->has_deployed_sha256 && d->has_dataset);
	assert_int_equal(d->trained_round, 12);
	assert_int_equal(d->n_trained_models, 2);
	assert_int_equal(d->trained_models[0].n_socs, 2);
	assert_string_equal(d->trained_models[0].socs[1], "B");
	assert_non_null(json_member(d->trained_models[0].metrics, "loss"));
	assert_string_equal(d->trained_models[1].format, "");
	assert_null(d->trained_models[1].metrics);
	assert_int_equal(d->cursor.sample, 4912);
	assert_int_equal(d->cursor.digest.b[1], 0x11);
	assert_int_equal(d->deployed_round, 0);
	assert_int_equal(d->n_eval_results, 2);
	assert_int_equal(d->dataset.format, FORMAT_CSV);
	assert_true(d->train_prob > 0.79 && d->train_prob < 0.81 && d->first_sample_end);
	assert_true(d->has_base);
	assert_int_equal(d->n_eval_models, 2);
	assert_int_equal(d->n_copies, 1);
	assert_string_equal(d->copies[0].to.url, "/m/served.pb");
	assert_int_equal(d->train.start, 20 * 60);
	assert_int_equal(d->train.end, 24 * 60);
	assert_int_equal(d->deploy.op, OP_LE);
	assert_true(d->hot_update);
	assert_int_equal(d->poll_period_s, 60);
	desired_free(d);
}

static void absent_is_not_zero(void **state)
{
	static const char text[] = "{\"v\":1,\"ts\":\"\",\"stamp\":{\"epoch\":0,\"gen\":0},\"node\":\"n\",\"job\":{\"namespace\":\"a\","
							   "\"name\":\"b\",\"uid\":\"c\"},\"roles\":[],"
							   "\"position\":{\"round\":1,\"stage\":\"Train\",\"phase\":\"Waiting\"},\"workerEnded\":false,\"triggers\":{"
							   "\"train\":{},\"deploy\":{}},"
							   "\"outputDir\":\"/o\"}";
	desired *d = document_taken(&desired_codec, text);

	(void)state;
	assert_false(d->has_trained || d->has_cursor || d->has_deployed || d->has_deployed_sha256 || d->has_dataset || d->has_base);
	assert_false(d->hot_update || d->train.has_timer || d->train.has_condition || d->first_sample_end);
	assert_int_equal(d->n_eval_results + d->n_eval_models + d->n_copies + d->n_trained_models, 0);
	assert_null(d->eval_results);
	assert_int_equal(d->train.check_period_s, 60);
	desired_free(d);
}

static void wrong_values(void **state)
{
	static const struct {
		const char *path, *json, *words;
	} cases[] = {
		{"roles", "[\"train\",\"fly\"]", "fly"},
		{"roles", "[\"train\",\"train\"]", "twice"},
		{"roles", "[\"a\",\"b\",\"c\",\"d\",\"e\"]", "at most 4"},
		{"position.round", "0", "round"},
		{"position.stage", "\"train\"", "Train, Eval, Deploy"},
		{"position.phase", "\"Done\"", "Waiting, Ready"},
		{"node", "\"cloud\"", "node"},
		{"node", "\"a/b\"", "a/b"},
		{"job.namespace", "\"a.b\"", "namespace"},
		{"job.uid", "\"../../x\"", "uid"},
		{"job.uid", "\".\"", "uid"},
		{"job.uid", "\"\"", "uid"},
		{"dataset.trainProb", "1.0000001", "trainProb"},
		{"dataset.trainProb", "-0.1", "trainProb"},
		{"dataset.format", "\"parquet\"", "txt, csv"},
		{"dataset.firstSample", "\"start\"", "end"},
		{"trained.cursor.digest", "\"00\"", "SHA-256"},
		{"trained.round", "0", "round"},
		{"trained.models[0].url", "\"\"", "url"},
		{"trained.models[1].url", "\"/a\\nb\"", "trained.models[1].url"},
		{"outputDir", "\"\"", "outputDir"},
		{"hotUpdate.pollPeriodSeconds", "0", "pollPeriodSeconds"},
		{"triggers.train.checkPeriodSeconds", "0", "checkPeriodSeconds"},
		{"triggers.train.checkPeriodSeconds", "1e12", "checkPeriodSeconds"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = document_with(full, cases[i].path, cases[i].json);

		document_refused(&desired_codec, text, ERROR_INVALID, cases[i].words);
		free(text);
	}
}

static void arrays_are_bounded(void **state)
{
	static const struct {
		const char *path, *entry;
		int most;
	} arrays[] = {
		{"trained.models", "{\"url\":\"/m\"}", DOCUMENT_MAX_MODELS},
		{"evalResults", "{\"url\":\"/m\"}", DOCUMENT_MAX_MODELS},
		{"models.eval", "{\"url\":\"/m\"}", DOCUMENT_MAX_MODELS},
		{"models.deploy", "{\"from\":{\"url\":\"/m\"},\"to\":{\"url\":\"/m\"}}", 8},
		{"trained.models[0].device_soc_versions", "\"x\"", 32},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		for (int extra = 0; extra < 2; extra++) {
			buf b = {0};

			for (int n = 0; n < arrays[i].most + extra; n++)
				buf_printf(&b, "%s%s", n == 0 ? "[" : ",", arrays[i].entry);
			buf_putc(&b, ']');
			char *text = document_with(full, arrays[i].path, b.data);
			if (extra == 0)
				desired_free(document_taken(&desired_codec, text));
			else
				document_refused(&desired_codec, text, ERROR_INVALID, "at most");
			free(text);
			buf_fini(&b);
		}
	}
}

/* ---- triggers ---- */

static int decode_trigger(const char *json, trigger *t, arena *mem, error *err)
{
	cJSON *tree = cJSON_Parse(json);
	int rc = trigger_decode(mem, tree, "spec.trainSpec.trigger", t, err);

	/* What was decoded does not depend on the tree. */
	cJSON_Delete(tree);
	return rc;
}

static void times_of_day(void **state)
{
	static const struct {
		const char *text;
		int minutes; /* -1: refused */
	} times[] = {{"00:00", 0}, {"0:00", 0}, {"9:05", 545}, {"09:05", 545}, {"23:59", 1439}, {"24:00", 1440}, {"24:01", -1}, {"25:00", -1},
		{"25:99-xx", -1}, {"9:5", -1}, {"9:60", -1}, {"009:00", -1}, {"9", -1}, {":30", -1}, {"", -1}, {"09:00:00", -1}, {" 9:00", -1},
		{"9:00 ", -1}, {"-1:00", -1}, {"+1:00", -1}, {"9.00", -1}, {"99999999999:00", -1}, {"1:0a", -1}};

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		for (int end = 0; end < 2; end++) {
			arena *mem = arena_new();
			trigger t;
			error err = {0};
			char *json =
				mem_printf("{\"timer\":{\"start\":\"%s\",\"end\":\"%s\"}}", end ? "1:00" : times[i].text, end ? times[i].text : "1:00");
			int rc = decode_trigger(json, &t, mem, &err);

			if (times[i].minutes >= 0) {
				assert_int_equal(rc, 0);
				assert_true(t.has_timer);
				assert_int_equal(end ? t.end : t.start, times[i].minutes);
				assert_int_equal(end ? t.start : t.end, 60);
			} else {
				assert_int_equal(rc, ERROR_INVALID);
				assert_non_null(strstr(err.text, end ? "spec.trainSpec.trigger.timer.end" : "spec.trainSpec.trigger.timer.start"));
				assert_non_null(strstr(err.text, times[i].text));
			}
			free(json);
			arena_free(mem);
		}
	}
}

static void operators(void **state)
{
	static const struct {
		const char *text;
		enum trigger_op op;
		const char *symbol;
	} known[] = {{"gt", OP_GT, ">"}, {">", OP_GT, ">"}, {"ge", OP_GE, ">="}, {">=", OP_GE, ">="}, {"eq", OP_EQ, "=="}, {"=", OP_EQ, "=="},
		{"==", OP_EQ, "=="}, {"ne", OP_NE, "!="}, {"!=", OP_NE, "!="}, {"le", OP_LE, "<="}, {"<=", OP_LE, "<="}, {"lt", OP_LT, "<"},
		{"<", OP_LT, "<"}};
	static const char *const unknown[] = {"GT", "=>", "=<", "<>", "===", "", "> ", "greater", "gte"};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		enum trigger_op op;

		assert_true(trigger_op_parse(known[i].text, &op));
		assert_int_equal(op, known[i].op);
		assert_string_equal(trigger_op_text(op), known[i].symbol);
	}
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		arena *mem = arena_new();
		char *json = mem_printf("{\"condition\":{\"operator\":\"%s\",\"threshold\":1,\"metric\":\"m\"}}", unknown[i]);
		trigger t;
		error err = {0};

		assert_int_equal(decode_trigger(json, &t, mem, &err), ERROR_INVALID);
		assert_non_null(strstr(err.text, "trigger.condition.operator"));
		assert_non_null(strstr(err.text, "gt or >, ge or >=, eq or = or ==, ne or !=, le or <=, lt or <"));
		free(json);
		arena_free(mem);
	}
}

static void thresholds(void **state)
{
	static const struct {
		const char *json;
		bool right;
		double value;
	} cases[] = {{"0.3", true, 0.3}, {"\"0.3\"", true, 0.3}, {"\"-1e-3\"", true, -0.001}, {"\"+.5\"", true, 0.5}, {"\"5.\"", true, 5},
		{"0", true, 0}, {"null", false, 0}, {"\"\"", false, 0}, {"\" 1\"", false, 0}, {"\"1 \"", false, 0}, {"\"0x10\"", false, 0},
		{"\"inf\"", false, 0}, {"\"nan\"", false, 0}, {"\"1e999\"", false, 0}, {"\"1,5\"", false, 0}, {"\"e\"", false, 0},
		{"\"--1\"", false, 0}, {"true", false, 0}, {"[1]", false, 0}, {"{}", false, 0},
		{"\"11111111111111111111111111111111111111111111111111111111111111111\"", false, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		arena *mem = arena_new();
		char *json = mem_printf("{\"condition\":{\"operator\":\">\",\"threshold\":%s,\"metric\":\"m\"}}", cases[i].json);
		trigger t;
		error err = {0};
		int rc = decode_trigger(json, &t, mem, &err);

		assert_int_equal(rc == 0, cases[i].right);
		if (rc == 0)
			assert_memory_equal(&t.threshold, &cases[i].value, sizeof(double));
		else
			assert_non_null(strstr(err.text, "trigger.condition.threshold"));
		free(json);
		arena_free(mem);
	}
}

static void parts_of_a_trigger(void **state)
{
	static const struct {
		const char *json, *words; /* NULL: taken */
	} cases[] = {
		{"{}", NULL},
		{"{\"timer\":null,\"condition\":null,\"checkPeriodSeconds\":null}", NULL},
		{"{\"timer\":{}}", "timer.start is missing"},
		{"{\"timer\":{\"start\":\"1:00\"}}", "timer.end is missing"},
		{"{\"condition\":{}}", "condition.operator is missing"},
		{"{\"condition\":{\"operator\":\">\",\"metric\":\"m\"}}", "condition.threshold is missing"},
		{"{\"condition\":{\"operator\":\">\",\"threshold\":1}}", "condition.metric is missing"},
		{"{\"condition\":{\"operator\":\">\",\"threshold\":1,\"metric\":\"\"}}", "condition.metric"},
		{"{\"timer\":[]}", "timer"},
		{"{\"checkPeriodSeconds\":\"60\"}", "checkPeriodSeconds"},
		{"{\"checkPeriodSeconds\":1.5}", "checkPeriodSeconds"},
		{"[]", "spec.trainSpec.trigger"},
		{"null", "spec.trainSpec.trigger"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		arena *mem = arena_new();
		trigger t;
		error err = {0};
		int rc = decode_trigger(cases[i].json, &t, mem, &err);

		if (cases[i].words == NULL) {
			assert_int_equal(rc, 0);
			assert_int_equal(t.check_period_s, 60);
			assert_false(t.has_timer || t.has_condition);
		} else {
			assert_int_equal(rc, ERROR_INVALID);
			if (strstr(err.text, cases[i].words) == NULL)
				fail_msg("'%s' does not say '%s'", err.text, cases[i].words);
		}
		arena_free(mem);
	}
}

static void a_trigger_there_and_back(void **state)
{
	arena *mem = arena_new();
	trigger t, again;
	error err = {0};

	(void)state;
	assert_int_equal(
		decode_trigger("{\"checkPeriodSeconds\":5,\"timer\":{\"start\":\"9:00\",\"end\":\"24:00\"},\"condition\":{\"operator\":\"eq\","
					   "\"threshold\":\"0.1\",\"metric\":\"f1_delta\"}}",
			&t, mem, &err),
		0);
	cJSON *tree = trigger_encode(&t);
	assert_int_equal(trigger_decode(mem, tree, "t", &again, &err), 0);
	char *text = json_print(tree);
	assert_string_equal(text,
		"{\"checkPeriodSeconds\":5,\"timer\":{\"start\":\"09:00\",\"end\":\"24:00\"},\"condition\":{\"operator\":\"==\","
		"\"threshold\":0.1,\"metric\":\"f1_delta\"}}");
	cJSON_Delete(tree);
	free(text);
	assert_int_equal(again.op, OP_EQ);
	assert_string_equal(again.metric, "f1_delta");
	assert_memory_equal(&again.threshold, &t.threshold, sizeof(double));
	arena_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_in_all_ways),
		cmocka_unit_test(decoded_as_said),
		cmocka_unit_test(absent_is_not_zero),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(arrays_are_bounded),
		cmocka_unit_test(times_of_day),
		cmocka_unit_test(operators),
		cmocka_unit_test(thresholds),
		cmocka_unit_test(parts_of_a_trigger),
		cmocka_unit_test(a_trigger_there_and_back),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
