/* Manifests: what is taken and as what type, and the text of every mistake. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/local/manifests.h"
#include "common/json.h"

static const char job_text[] = "apiVersion: sedna.io/v1alpha1\n" /* 1 */
							   "kind: IncrementalLearningJob\n"
							   "metadata:\n"
							   "  name: helmet\n"
							   "spec:\n" /* 5 */
							   "  dataset: {name: d, trainProb: 0.8}\n"
							   "  initialModel: {name: m0}\n"
							   "  trainSpec:\n"
							   "    template: {spec: {containers: [{name: t, command: [run], anything: [1, true, ~, 1.5, 02:00]}]}}\n"
							   "    trigger:\n" /* 10 */
							   "      checkPeriodSeconds: 60\n"
							   "      timer: {start: 02:00, end: 24:00}\n"
							   "      condition: {operator: \">\", threshold: \"500\", metric: num_of_samples}\n"
							   "  evalSpec: {template: {}}\n"
							   "  deploySpec:\n" /* 15 */
							   "    model: {name: m1, hotUpdateEnabled: true, pollPeriodSeconds: 5}\n"
							   "    trigger: {condition: {operator: gt, threshold: 0.1, metric: precision_delta}}\n"
							   "    hardExampleMining: {name: IBT, parameters: [{key: threshold_img, value: 0.9}]}\n"
							   "    template: {}\n"
							   "  outputDir: /out\n";

static void parse(const char *text, manifest_file *out)
{
	manifest_parse("f.yaml", text, strlen(text), out);
}

static char *json_of(const cJSON *value)
{
	char *text = json_print(value);
	assert_non_null(text);
	return text;
}

static void a_job_has_the_types_of_its_fields(void **state)
{
	(void)state;
	manifest_file f;
	parse(job_text, &f);
	assert_int_equal(f.n_problems, 0);
	assert_false(f.broken);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.items[0].kind, OBJECT_JOB);
	assert_string_equal(f.items[0].ns, "default");
	assert_string_equal(f.items[0].name, "helmet");
	assert_int_equal(f.items[0].line, 1);
	char *text = json_of(f.items[0].spec);
	assert_string_equal(text,
		"{\"dataset\":{\"name\":\"d\",\"trainProb\":0.8},\"initialModel\":{\"name\":\"m0\"},\"trainSpec\":{\"template\":{\"spec\":{"
		"\"containers\":[{\"name\":\"t\",\"command\":[\"run\"],\"anything\":[1,true,null,1.5,\"02:00\"]}]}},\"trigger\":{"
		"\"checkPeriodSeconds\":60,\"timer\":{\"start\":\"02:00\",\"end\":\"24:00\"},\"condition\":{\"operator\":\">\",\"threshold\":500,"
		"\"metric\":\"num_of_samples\"}}},\"evalSpec\":{\"template\":{}},\"deploySpec\":{\"model\":{\"name\":\"m1\",\"hotUpdateEnabled\":"
		"true,\"pollPeriodSeconds\":5},\"trigger\":{\"condition\":{\"operator\":\"gt\",\"threshold\":0.1,\"metric\":\"precision_delta\"}},"
		"\"hardExampleMining\":{\"name\":\"IBT\",\"parameters\":[{\"key\":\"threshold_img\",\"value\":\"0.9\"}]},\"template\":{}},"
		"\"outputDir\":\"/out\"}");
	free(text);
	manifest_file_fini(&f);
}

/* The job with one line replaced; its only problem. */
static void check_job(int line, const char *replacement, const char *problem)
{
	buf text = {0};
	const char *p = job_text;
	for (int i = 1; *p != '\0'; i++) {
		size_t n = strcspn(p, "\n") + 1;
		if (i == line)
			buf_printf(&text, "%s\n", replacement);
		else
			buf_add(&text, p, n);
		p += n;
	}
	manifest_file f;
	parse(buf_text(&text), &f);
	if (f.n_problems != 1)
		fail_msg("%s: %zu problems, the first: %s", replacement, f.n_problems, f.n_problems > 0 ? f.problems[0].text : "");
	assert_string_equal(f.problems[0].text, problem);
	assert_int_equal(f.n, f.problems[0].warning ? 1 : 0);
	assert_int_equal(f.broken, !f.problems[0].warning);
	manifest_file_fini(&f);
	buf_fini(&text);
}

