/* Kubeconfigs and service accounts: what is taken, what is refused by name, and what is read again. */
#include "tests/unit/unit.h"

#include "cloud-agent/cluster/kube/access.h"

static int setup(void **state)
{
	*state = unit_folder();
	return 0;
}

static int teardown(void **state)
{
	unit_folder_remove(*state);
	return 0;
}

static char *put(const char *folder, const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", folder, name);
	error err = {0};

	if (file_write(path, text, strlen(text), 0600, &err) != 0)
		fail_msg("%s", err.text);
	return path;
}

static const char usual[] =
	"apiVersion: v1\nkind: Config\ncurrent-context: b\n"
	"clusters:\n- name: c\n  cluster:\n    server: https://h:6443/\n    certificate-authority: ca.pem\n"
	"users:\n- name: u\n  user:\n    token: secret\n- name: v\n  user:\n    client-certificate-data: LS0tLS1CRUdJTiBDRVJU\n    "
	"client-key-data: LS0tLS1CRUdJTiBLRVk=\n"
	"contexts:\n- name: a\n  context: {cluster: c, user: u, namespace: x}\n- name: b\n  context: {cluster: c, user: v}\n";

static void what_is_taken(void **state)
{
	char *ca = put(*state, "ca.pem", "-----BEGIN CA\n"), *path = put(*state, "config", usual);
	kube_access *a = NULL;
	transport_identity who;
	error err = {0};

	assert_int_equal(access_kubeconfig(path, NULL, &a, &err), 0);
	assert_string_equal(access_server(a), "https://h:6443");
	assert_string_equal(access_namespace(a), "default");
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.ca, "-----BEGIN CA");
	assert_string_equal(who.certificate, "-----BEGIN CERT");
	assert_string_equal(who.key, "-----BEGIN KEY");
	assert_null(who.token);
	access_free(a);
	assert_int_equal(access_kubeconfig(path, "a", &a, &err), 0);
	assert_string_equal(access_namespace(a), "x");
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "secret");
	access_free(a);
	free(path);
	free(ca);
}

/* As kubectl: the first file that names a thing counts, a file that is missing does not. */
static void several_files(void **state)
{
	char *ca = put(*state, "ca.pem", "-----BEGIN CA"), *second = put(*state, "config", usual);
	char *first = put(*state, "first", "current-context: a\nusers:\n- name: u\n  user: {token: other}\n");
	char *list = mem_printf("%s:%s/missing:%s", first, (char *)*state, second);
	kube_access *a = NULL;
	transport_identity who;
	error err = {0};

	assert_int_equal(access_kubeconfig(list, NULL, &a, &err), 0);
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "other");
	assert_string_equal(access_namespace(a), "x");
	access_free(a);
	free(list);
	free(first);
	free(second);
	free(ca);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *text; /* NULL: the file is missing */
		int code;
		const char *says;
	} cases[] = {
		{NULL, ERROR_NOT_FOUND, "config"},
		{"[1", ERROR_INVALID, "config:"},
		{"- a\n", ERROR_INVALID, "is no kubeconfig"},
		{"kind: Config\n", ERROR_INVALID, "current-context"},
		{"current-context: z\n", ERROR_NOT_FOUND, "there is no context z"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c}}\n", ERROR_NOT_FOUND, "there is no cluster c"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c}}\nclusters:\n- {name: c, cluster: {server: h}}\n", ERROR_INVALID,
			"must be a url"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c}}\nclusters:\n- {name: c, cluster: {server: 'https://h', "
		 "insecure-skip-tls-verify: true}}\n",
			ERROR_UNSUPPORTED, "config:5: insecure-skip-tls-verify is not supported"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c, user: u}}\nclusters:\n- {name: c, cluster: {server: "
		 "'https://h'}}\n"
		 "users:\n- name: u\n  user:\n    exec: {command: aws}\n",
			ERROR_UNSUPPORTED, "config:9: exec is not supported"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c, user: u}}\nclusters:\n- {name: c, cluster: {server: "
		 "'https://h'}}\n"
		 "users:\n- {name: u, user: {client-key-data: '!'}}\n",
			ERROR_INVALID, "client-key-data is not base64"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c, user: u}}\nclusters:\n- {name: c, cluster: {server: "
		 "'https://h'}}\n"
		 "users:\n- {name: u, user: {tokenFile: nowhere}}\n",
			ERROR_DENIED, "nowhere"},
		{"", ERROR_NOT_FOUND, "config: there is no such file, or nothing in it"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c}}\nclusters:\n- {name: c, cluster: {server: 'https://h', "
		 "certificate-authority: config}}\n",
			ERROR_INVALID, "/config: is not in PEM form"},
		{"current-context: z\ncontexts:\n- {name: z, context: {cluster: c, user: u}}\nclusters:\n- {name: c, cluster: {server: "
		 "'https://h'}}\n"
		 "users:\n- {name: u, user: {client-key-data: S0VZ}}\n",
			ERROR_INVALID, "client-key-data: is not in PEM form"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *path = cases[i].text != NULL ? put(*state, "config", cases[i].text) : mem_printf("%s/config", (char *)*state);
		kube_access *a = NULL;
		error err = {0};

		assert_int_equal(access_kubeconfig(path, NULL, &a, &err), cases[i].code);
		if (strstr(err.text, cases[i].says) == NULL)
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, cases[i].says);
		free(path);
	}
}

/* Kubernetes replaces a pod's token; while it does, the file may be empty or away. */
static void a_token_that_is_replaced(void **state)
{
	char *token = put(*state, "token", "one\n"), *ca = put(*state, "ca.crt", "CA"), *ns = put(*state, "namespace", "ilmare\n");
	kube_access *a = NULL;
	transport_identity who;
	error err = {0};

	assert_int_equal(access_in_cluster(*state, "10.0.0.1", "443", &a, &err), 0);
	assert_string_equal(access_server(a), "https://10.0.0.1:443");
	assert_string_equal(access_namespace(a), "ilmare");
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "one");
	free(put(*state, "token", "two"));
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "two");
	free(put(*state, "token", "\n"));
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "two");
	assert_int_equal(unlink(token), 0);
	assert_int_equal(access_identity(a, &who, &err), 0);
	assert_string_equal(who.token, "two");
	access_free(a);
	/* At the start it has to be there. */
	assert_int_equal(access_in_cluster(*state, "fd00::1", "443", &a, &err), ERROR_DENIED);
	assert_int_equal(access_in_cluster(*state, NULL, NULL, &a, &err), ERROR_INVALID);
	assert_non_null(strstr(err.text, "KUBECONFIG"));
	free(token);
	free(ca);
	free(ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(several_files, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_token_that_is_replaced, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
