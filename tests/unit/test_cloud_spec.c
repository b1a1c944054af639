/* A job's spec: what is wrong with it is told by its field; what it names may come later; changes take effect at the next boundary; lists that
 * Sedna wrote are taken over. */
#include "tests/unit/cloud_harness.h"

static cJSON *at(cJSON *obj, const char *path)
{
	char *copy = mem_strdup(path);
	for (char *name = copy, *dot; name != NULL && obj != NULL; name = dot) {
		dot = strchr(name, '.');
		if (dot != NULL)
			*dot++ = '\0';
		obj = cJSON_GetObjectItemCaseSensitive(obj, name);
	}
	free(copy);
	return obj;
}

static void set(harness *h, const char *parent, const char *name, const char *json_text)
{
	cJSON *obj = parent[0] != '\0' ? at(harness_spec(h, "j"), parent) : harness_spec(h, "j"), *value = NULL;
	cJSON_DeleteItemFromObjectCaseSensitive(obj, name);
	if (json_text == NULL)
		return;
	assert_int_equal(json_parse(json_text, strlen(json_text), 10000, &value, NULL), 0);
	json_put(obj, name, value);
}

static void test_invalid(void **state)
{
	(void)state;
	static const struct {
		const char *parent, *name, *value, *field;
	} table[] = {
		{"", "dataset", NULL, "spec.dataset: is missing"},
		{"dataset", "name", NULL, "spec.dataset.name: is missing"},
		{"dataset", "name", "\"a/b\"", "spec.dataset.name: 'a/b' is not a name"},
		{"dataset", "name", "7", "spec.dataset.name"},
		{"dataset", "trainProb", NULL, "spec.dataset.trainProb: is missing"},
		{"dataset", "trainProb", "1.5", "spec.dataset.trainProb: 1.5 is not between 0 and 1"},
		{"dataset", "trainProb", "\"0.8\"", "spec.dataset.trainProb"},
		{"", "initialModel", "{}", "spec.initialModel.name: is missing"},
		{"", "trainSpec", NULL, "spec.trainSpec: is missing"},
		{"trainSpec", "template", NULL, "spec.trainSpec.template: is missing"},
		{"trainSpec.template.spec", "containers", "[]", "spec.trainSpec.template.spec.containers: needs a container"},
		{"trainSpec", "trigger", NULL, "spec.trainSpec.trigger: is missing"},
		{"trainSpec.trigger.condition", "operator", "\"=>\"", "spec.trainSpec.trigger.condition.operator"},
		{"trainSpec.trigger.condition", "threshold", "null", "spec.trainSpec.trigger.condition.threshold"},
		{"trainSpec.trigger.condition", "metric", "\"samples\"", "spec.trainSpec.trigger.condition.metric: must be num_of_samples"},
		{"trainSpec.trigger", "timer", "{\"start\":\"25:00\",\"end\":\"10:00\"}", "spec.trainSpec.trigger.timer.start"},
		{"evalSpec", "initialEvalModel", "{\"name\":\"A\"}", "spec.evalSpec.initialEvalModel.name"},
		{"deploySpec", "model", NULL, "spec.deploySpec.model: is missing"},
		{"deploySpec.model", "pollPeriodSeconds", "0", "spec.deploySpec.model.pollPeriodSeconds"},
		{"deploySpec.model", "hotUpdateEnabled", "\"yes\"", "spec.deploySpec.model.hotUpdateEnabled"},
		{"deploySpec.trigger.condition", "metric", "\"a[\"", "spec.deploySpec.trigger.condition"},
		{"", "outputDir", NULL, "spec.outputDir: is missing"},
		{"", "outputDir", "\"out\"", "spec.outputDir: 'out' is neither a path from the root nor an s3:// url"},
		{"", "outputDir", "\"http://h/out\"", "spec.outputDir: 'http://h/out' is neither a path from the root nor an s3:// url"},
		{"", "outputDir", "\"/a//out\"", "spec.outputDir: '/a//out' is not plain"},
		{"", "outputDir", "\"/a/../out\"", "spec.outputDir: '/a/../out' is not plain"},
		{"", "outputDir", "\"/a/./\"", "spec.outputDir: '/a/.' is not plain"},
		{"", "outputDir", "\"/a/out \"", "spec.outputDir: '/a/out ' is not plain"},
		{"", "outputDir", "\"/\"", "spec.outputDir: '/' is not plain"},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		harness_put(h, OBJECT_JOB, harness_job("other", "edge-1", "/other"));
		set(h, table[i].parent, table[i].name, table[i].value);
		harness_start(h);
		harness_run(h);
		job_state *s = harness_state(h, "j");
		assert_string_equal(s->reason, "InvalidSpec");
		if (strncmp(s->message, table[i].field, strlen(table[i].field)) != 0)
			fail_msg("'%s' does not begin with '%s'", s->message, table[i].field);
		assert_int_equal(s->position.round, 0);
		job_state_free(s);
		assert_int_equal(harness_conditions(h, "j"), 0);
		harness_expect(h, "other", 1, STAGE_TRAIN, PHASE_WAITING); /* others go on */
		harness_free(h);
	}
}

