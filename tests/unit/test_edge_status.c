/* What is told of datasets and of inference workers, and when. */
#include "common/log.h"
#include "tests/unit/edge_harness.h"

static dataset_status *status_of(const bench *b)
{
	dataset_status *s;
	const said *m = bench_last(b, "/dataset/ds/node/" NODE "/status");

	assert_non_null(m);
	assert_true(m->retained);
	assert_int_equal(dataset_status_decode(m->payload, strlen(m->payload), &s, NULL), 0);
	return s;
}

static void test_dataset_status_is_thinned_and_repeated_on_a_new_link(void **state)
{
	bench b;
	dataset_status *s;
	(void)state;

	bench_init(&b);
	log_set_level(LOG_INFO);
	bench_ready(&b);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	for (int i = 0; i < 10; i++) {
		bench_append(&b, 1);
		bench_sleep(&b, 100);
	}
	bench_sleep(&b, 5000);
	assert_int_equal(bench_said(&b, "/status"), 2);
	s = status_of(&b);
	assert_int_equal(s->samples, 10);
	assert_int_equal(s->size, 100);
	assert_non_null(s->changed);
	assert_null(s->error);
	dataset_status_free(s);
	/* At rest: nothing. */
	bench_sleep(&b, 86400 * 1000);
	assert_int_equal(bench_said(&b, "/status"), 2);
	assert_int_equal(bench_wake(&b), -1);
	edge_agent_link(b.agent, false, b.now);
	bench_append(&b, 5);
	bench_sleep(&b, 10000);
	assert_int_equal(bench_said(&b, "/status"), 2);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/status"), 3);
	s = status_of(&b);
	assert_int_equal(s->samples, 15);
	dataset_status_free(s);
	b.file_error = "gone";
	bench_view(&b);
	bench_sleep(&b, 5000);
	s = status_of(&b);
	assert_string_equal(s->error, "gone");
	dataset_status_free(s);
	/* A document that says nothing new is no reason to speak; a new link is. */
	assert_int_equal(bench_said(&b, "/status"), 4);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_sleep(&b, 60000);
	assert_int_equal(bench_said(&b, "/status"), 4);
	edge_agent_link(b.agent, false, b.now);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(bench_said(&b, "/status"), 5);
	bench_fini(&b);
}

static void dataset_troubles(void *arg)
{
	static const char *const troubles[] = {NULL, "is a folder", "is a folder", "is not there", NULL, NULL};
	bench b;
	(void)arg;

	bench_init(&b);
	log_set_level(LOG_INFO);
	bench_ready(&b);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
		b.file_error = troubles[i];
		b.changed_ms++; /* something else has changed in any case */
		bench_view(&b);
		bench_sleep(&b, 10000);
	}
	b.file_error = "was never there";
	b.changed_ms++;
	bench_view(&b);
	bench_dataset_doc(&b, "ds-2", "other", URL); /* one more reads the same file */
	bench_fini(&b);
}

static int count(const char *text, const char *part)
{
	int n = 0;

	for (; (text = strstr(text, part)) != NULL; text += strlen(part))
		n++;
	return n;
}

static void test_log_tells_of_a_datasets_trouble(void **state)
{
	buf out = {0};
	(void)state;

	assert_int_equal(unit_run(2, dataset_troubles, NULL, &out), 0);
	assert_int_equal(count(buf_text(&out), "dataset: the dataset cannot be read"), 4);
	assert_int_equal(count(buf_text(&out), "namespace=ns dataset=ds error=\"is a folder\""), 1);
	assert_int_equal(count(buf_text(&out), "namespace=ns dataset=ds error=\"is not there\""), 1);
	assert_int_equal(count(buf_text(&out), "namespace=ns dataset=other error=\"was never there\""), 1);
	assert_int_equal(count(buf_text(&out), "the dataset can be read again"), 1);
	buf_fini(&out);
}

#define DS_STATUS "ns/ns/dataset/ds/node/" NODE "/status"

static int cleared(const bench *b)
{
	int n = 0;

	for (size_t i = 0; i < b->n_out; i++) {
		if (strstr(b->out[i].topic, DS_STATUS) != NULL && b->out[i].payload[0] == '\0') {
			assert_true(b->out[i].retained);
			n++;
		}
	}
	return n;
}

