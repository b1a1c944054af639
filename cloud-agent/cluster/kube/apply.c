/* The definitions of files, applied one after the other by the API server itself.
 *
 * All files are read and looked at before the first request, so a file that is not what it should be changes nothing. Each definition is one PATCH
 * with content type apply-patch; one that is refused ends the whole, and since an apply can be repeated, so can the whole.
 */
#include "cloud-agent/cluster/kube/apply.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "cloud-agent/cluster/kube/access.h"
#include "cloud-agent/cluster/kube/transport.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/version.h"
#include "common/yaml.h"

#define PATH "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

static bool has_text(const yaml_node *map, const char *key, const char *text)
{
	const yaml_node *node = yaml_member(map, key);
	return node != NULL && node->kind == YAML_SCALAR && (text == NULL ? node->text[0] != '\0' : strcmp(node->text, text) == 0);
}

/* A name goes into a url. */
static bool name_fits(const char *name)
{
	return strlen(name) <= 253 && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static int take(cJSON *all, const char *file, const yaml_node *doc, error *err)
{
	const yaml_node *meta = yaml_member(doc, "metadata");

	if (!has_text(doc, "apiVersion", "apiextensions.k8s.io/v1") || !has_text(doc, "kind", "CustomResourceDefinition"))
		return error_set(err, ERROR_INVALID, "%s:%d: not a CustomResourceDefinition of apiextensions.k8s.io/v1; nothing else is applied",
			file, doc->line);
	if (!has_text(meta, "name", NULL) || !name_fits(yaml_member(meta, "name")->text))
		return error_set(err, ERROR_INVALID, "%s:%d: metadata.name is missing, or is none", file, doc->line);
	cJSON_AddItemToArray(all, yaml_to_json(doc));
	return 0;
}

static int read_file(cJSON *all, const char *file, error *err)
{
	arena *mem = arena_new();
	buf text = {0};
	yaml_node **docs = NULL;
	size_t n = 0;
	int code = file_read(file, APPLY_FILE_MAX, &text, err) == 0 ? 0 : ERROR_INVALID;

	if (code == 0)
		code = yaml_parse(mem, file, buf_text(&text), text.len, APPLY_FILE_MAX, &docs, &n, err);
	if (code == 0 && n == 0)
		code = error_set(err, ERROR_INVALID, "%s: there is nothing in it", file);
	for (size_t i = 0; code == 0 && i < n; i++)
		code = take(all, file, docs[i], err);
	buf_fini(&text);
	arena_free(mem);
	return code;
}

typedef struct attempt {
	const char *name;
	int code;
	error *err;
} attempt;

/* The server's own words, if it is a Status. */
static void said(void *ctx, const transport_answer *answer)
{
	attempt *a = ctx;

	if (answer->code != 0) {
		a->code = error_set(a->err, answer->code, "%s: %s", a->name, answer->text);
	} else if (answer->status / 100 != 2) {
		cJSON *status = cJSON_ParseWithLength(answer->body, answer->len);
		const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(status, "message"));
		a->code = error_set(a->err, answer->status == 403 || answer->status == 401 ? ERROR_DENIED : ERROR_IO,
			"%s: the API server answers %d: %.300s", a->name, answer->status, message ? message : "no reason given");
		cJSON_Delete(status);
	} else {
		a->code = 0;
	}
}

static int send_one(uv_loop_t *loop, transport *t, const cJSON *definition, error *err)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(definition, "metadata");
	attempt a = {.name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, "name")), .code = -1, .err = err};
	char *body = cJSON_PrintUnformatted(definition);
	buf path = {0};

	buf_printf(&path, PATH "%s?fieldManager=ilmare&force=true", a.name);
	transport_begin(t,
		&(transport_request){.method = "PATCH",
			.path = buf_text(&path),
			.content_type = "application/apply-patch+yaml", /* JSON is YAML */
			.body = body,
			.total_ms = APPLY_LIMIT_MS,
			.ctx = &a,
			.done = said});
	while (a.code == -1)
		uv_run(loop, UV_RUN_ONCE);
	if (a.code == 0) {
		printf("%s: applied\n", a.name);
		fflush(stdout);
	}
	buf_fini(&path);
	cJSON_free(body);
	return a.code;
}

static int send_all(kube_access *access, const cJSON *all, error *err)
{
	transport_config config = {.server = access_server(access),
		.agent = "ilmare-cloud/" ILMARE_VERSION,
		.identity = access_identity,
		.identity_ctx = access,
		.connect_ms = 5000,
		.answer_max = APPLY_FILE_MAX};
	const cJSON *definition;
	uv_loop_t loop;
	int code = 0;

	uv_loop_init(&loop);
	transport *t = transport_new(&loop, &config);
	cJSON_ArrayForEach(definition, all) {
		code = send_one(&loop, t, definition, err);
		if (code != 0)
			break;
	}
	transport_close(t);
	uv_run(&loop, UV_RUN_DEFAULT);
	transport_free(t);
	uv_loop_close(&loop);
	return code;
}

int apply_definitions(const char *kubeconfig, const char *const *files, size_t n, error *err)
{
	cJSON *all = cJSON_CreateArray();
	kube_access *access = NULL;
	int code = n == 0 ? error_set(err, ERROR_INVALID, "no file is named") : 0;

	for (size_t i = 0; code == 0 && i < n; i++)
		code = read_file(all, files[i], err);
	if (code == 0)
		code = access_open(kubeconfig, NULL, &access, err);
	if (code == 0)
		code = send_all(access, all, err);
	access_free(access);
	cJSON_Delete(all);
	return code;
}
