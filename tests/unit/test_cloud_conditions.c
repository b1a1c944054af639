/* Trimmed conditions tell the same as the whole list (protocol trace 16): for sequences of round outcomes, after every patch, what is read from
 * the trimmed list is what a plain record of the events says. Then the bounds of size.
 *
 * All sequences of three rounds, and a sample of those of seven, are played; with ILMARE_TEST_LONG set, all of seven (minutes). */
#include "tests/unit/unit.h"

#include "cloud-agent/core/core.h"
#include "proto/metric.h"

enum outcome { SUCCESS, NOT_BETTER, TRAIN_FAILED, EVAL_FAILED, DEPLOY_FAILED, OUTCOMES };
enum { ROUNDS = 7 };

/* What happened, remembered without any list. */
typedef struct truth {
	position pos;
	int64_t failures, cursor, deployed, trained, evaluated;
	bool has_cursor, better;
	char node[32], pod[32];
	int64_t input_round; /* of the present stage's input; 0: none */
} truth;

static job_view *view_of(cJSON *object)
{
	return job_view_new(object, NULL);
}

static const model initial = {.format = "ckpt", .url = "/models/initial"};

static void expect_base(const job_view *v, const truth *t)
{
	char url[64];
	int64_t round = t->trained == 0 ? 0 : t->evaluated == 0 ? t->trained : t->better ? t->evaluated : t->deployed;
	snprintf(url, sizeof url, "/out/train/%lld/ckpt", (long long)round);
	const model *base = base_model(v, &initial);
	assert_string_equal(base->url, round == 0 ? initial.url : url);
}

static void compare(const job_view *v, const truth *t)
{
	char text[64];
	assert_true(v->started);
	assert_int_equal(position_compare(v->pos, t->pos), 0);
	assert_int_equal(v->pos.phase, t->pos.phase);
	assert_int_equal(v->m.failures, t->failures);
	assert_int_equal(v->m.has_cursor, t->has_cursor);
	if (t->has_cursor)
		assert_int_equal(v->m.cursor.sample, t->cursor);
	assert_int_equal(v->m.has_deployed ? v->m.deployed.round : 0, t->deployed);
	assert_string_equal(v->m.node != NULL ? v->m.node : "", t->node);
	assert_string_equal(v->m.pod_uid != NULL ? v->m.pod_uid : "", t->pod);
	assert_int_equal(v->trained.there ? v->trained.round : 0, t->trained);
	assert_int_equal(v->evaluated.there ? v->evaluated.round : 0, t->evaluated);
	if (t->pos.stage != STAGE_TRAIN || (t->pos.phase != PHASE_WAITING && t->pos.phase != PHASE_FAILED)) {
		snprintf(text, sizeof text, "/out/data/train/%lld/data.txt", (long long)t->pos.round);
		assert_string_equal(v->train_input.data_url, text);
		assert_string_equal(v->round_dir, "/out");
	}
	if (t->pos.stage == STAGE_EVAL && t->pos.phase != PHASE_WAITING && t->input_round == t->pos.round) {
		assert_true(v->eval_input.there);
		assert_int_equal(v->eval_input.n, 2);
	}
	expect_base(v, t);
}

/* Append the steps of a change to the object's list as a patch would, and look at what is left. */
static void apply(cJSON *object, change *ch, const condition_limits *limits, const truth *t)
{
	job_view *v = view_of(object);
	cJSON *status = change_patch(v, ch, limits, INT64_C(1796000000000));
	job_view_free(v);
	change_end(ch);
	cJSON_DeleteItemFromObjectCaseSensitive(object, "status");
	json_put(object, "status", status);
	assert_true(cJSON_GetArraySize(json_member(status, "conditions")) <= limits->max);
	v = view_of(object);
	compare(v, t);
	job_view_free(v);
}

static cJSON *input_of(int64_t round, bool train)
{
	char *text = train ?
		mem_printf("{\"input\":{\"models\":[{\"format\":\"ckpt\",\"url\":\"/b\"}],\"dataURL\":\"/out/data/train/%lld/data.txt\","
				   "\"outputDir\":\"/out/train/%lld\"}}",
			(long long)round, (long long)round) :
		mem_printf("{\"input\":{\"models\":[{\"format\":\"pb\",\"url\":\"/n\"},{\"format\":\"pb\",\"url\":\"/o\"}],"
				   "\"dataURL\":\"/out/data/eval/%lld/data.txt\"}}",
			(long long)round);
	cJSON *tree = NULL;
	assert_int_equal(json_parse(text, strlen(text), 10000, &tree, NULL), 0);
	free(text);
	return tree;
}

