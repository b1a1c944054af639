/* Reports, and the other documents that a node sends: dataset status, inference statistics. */
#include "proto/document.h"
#include "tests/unit/document_check.h"
#include "tests/unit/unit.h"

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HEAD "{\"v\":1,\"ts\":\"t\",\"job\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"u\"},\"node\":\"n\","
#define JOB_ROWS                                                                                                                           \
	{"v", MEMBER_NUMBER, true}, {"ts", MEMBER_STRING, true}, {"job", MEMBER_OBJECT, true}, {"job.namespace", MEMBER_STRING, true},         \
		{"job.name", MEMBER_STRING, true}, {"job.uid", MEMBER_STRING, true},                                                               \
	{                                                                                                                                      \
		"node", MEMBER_STRING, true                                                                                                        \
	}

/* A report is decoded with what its topic says. */
static int report_as(enum stage stage, enum report_what what, const char *data, size_t len, void **out, error *err)
{
	report *r = NULL;
	int rc = report_decode(data, len, stage, what, &r, err);

	*out = r;
	return rc;
}

static char *encode_report(const void *r)
{
	return report_encode(r);
}

static void free_report(void *r)
{
	report_free(r);
}

#define REPORT_CODEC(name, stage, what)                                                                                                    \
	static int decode_##name(const char *data, size_t len, void **out, error *err)                                                         \
	{                                                                                                                                      \
		return report_as(stage, what, data, len, out, err);                                                                                \
	}                                                                                                                                      \
	static const codec name = {"report", decode_##name, encode_report, free_report}

REPORT_CODEC(train_ready, STAGE_TRAIN, REPORT_READY);
REPORT_CODEC(train_completed, STAGE_TRAIN, REPORT_COMPLETED);
REPORT_CODEC(eval_failed, STAGE_EVAL, REPORT_FAILED);
REPORT_CODEC(deploy_written, STAGE_DEPLOY, REPORT_WRITTEN);
REPORT_CODEC(deploy_completed, STAGE_DEPLOY, REPORT_COMPLETED);
CHECK_CODEC(dataset_status, "status");
CHECK_CODEC(infer_stats, "stats");

#define POSITION(stage, phase) "\"position\":{\"round\":12,\"stage\":\"" stage "\",\"phase\":\"" phase "\"},\"store\":\"s\",\"seq\":7"
#define RANGE "\"range\":{\"from\":3,\"to\":9,\"end\":{\"sample\":9,\"size\":70,\"digest\":\"" HEX "\"}}"

static const char ready_text[] = HEAD POSITION("Train",
	"Ready") ",\"input\":{\"models\":[{\"format\":\"pb\",\"url\":\"/m\"}],\"dataURL\":\"/d\",\"dataIndexURL\":\"/i\","
			 "\"outputDir\":\"/o\"}," RANGE "}";
static const char completed_text[] =
	HEAD POSITION("Train", "Completed") ",\"output\":{\"models\":[{\"format\":\"pb\",\"url\":\"/m\",\"metrics\":{"
										"\"loss\":[1,null]}},{\"format\":\"ckpt\",\"url\":\"/c\"}],\"ownerInfo\":{\"x\":1}}," RANGE
										",\"message\":\"m\"}";
static const char failed_text[] = HEAD POSITION("Eval", "Failed") ",\"reason\":\"WriteFailed\",\"message\":\"no\\nspace\"}";
static const char written_text[] = HEAD POSITION("Deploy", "Starting") ",\"sha256\":\"" HEX "\"}";

#define REPORT_ROWS                                                                                                                        \
	JOB_ROWS, {"position", MEMBER_OBJECT, true}, {"position.round", MEMBER_NUMBER, true}, {"position.stage", MEMBER_STRING, true},         \
		{"position.phase", MEMBER_STRING, true}, {"store", MEMBER_STRING, true},                                                           \
	{                                                                                                                                      \
		"seq", MEMBER_NUMBER, true                                                                                                         \
	}
#define RANGE_ROWS(needed)                                                                                                                 \
	{"range", MEMBER_OBJECT, needed}, {"range.from", MEMBER_NUMBER, true}, {"range.to", MEMBER_NUMBER, true},                              \
		{"range.end", MEMBER_OBJECT, true}, {"range.end.sample", MEMBER_NUMBER, true}, {"range.end.size", MEMBER_NUMBER, true},            \
	{                                                                                                                                      \
		"range.end.digest", MEMBER_STRING, true                                                                                            \
	}

static const member ready_rows[] = {
	REPORT_ROWS,
	{"input", MEMBER_OBJECT, true},
	{"input.models", MEMBER_ARRAY, false},
	{"input.models[]", MEMBER_OBJECT, false},
	{"input.models[].format", MEMBER_STRING, false},
	{"input.models[].url", MEMBER_STRING, true},
	{"input.dataURL", MEMBER_STRING, false},
	{"input.dataIndexURL", MEMBER_STRING, false},
	{"input.outputDir", MEMBER_STRING, false},
	RANGE_ROWS(true),
};
static const member completed_rows[] = {
	REPORT_ROWS,
	{"output", MEMBER_OBJECT, true},
	{"output.models", MEMBER_ARRAY, true},
	{"output.models[]", MEMBER_OBJECT, false},
	{"output.models[].format", MEMBER_STRING, false},
	{"output.models[].url", MEMBER_STRING, true},
	{"output.models[].metrics", MEMBER_ANY, false},
	{"output.ownerInfo", MEMBER_OBJECT, false},
	{"output.ownerInfo.x", MEMBER_ANY, false},
	RANGE_ROWS(false),
	{"message", MEMBER_STRING, false},
};
static const member failed_rows[] = {REPORT_ROWS, {"reason", MEMBER_STRING, true}, {"message", MEMBER_STRING, false}};
static const member written_rows[] = {REPORT_ROWS, {"sha256", MEMBER_STRING, true}};

static const char status_text[] =
	"{\"v\":1,\"ts\":\"t\",\"node\":\"n\",\"dataset\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"u\"},\"samples\":12,"
	"\"size\":300,\"waitingBytes\":7,\"skipped\":1,\"removed\":2,\"changed\":\"t2\",\"error\":\"e\\ne\"}";
static const member status_rows[] = {
	{"v", MEMBER_NUMBER, true},
	{"ts", MEMBER_STRING, true},
	{"node", MEMBER_STRING, true},
	{"dataset", MEMBER_OBJECT, true},
	{"dataset.namespace", MEMBER_STRING, true},
	{"dataset.name", MEMBER_STRING, true},
	{"dataset.uid", MEMBER_STRING, true},
	{"samples", MEMBER_NUMBER, true},
	{"size", MEMBER_NUMBER, true},
	{"waitingBytes", MEMBER_NUMBER, true},
	{"skipped", MEMBER_NUMBER, true},
	{"removed", MEMBER_NUMBER, true},
	{"changed", MEMBER_STRING, false},
	{"error", MEMBER_STRING, false},
};

static const char stats_text[] =
	HEAD "\"worker\":\"inferworker-x\",\"inferences\":10,\"hardExamples\":2,\"uploadRatio\":0.2,\"startTime\":\"a\","
		 "\"updateTime\":\"b\"}";
static const member stats_rows[] = {
	JOB_ROWS,
	{"worker", MEMBER_STRING, true},
	{"inferences", MEMBER_NUMBER, true},
	{"hardExamples", MEMBER_NUMBER, true},
	{"uploadRatio", MEMBER_NUMBER, false},
	{"startTime", MEMBER_STRING, false},
	{"updateTime", MEMBER_STRING, false},
};

#define ROWS(r) r, sizeof(r) / sizeof(r[0])

static void each_member_in_all_ways(void **state)
{
	(void)state;
	document_check(&train_ready, ready_text, ROWS(ready_rows));
	document_check(&train_completed, completed_text, ROWS(completed_rows));
	document_check(&eval_failed, failed_text, ROWS(failed_rows));
	document_check(&deploy_written, written_text, ROWS(written_rows));
	document_check(&dataset_status_codec, status_text, ROWS(status_rows));
	document_check(&infer_stats_codec, stats_text, ROWS(stats_rows));
}

static void decoded_as_said(void **state)
{
	report *r = document_taken(&train_completed, completed_text);

	(void)state;
	assert_int_equal(r->what, REPORT_COMPLETED);
	assert_true(r->has_output && r->has_range);
	assert_false(r->has_input || r->has_sha256);
	assert_null(r->reason);
	assert_int_equal(r->seq, 7);
	assert_int_equal(r->output.n_models, 2);
	assert_string_equal(r->output.models[1].url, "/c");
	assert_non_null(r->output.owner_info);
	assert_int_equal(r->range.from, 3);
	assert_int_equal(r->range.end.size, 70);
	report_free(r);
}

/* Every combination of what the topic and the document say: only the right ones are taken. */
static void topic_and_position_must_agree(void **state)
{
	static const char *const stages[] = {"Train", "Eval", "Deploy"};
	static const char *const phases[] = {"Waiting", "Ready", "Starting", "Running", "Completed", "Failed"};
	static const char *const right[] = {"Ready", "Completed", "Failed", "Starting"};

	(void)state;
	for (int s = 0; s < 3; s++) {
		for (int p = 0; p < 6; p++) {
			/* With all parts, so that nothing is missing whatever the topic says. */
			char *text =
				mem_printf(HEAD "\"position\":{\"round\":1,\"stage\":\"%s\",\"phase\":\"%s\"},\"store\":\"s\",\"seq\":0,\"input\":{},"
								"\"output\":{\"models\":[{\"url\":\"/m\"}]}," RANGE ",\"reason\":\"R\",\"sha256\":\"" HEX "\"}",
					stages[s], phases[p]);

			for (int stage = STAGE_TRAIN; stage <= STAGE_DEPLOY; stage++) {
				for (int what = REPORT_READY; what <= REPORT_WRITTEN; what++) {
					bool agree = stage == s && strcmp(phases[p], right[what]) == 0;
					report *r = NULL;
					error err = {0};
					int rc = report_decode(text, strlen(text), (enum stage)stage, (enum report_what)what, &r, &err);

					assert_int_equal(rc, agree ? 0 : ERROR_INVALID);
					assert_int_equal(r != NULL, agree);
					if (!agree)
						assert_non_null(strstr(err.text, "report.position"));
					report_free(r);
				}
			}
			free(text);
		}
	}
}

static void wrong_values(void **state)
{
	static const struct {
		const codec *codec;
		const char *text, *path, *json, *words;
	} cases[] = {
		{&train_ready, ready_text, "range.to", "2", "before it begins"},
		{&train_ready, ready_text, "range.to", "8", "end of the range"},
		{&train_ready, ready_text, "range.from", "10", "before it begins"},
		{&train_ready, ready_text, "seq", "-1", "seq"},
		{&train_ready, ready_text, "position.round", "0", "round"},
		{&train_completed, completed_text, "output.models", "[]", "output.models"},
		{&train_completed, completed_text, "output.models", NULL, "output.models"},
		{&eval_failed, failed_text, "reason", "\"\"", "reason"},
		{&dataset_status_codec, status_text, "samples", "-1", "samples"},
		{&dataset_status_codec, status_text, "dataset.uid", "\"a/b\"", "uid"},
		{&infer_stats_codec, stats_text, "worker", "\"Not A Name\"", "worker"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = document_with(cases[i].text, cases[i].path, cases[i].json);

		document_refused(cases[i].codec, text, ERROR_INVALID, cases[i].words);
		free(text);
	}
}

static void a_deploy_may_complete_without_output(void **state)
{
	report *r = document_taken(&deploy_completed, HEAD POSITION("Deploy", "Completed") ",\"reason\":\"NotBetter\"}");

	(void)state;
	assert_string_equal(r->reason, "NotBetter");
	assert_false(r->has_output);
	report_free(r);
}

/* An error text from the system never makes a report that the other side refuses. */
static void texts_are_cut_and_cleaned(void **state)
{
	static const char *const ends[] = {"", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff", "\xc3", "\xed\xa0\x80", "\x01\n\"\\"};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		for (size_t len = TEXT_MAX_MESSAGE - 5; len < TEXT_MAX_MESSAGE + 5; len++) {
			char message[TEXT_MAX_MESSAGE + 20] = "";
			report r = {
				.ts = "t", .node = "n", .job = {"a", "b", "u"}, .position = {1, STAGE_EVAL, PHASE_FAILED}, .store = "s", .reason = "R"};

			memset(message, 'm', len);
			memcpy(message + len, ends[i], strlen(ends[i]));
			r.message = message;
			char *text = report_encode(&r);
			report *back = document_taken(&eval_failed, text);
			assert_true(strlen(back->message) <= TEXT_MAX_MESSAGE && strlen(back->message) >= TEXT_MAX_MESSAGE - 5);
			report_free(back);
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_in_all_ways),
		cmocka_unit_test(decoded_as_said),
		cmocka_unit_test(topic_and_position_must_agree),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(a_deploy_may_complete_without_output),
		cmocka_unit_test(texts_are_cut_and_cleaned),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
