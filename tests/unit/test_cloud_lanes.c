/* One node's backlog does not delay the others. */
#include "tests/unit/cloud_harness.h"

enum { MANY = 40 };

static void add_job(harness *h, const char *name, const char *dataset, const char *node)
{
	char *dir = mem_printf("/out/%s", name);
	cJSON *job = harness_job(name, node, dir);
	cJSON *of = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(job, "spec"), "dataset");
	cJSON_SetValuestring(cJSON_GetObjectItemCaseSensitive(of, "name"), dataset);
	harness_put(h, OBJECT_JOB, job);
	free(dir);
}

/* Forty jobs of edge-1, and after them in every order one of edge-2; all have their first status to be written. */
static harness *crowd(void)
{
	harness *h = harness_new();
	cJSON *other = NULL;
	const char *text = "{\"metadata\":{\"name\":\"e\"},\"spec\":{\"url\":\"/data/e.txt\",\"format\":\"txt\",\"nodeName\":\"edge-2\"}}";
	harness_add_world(h, "edge-1");
	assert_int_equal(json_parse(text, strlen(text), 1000, &other, NULL), 0);
	harness_put(h, OBJECT_DATASET, other);
	for (int i = 1; i < MANY; i++) {
		char *name = mem_printf("k%02d", i);
		add_job(h, name, "d", "edge-1");
		free(name);
	}
	add_job(h, "z", "e", "edge-2");
	harness_start(h);
	return h;
}

typedef struct handed_out {
	uint64_t ids[MANY + 1];
	int n, of_z;
} handed_out;

/* Until nothing more comes; nothing is answered. */
static void take(harness *h, handed_out *out)
{
	cloud_action a;
	while (controller_next(h->c, h->now, &a)) {
		if (a.kind != CLOUD_PATCH_STATUS)
			continue;
		out->of_z += strcmp(a.patch.name, "z") == 0;
		assert_true(out->n <= MANY);
		out->ids[out->n++] = a.id;
	}
}

static void answer(harness *h, uint64_t id)
{
	controller_done(h->c, id, ERROR_TIMEOUT, "no answer", NULL, 0, h->now);
}

static void test_one_node_does_not_hold_up_another(void **state)
{
	(void)state;
	harness *h = crowd();
	handed_out first = {0}, more = {0};
	take(h, &first);
	assert_int_equal(first.n, 16 + 1);
	assert_int_equal(first.of_z, 1);
	assert_true(controller_wake(h->c) > h->now.mono_ms); /* what waits for an answer does not keep the agent busy */
	for (int i = 0; i < 5; i++)
		answer(h, first.ids[i]);
	take(h, &more);
	assert_int_equal(more.n, 5);
	harness_free(h);
}

static void test_a_job_that_goes_makes_room(void **state)
{
	(void)state;
	harness *h = crowd();
	handed_out all = {0};
	take(h, &all);
	for (int i = 1; i < MANY; i++) { /* their writes stay under way until they are answered */
		char *name = mem_printf("k%02d", i);
		harness_remove(h, OBJECT_JOB, name);
		free(name);
	}
	for (int i = 0; i < all.n; i++)
		answer(h, all.ids[i]);
	harness_run(h);
	harness_advance(h, 10 * 1000);
	harness_run(h);
	harness_expect(h, "z", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_node_does_not_hold_up_another),
		cmocka_unit_test(test_a_job_that_goes_makes_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
