/* Records: the state's text, copies, rows and their bound. */
#include "tests/unit/unit.h"

#include "edge-agent/core/record.h"
#include "edge-agent/core/record_edit.h"

static cursor at(int64_t sample)
{
	cursor c = {.sample = sample, .size = sample * 10};

	digest_of(&sample, sizeof(sample), &c.digest);
	return c;
}

static void test_state_round_trip(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		record *r = record_new(), *back = record_new();
		char *text;
		error err;

		r->has_base = i & 1;
		r->base = at(3);
		r->has_alloc = i & 2;
		r->alloc = (allocation){.round = 7, .range = {.from = 3, .to = 9, .end = at(9)}, .begin = at(3), .written = i & 4};
		r->removed = i * INT64_C(1000000000000);
		text = record_state_encode(r);
		if (record_state_decode(back, text, &err) != 0)
			fail_msg("%s: %s", text, err.text);
		assert_int_equal(back->has_base, r->has_base);
		assert_int_equal(back->has_alloc, r->has_alloc);
		assert_int_equal(back->removed, r->removed);
		if (r->has_base)
			assert_true(cursor_equal(&back->base, &r->base));
		if (r->has_alloc) {
			assert_int_equal(back->alloc.round, 7);
			assert_int_equal(back->alloc.range.from, 3);
			assert_int_equal(back->alloc.range.to, 9);
			assert_true(cursor_equal(&back->alloc.range.end, &r->alloc.range.end));
			assert_true(cursor_equal(&back->alloc.begin, &r->alloc.begin));
			assert_int_equal(back->alloc.written, r->alloc.written);
		}
		free(text);
		record_free(r);
		record_free(back);
	}
}

static void test_bad_states(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"v\":2,\"removed\":0}",
		"{\"v\":1}",
		"{\"v\":1,\"removed\":-1}",
		"{\"v\":1,\"removed\":0,\"base\":{}}",
		"{\"v\":1,\"removed\":0,\"base\":{\"sample\":1,\"size\":1,\"digest\":\"00\"}}",
		"{\"v\":1,\"removed\":0,\"alloc\":{}}",
		"{\"v\":1,\"removed\":0,\"alloc\":{\"round\":1,\"from\":2,\"to\":1}}",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		record *r = record_new();
		error err = {0};

		if (record_state_decode(r, texts[i], &err) == 0)
			fail_msg("taken: %s", texts[i]);
		assert_true(err.text[0] != '\0');
		assert_false(r->has_alloc || r->has_base);
		record_free(r);
	}
}

static outbox_row row_at(int64_t round, enum stage stage, enum report_what what, int64_t seq)
{
	return (outbox_row){
		.position = {.round = round, .stage = stage}, .what = what, .seq = seq, .from = -1, .reason = "why", .payload = "{}"};
}

static void test_rows_are_copied_found_and_bounded(void **state)
{
	record *r = record_new(), *copy;
	outbox_row row;
	(void)state;

	for (int64_t round = 1; round <= 40; round++) {
		row = row_at(round, STAGE_EVAL, REPORT_COMPLETED, round);
		record_add_row(r, &row);
		assert_true(r->n_rows <= RECORD_MAX_ROWS);
	}
	/* The highest round made room, so what comes first stays. */
	assert_non_null(record_row(r, 1, STAGE_EVAL, REPORT_COMPLETED));
	assert_non_null(record_row(r, 40, STAGE_EVAL, REPORT_COMPLETED));
	assert_null(record_row(r, 1, STAGE_EVAL, REPORT_FAILED));
	assert_null(record_row(r, 1, STAGE_TRAIN, REPORT_COMPLETED));
	copy = record_copy(r);
	record_free(r);
	assert_string_equal(record_end_row(copy, 5, STAGE_EVAL)->reason, "why");
	assert_string_equal(record_end_row(copy, 5, STAGE_EVAL)->payload, "{}");
	assert_null(record_end_row(copy, 5, STAGE_TRAIN));
	record_free(copy);
}

static void test_document_is_kept_as_it_came(void **state)
{
	record *r = record_new();
	error err = {0};
	(void)state;

	assert_int_equal(record_set_document(r, "{\"v\":1}", 7, &err), ERROR_INVALID);
	assert_null(r->document);
	assert_null(r->desired);
	record_free(r);
	record_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state_round_trip),
		cmocka_unit_test(test_bad_states),
		cmocka_unit_test(test_rows_are_copied_found_and_bounded),
		cmocka_unit_test(test_document_is_kept_as_it_came),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