static void a_mistake_names_its_line_and_path(void **state)
{
	(void)state;
	check_job(13, "      condition: {operator: \"=>\", threshold: 1, metric: num_of_samples}",
		"f.yaml:13: spec.trainSpec.trigger.condition.operator: \"=>\" is not one of gt, ge, eq, ne, le, lt, >, >=, =, ==, !=, <=, <");
	check_job(13, "      condition: {operator: gt, metric: num_of_samples}",
		"f.yaml:13: spec.trainSpec.trigger.condition.threshold: is missing");
	check_job(13, "      condition: {operator: gt, threshold: many, metric: num_of_samples}",
		"f.yaml:13: spec.trainSpec.trigger.condition.threshold: \"many\" is not a number");
	check_job(13, "      condition: [1]", "f.yaml:13: spec.trainSpec.trigger.condition: is a list, not a map");
	check_job(12, "      timer: {start: 25:00, end: 24:00}",
		"f.yaml:12: spec.trainSpec.trigger.timer.start: \"25:00\" is not a time of the day such as 02:00");
	check_job(12, "      timer: {start: 1:00, end: 24:01}",
		"f.yaml:12: spec.trainSpec.trigger.timer.end: \"24:01\" is not a time of the day such as 02:00");
	check_job(12, "      timer: {start: [1], end: 24:00}", "f.yaml:12: spec.trainSpec.trigger.timer.start: is a list, not a time");
	check_job(11, "      checkPeriodSeconds: 1.5", "f.yaml:11: spec.trainSpec.trigger.checkPeriodSeconds: \"1.5\" is not a whole number");
	check_job(11, "      checkPeriodSeconds: 0", "f.yaml:11: spec.trainSpec.trigger.checkPeriodSeconds: 0 is not between 1 and 86400");
	check_job(6, "  dataset: {name: d, trainProb: 1.2}", "f.yaml:6: spec.dataset.trainProb: 1.2 is not between 0 and 1");
	check_job(6, "  dataset: {name: \"\", trainProb: 1}", "f.yaml:6: spec.dataset.name: must not be empty");
	check_job(6, "  dataset: {name: {a: b}, trainProb: 1}", "f.yaml:6: spec.dataset.name: is a map, not a text");
	check_job(6, "  dataset: {name: ~, trainProb: 1}", "f.yaml:6: spec.dataset.name: is missing");
	check_job(9, "    template: nothing", "f.yaml:9: spec.trainSpec.template: is a single value, not a map");
	check_job(16, "    model: {name: m1, hotUpdateEnabled: maybe}",
		"f.yaml:16: spec.deploySpec.model.hotUpdateEnabled: \"maybe\" is not true or false");
	check_job(18, "    hardExampleMining: {name: IBT, parameters: [{value: 0.9}]}",
		"f.yaml:18: spec.deploySpec.hardExampleMining.parameters[0].key: is missing");
	check_job(18, "    hardExampleMining: {name: IBT, parameters: no}",
		"f.yaml:18: spec.deploySpec.hardExampleMining.parameters: is a single value, not a list");
	check_job(20, "  outputdir: /out\n  outputDir: /out", "f.yaml:20: spec.outputdir: is not a field that is known here; it is ignored");
	check_job(20, "  outputDir: /out\nextra: 1", "f.yaml:21: extra: is not a field that is known here; it is ignored");
	check_job(2, "kind: Job",
		"f.yaml:2: apiVersion \"sedna.io/v1alpha1\", kind \"Job\": is not one of sedna.io/v1alpha1 Dataset, Model, "
		"IncrementalLearningJob, or v1 Secret");
	check_job(4, "  name: Helmet", "f.yaml:4: metadata.name: is not made of lower-case letters, digits, '-' and '.' (at most 253)");
	check_job(4, "  name: helmet\n  namespace: a.b",
		"f.yaml:5: metadata.namespace: is not made of lower-case letters, digits and '-' (at most 63)");
	check_job(4, "  labels: {a: b}", "f.yaml:3: metadata.name: is missing");
	check_job(4, "  name: helmet\n  labels: [a]", "f.yaml:5: metadata.labels: is a list, not a map of texts");
}

