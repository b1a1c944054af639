/* See deploy.h. A version is made as `.{round}.tmp` and renamed, so a version that is there is whole. */
#include "edge-agent/storage/deploy.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/mem.h"
#include "edge-agent/storage/numbered.h"
#include "edge-agent/storage/place.h"
#include "edge-agent/storage/version.h"

static bool is_there(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

/* The model, and what it is. `about` has all but name, digest and size. `known`: see model_copy. */
static int fill_version(const char *folder, const char *from, const model_info *known, version *about, const atomic_bool *stop, error *err)
{
	char *name = from != NULL ? version_model_name(from) : NULL, *to = mem_printf("%s/%s", folder, name != NULL ? name : "");
	char *file = mem_printf("%s/" VERSION_FILE, folder), *text = NULL;
	model_info info = {0};
	int code = from != NULL ? model_copy(from, to, stop, known, &info, err) : 0;
	if (code == 0) {
		about->name = name;
		about->sha256 = info.sha256;
		about->bytes = info.bytes;
		about->folder = info.folder;
		text = version_encode(about, clock_now().unix_ms);
		code = file_write(file, text, strlen(text), 0644, err); /* which syncs the folder, too */
	}
	about->name = NULL;
	free(text);
	free(file);
	free(to);
	free(name);
	return code;
}

/* Make a version of the model at `from`, or one without a model if that is NULL. */
static int keep_version(const char *versions, const char *from, const model_info *known, version *about, const atomic_bool *stop,
	error *err)
{
	char *tmp = mem_printf("%s/.%lld.tmp", versions, (long long)about->round);
	int code = 0; /* one of a killed run went with numbered_clean */
	if (mkdir(tmp, 0755) != 0)
		code = error_errno(err, errno, "creating folder %s", tmp);
	if (code == 0)
		code = fill_version(tmp, from, known, about, stop, err);
	if (code == 0)
		code = numbered_replace(versions, about->round, err);
	if (code != 0)
		(void)file_remove_tree(tmp, NULL);
	free(tmp);
	return code;
}

static int keep_first(const deploy_plan *plan, const char *versions, error *err)
{
	char *first = mem_printf("%s/0", versions);
	const char *served = plan->served != NULL ? plan->served : plan->steps[plan->main].to;
	int code = 0;
	if (!is_there(first))
		code = keep_version(versions, is_there(served) ? served : NULL, NULL, &(version){.uid = plan->uid, .of = -1}, plan->stop, err);
	free(first);
	return code;
}

/* True if the version is that of this deployment already, or is where its model comes from. */
static bool version_holds(const deploy_plan *plan, const char *folder, const char *from, const model_info *model)
{
	model_info there;
	version told;
	char *name = version_model_name(from), *path = mem_printf("%s/%s", folder, name);
	bool holds = version_read(folder, &told, NULL) == 0 && told.name != NULL && strcmp(told.name, name) == 0 &&
		told.of == (plan->back != NULL ? plan->back->of : -1) && digest_equal(&told.sha256, &model->sha256) &&
		model_digest(path, plan->stop, &there, NULL) == 0 && digest_equal(&there.sha256, &model->sha256);
	version_fini(&told);
	free(path);
	free(name);
	return holds;
}

static int keep_new(const deploy_plan *plan, const char *versions, const model_info *model, error *err)
{
	char *folder = mem_printf("%s/%lld", versions, (long long)plan->round);
	const char *from = plan->steps[plan->main].from;
	version before = {.of = -1},
			about = {.uid = plan->uid, .round = plan->round, .of = -1, .format = plan->format, .metrics = plan->metrics};
	int code;
	if (plan->back != NULL) {
		char *source = file_parent(from);
		about.of = plan->back->of;
		about.format = NULL;
		about.metrics = NULL;
		if (version_read(source, &before, NULL) == 0) {
			about.format = before.format;
			about.metrics = before.metrics;
		}
		free(source);
	}
	if (version_holds(plan, folder, from, model))
		code = file_sync_dir(versions, err); /* a run before may have ended just before that, version 0 with it */
	else
		code = keep_version(versions, from, model, &about, plan->stop, err);
	version_fini(&before);
	free(folder);
	return code;
}

static int keep_versions(const deploy_plan *plan, const char *versions, const model_info *model, error *err)
{
	int code = file_make_dirs(versions, 0755, err);
	if (code != 0)
		return code;
	numbered_clean(versions);
	code = keep_first(plan, versions, err);
	return code == 0 ? keep_new(plan, versions, model, err) : code;
}

/* Of another job, which had this folder before. */
static bool is_foreign(const deploy_plan *plan, const char *versions, int64_t number)
{
	char *folder = mem_printf("%s/%lld", versions, (long long)number);
	version told;
	bool foreign = version_read(folder, &told, NULL) == 0 && plan->uid != NULL && told.uid != NULL && strcmp(told.uid, plan->uid) != 0;
	version_fini(&told);
	free(folder);
	return foreign;
}

static bool stays(const deploy_plan *plan, int64_t number)
{
	return number == 0 || number == plan->round || (plan->back != NULL && number == plan->back->of);
}

void deploy_superfluous(const deploy_plan *plan, deploy_found *all, size_t n)
{
	size_t kept = 0, keep = plan->keep > 0 ? plan->keep : DEPLOY_KEEP_DEFAULT;
	for (int foreign = 0; foreign < 2; foreign++) {
		for (size_t i = 0; i < n; i++) {
			if (stays(plan, all[i].round) || all[i].foreign != (foreign == 1))
				continue;
			all[i].superfluous = kept + 1 >= keep;
			kept += !all[i].superfluous;
		}
	}
}

/* A version that cannot be removed now goes with the next deployment. */
static void prune(const deploy_plan *plan, const char *versions)
{
	size_t n;
	int64_t *numbers;
	numbered_list(versions, &numbers, &n, NULL);
	deploy_found *all = mem_alloc((n + 1) * sizeof *all);
	for (size_t i = 0; i < n; i++)
		all[i] = (deploy_found){.round = numbers[i], .foreign = is_foreign(plan, versions, numbers[i])};
	deploy_superfluous(plan, all, n);
	for (size_t i = 0; i < n; i++)
		if (all[i].superfluous)
			(void)numbered_remove(versions, all[i].round, NULL);
	free(all);
	free(numbers);
}

/* ---- what may be replaced ---- */

/* True if a version other than 0 holds just what is at `path`: then a deployment of ours put it there, and a copy of it stays. */
static bool is_kept(const deploy_plan *plan, const char *versions, const char *path)
{
	model_info there;
	size_t n;
	bool kept = false;
	if (model_digest(path, plan->stop, &there, NULL) != 0)
		return false;
	int64_t *all;
	numbered_list(versions, &all, &n, NULL);
	for (size_t i = 0; i < n && !kept; i++) {
		char *folder = mem_printf("%s/%lld", versions, (long long)all[i]);
		DIR *dir = all[i] != 0 ? opendir(folder) : NULL;
		struct dirent *entry;
		while (dir != NULL && !kept && (entry = readdir(dir)) != NULL) {
			model_info model;
			char *inside = mem_printf("%s/%s", folder, entry->d_name);
			bool other = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, VERSION_FILE) == 0;
			kept = !other && model_digest(inside, plan->stop, &model, NULL) == 0 && model.folder == there.folder &&
				digest_equal(&model.sha256, &there.sha256);
			free(inside);
		}
		if (dir != NULL)
			closedir(dir);
		free(folder);
	}
	free(all);
	return kept;
}