/* A path that does not say from where would be looked for in different places by the agents and the workers. */
static void test_relative_urls(void **state)
{
	static const struct {
		enum object_kind kind;
		const char *name, *reason, *message;
	} table[] = {
		{OBJECT_DATASET, "d", "InvalidDataset",
			"Dataset d: spec.url: 'data/pts.csv' is neither a path from the root nor an s3://, http:// or https:// url"},
		{OBJECT_MODEL, "initial", "InvalidModel",
			"Model initial: spec.url: 'data/pts.csv' is neither a path from the root nor an s3://, http:// or https:// url"},
		{OBJECT_MODEL, "serve", "InvalidModel",
			"Model serve: spec.url: 'data/pts.csv' is neither a path from the root nor an s3://, http:// or https:// url"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		cJSON *spec = at(harness_object(h, table[i].kind, table[i].name), "spec");
		char *url = mem_strdup(harness__text(harness_object(h, table[i].kind, table[i].name), "spec", "url"));
		cJSON_ReplaceItemInObjectCaseSensitive(spec, "url", cJSON_CreateString("data/pts.csv"));
		harness_start(h);
		harness_run(h);
		job_state *s = harness_state(h, "j");
		assert_string_equal(s->reason, table[i].reason);
		assert_string_equal(s->message, table[i].message);
		job_state_free(s);
		cJSON_ReplaceItemInObjectCaseSensitive(spec, "url", cJSON_CreateString(url));
		harness_touch(h, table[i].kind, table[i].name);
		harness_run(h);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
		free(url);
		harness_free(h);
	}
}

static void test_annotations(void **state)
{
	(void)state;
	harness *h = harness_world();
	cJSON *annotations = cJSON_AddObjectToObject(at(harness_object(h, OBJECT_JOB, "j"), "metadata"), "annotations");
	json_put_string(annotations, "ilmare/first-sample", "end");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->first_sample_end);
	desired_free(d);
	json_put_string(annotations, "ilmare/retrain-from", "best");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	job_state *s = harness_state(h, "j");
	assert_string_equal(s->reason, "InvalidSpec");
	job_state_free(s);
	/* The backend's own reason comes first, as it stands. */
	json_put_string(annotations, "ilmare/refused", "jobs.yaml:12: no command");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	s = harness_state(h, "j");
	assert_string_equal(s->reason, "InvalidSpec");
	assert_string_equal(s->message, "jobs.yaml:12: no command");
	job_state_free(s);
	harness_free(h);
}

static int count(const harness *h, const char *reason)
{
	int n = 0;
	const cJSON *event;
	cJSON_ArrayForEach(event, h->events) {
		n += strcmp(event->valuestring, reason) == 0;
	}
	return n;
}

/* What is missing is a visible reason, said once as an event, and the job goes on by itself when it appears. */
static void test_missing(void **state)
{
	(void)state;
	static const struct {
		enum object_kind kind;
		const char *name, *reason;
	} table[] = {
		{OBJECT_DATASET, "d", "MissingDataset"},
		{OBJECT_MODEL, "initial", "MissingModel"},
		{OBJECT_MODEL, "serve", "MissingModel"},
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		harness *h = harness_new();
		harness_add_world(h, "edge-1");
		cJSON *object = cJSON_Duplicate(harness_object(h, table[i].kind, table[i].name), 1);
		harness_remove(h, table[i].kind, table[i].name);
		harness_start(h);
		harness_run(h);
		harness_touch(h, OBJECT_JOB, "j");
		harness_run(h);
		job_state *s = harness_state(h, "j");
		assert_string_equal(s->reason, table[i].reason);
		job_state_free(s);
		assert_int_equal(count(h, table[i].reason), 1);
		assert_int_equal(h->creates, 0);
		harness_put(h, table[i].kind, object);
		harness_run(h);
		harness_expect(h, "j", 1, STAGE_TRAIN, PHASE_WAITING);
		assert_int_equal(h->creates, 1);
		s = harness_state(h, "j");
		assert_string_equal(s->reason, "");
		job_state_free(s);
		harness_free(h);
	}
}