/* The job shows it; no round is begun for it. */
static void a_job_that_cannot_run_is_taken_to_be_shown(void **state)
{
	(void)state;
	static const struct {
		const char *template, *problem;
	} rows[] = {
		{"{spec: {containers: [{name: t, args: [run]}]}}",
			"f.yaml:9: spec.trainSpec.template: the container's command is needed: without containers there is no image whose entry point "
			"args "
			"could go to"},
		{"\n      spec:\n        containers:\n        - name: t\n          args: [run]",
			"f.yaml:13: spec.trainSpec.template: the container's command is needed: without containers there is no image whose entry point "
			"args could go to"},
		{"\n      spec:\n        containers:\n        - name: t\n",
			"f.yaml:12: spec.trainSpec.template: the container's command is needed: without containers there is no image whose entry point "
			"args could go to"},
		{"\n      spec:\n        containers: [{command: [a]}]\n        initContainers: [{name: x}]",
			"f.yaml:12: spec.trainSpec.template: initContainers of a template are not supported without containers"},
		{"{spec: {containers: [{command: [a]}, {command: [b]}]}}",
			"f.yaml:9: spec.trainSpec.template: a pod must have exactly one container to be run without containers"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		manifest_file f;
		const char *line = strstr(job_text, "    template: {spec"), *rest = strchr(line, '\n');
		char *text = mem_printf("%.*s    template: %s%s", (int)(line - job_text), job_text, rows[i].template, rest);
		parse(text, &f);
		assert_int_equal(f.n, 1);
		assert_int_equal(f.n_problems, 1);
		assert_true(f.problems[0].refused);
		assert_false(f.problems[0].warning || f.broken);
		assert_string_equal(f.problems[0].text, rows[i].problem);
		const cJSON *annotations = json_member(f.items[0].meta, "annotations");
		assert_string_equal(cJSON_GetStringValue(json_member(annotations, "ilmare/refused")), rows[i].problem);
		manifest_file_fini(&f);
		free(text);
	}
}

static void a_template_may_be_shared(void **state)
{
	(void)state;
	manifest_file f;
	buf text = {0};
	const char *line = strstr(job_text, "    template: {spec"), *end = strchr(line, '\n'),
			   *rest = strstr(job_text, "  evalSpec: {template: {}}\n");
	buf_printf(&text, "%.*s    template: &w {spec: &s {containers: [&c {name: t, command: [run], args: [a]}]}}%.*s", (int)(line - job_text),
		job_text, (int)(rest - end), end);
	buf_printf(&text, "  evalSpec: {template: {<<: *w, spec: {<<: *s, containers: [{<<: *c, args: [b]}]}}}\n%s",
		rest + strlen("  evalSpec: {template: {}}\n"));
	parse(buf_text(&text), &f);
	assert_int_equal(f.n_problems, 0);
	char *eval = json_of(json_member(f.items[0].spec, "evalSpec"));
	assert_string_equal(eval, "{\"template\":{\"spec\":{\"containers\":[{\"name\":\"t\",\"command\":[\"run\"],\"args\":[\"b\"]}]}}}");
	free(eval);
	manifest_file_fini(&f);
	buf_fini(&text);
}

static void what_a_cluster_exports_is_taken(void **state)
{
	(void)state;
	manifest_file f;
	parse("apiVersion: sedna.io/v1alpha1\nkind: Model\nmetadata:\n  name: m\n  namespace: other\n  uid: x\n  generation: 3\n"
		  "  creationTimestamp: null\n  managedFields: []\n  labels: {a: 1}\n  annotations: {b: \"2\"}\n"
		  "spec: {url: /m, format: pb, device_soc_versions: [a, b]}\nstatus: {metrics: []}\n",
		&f);
	assert_int_equal(f.n_problems, 0);
	assert_string_equal(f.items[0].ns, "other");
	char *meta = json_of(f.items[0].meta), *spec = json_of(f.items[0].spec);
	assert_string_equal(meta, "{\"labels\":{\"a\":\"1\"},\"annotations\":{\"b\":\"2\"}}");
	assert_string_equal(spec, "{\"url\":\"/m\",\"format\":\"pb\",\"device_soc_versions\":[\"a\",\"b\"]}");
	free(meta);
	free(spec);
	manifest_file_fini(&f);
}

static void one_bad_document_does_not_hide_the_others(void **state)
{
	(void)state;
	manifest_file f;
	parse("apiVersion: sedna.io/v1alpha1\nkind: Dataset\nmetadata: {name: a}\nspec: {url: /a, format: txt, nodeName: n}\n"
		  "---\njust text\n---\n"
		  "apiVersion: sedna.io/v1alpha1\nkind: Dataset\nmetadata: {name: b}\nspec: {format: xml}\n"
		  "---\n---\n"
		  "apiVersion: sedna.io/v1alpha1\nkind: Dataset\nmetadata: {name: c}\nspec: {url: /c, format: csv, nodeName: n}\n",
		&f);
	assert_int_equal(f.n, 2);
	assert_string_equal(f.items[0].name, "a");
	assert_string_equal(f.items[1].name, "c");
	assert_true(f.broken);
	assert_int_equal(f.n_problems, 4);
	assert_string_equal(f.problems[0].text, "f.yaml:6: the document is not a map with apiVersion, kind and metadata");
	assert_string_equal(f.problems[1].text, "f.yaml:11: spec.format: \"xml\" is not one of txt, csv");
	assert_string_equal(f.problems[2].text, "f.yaml:11: spec.url: is missing");
	assert_string_equal(f.problems[3].text, "f.yaml:11: spec.nodeName: is missing");
	manifest_file_fini(&f);
}

static void a_secret_is_decoded_and_never_told(void **state)
{
	(void)state;
	manifest_file f;
	parse("apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {s3-endpoint: host}}\ntype: Opaque\n"
		  "data: {ACCESS_KEY_ID: YWJj, SECRET_ACCESS_KEY: \"eHl6\"}\nstringData: {ACCESS_KEY_ID: plain, extra: e}\n",
		&f);
	assert_int_equal(f.n_problems, 0);
	assert_null(f.items[0].spec);
	char *data = json_of(f.items[0].data);
	assert_string_equal(data, "{\"SECRET_ACCESS_KEY\":\"xyz\",\"ACCESS_KEY_ID\":\"plain\",\"extra\":\"e\"}");
	free(data);
	manifest_file_fini(&f);
	parse("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: \"hidden!\"}\n", &f);
	assert_int_equal(f.n, 0);
	assert_string_equal(f.problems[0].text, "f.yaml:4: data.a: is not base64");
	manifest_file_fini(&f);
	parse("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {bin: AAE=, good: Z28=}\n", &f);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.problems[0].text, "f.yaml:4: data.bin: is not a text that an environment variable can hold; it is left out");
	manifest_file_fini(&f);
	parse("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: [1]\n", &f);
	assert_string_equal(f.problems[0].text, "f.yaml:4: data: is not a map");
	manifest_file_fini(&f);
}