static const char *kind_word(bool folder)
{
	return folder ? "a folder" : "a file";
}

/* A folder is what its url names as a whole, and may hold much more than one model: a file never takes its place, nor the other way round,
 * unless a deployment of ours put there what is there now. */
static int check_target(const deploy_plan *plan, const char *versions, const deploy_step *step, error *err)
{
	struct stat from, to;
	size_t len = strlen(step->to);
	bool slash = len > 1 && step->to[len - 1] == '/';
	if (step->from == NULL)
		return stat(step->to, &to) == 0 && S_ISDIR(to.st_mode) ? error_set(err, ERROR_INVALID, "%s is a folder, not a file", step->to) : 0;
	if (stat(step->from, &from) != 0)
		return error_errno(err, errno, "model %s", step->from);
	if (slash && !S_ISDIR(from.st_mode))
		return error_set(err, ERROR_INVALID, "%s names a folder, but the new model %s is a file: give the Model a url that names a file",
			step->to, step->from);
	if (step->remote || stat(step->to, &to) != 0 || S_ISDIR(to.st_mode) == S_ISDIR(from.st_mode))
		return 0;
	if (versions != NULL && is_kept(plan, versions, step->to))
		return 0;
	return error_set(err, ERROR_INVALID,
		"%s is %s, but the new model %s is %s and would replace all of it: give the Model another url, "
		"or move away what is there",
		step->to, kind_word(S_ISDIR(to.st_mode)), step->from, kind_word(S_ISDIR(from.st_mode)));
}

