/* spec.json: the agent writes it, so a mistake in it is a bug or damage; it is told, and nothing is run. */
#include "cloud-agent/cluster/local/supervisor/job.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"

/* 0, or the first mistake. All members are needed. */
static int read_texts(job *j, error *err)
{
	const char *policy = "";
	int a = json_get_string(j->tree, "spec", "folder", &j->folder, err);
	int b = a == 1 ? json_get_string(j->tree, "spec", "log", &j->log, err) : a;
	int c = b == 1 ? json_get_string(j->tree, "spec", "restartPolicy", &policy, err) : b;
	if (c < 0)
		return c;
	if (c == 0)
		return error_set(err, ERROR_INVALID, "spec: folder, log or restartPolicy is missing");
	if (strcmp(policy, "Always") == 0)
		j->policy = RESTART_ALWAYS;
	else if (strcmp(policy, "OnFailure") == 0)
		j->policy = RESTART_ON_FAILURE;
	else if (strcmp(policy, "Never") == 0)
		j->policy = RESTART_NEVER;
	else
		return error_set(err, ERROR_INVALID, "spec.restartPolicy: \"%.40s\" is not one of Always, OnFailure, Never", policy);
	return 0;
}

static int read_numbers(job *j, error *err)
{
	const struct {
		const char *name;
		int64_t *value;
	} numbers[] = {{"restarts", &j->restarts}, {"logMax", &j->log_max}, {"graceMs", &j->grace_ms}, {"backoffMinMs", &j->backoff_min_ms},
		{"backoffMaxMs", &j->backoff_max_ms}, {"backoffResetMs", &j->backoff_reset_ms}};
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		int code = json_get_int(j->tree, "spec", numbers[i].name, 0, JSON_MAX_INT, numbers[i].value, err);
		if (code < 0)
			return code;
		if (code == 0)
			return error_set(err, ERROR_INVALID, "spec.%s: is missing", numbers[i].name);
	}
	return 0;
}

static int read_command(const cJSON *from, command *out, error *err)
{
	const cJSON *words = json_member(from, "command"), *env = json_member(from, "env"), *item;
	if (!cJSON_IsArray(words) || cJSON_GetArraySize(words) == 0 || !cJSON_IsObject(env))
		return error_set(err, ERROR_INVALID, "spec: command or env is missing");
	out->argv = mem_alloc(((size_t)cJSON_GetArraySize(words) + 1) * sizeof *out->argv);
	out->env = mem_alloc(((size_t)cJSON_GetArraySize(env) + 1) * sizeof *out->env);
	size_t n = 0;
	cJSON_ArrayForEach(item, words) {
		if (!cJSON_IsString(item))
			return error_set(err, ERROR_INVALID, "spec.command: is not a list of texts");
		out->argv[n++] = item->valuestring;
	}
	n = 0;
	cJSON_ArrayForEach(item, env) {
		if (!cJSON_IsString(item))
			return error_set(err, ERROR_INVALID, "spec.env: is not a map of texts");
		out->env[n++] = mem_printf("%s=%s", item->string, item->valuestring);
	}
	return 0;
}

static int read_fetchers(job *j, error *err)
{
	const cJSON *list = json_member(j->tree, "fetch"), *item;
	if (list == NULL)
		return 0;
	j->fetchers = mem_alloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *j->fetchers);
	cJSON_ArrayForEach(item, list) {
		command *c = &j->fetchers[j->n_fetchers++];
		int code = json_get_string(item, "spec.fetch", "name", &c->name, err);
		if (code == 0)
			code = error_set(err, ERROR_INVALID, "spec.fetch: a name is missing");
		if (code == 1)
			code = read_command(item, c, err);
		if (code != 0)
			return code;
	}
	return 0;
}

int job_read(const char *path, job *out, error *err)
{
	buf text = {0};
	*out = (job){0};
	int code = file_read(path, WORKER_SPEC_MAX, &text, err);
	if (code == 0)
		code = json_parse(buf_text(&text), text.len, WORKER_SPEC_MAX, &out->tree, err);
	if (code == 0)
		code = read_texts(out, err);
	if (code == 0)
		code = read_numbers(out, err);
	if (code == 0)
		code = read_command(out->tree, &out->worker, err);
	if (code == 0)
		code = read_fetchers(out, err);
	if (code != 0)
		job_fini(out);
	buf_fini(&text);
	return code;
}

static void command_fini(command *c)
{
	for (char **e = c->env; e != NULL && *e != NULL; e++)
		free(*e);
	free(c->env);
	free(c->argv);
}

void job_fini(job *j)
{
	command_fini(&j->worker);
	for (size_t i = 0; i < j->n_fetchers; i++)
		command_fini(&j->fetchers[i]);
	free(j->fetchers);
	cJSON_Delete(j->tree);
	*j = (job){0};
}