/* Missing for a while in the middle of a round: the round goes on afterwards, and nothing that the pods tell is lost. */
static void test_missing_meanwhile(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	cJSON *object = cJSON_Duplicate(harness_object(h, OBJECT_MODEL, "serve"), 1);
	harness_remove(h, OBJECT_MODEL, "serve");
	harness_run(h);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_expect(h, "j", 1, STAGE_EVAL, PHASE_WAITING);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.stage, STAGE_TRAIN); /* half a document is none */
	desired_free(d);
	harness_put(h, OBJECT_MODEL, object);
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->position.stage, STAGE_EVAL);
	assert_int_equal(d->n_eval_models, 2);
	desired_free(d);
	harness_free(h);
}

/* ---- changes ---- */

static void test_changed_trigger(void **state)
{
	(void)state;
	harness *h = harness_world();
	set(h, "trainSpec.trigger.condition", "threshold", "50");
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_true(d->train.threshold > 49);
	desired_free(d);
	harness_free(h);
}

/* A changed dataset or output folder holds from the next round on; a running pod is not touched. */
static void test_changed_folder(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	cJSON *other = cJSON_Duplicate(harness_object(h, OBJECT_DATASET, "d"), 1);
	cJSON *metadata = at(other, "metadata");
	cJSON_DeleteItemFromObject(metadata, "uid");
	cJSON_DeleteItemFromObject(metadata, "name");
	json_put_string(metadata, "name", "e");
	cJSON_DeleteItemFromObject(at(other, "spec"), "format");
	json_put_string(at(other, "spec"), "format", "csv");
	harness_put(h, OBJECT_DATASET, other);
	set(h, "", "outputDir", "\"/elsewhere\"");
	set(h, "dataset", "name", "\"e\"");
	int made = h->creates, deleted = h->deletes;
	harness_touch(h, OBJECT_JOB, "j");
	harness_run(h);
	harness_restart(h);
	harness_run(h);
	assert_int_equal(h->creates, made);
	assert_int_equal(h->deletes, deleted);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_string_equal(d->output_dir, "/out");
	assert_string_equal(d->dataset.name, "d");
	assert_int_equal(d->dataset.format, FORMAT_TXT);
	desired_free(d);
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	says s = {.node = "edge-1", .to = 10, .dir = "/out", .metric = 0.9, .metric_old = 0.5};
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &s);
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_string_equal(d->output_dir, "/out");
	desired_free(d);
	device_run(h, &dev);
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_WAITING);
	d = harness_desired(h, "edge-1", "j");
	assert_string_equal(d->output_dir, "/elsewhere");
	assert_string_equal(d->dataset.name, "e");
	assert_int_equal(d->dataset.format, FORMAT_CSV);
	desired_free(d);
	harness_free(h);
}

/* The format too: the round's files are what they are. */
static void test_changed_format(void **state)
{
	(void)state;
	harness *h = harness_world();
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	cJSON *spec = at(harness_object(h, OBJECT_DATASET, "d"), "spec");
	cJSON_DeleteItemFromObject(spec, "format");
	json_put_string(spec, "format", "csv");
	harness_touch(h, OBJECT_DATASET, "d");
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->dataset.format, FORMAT_TXT);
	desired_free(d);
	harness_free(h);
}

/* ---- a Model to evaluate against ---- */