static void limits_are_told(void **state)
{
	(void)state;
	manifest_file f;
	buf text = {0};
	for (int i = 0; i <= MANIFEST_DOCUMENTS_MAX; i++)
		buf_puts(&text, "---\na: 1\n");
	parse(buf_text(&text), &f);
	assert_int_equal(f.n_problems, 1);
	assert_true(f.broken);
	assert_string_equal(f.problems[0].text, "f.yaml: has 257 documents; at most 256 are taken");
	manifest_file_fini(&f);
	buf_clear(&text);
	for (int i = 0; i < MANIFEST_DOCUMENTS_MAX; i++)
		buf_puts(&text, "---\na: 1\n");
	parse(buf_text(&text), &f);
	assert_int_equal(f.n_problems, MANIFEST_PROBLEMS_MAX);
	assert_string_equal(f.problems[MANIFEST_PROBLEMS_MAX - 1].text, "there are more problems than are shown here");
	manifest_file_fini(&f);
	buf_fini(&text);
	parse("a: [\n", &f);
	assert_true(f.broken);
	assert_int_equal(f.n, 0);
	assert_int_equal(strncmp(f.problems[0].text, "f.yaml:", 7), 0);
	manifest_file_fini(&f);
	parse("", &f);
	assert_false(f.broken);
	assert_int_equal(f.n, 0);
	manifest_file_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_has_the_types_of_its_fields),
		cmocka_unit_test(a_mistake_names_its_line_and_path),
		cmocka_unit_test(a_job_that_cannot_run_is_taken_to_be_shown),
		cmocka_unit_test(a_template_may_be_shared),
		cmocka_unit_test(what_a_cluster_exports_is_taken),
		cmocka_unit_test(one_bad_document_does_not_hide_the_others),
		cmocka_unit_test(a_secret_is_decoded_and_never_told),
		cmocka_unit_test(limits_are_told),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