static cJSON *output_of(int64_t round, bool train, bool better)
{
	char *text = train ? mem_printf("{\"output\":{\"models\":[{\"format\":\"pb\",\"url\":\"/out/train/%lld/serve\"},"
									"{\"format\":\"ckpt\",\"url\":\"/out/train/%lld/ckpt\"}]}}",
							 (long long)round, (long long)round) :
						 mem_printf("{\"output\":{\"models\":[{\"format\":\"pb\",\"url\":\"/n\",\"metrics\":{\"acc\":%s}},"
									"{\"format\":\"pb\",\"url\":\"/o\",\"metrics\":{\"acc\":0.5}}]}}",
							 better ? "0.75" : "0.25");
	cJSON *tree = NULL;
	assert_int_equal(json_parse(text, strlen(text), 10000, &tree, NULL), 0);
	free(text);
	return tree;
}

typedef struct play {
	cJSON *object;
	condition_limits limits;
	truth t;
} play;

static change begin(const play *p)
{
	job_view *v = view_of(p->object);
	change ch = change_begin(v);
	ch.m.node = arena_strdup(ch.mem, v->m.node);
	ch.m.pod_uid = arena_strdup(ch.mem, v->m.pod_uid);
	ch.m.deployed.url = arena_strdup(ch.mem, v->m.deployed.url);
	ch.m.deployed.since = arena_strdup(ch.mem, v->m.deployed.since);
	ch.m.dataset = arena_strdup(ch.mem, v->m.dataset);
	job_view_free(v);
	return ch;
}

static void one(play *p, enum stage stage, enum phase phase, cJSON *input, cJSON *output, change ch)
{
	change_add(&ch, stage, phase, NULL, NULL);
	ch.steps[0].input = input;
	ch.steps[0].output = output;
	p->t.pos = (position){.round = ch.m.round, .stage = stage, .phase = phase};
	snprintf(p->t.node, sizeof p->t.node, "%s", ch.m.node != NULL ? ch.m.node : "");
	snprintf(p->t.pod, sizeof p->t.pod, "%s", ch.m.pod_uid != NULL ? ch.m.pod_uid : "");
	apply(p->object, &ch, &p->limits, &p->t);
	cJSON_Delete(input);
	cJSON_Delete(output);
}

static void fails(play *p, enum stage stage)
{
	change ch = begin(p);
	p->t.failures = ++ch.m.failures;
	one(p, stage, PHASE_FAILED, NULL, NULL, ch);
}

/* Ready, Starting, Running of train or eval. */
static void work(play *p, enum stage stage, int64_t round)
{
	change ch = begin(p);
	ch.m.node = ch.m.pod_uid = NULL;
	p->t.input_round = round;
	one(p, stage, PHASE_READY, input_of(round, stage == STAGE_TRAIN), NULL, ch);
	ch = begin(p);
	ch.m.node = "edge-1";
	ch.m.pod_uid = stage == STAGE_TRAIN ? "pod-train" : "pod-eval";
	one(p, stage, PHASE_STARTING, NULL, NULL, ch);
	one(p, stage, PHASE_RUNNING, NULL, NULL, begin(p));
}

static void deploy(play *p, enum outcome outcome, int64_t round)
{
	if (outcome == NOT_BETTER) {
		change ch = begin(p);
		ch.m.failures = p->t.failures = 0;
		one(p, STAGE_DEPLOY, PHASE_COMPLETED, NULL, NULL, ch);
		return;
	}
	one(p, STAGE_DEPLOY, PHASE_READY, NULL, NULL, begin(p));
	if (outcome == DEPLOY_FAILED) {
		fails(p, STAGE_DEPLOY);
		return;
	}
	change ch = begin(p);
	ch.m.has_deployed = true;
	ch.m.deployed.round = p->t.deployed = round;
	one(p, STAGE_DEPLOY, PHASE_STARTING, NULL, NULL, ch);
	ch = begin(p);
	ch.m.failures = p->t.failures = 0;
	one(p, STAGE_DEPLOY, PHASE_COMPLETED, NULL, NULL, ch);
}

