/* Which model for what: results for targets, the base of the next round. */
#include "tests/unit/unit.h"

#include "cloud-agent/core/core.h"

static void test_select(void **state)
{
	(void)state;
	const char *npu[] = {"Ascend310"}, *other[] = {"Ascend910"}, *both[] = {"Ascend310", "Ascend910"};
	model pb = {.format = "pb", .url = "pb"}, ckpt = {.format = "ckpt", .url = "ckpt"}, ckpt_2 = {.format = "ckpt", .url = "ckpt-2"};
	model om_310 = {.format = "om", .url = "om-310", .socs = npu, .n_socs = 1};
	model om_910 = {.format = "om", .url = "om-910", .socs = other, .n_socs = 1};
	model om_both = {.format = "om", .url = "om-both", .socs = both, .n_socs = 2};
	model to_pb = {.format = "pb", .url = "t"}, to_ckpt = {.format = "ckpt", .url = "t"}, to_none = {.format = "x", .url = "t"};
	model to_910 = {.format = "om", .url = "t", .socs = other, .n_socs = 1};
	const struct {
		model results[3];
		size_t n;
		const model *target;
		enum model_use use;
		const char *url;
	} cases[] = {
		{{pb}, 1, &to_pb, USE_SERVE, "pb"},
		{{pb}, 1, &to_none, USE_TRAIN, "pb"},
		/* two that both fit, or none: by order */
		{{ckpt, ckpt_2}, 2, &to_ckpt, USE_SERVE, "ckpt"},
		{{ckpt, ckpt_2}, 2, &to_ckpt, USE_TRAIN, "ckpt-2"},
		{{pb, ckpt}, 2, &to_none, USE_SERVE, "pb"},
		{{pb, ckpt}, 2, &to_none, USE_TRAIN, "ckpt"},
		/* else the first that fits */
		{{pb, ckpt}, 2, &to_ckpt, USE_SERVE, "ckpt"},
		{{pb, ckpt}, 2, &to_ckpt, USE_TRAIN, "ckpt"},
		{{pb, ckpt}, 2, &to_pb, USE_TRAIN, "pb"},
		{{pb, ckpt, ckpt_2}, 3, &to_ckpt, USE_TRAIN, "ckpt"},
		{{pb, ckpt, ckpt_2}, 3, &to_none, USE_SERVE, "pb"},
		{{pb, ckpt, ckpt_2}, 3, &to_none, USE_TRAIN, "ckpt-2"},
		/* devices */
		{{om_310, om_910}, 2, &to_910, USE_SERVE, "om-910"},
		{{om_310, om_910, ckpt}, 3, &to_910, USE_SERVE, "om-910"},
		{{om_both, om_910, ckpt}, 3, &to_910, USE_SERVE, "om-both"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(model_select(cases[i].results, cases[i].n, cases[i].target, cases[i].use)->url, cases[i].url);
	assert_null(model_select(NULL, 0, &to_pb, USE_SERVE));
}

static const model initial = {.format = "ckpt", .url = "initial"};

typedef struct scene {
	enum retrain_from retrain;
	enum trigger_op op;
	double of_new, of_old;
	int64_t evaluated, deployed, trained; /* rounds; 0: none */
	bool no_metric, no_condition;
	bool back;           /* `deployed` is a rollback … */
	const char *to_base; /* … to a version with this to be trained on; NULL: with none */
	const char *base;
} scene;

static results trained_in(int64_t round, model *models, char *url)
{
	snprintf(url, 16, "round-%lld", (long long)round);
	models[0] = (model){.format = "pb", .url = "serve"};
	models[1] = (model){.format = "ckpt", .url = url};
	return (results){.there = round > 0, .round = round, .models = models, .n = 2};
}

static void check(const scene *s)
{
	model m[3][2], eval[2] = {{.format = "pb", .url = "n"}, {.format = "pb", .url = "o"}};
	char url[3][16];
	cJSON *a = cJSON_CreateObject(), *b = cJSON_CreateObject();
	json_put_double(a, s->no_metric ? "other" : "acc", s->of_new);
	json_put_double(b, "acc", s->of_old);
	eval[0].metrics = a;
	eval[1].metrics = b;
	job_view v = {.retrain = s->retrain, .deploy = {.has_condition = !s->no_condition, .op = s->op, .metric = "acc_delta"}};
	v.trained = trained_in(s->trained, m[0], url[0]);
	v.trained_evaluated = trained_in(s->evaluated, m[1], url[1]);
	v.trained_deployed = trained_in(s->deployed, m[2], url[2]);
	if (s->evaluated > 0)
		v.evaluated = (results){.there = true, .round = s->evaluated, .models = eval, .n = 2};
	kept_version kept = {.round = s->deployed, .base_url = s->to_base, .base_format = "ckpt"};
	v.m.has_deployed = s->deployed > 0;
	v.m.deployed.round = s->deployed;
	v.m.deployed.back = s->back;
	v.m.versions = &kept;
	v.m.n_versions = 1;
	v.mem = arena_new();
	assert_string_equal(base_model(&v, &initial)->url, s->base);
	arena_free(v.mem);
	cJSON_Delete(a);
	cJSON_Delete(b);
}

static void test_base(void **state)
{
	(void)state;
	static const scene cases[] = {
		{.base = "initial"},
		{.trained = 1, .base = "round-1"}, /* never compared */
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.9, .of_old = 0.8, .base = "round-3"},
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.8, .of_old = 0.8, .base = "round-3"}, /* not worse */
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.7, .of_old = 0.8, .base = "round-2"},
		{.trained = 3, .evaluated = 3, .deployed = 0, .of_new = 0.7, .of_old = 0.8, .base = "initial"},
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.7, .of_old = 0.8, .op = OP_LT, .base = "round-3"}, /* an error rate */
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.9, .of_old = 0.8, .op = OP_LE, .base = "round-2"},
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.1, .of_old = 0.8, .op = OP_NE, .base = "round-3"}, /* cannot be judged */
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.1, .of_old = 0.8, .no_metric = true, .base = "round-3"},
		{.trained = 3, .evaluated = 3, .deployed = 2, .of_new = 0.1, .of_old = 0.8, .no_condition = true, .base = "round-3"},
		/* a later round trained, and its evaluation failed: what was compared counts */
		{.trained = 4, .evaluated = 3, .deployed = 2, .of_new = 0.9, .of_old = 0.8, .base = "round-3"},
		{.trained = 4, .evaluated = 3, .deployed = 2, .of_new = 0.1, .of_old = 0.8, .base = "round-2"},
		{.retrain = RETRAIN_LAST, .trained = 4, .evaluated = 3, .deployed = 2, .of_new = 0.1, .of_old = 0.8, .base = "round-4"},
		{.retrain = RETRAIN_DEPLOYED, .trained = 4, .evaluated = 3, .deployed = 2, .of_new = 0.9, .of_old = 0.8, .base = "round-2"},
		{.retrain = RETRAIN_DEPLOYED, .trained = 4, .evaluated = 3, .of_new = 0.9, .of_old = 0.8, .base = "initial"},
		/* after a rollback: its model, until a later round was evaluated (or, for `last`, trained) */
		{.back = true, .to_base = "kept", .trained = 3, .evaluated = 3, .deployed = 4, .of_new = 0.9, .of_old = 0.8, .base = "kept"},
		{.back = true, .trained = 3, .evaluated = 3, .deployed = 4, .of_new = 0.9, .of_old = 0.8, .base = "initial"},
		{.back = true, .to_base = "kept", .trained = 4, .evaluated = 4, .deployed = 4, .of_new = 0.9, .of_old = 0.8, .base = "kept"},
		{.back = true, .to_base = "kept", .trained = 5, .evaluated = 3, .deployed = 4, .of_new = 0.9, .of_old = 0.8, .base = "kept"},
		{.back = true, .to_base = "kept", .trained = 5, .evaluated = 5, .deployed = 4, .of_new = 0.9, .of_old = 0.8, .base = "round-5"},
		{.back = true, .to_base = "kept", .trained = 5, .evaluated = 5, .deployed = 4, .of_new = 0.1, .of_old = 0.8, .base = "kept"},
		{.back = true, .to_base = "kept", .retrain = RETRAIN_LAST, .trained = 4, .evaluated = 3, .deployed = 4, .base = "kept"},
		{.back = true, .to_base = "kept", .retrain = RETRAIN_LAST, .trained = 5, .evaluated = 3, .deployed = 4, .base = "round-5"},
		{.back = true, .to_base = "kept", .retrain = RETRAIN_DEPLOYED, .trained = 5, .evaluated = 5, .deployed = 4, .base = "kept"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		check(&cases[i]);
}

static void test_table_of_keys(void **state)
{
	(void)state;
	table t = {0};
	char key[16];
	int values[300];
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof key, "key-%d", (i * 7) % 300);
		table_put(&t, key, &values[(i * 7) % 300]);
	}
	assert_int_equal(t.n, 300);
	for (size_t i = 1; i < t.n; i++)
		assert_true(strcmp(t.entries[i - 1].key, t.entries[i].key) < 0);
	for (int i = 0; i < 300; i += 2) {
		snprintf(key, sizeof key, "key-%d", i);
		assert_ptr_equal(table_remove(&t, key), &values[i]);
		assert_null(table_remove(&t, key));
	}
	assert_ptr_equal(table_get(&t, "key-7"), &values[7]);
	assert_null(table_get(&t, "key-8"));
	table_fini(&t);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_select),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_table_of_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
