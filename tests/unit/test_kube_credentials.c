/* Keys in the place of references: ours alone, in every container, and gone from memory afterwards. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/kube/credentials.h"
#include "common/json.h"

static cJSON *tree(const char *text)
{
	cJSON *out = NULL;

	assert_int_equal(json_parse(text, strlen(text), 10000, &out, NULL), 0);
	return out;
}

#define REF(name, secret, key) "{\"name\":\"" name "\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"" secret "\",\"key\":\"" key "\"}}}"
static const char pod_text[] = "{\"spec\":{\"initContainers\":[{\"env\":[" REF("ACCESS_KEY_ID", "b",
	"ACCESS_KEY_ID") "]}],\"containers\":[{\"env\":["
					 "{\"name\":\"X\",\"value\":\"1\"}," REF("TOKEN", "own", "token") "," REF("ACCESS_KEY_ID", "a",
						 "other") "," REF("SECRET_ACCESS_KEY", "a", "SECRET_ACCESS_KEY") "]},{}]}}";

static void values_for_references(void **state)
{
	cJSON *pod = tree(pod_text);
	cJSON *a = tree("{\"data\":{\"SECRET_ACCESS_KEY\":\"Q0FOQVJZ\"}}"), *b = tree("{\"data\":{\"ACCESS_KEY_ID\":\"aWQ=\"}}");
	error err = {0};
	char *text;

	(void)state;
	assert_string_equal(credentials_needed(pod), "b");
	assert_int_equal(credentials_put(pod, credentials_needed(pod), b, &err), 0);
	assert_string_equal(credentials_needed(pod), "a");
	assert_int_equal(credentials_put(pod, credentials_needed(pod), a, &err), 0);
	assert_null(credentials_needed(pod));
	text = json_print(pod);
	assert_string_equal(text,
		"{\"spec\":{\"initContainers\":[{\"env\":[{\"name\":\"ACCESS_KEY_ID\",\"value\":\"id\"}]}],\"containers\":[{\"env\":["
		"{\"name\":\"X\",\"value\":\"1\"}," REF("TOKEN", "own", "token") "," REF("ACCESS_KEY_ID", "a",
			"other") ",{\"name\":\"SECRET_ACCESS_KEY\",\"value\":\"CANARY\"}]},{}]}}");
	free(text);
	credentials_wipe(pod);
	text = json_print(pod);
	assert_null(strstr(text, "CANARY"));
	assert_non_null(strstr(text, "\"value\":\"1\""));
	free(text);
	cJSON_Delete(pod);
	cJSON_Delete(a);
	cJSON_Delete(b);
}

static void what_is_missing_is_named(void **state)
{
	static const struct {
		const char *secret, *text;
	} cases[] = {
		{"{}", "Secret b has no key ACCESS_KEY_ID"},
		{"{\"data\":{\"ACCESS_KEY_ID\":\"!\"}}", "Secret b: ACCESS_KEY_ID is no text"},
		{"{\"data\":{\"ACCESS_KEY_ID\":\"YQBi\"}}", "Secret b: ACCESS_KEY_ID is no text"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		cJSON *pod = tree(pod_text), *secret = tree(cases[i].secret);
		error err = {0};

		assert_int_equal(credentials_put(pod, "b", secret, &err), ERROR_INVALID);
		assert_string_equal(err.text, cases[i].text);
		cJSON_Delete(pod);
		cJSON_Delete(secret);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_for_references),
		cmocka_unit_test(what_is_missing_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