static void test_initial_eval_model(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	set(h, "evalSpec", "initialEvalModel", "{\"name\":\"reference\"}");
	harness_start(h);
	harness_run(h);
	job_state *s = harness_state(h, "j");
	assert_string_equal(s->reason, "MissingModel");
	job_state_free(s);
	cJSON *model_object = NULL;
	const char *text = "{\"metadata\":{\"name\":\"reference\"},\"spec\":{\"url\":\"/models/reference.ckpt\",\"format\":\"ckpt\"}}";
	assert_int_equal(json_parse(text, strlen(text), 10000, &model_object, NULL), 0);
	harness_put(h, OBJECT_MODEL, model_object);
	harness_run(h);
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	harness_work_phase(h, "j", WORKER_TRAIN, 1, "Succeeded");
	harness_report(h, "j", 1, STAGE_TRAIN, REPORT_COMPLETED, &(says){.node = "edge-1", .to = 10});
	harness_run(h);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_string_equal(d->eval_models[0].url, "/out/train/1/ckpt"); /* the result of its format */
	assert_string_equal(d->eval_models[1].url, "/models/reference.ckpt");
	desired_free(d);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_READY, &(says){.node = "edge-1"});
	harness_run(h);
	harness_report(h, "j", 1, STAGE_EVAL, REPORT_COMPLETED, &(says){.node = "edge-1", .metric = 0.9, .metric_old = 0.5});
	harness_run(h);
	d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->n_copies, 2);
	assert_string_equal(d->copies[0].from.url, "/out/train/1/serve.pb");
	assert_string_equal(d->copies[0].to.url, "/models/serve.pb");
	assert_string_equal(d->copies[1].from.url, "/out/train/1/ckpt");
	assert_string_equal(d->copies[1].to.url, "/models/reference.ckpt");
	desired_free(d);
	harness_free(h);
}

/* The object is too large for its store: once more, with what is needed alone. */
static void test_too_large(void **state)
{
	(void)state;
	harness *h = harness_world();
	device dev = {.node = "edge-1", .job = "j", .metric = 0.9, .last_round = 1};
	device_run(h, &dev);
	int before = harness_conditions(h, "j");
	h->refuse_patch = ERROR_LIMIT;
	harness_report(h, "j", 2, STAGE_TRAIN, REPORT_READY, &(says){.node = "edge-1", .from = 10, .to = 20});
	harness_run(h);
	assert_true(harness_wake(h, 2000));
	harness_expect(h, "j", 2, STAGE_TRAIN, PHASE_STARTING);
	assert_true(harness_conditions(h, "j") < before);
	dev.last_round = 2;
	device_run(h, &dev);
	harness_expect(h, "j", 3, STAGE_TRAIN, PHASE_WAITING);
	harness_free(h);
}

/* ---- Sedna's list ---- */

static void test_sedna_list(void **state)
{
	(void)state;
	harness *h = harness_new();
	harness_add_world(h, "edge-1");
	cJSON *status = NULL;
	const char *text = "{\"startTime\":\"2026-01-01T00:00:00Z\",\"conditions\":["
					   "{\"type\":\"Ready\",\"status\":\"True\",\"stage\":\"Train\",\"data\":\"{\\\"input\\\":{\\\"models\\\":[{"
					   "\\\"format\\\":\\\"ckpt\\\",\\\"url\\\":"
					   "\\\"/m\\\"}],\\\"dataURL\\\":\\\"/out/data/train/4/data.txt\\\",\\\"outputDir\\\":\\\"/out/train/4\\\"}}\"},"
					   "{\"type\":\"Completed\",\"status\":\"True\",\"stage\":\"Train\",\"data\":\"{\\\"output\\\":{\\\"models\\\":[{"
					   "\\\"format\\\":\\\"pb\\\",\\\"url\\\":"
					   "\\\"/out/train/4/serve.pb\\\"},{\\\"format\\\":\\\"ckpt\\\",\\\"url\\\":\\\"/out/train/4/ckpt\\\"}]}}\"},"
					   "{\"type\":\"Running\",\"status\":\"True\",\"stage\":\"Eval\"}]}";
	assert_int_equal(json_parse(text, strlen(text), 10000, &status, NULL), 0);
	json_put(harness_object(h, OBJECT_JOB, "j"), "status", status);
	harness_start(h);
	harness_run(h);
	harness_expect(h, "j", 5, STAGE_TRAIN, PHASE_WAITING);
	desired *d = harness_desired(h, "edge-1", "j");
	assert_int_equal(d->trained_round, 4);
	assert_false(d->has_cursor);
	assert_string_equal(d->base.url, "/out/train/4/ckpt");
	desired_free(d);
	assert_string_equal(at(harness_object(h, OBJECT_JOB, "j"), "status.startTime")->valuestring, "2026-01-01T00:00:00Z");
	harness_free(h);
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_relative_urls),
		cmocka_unit_test(test_annotations),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_missing_meanwhile),
		cmocka_unit_test(test_changed_trigger),
		cmocka_unit_test(test_changed_folder),
		cmocka_unit_test(test_changed_format),
		cmocka_unit_test(test_initial_eval_model),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_sedna_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