static void play_round(play *p, enum outcome outcome)
{
	int64_t round = p->t.pos.round + 1;
	bool better = outcome == SUCCESS || outcome == DEPLOY_FAILED;
	change ch = begin(p);
	ch.m.round = round;
	ch.m.node = ch.m.pod_uid = NULL;
	one(p, STAGE_TRAIN, PHASE_WAITING, NULL, NULL, ch);
	work(p, STAGE_TRAIN, round);
	if (outcome == TRAIN_FAILED) {
		fails(p, STAGE_TRAIN);
		return;
	}
	ch = begin(p);
	ch.m.has_cursor = p->t.has_cursor = true;
	ch.m.cursor = (cursor){.sample = round * 10, .size = round * 100};
	p->t.cursor = round * 10;
	p->t.trained = round;
	one(p, STAGE_TRAIN, PHASE_COMPLETED, NULL, output_of(round, true, false), ch);
	one(p, STAGE_EVAL, PHASE_WAITING, NULL, NULL, begin(p));
	work(p, STAGE_EVAL, round);
	if (outcome == EVAL_FAILED) {
		fails(p, STAGE_EVAL);
		return;
	}
	p->t.evaluated = round;
	p->t.better = better;
	one(p, STAGE_EVAL, PHASE_COMPLETED, NULL, output_of(round, false, better), begin(p));
	one(p, STAGE_DEPLOY, PHASE_WAITING, NULL, NULL, begin(p));
	deploy(p, outcome, round);
}

static play play_copy(const play *p)
{
	play copy = *p;
	copy.object = cJSON_Duplicate(p->object, 1);
	return copy;
}

static play play_begin(int limit)
{
	play p = {.object = cJSON_CreateObject(), .limits = {.max = limit, .metrics_max = 1024}};
	cJSON *spec = NULL;
	/* Enough of a spec for the deploy trigger, by which models are compared. */
	const char *text = "{\"dataset\":{\"name\":\"d\",\"trainProb\":1},\"initialModel\":{\"name\":\"i\"},"
					   "\"trainSpec\":{\"template\":{\"spec\":{\"containers\":[{}]}},\"trigger\":{}},\"evalSpec\":{\"template\":{\"spec\":{"
					   "\"containers\":[{}]}}},"
					   "\"deploySpec\":{\"model\":{\"name\":\"s\"},\"template\":{\"spec\":{\"containers\":[{}]}},"
					   "\"trigger\":{\"condition\":{\"operator\":\">\",\"threshold\":0,\"metric\":\"acc_delta\"}}},\"outputDir\":\"/out\"}";
	assert_int_equal(json_parse(text, strlen(text), 10000, &spec, NULL), 0);
	json_put(p.object, "spec", spec);
	return p;
}

static void descend(const play *p, int rounds)
{
	for (int i = 0; i < OUTCOMES && rounds > 0; i++) {
		play next = play_copy(p);
		play_round(&next, (enum outcome)i);
		descend(&next, rounds - 1);
		cJSON_Delete(next.object);
	}
}

static const int limits[] = {12, 14, 20, 30};
enum { N_LIMITS = sizeof limits / sizeof limits[0] };

static void test_all_sequences(void **state)
{
	(void)state;
	for (int i = 0; i < N_LIMITS; i++) {
		play p = play_begin(limits[i]);
		descend(&p, getenv("ILMARE_TEST_LONG") != NULL ? ROUNDS : 2);
		cJSON_Delete(p.object);
	}
}

static void test_long_sequences(void **state)
{
	(void)state;
	uint32_t random = 1;
	for (int n = 0; n < 40; n++) {
		play p = play_begin(limits[n % N_LIMITS]);
		for (int i = 0; i < ROUNDS; i++) {
			random = random * 1664525 + 1013904223;
			play_round(&p, (enum outcome)((random >> 16) % OUTCOMES));
		}
		cJSON_Delete(p.object);
	}
	/* Five train rounds fail in a row after one that was deployed; then many that are not better. */
	for (int i = 0; i < N_LIMITS; i++) {
		play p = play_begin(limits[i]);
		play_round(&p, SUCCESS);
		for (int k = 0; k < 5; k++)
			play_round(&p, TRAIN_FAILED);
		assert_int_equal(p.t.failures, 5);
		for (int k = 0; k < 6; k++)
			play_round(&p, k % 2 ? NOT_BETTER : EVAL_FAILED);
		cJSON_Delete(p.object);
	}
}

/* ---- size ---- */

