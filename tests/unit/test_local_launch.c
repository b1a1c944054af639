/* From a pod to a process, and back to the pod's status: launch, expand, merge, base64, podstatus. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/local/expand.h"
#include "cloud-agent/cluster/local/launch.h"
#include "cloud-agent/cluster/local/merge.h"
#include "cloud-agent/cluster/local/podstatus.h"
#include "common/base64.h"
#include "common/json.h"

static cJSON *tree(const char *text)
{
	cJSON *value = NULL;
	error err = {0};
	if (json_parse(text, strlen(text), 1 << 20, &value, &err) != 0)
		fail_msg("%s: %s", text, err.text);
	return value;
}

static void check_text(cJSON *value, const char *wanted)
{
	char *text = json_print(value);
	assert_string_equal(text != NULL ? text : "nothing", wanted);
	free(text);
	cJSON_Delete(value);
}

static void references_are_those_of_kubernetes(void **state)
{
	(void)state;
	static const char *const rows[][2] = {{"$(A)", "1"}, {"x$(A)y$(B)", "x1y$(A)"}, {"$$(A)", "$(A)"}, {"$(none)", "$(none)"}, {"$", "$"},
		{"$$", "$"}, {"$A", "$A"}, {"$(A", "$(A"}, {"$()", "$()"}, {"a$$b", "a$b"}, {"", ""}, {"$$$(A)", "$1"}};
	cJSON *vars = tree("{\"A\":\"1\",\"B\":\"$(A)\"}");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *text = expand_text(rows[i][0], vars);
		assert_string_equal(text, rows[i][1]);
		free(text);
	}
	cJSON_Delete(vars);
}

/* The examples of RFC 7386, appendix A. */
static void merge_is_that_of_the_rfc(void **state)
{
	(void)state;
	static const char *const rows[][3] = {{"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
		{"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"}, {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
		{"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"}, {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
		{"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
		{"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
		{"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"}, {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
		{"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"}, {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
		{"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"}, {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"}};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		cJSON *patch = tree(rows[i][1]);
		check_text(merge_patch(tree(rows[i][0]), patch), rows[i][2]);
		cJSON_Delete(patch);
	}
	cJSON *patch = tree("{\"a\":{\"b\":null}}");
	check_text(merge_patch(NULL, patch), "{\"a\":{}}");
	cJSON_Delete(patch);
}

static void base64_takes_what_is_written_by_hand(void **state)
{
	(void)state;
	static const char *const good[][2] = {
		{"", ""}, {"Zg==", "f"}, {"Zg", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9v\nYg==\n", "foob"}, {" Z m 9 v ", "foo"}};
	static const char *const bad[] = {"Z", "Zg=", "Zg===", "Zm9v!", "Z=g=", "Zm9vY", "-_-_"};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		buf out = {0};
		assert_int_equal(base64_decode(good[i][0], &out), 0);
		assert_string_equal(buf_text(&out), good[i][1]);
		buf_fini(&out);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		buf out = {0};
		assert_int_equal(base64_decode(bad[i], &out), ERROR_INVALID);
		buf_fini(&out);
	}
}

static const cJSON *secret_of(void *ctx, const char *ns, const char *name)
{
	return strcmp(ns, "default") == 0 && strcmp(name, "s3") == 0 ? ctx : NULL;
}

static int make(const char *pod_text, launch *l, error *err)
{
	cJSON *pod = tree(pod_text), *env = tree("{\"PATH\":\"/bin\",\"HOME\":\"/root\"}"), *data = tree("{\"KEY\":\"k$(A)\"}");
	cJSON *fetching = tree("{\"PATH\":\"/bin\",\"https_proxy\":\"p\"}");
	launch_host host = {.env = env,
		.folder = "/manifests",
		.transfer = "/bin/fetch",
		.transfer_env = fetching,
		.downloads = "/w/downloads",
		.secret = secret_of,
		.ctx = data};
	int code = launch_make(pod, &host, l, err);
	cJSON_Delete(pod);
	cJSON_Delete(env);
	cJSON_Delete(data);
	cJSON_Delete(fetching);
	return code;
}

static void a_pod_becomes_a_command_and_an_environment(void **state)
{
	(void)state;
	launch l;
	error err = {0};
	assert_int_equal(
		make("{\"metadata\":{\"namespace\":\"default\",\"name\":\"p\",\"uid\":\"u\",\"labels\":{\"a\":\"b\"}},\"spec\":{\"nodeName\":\"n\","
			 "\"restartPolicy\":\"Never\",\"terminationGracePeriodSeconds\":5,\"volumes\":[{\"name\":\"v\"}],\"hostNetwork\":true,"
			 "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{},\"command\":[\"run\",\"$(A)\",\"$(PATH)\"],"
			 "\"args\":[\"$(B)\",\"$(KEY)\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"$(A)2\"},"
			 "{\"name\":\"HOME\",\"value\":\"/h\"},{\"name\":\"A\",\"value\":\"3\"},{\"name\":\"EMPTY\"},"
			 "{\"name\":\"KEY\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s3\",\"key\":\"KEY\"}}},"
			 "{\"name\":\"NO\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s3\",\"key\":\"no\",\"optional\":true}}}]}]}}",
			&l, &err),
		0);
	assert_string_equal(l.ignored, "image, volumes");
	check_text(l.spec,
		"{\"command\":[\"run\",\"3\",\"$(PATH)\",\"12\",\"k$(A)\"],\"restartPolicy\":\"Never\",\"graceMs\":5000,\"folder\":\"/manifests\","
		"\"pod\":{\"metadata\":{\"namespace\":\"default\",\"name\":\"p\",\"uid\":\"u\",\"labels\":{\"a\":\"b\"}},\"spec\":{\"nodeName\":"
		"\"n\"}},\"env\":{\"PATH\":\"/bin\",\"B\":\"12\",\"HOME\":\"/h\",\"A\":\"3\",\"EMPTY\":\"\",\"KEY\":\"k$(A)\"}}");
	l.spec = NULL;
	launch_fini(&l);
	assert_int_equal(make("{\"spec\":{\"containers\":[{\"command\":[\"run\"],\"workingDir\":\"sub\"}]}}", &l, &err), 0);
	assert_string_equal(json_member(l.spec, "folder")->valuestring, "/manifests/sub");
	assert_string_equal(json_member(l.spec, "restartPolicy")->valuestring, "Always");
	assert_null(l.ignored);
	launch_fini(&l);
}

static void remote_urls_are_fetched_into_a_folder_of_the_worker(void **state)
{
	(void)state;
	launch l;
	error err = {0};
	assert_int_equal(
		make(
			"{\"metadata\":{\"namespace\":\"default\",\"name\":\"p\",\"uid\":\"u\"},\"spec\":{\"restartPolicy\":\"Never\","
			"\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"image\":\"i\",\"args\":[\"@s3://b/d/$(A)/i.txt\",\"/downloads/b/d/$(A)\","
			"\"https://h:8/m.pb?x=1\",\"/downloads/h:8\"],\"env\":[{\"name\":\"S3_ENDPOINT_URL\",\"value\":\"http://s\"},{\"name\":\"KEY\","
			"\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s3\",\"key\":\"KEY\"}}}]},{\"name\":\"ilmare-fetch-1\",\"args\":[\"s3://c/m\","
			"\"/downloads/c\"]}],"
			"\"containers\":[{\"name\":\"c\",\"command\":[\"run\",\"$(MODEL_URLS)\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},"
			"{\"name\":\"MODEL_URLS\",\"value\":\"/downloads/c/m;/models/0;/downloads/h:8/m.pb?x=1\"},"
			"{\"name\":\"ORIGINAL_DATASET_URL\",\"value\":\"/downloads/b/d/$(A)/i.txt\"},"
			"{\"name\":\"MODEL_URL\",\"value\":\"s3://b/out\"},{\"name\":\"OWN\",\"value\":\"/downloads/$(A);/downloads/c/m/x\"}]}]}}",
			&l, &err),
		0);
	assert_null(l.ignored);
	cJSON *command = cJSON_DetachItemFromObjectCaseSensitive(l.spec, "command");
	check_text(command, "[\"run\",\"/w/downloads/c/m;/models/0;/w/downloads/h:8/m.pb?x=1\"]");
	check_text(cJSON_DetachItemFromObjectCaseSensitive(l.spec, "env"),
		"{\"PATH\":\"/bin\",\"HOME\":\"/root\",\"A\":\"1\",\"MODEL_URLS\":\"/w/downloads/c/m;/models/0;/w/downloads/h:8/m.pb?x=1\","
		"\"ORIGINAL_DATASET_URL\":\"/w/downloads/b/d/$(A)/i.txt\",\"MODEL_URL\":\"s3://b/out\",\"OWN\":\"/downloads/1;/downloads/c/m/x\"}");
	check_text(cJSON_DetachItemFromObjectCaseSensitive(l.spec, "fetch"),
		"[{\"name\":\"ilmare-fetch-0\",\"command\":[\"/bin/fetch\",\"@s3://b/d/$(A)/i.txt\",\"/w/downloads/b/d/$(A)\",\"https://h:8/"
		"m.pb?x=1\","
		"\"/w/downloads/h:8\"],\"env\":{\"PATH\":\"/bin\",\"https_proxy\":\"p\",\"S3_ENDPOINT_URL\":\"http://s\",\"KEY\":\"k$(A)\"}},"
		"{\"name\":\"ilmare-fetch-1\",\"command\":[\"/bin/fetch\",\"s3://c/m\",\"/w/downloads/c\"],\"env\":{\"PATH\":\"/bin\","
		"\"https_proxy\":\"p\"}}]");
	launch_fini(&l);
}

static void what_cannot_run_says_why(void **state)
{
	(void)state;
	static const char *const rows[][3] = {
		{"{\"spec\":{\"containers\":[]}}", "UnsupportedTemplate", "a pod must have exactly one container to be run without containers"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"]},{}]}}", "UnsupportedTemplate",
			"a pod must have exactly one container to be run without containers"},
		{"{\"spec\":{\"containers\":[{\"args\":[\"a\"]}]}}", "UnsupportedTemplate",
			"the container's command is needed: without containers there is no image whose entry point args could go to"},
		{"{\"spec\":{\"initContainers\":[{}],\"containers\":[{\"command\":[\"a\"]}]}}", "UnsupportedTemplate",
			"initContainers of a template are not supported without containers"},
		{"{\"spec\":{\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"command\":[\"x\"]}],\"containers\":[{\"command\":[\"a\"]}]}}",
			"UnsupportedTemplate", "initContainers of a template are not supported without containers"},
		{"{\"spec\":{\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"args\":[\"s3://b/../../x\",\"/downloads/b/../..\"]}],"
		 "\"containers\":[{\"command\":[\"a\"]}]}}",
			"UnsupportedTemplate", "the url s3://b/../../x cannot be fetched into the folder of a worker"},
		{"{\"spec\":{\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"args\":[\"s3://b/x\",\"/tmp\"]}],\"containers\":[{\"command\":"
		 "[\"a\"]}]}}",
			"UnsupportedTemplate", "the url s3://b/x cannot be fetched into the folder of a worker"},
		{"{\"spec\":{\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"args\":[\"s3://b/x\"]}],\"containers\":[{\"command\":[\"a\"]}]}}",
			"UnsupportedTemplate", "the url s3://b/x cannot be fetched into the folder of a worker"},
		{"{\"spec\":{\"initContainers\":[{\"name\":\"ilmare-fetch-0\",\"env\":[{\"name\":\"X\",\"valueFrom\":{\"secretKeyRef\":{\"name\":"
		 "\"n\","
		 "\"key\":\"k\"}}}]}],\"containers\":[{\"command\":[\"a\"]}]}}",
			"CreateContainerConfigError", "env X: there is no Secret default/n"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"envFrom\":[{}]}]}}", "UnsupportedTemplate",
			"envFrom is not supported without containers; name the variables in env"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"env\":[{\"name\":\"X\",\"valueFrom\":{\"fieldRef\":{}}}]}]}}",
			"UnsupportedTemplate", "env X: valueFrom is not supported without containers, except for a key of a Secret (secretKeyRef)"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"env\":[{\"name\":\"X\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"n\","
		 "\"key\":\"k\"}}}]}]}}",
			"CreateContainerConfigError", "env X: there is no Secret default/n"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"env\":[{\"name\":\"X\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"s3\","
		 "\"key\":\"k\"}}}]}]}}",
			"CreateContainerConfigError", "env X: the Secret default/s3 has no key k"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"env\":[{\"value\":\"x\"}]}]}}", "UnsupportedTemplate",
			"a variable of the container's env has no name, or one with a '='"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\"],\"env\":[{\"name\":\"X\",\"value\":1}]}]}}", "UnsupportedTemplate",
			"env X: the value is not a text; put it in quotes"},
		{"{\"spec\":{\"containers\":[{\"command\":[\"a\",1]}]}}", "UnsupportedTemplate",
			"the container's command holds something that is not a text; put it in quotes"},
		{"{\"spec\":{\"restartPolicy\":\"Often\",\"containers\":[{\"command\":[\"a\"]}]}}", "UnsupportedTemplate",
			"restartPolicy \"Often\" is not one of Always, OnFailure, Never"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		launch l;
		error err = {0};
		assert_int_not_equal(make(rows[i][0], &l, &err), 0);
		assert_string_equal(err.text, rows[i][2]);
		assert_string_equal(l.reason, rows[i][1]);
		assert_null(l.spec);
	}
}

static void check_status(const char *written, int alive, const char *wanted)
{
	cJSON *status = tree(written);
	check_text(podstatus_from(status, alive, "c"), wanted);
	cJSON_Delete(status);
}

static void statuses_are_those_of_kubernetes(void **state)
{
	(void)state;
#define HEAD(restarts, ready)                                                                                                              \
	"\"conditions\":null,\"initContainerStatuses\":null,\"containerStatuses\":[{\"name\":\"c\",\"restartCount\":" restarts                 \
	",\"ready\":" ready ",\"started\":" ready ",\"state\":"
	check_text(podstatus_pending("c"),
		"{\"phase\":\"Pending\",\"reason\":null,\"message\":null," HEAD("0",
			"false") "{\"waiting\":{\"reason\":\"ContainerCreating\"}}}]}");
	check_text(podstatus_failed("c", "R", "m"),
		"{\"phase\":\"Failed\",\"reason\":\"R\",\"message\":\"m\"," HEAD("0",
			"false") "{\"waiting\":{\"reason\":\"R\",\"message\":\"m\"}}}]}");
	check_status("{\"state\":\"running\",\"restarts\":1,\"startedAt\":\"t\",\"last\":{\"exitCode\":2,\"signal\":0,\"reason\":\"Error\","
				 "\"message\":\"x\"}}",
		1,
		"{\"phase\":\"Running\",\"reason\":null,\"message\":null," HEAD("1",
			"true") "{\"running\":{\"startedAt\":\"t\"}},\"lastState\":{\"terminated\":{\"exitCode\":2,\"reason\":\"Error\",\"message\":"
					"\"x\"}}}]}");
	check_status("{\"state\":\"waiting\",\"restarts\":0,\"backoffMs\":10000,\"last\":{\"exitCode\":0,\"signal\":9,\"reason\":\"Error\"}}",
		1,
		"{\"phase\":\"Running\",\"reason\":null,\"message\":null," HEAD("0",
			"false") "{\"waiting\":{\"reason\":\"CrashLoopBackOff\",\"message\":\"back-off 10 s before the next start\"}},\"lastState\":{"
					 "\"terminated\":{\"exitCode\":137,\"signal\":9,\"reason\":\"Error\"}}}]}");
	check_status("{\"state\":\"ended\",\"restarts\":0,\"last\":{\"exitCode\":0,\"signal\":0,\"reason\":\"Completed\"}}", 0,
		"{\"phase\":\"Succeeded\",\"reason\":null,\"message\":null," HEAD("0",
			"false") "{\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}}}]}");
	check_status("{\"state\":\"ended\",\"restarts\":0,\"last\":{\"exitCode\":3,\"signal\":0,\"reason\":\"Error\"}}", 1,
		"{\"phase\":\"Failed\",\"reason\":null,\"message\":null," HEAD("0",
			"false") "{\"terminated\":{\"exitCode\":3,\"reason\":\"Error\"}}}]}");
	/* Ended on request, it did not come to its own end, whatever it exited with. */
	check_status("{\"state\":\"ended\",\"restarts\":0,\"stopped\":true,\"last\":{\"exitCode\":0,\"signal\":0,\"reason\":\"Completed\"}}", 0,
		"{\"phase\":\"Failed\",\"reason\":\"Stopped\",\"message\":\"the worker was ended on request\"," HEAD("0",
			"false") "{\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}}}]}");
#define FETCH(restarts)                                                                                                                    \
	"\"conditions\":null,\"initContainerStatuses\":[{\"name\":\"f\",\"restartCount\":" restarts                                            \
	",\"ready\":false,\"started\":false,\"state\":"
#define REST                                                                                                                               \
	"}],\"containerStatuses\":[{\"name\":\"c\",\"restartCount\":0,\"ready\":false,\"started\":false,\"state\":{\"waiting\":{\"reason\":"   \
	"\"PodInitializing\"}}}]}"
	check_status(
		"{\"fetch\":\"f\",\"state\":\"running\",\"restarts\":1,\"startedAt\":\"t\",\"last\":{\"exitCode\":3,\"signal\":0,\"reason\":"
		"\"Error\"}}",
		1,
		"{\"phase\":\"Pending\",\"reason\":null,\"message\":null," FETCH(
			"1") "{\"running\":{\"startedAt\":\"t\"}},\"lastState\":{\"terminated\":{\"exitCode\":3,\"reason\":\"Error\"}}" REST);
	check_status("{\"fetch\":\"f\",\"state\":\"waiting\",\"restarts\":0,\"backoffMs\":10000,\"last\":{\"exitCode\":3,\"signal\":0}}", 1,
		"{\"phase\":\"Pending\",\"reason\":null,\"message\":null," FETCH(
			"0") "{\"waiting\":{\"reason\":\"CrashLoopBackOff\",\"message\":\"back-off 10 s before the next start\"}},\"lastState\":{"
				 "\"terminated\":{\"exitCode\":3}}" REST);
	check_status("{\"fetch\":\"f\",\"state\":\"ended\",\"restarts\":0,\"last\":{\"exitCode\":3,\"signal\":0,\"message\":\"m\"}}", 0,
		"{\"phase\":\"Failed\",\"reason\":null,\"message\":null," FETCH("0") "{\"terminated\":{\"exitCode\":3,\"message\":\"m\"}}" REST);
	check_status("{\"fetch\":\"f\",\"state\":\"ended\",\"stopped\":true,\"restarts\":0}", 0,
		"{\"phase\":\"Failed\",\"reason\":\"Stopped\",\"message\":\"the worker was ended on request\"," FETCH(
			"0") "{\"waiting\":{\"reason\":\"Stopped\"}}" REST);
	cJSON *fetches = tree("{\"fetch\":\"f\",\"state\":\"running\",\"restarts\":0}"), *gone = podstatus_from(fetches, false, "c");
	assert_string_equal(json_member(gone, "reason")->valuestring, "Lost");
	cJSON_Delete(fetches);
	cJSON_Delete(gone);
	cJSON *running = tree("{\"state\":\"running\",\"restarts\":0}"), *lost = podstatus_from(running, false, "c");
	assert_string_equal(json_member(lost, "phase")->valuestring, "Failed");
	assert_string_equal(json_member(lost, "reason")->valuestring, "Lost");
	cJSON_Delete(running);
	cJSON_Delete(lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(references_are_those_of_kubernetes),
		cmocka_unit_test(merge_is_that_of_the_rfc),
		cmocka_unit_test(base64_takes_what_is_written_by_hand),
		cmocka_unit_test(a_pod_becomes_a_command_and_an_environment),
		cmocka_unit_test(remote_urls_are_fetched_into_a_folder_of_the_worker),
		cmocka_unit_test(what_cannot_run_says_why),
		cmocka_unit_test(statuses_are_those_of_kubernetes),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