/* Guarantee 5: what a dataset left on the broker goes with it. */
static void test_status_of_a_dataset_that_left_is_cleared(void **state)
{
	bench b;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	assert_int_equal(bench_said(&b, DS_STATUS), 1);
	/* Not before the store has let it go. */
	b.hold[EDGE_COMMIT] = true;
	bench_inventory_at(&b, bench_stamp(&b), NULL, NULL);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 0);
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, b.n_held - 1, 0);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 1);
	assert_string_equal(bench_last(&b, DS_STATUS)->payload, "");
	bench_append(&b, 1);
	bench_sleep(&b, 600000);
	assert_int_equal(bench_said(&b, DS_STATUS), 2);
	/* It may have been lost with the link. */
	edge_agent_link(b.agent, false, b.now);
	bench_turn(&b);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 2);
	/* Back again: only its status goes out. */
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_sleep(&b, 10000);
	edge_agent_link(b.agent, false, b.now);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 2);
	assert_int_equal(bench_said(&b, DS_STATUS), 5);
	bench_fini(&b);
}

static void test_status_is_cleared_only_if_nobody_has_its_topic(void **state)
{
	bench b;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_dataset_doc(&b, "ds-1", "ds", URL);
	bench_dataset_doc(&b, "ds-2", "ds", URL); /* made again */
	bench_sleep(&b, 10000);
	assert_int_equal(cleared(&b), 0);
	assert_int_equal(b.n_datasets, 1);
	/* It goes while there is no link. */
	edge_agent_link(b.agent, false, b.now);
	bench_inventory(&b, NULL, U1, NULL);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 0);
	edge_agent_link(b.agent, true, b.now);
	bench_turn(&b);
	assert_int_equal(cleared(&b), 1);
	/* One that was never told of. */
	bench_quiet(&b);
	b.hold[EDGE_COMMIT] = true;
	bench_dataset_doc(&b, "ds-3", "ds", URL);
	bench_inventory(&b, NULL, U1, NULL);
	bench_turn(&b);
	b.hold[EDGE_COMMIT] = false;
	bench_end_held(&b, b.n_held - 1, ERROR_IO);
	bench_sleep(&b, 5000);
	assert_int_equal(b.n_datasets, 0);
	assert_string_equal(bench_last(&b, "/status") != NULL ? bench_last(&b, "/status")->payload : "", "");
	bench_fini(&b);
}

static void test_inference_counters_are_thinned(void **state)
{
	bench b;
	desired d = bench_desired(U1, 3, STAGE_TRAIN, PHASE_RUNNING);
	char name[WORKER_NAME_SIZE];
	const said *m;
	infer_stats *s;
	edge_counters counters;
	(void)state;

	bench_init(&b);
	bench_ready(&b);
	bench_send(&b, &d);
	bench_worker(WORKER_INFERENCE, U1, 2, name);
	for (int i = 0; i < 20; i++) {
		(void)bench_post(&b, POST_INFERENCE, POST_NO_STATUS, name);
		bench_sleep(&b, 1000);
		assert_int_equal(b.replies[b.next_post], 200);
	}
	assert_in_range(bench_said(&b, "/infer/stats"), 4, 5);
	m = bench_last(&b, "/infer/stats");
	assert_false(m->retained);
	assert_int_equal(infer_stats_decode(m->payload, strlen(m->payload), &s, NULL), 0);
	assert_int_equal(s->inferences, 5);
	assert_int_equal(s->hard_examples, 2);
	edge_agent_counters(b.agent, &counters);
	assert_int_equal(counters.inferences, 5);
	assert_int_equal(counters.hard_examples, 2);
	assert_string_equal(s->worker, name);
	infer_stats_free(s);
	/* Somebody else's worker speaks for nobody. */
	bench_sleep(&b, 60000);
	bench_quiet(&b);
	bench_worker(WORKER_INFERENCE, U2, 2, name);
	(void)bench_post(&b, POST_INFERENCE, POST_NO_STATUS, name);
	bench_sleep(&b, 60000);
	assert_int_equal(bench_said(&b, "/infer/stats"), 0);
	bench_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dataset_status_is_thinned_and_repeated_on_a_new_link),
		cmocka_unit_test(test_log_tells_of_a_datasets_trouble),
		cmocka_unit_test(test_status_of_a_dataset_that_left_is_cleared),
		cmocka_unit_test(test_status_is_cleared_only_if_nobody_has_its_topic),
		cmocka_unit_test(test_inference_counters_are_thinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