static size_t printed(const cJSON *value)
{
	char *text = json_print(value);
	size_t len = strlen(text);
	free(text);
	return len;
}

static void test_size(void **state)
{
	(void)state;
	play p = play_begin(14);
	char message[5000];
	memset(message, 'x', sizeof message - 1);
	message[sizeof message - 1] = '\0';
	for (int round = 0; round < 40; round++) {
		change ch = begin(&p);
		ch.m.round = p.t.pos.round + 1;
		p.t.failures = ++ch.m.failures;
		p.t.pos = (position){.round = ch.m.round, .stage = STAGE_TRAIN, .phase = PHASE_FAILED};
		change_add(&ch, STAGE_TRAIN, PHASE_FAILED, "Reason", message);
		apply(p.object, &ch, &p.limits, &p.t);
		assert_true(printed(p.object) < 16 * 1024);
	}
	cJSON_Delete(p.object);
}

static void test_metrics_bound(void **state)
{
	(void)state;
	cJSON *large = cJSON_CreateObject();
	for (int i = 0; i < 100; i++) {
		char name[32];
		snprintf(name, sizeof name, "metric-number-%d", i);
		json_put_double(large, name, i);
	}
	json_put_double(large, "acc", 0.5);
	model models[2] = {{.format = "pb", .url = "/a", .metrics = large}, {.format = "pb", .url = "/b", .metrics = large}};
	trigger t = {.has_condition = true, .metric = "acc_delta"};
	bool truncated = false;
	cJSON *list = models_bounded(models, 2, &t, 1024, &truncated);
	assert_true(truncated);
	const cJSON *kept = json_member(cJSON_GetArrayItem(list, 0), "metrics");
	assert_int_equal(cJSON_GetArraySize(kept), 2);
	assert_true(json_member(kept, "acc")->valuedouble == 0.5);
	assert_true(cJSON_IsTrue(json_member(kept, "truncated")));
	cJSON_Delete(list);
	list = models_bounded(models, 2, &t, 100000, &truncated);
	assert_false(truncated);
	assert_int_equal(cJSON_GetArraySize(json_member(cJSON_GetArrayItem(list, 1), "metrics")), 101);
	cJSON_Delete(list);
	cJSON_Delete(large);
}

/* A number for each of many classes is more than there is room for: what the trigger takes from it stays. */
static void test_metrics_of_many_classes(void **state)
{
	static const struct {
		const char *expression;
		double value;
	} rows[] = {{"acc_delta", 0.4}, {"acc", 0.9}, {"acc[79]", 0.9 + 39.5 / 30000}, {"acc_delta[79]", 0.4}, {"acc_delta[7]", 0.4}};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		cJSON *metrics[2];
		for (int k = 0; k < 2; k++) {
			metrics[k] = cJSON_CreateObject();
			cJSON *list = cJSON_CreateArray();
			json_put(metrics[k], "acc", list);
			for (int n = 0; n < 80; n++)
				cJSON_AddItemToArray(list, cJSON_CreateNumber((k == 0 ? 0.9 : 0.5) + (n - 39.5) / 30000));
		}
		model models[2] = {{.format = "pb", .url = "/a", .metrics = metrics[0]}, {.format = "pb", .url = "/b", .metrics = metrics[1]}};
		trigger t = {.has_condition = true, .metric = rows[i].expression, .op = OP_GT, .threshold = 0.1};
		bool truncated = false;
		cJSON *kept = models_bounded(models, 2, &t, 1024, &truncated);
		char *text = json_print(kept);
		assert_true(truncated);
		assert_true(strlen(text) < 300);
		metric_expr e;
		error err = {0};
		double value = 0;
		assert_int_equal(metric_parse(t.metric, &e, NULL), 0);
		if (metric_evaluate(&e, json_member(cJSON_GetArrayItem(kept, 0), "metrics"), json_member(cJSON_GetArrayItem(kept, 1), "metrics"),
				&value, &err) != 0)
			fail_msg("%s of %s: %s", t.metric, text, err.text);
		assert_true(value > rows[i].value - 1e-9 && value < rows[i].value + 1e-9);
		free(text);
		cJSON_Delete(kept);
		cJSON_Delete(metrics[0]);
		cJSON_Delete(metrics[1]);
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_sequences),
		cmocka_unit_test(test_long_sequences),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_metrics_bound),
		cmocka_unit_test(test_metrics_of_many_classes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