static int check_targets(const deploy_plan *plan, const char *versions, error *err)
{
	int code = 0;
	for (size_t i = 0; i < plan->n && code == 0; i++)
		code = check_target(plan, versions, &plan->steps[i], err);
	return code;
}

/* ---- the deployment ---- */

static int check_plan(const deploy_plan *plan, error *err)
{
	if (plan->round < 1 || plan->main >= plan->n || plan->steps[plan->main].from == NULL)
		return error_set(err, ERROR_INVALID, "deployment of round %lld: there is no model to deploy", (long long)plan->round);
	for (size_t i = 0; i < plan->n; i++) {
		if ((plan->steps[i].from == NULL) == (plan->steps[i].text == NULL))
			return error_set(err, ERROR_INVALID, "deployment of round %lld: step %zu copies nothing", (long long)plan->round, i + 1);
	}
	return 0;
}

/* *out: the main step's model, and afterwards what came of it. Each copy of it is compared with that: one that differs is not put in place. */
static int run_steps(const deploy_plan *plan, model_info *out, error *err)
{
	const model_info model = *out;
	int code = 0;
	for (size_t i = 0; i < plan->n && code == 0; i++) {
		const deploy_step *step = &plan->steps[i];
		model_info info = *out;
		if (step->from == NULL)
			code = place_put_text(step->to, step->text, err);
		else if (step->remote && plan->remote != NULL)
			code = plan->remote->put(plan->remote->ctx, step, err);
		else
			code = model_copy(step->from, step->to, plan->stop, strcmp(step->from, plan->steps[plan->main].from) == 0 ? &model : NULL,
				&info, err);
		if (code == 0 && i == plan->main)
			*out = info;
	}
	return code;
}

/* Before anything is touched: the version is what it was when it was deployed. */
static int check_recorded(const deploy_plan *plan, const model_info *model, error *err)
{
	char now[DIGEST_HEX_SIZE], then[DIGEST_HEX_SIZE];
	if (plan->back == NULL || digest_equal(&plan->back->sha256, &model->sha256))
		return 0;
	digest_hex(&model->sha256, now);
	digest_hex(&plan->back->sha256, then);
	return error_set(err, ERROR_CHANGED, "version %lld is not what was deployed: the SHA-256 of %s is %.12s…, and was %.12s…",
		(long long)plan->back->of, plan->steps[plan->main].from, now, then);
}

int deploy_run(const deploy_plan *plan, model_info *out, error *err)
{
	int code = check_plan(plan, err);
	if (code == 0)
		code = model_digest(plan->steps[plan->main].from, plan->stop, out, err);
	if (code == 0)
		code = check_recorded(plan, out, err);
	if (code != 0)
		return code;
	char *versions = plan->output_dir != NULL ? mem_printf("%s/deployed", plan->output_dir) : NULL;
	code = check_targets(plan, versions, err);
	if (code == 0 && versions != NULL)
		code = keep_versions(plan, versions, out, err);
	if (code == 0 && plan->remote != NULL)
		code = plan->remote->kept(plan->remote->ctx, err);
	if (code == 0)
		code = run_steps(plan, out, err);
	if (code == 0 && versions != NULL)
		prune(plan, versions);
	free(versions);
	return code;
}

/* ---- what is kept ---- */

int deploy_versions(const char *output_dir, const char *uid, deploy_version **all, size_t *n, error *err)
{
	char *versions = mem_printf("%s/deployed", output_dir);
	int64_t *numbers;
	size_t n_numbers;
	*all = NULL;
	*n = 0;
	int code = numbered_list(versions, &numbers, &n_numbers, err);
	for (size_t i = 0; i < n_numbers; i++) {
		char *folder = mem_printf("%s/%lld", versions, (long long)numbers[i]);
		version told;
		bool ours =
			version_read(folder, &told, NULL) == 0 && (told.round == 0 || uid == NULL || (told.uid != NULL && strcmp(told.uid, uid) == 0));
		if (ours && told.name != NULL && told.round == numbers[i]) {
			*all = mem_resize_array(*all, *n + 1, sizeof **all);
			(*all)[(*n)++] = (deploy_version){.round = told.round, .name = mem_strdup(told.name), .sha256 = told.sha256};
		}
		version_fini(&told);
		free(folder);
	}
	free(numbers);
	free(versions);
	return code;
}

void deploy_versions_free(deploy_version *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(all[i].name);
	free(all);
}
