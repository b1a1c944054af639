/* See deploy_work.h. */
#include "edge-agent/deploy_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/remote/ship.h"
#include "edge-agent/storage/deploy.h"
#include "proto/url.h"

#define HOT_UPDATE_CONFIG "model_config.json"

/* Where a hot-updated worker finds model and configuration: what Sedna's library watches, as it is mounted in its container. */
static int hot_update_path(file_work *w, const char *file, const char **path)
{
	*path = arena_printf(w->mem, "/var/lib/sedna/model-hot-update/%s/incrementallearningjob/%s/%s", w->action.deploy.ns,
		w->action.deploy.job, file);
	return file_work_path(w, path);
}

/* The model's name there: not that of the configuration. */
static int hot_update_name(file_work *w, const char **name)
{
	char *plain;
	int code = url_file_name(w->action.deploy.copies[0].from.url, &plain, &w->err);

	if (code == 0)
		*name = arena_printf(w->mem, "%s%s", plain, strcmp(plain, HOT_UPDATE_CONFIG) == 0 ? ".model" : "");
	free(plain);
	return code;
}

/* The model goes there before anything else … */
static int hot_update_first(file_work *w, const char *name, deploy_step *step)
{
	*step = (deploy_step){.from = w->action.deploy.copies[0].from.url};
	return hot_update_path(w, name, &step->to);
}

/* … and the configuration that names it after everything else. The time changes with each deployment, and becomes part of a file name in the
 * worker: no '/'. */
static int hot_update_last(file_work *w, const char *name, deploy_step *step)
{
	cJSON *config = cJSON_CreateObject(), *inner = cJSON_AddObjectToObject(config, "model_config");
	char *path = mem_printf("/model-hot-update/%s", name), *version = mem_printf("round-%lld", (long long)w->action.deploy.round);
	char *text;

	json_put_string(inner, "model_path", path);
	json_put_string(inner, "model_update_time", version);
	text = json_print(config);
	*step = (deploy_step){.text = arena_strdup(w->mem, text)};
	cJSON_Delete(config);
	free(path);
	free(version);
	free(text);
	return hot_update_path(w, HOT_UPDATE_CONFIG, &step->to);
}

/* The folder outlives the setting, and the job. A worker that is updated hot again is not to find the model of a deployment before this one. */
static void hot_update_forget(file_work *w)
{
	const char *path;

	if (hot_update_path(w, HOT_UPDATE_CONFIG, &path) == 0 && unlink(path) != 0 && errno != ENOENT)
		log_warn("deploy", "the configuration of an earlier hot update cannot be removed", L_STR("file", path),
			L_STR("error", strerror(errno)));
}

static void tell_versions(file_work *w, const deploy_version *all, size_t n)
{
	edge_version *versions = arena_alloc(w->mem, (n + 1) * sizeof *versions);

	for (size_t i = 0; i < n; i++)
		versions[i] = (edge_version){.round = all[i].round, .name = arena_strdup(w->mem, all[i].name), .sha256 = all[i].sha256};
	w->result.deploy.versions = versions;
	w->result.deploy.n_versions = n;
}

int deploy_work(file_work *w)
{
	deploy_back back = {.of = w->action.deploy.of, .sha256 = w->action.deploy.of_sha256};
	size_t n = w->action.deploy.n;
	deploy_step *steps = arena_alloc(w->mem, (n + 2) * sizeof *steps);
	deploy_plan plan = {.output_dir = w->action.deploy.output_dir,
		.round = w->action.deploy.round,
		.steps = steps,
		.uid = w->action.deploy.uid,
		.format = n > 0 ? w->action.deploy.copies[0].from.format : NULL,
		.back = w->action.deploy.back ? &back : NULL,
		.keep = (size_t)w->deployed_kept,
		.stop = w->stop};
	bool hot = n > 0 && w->action.deploy.hot;
	const char *metrics = w->action.deploy.metrics;
	cJSON *metrics_tree = NULL;
	model_info info = {0};
	deploy_version *versions = NULL;
	size_t n_versions = 0;
	const char *name = NULL;
	int code = hot ? hot_update_name(w, &name) : 0;

	if (hot && code == 0)
		code = hot_update_first(w, name, &steps[0]);
	plan.n = hot ? 1 : 0;
	plan.main = plan.n;
	for (size_t i = 0; i < n; i++)
		steps[plan.n++] = (deploy_step){.from = w->action.deploy.copies[i].from.url, .to = w->action.deploy.copies[i].to.url};
	if (hot && code == 0)
		code = hot_update_last(w, name, &steps[plan.n++]);
	if (code == 0 && metrics != NULL)
		code = json_parse(metrics, strlen(metrics), DOCUMENT_MAX, &metrics_tree, &w->err);
	plan.metrics = metrics_tree;
	if (code == 0)
		code = ship_run(&plan, &w->transfer, w->scratch, &info, &versions, &n_versions, &w->err);
	if (code == 0 && !hot)
		hot_update_forget(w);
	w->result.deploy.sha256 = info.sha256;
	tell_versions(w, versions, n_versions);
	deploy_versions_free(versions, n_versions);
	cJSON_Delete(metrics_tree);
	return code;
}
