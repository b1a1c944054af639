/* The file work that the edge core asks for, done in the pool: see file_work.h for the contract.
 *
 * A piece of work owns copies of all that it needs and touches nothing of the loop's; its result is handed back as a value. Long pieces look
 * at a stop flag between slices, so that a stop of the agent does not wait for a large file.
 */
#include "edge-agent/file_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"
#include "edge-agent/dataset/eval_data.h"
#include "edge-agent/dataset/retention.h"
#include "edge-agent/dataset/round.h"
#include "edge-agent/storage/deploy.h"
#include "edge-agent/storage/rooted.h"

/* Between two looks at the stop flag. */
enum { SLICE = 16 * 1024 * 1024 };

/* All of what is new, unless told to stop. */
static void look_at(scanner *s, const atomic_bool *stop)
{
	scan_view view;

	do {
		scanner_look(s, SLICE);
		scanner_view(s, &view);
	} while (view.more && view.code == 0 && !atomic_load(stop));
}

static int64_t generation_of(const scanner *s)
{
	scan_view view;

	scanner_view(s, &view);
	return view.generation;
}

static int locate(file_work *w)
{
	const cursor *c = &w->action.sample.cursor;
	dataset_point at = {0};
	enum locate_result result;
	scan_view view;
	int code;

	for (;;) {
		code = scanner_locate(w->scanner, c->size, &c->digest, SLICE, &result, &at, &w->err);
		if (code != 0 || result != LOCATE_MORE)
			break;
		if (atomic_load(w->stop))
			return error_set(&w->err, ERROR_TIMEOUT, "stopped");
		scanner_view(w->scanner, &view);
		if (view.more)
			scanner_look(w->scanner, SLICE);
	}
	if (code == 0) {
		w->result.locate.generation = generation_of(w->scanner);
		w->result.locate.matched = result == LOCATE_MATCHED;
		w->result.locate.line = w->result.locate.matched ? at.samples : 0;
		w->result.locate.offset = w->result.locate.matched ? at.size : 0;
	}
	return code;
}

static int measure(file_work *w)
{
	const cursor *begin = &w->action.sample.cursor;
	dataset_point end;
	int code =
		scanner_range_end(w->scanner, w->action.sample.offset, w->action.sample.line, w->action.sample.bytes_max, w->stop, &end, &w->err);

	if (code == 0) {
		w->result.measure.generation = generation_of(w->scanner);
		w->result.measure.end =
			(cursor){.sample = begin->sample + end.samples - w->action.sample.line, .size = end.size, .digest = end.digest};
	}
	return code;
}

static void give_manifest(file_work *w, const manifest *m)
{
	edge_manifest *out = &w->result.round.manifest;

	w->result.round.found = true;
	snprintf(out->uid, sizeof out->uid, "%s", m->uid);
	out->round = m->round;
	out->range = (sample_range){.from = m->from, .to = m->to, .end = m->after};
	out->begin = m->before;
}

/* A folder that is not there, or holds nothing whole, is no manifest: a write moves it aside. */
static int look(file_work *w)
{
	manifest m;
	int code = round_read(w->action.round.output_dir, w->action.round.round, &m, &w->err);

	if (code == 0)
		give_manifest(w, &m);
	else if (code == ERROR_NOT_FOUND || code == ERROR_CORRUPT || code == ERROR_INVALID || code == ERROR_UNSUPPORTED)
		code = 0;
	return code;
}

static int write_round(file_work *w)
{
	round_request r = {.output_dir = w->action.round.output_dir,
		.uid = w->action.round.uid,
		.round = w->action.round.round,
		.train_prob = w->action.round.train_prob,
		.from = w->action.round.alloc.range.from,
		.offset = w->action.round.offset,
		.line = w->action.round.line,
		.end = w->action.round.alloc.range.end,
		.may_move_aside = w->action.round.may_move_aside,
		.stop = w->stop};
	enum round_outcome outcome;
	manifest m;
	int code = round_write(w->scanner, &r, &outcome, &m, &w->err);

	if (code == 0)
		give_manifest(w, &m);
	return code;
}

/* oldest: the first round that the eval data are made of. */
static void remove_old_rounds(const file_work *w, int64_t oldest)
{
	int64_t first = w->action.round.round - w->rounds_kept + 1;

	if (w->rounds_kept > 0)
		rounds_remove_before(w->action.round.output_dir, w->action.round.uid, first < oldest ? first : oldest);
}

static int write_eval(file_work *w)
{
	int64_t rounds[WINDOW_MAX];
	eval_result result;
	size_t n;
	int code = round_window(w->action.round.output_dir, w->action.round.uid, w->action.round.round, rounds, &n, &w->err);

	if (code == ERROR_NOT_FOUND)
		return error_set(&w->err, code, "the samples of round %lld are not in %s/data/train", (long long)w->action.round.round,
			w->action.round.output_dir);
	if (code == 0)
		code = eval_data_write(w->action.round.output_dir, rounds, n, w->stop, &result, &w->err);
	if (code == 0) {
		w->result.eval.samples = result.samples;
		if (result.skipped[0])
			log_warn("dataset", "earlier rounds are left out of the eval data", L_STR("folder", w->action.round.output_dir),
				L_INT("round", w->action.round.round), L_STR("skipped", result.skipped));
		remove_old_rounds(w, rounds[0]);
	}
	return code;
}

/* ---- urls ---- */

static int find_path(file_work *w, const char **url)
{
	char *path = NULL;
	int code = *url ? rooted_path(w->root_dir, *url, &path, &w->err) : 0;

	if (code == 0 && *url) {
		*url = arena_strdup(w->mem, path);
		free(path);
	}
	return code;
}

/* From here on the action names paths of this machine. */
static int find_paths(file_work *w)
{
	deploy_copy *copies;
	int code = 0;

	if (w->action.kind == EDGE_LOOK || w->action.kind == EDGE_WRITE || w->action.kind == EDGE_WRITE_EVAL)
		return find_path(w, &w->action.round.output_dir);
	if (w->action.kind != EDGE_DEPLOY)
		return 0;
	copies = arena_alloc(w->mem, w->action.deploy.n * sizeof *copies);
	for (size_t i = 0; i < w->action.deploy.n && code == 0; i++) {
		copies[i] = w->action.deploy.copies[i];
		code = find_path(w, &copies[i].from.url);
		if (code == 0)
			code = find_path(w, &copies[i].to.url);
	}
	w->action.deploy.copies = copies;
	return code ? code : find_path(w, &w->action.deploy.output_dir);
}

/* ---- deployments ---- */

/* Where a hot-updated worker finds model and configuration: what Sedna's library watches, as it is mounted in its container. */
static int hot_update_path(file_work *w, const char *file, const char **path)
{
	*path = arena_printf(w->mem, "/var/lib/sedna/model-hot-update/%s/incrementallearningjob/%s/%s", w->action.deploy.ns,
		w->action.deploy.job, file);
	return find_path(w, path);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A deployment before this one wrote there, as did perhaps one of a job that was made again under this name. Whoever looks there next finds the
 * model that serves. */
static bool hot_update_there(file_work *w)
{
	const char *path;

	return hot_update_path(w, "model_config.json", &path) == 0 && access(path, W_OK) == 0;
}

/* The model goes there before anything else … */
static int hot_update_first(file_work *w, deploy_step *step)
{
	const char *from = w->action.deploy.copies[0].from.url;

	*step = (deploy_step){.from = from};
	return hot_update_path(w, base_name(from), &step->to);
}

/* … and the configuration that names it after everything else. The time changes with each deployment, and becomes part of a file name in the
 * worker: no '/'. */
static int hot_update_last(file_work *w, deploy_step *step)
{
	const char *from = w->action.deploy.copies[0].from.url;
	cJSON *config = cJSON_CreateObject(), *inner = cJSON_AddObjectToObject(config, "model_config");
	char *path = mem_printf("/model-hot-update/%s", base_name(from)),
		 *version = mem_printf("round-%lld", (long long)w->action.deploy.round);
	char *text;

	json_put_string(inner, "model_path", path);
	json_put_string(inner, "model_update_time", version);
	text = json_print(config);
	*step = (deploy_step){.text = arena_strdup(w->mem, text)};
	cJSON_Delete(config);
	free(path);
	free(version);
	free(text);
	return hot_update_path(w, "model_config.json", &step->to);
}

static int tell_versions(file_work *w)
{
	deploy_version *all;
	size_t n;
	int code = deploy_versions(w->action.deploy.output_dir, w->action.deploy.uid, &all, &n, &w->err);
	edge_version *versions = arena_alloc(w->mem, (n + 1) * sizeof *versions);

	for (size_t i = 0; i < n; i++)
		versions[i] = (edge_version){.round = all[i].round, .name = arena_strdup(w->mem, all[i].name), .sha256 = all[i].sha256};
	w->result.deploy.versions = versions;
	w->result.deploy.n_versions = n;
	deploy_versions_free(all, n);
	return code;
}

static int deploy(file_work *w)
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
	bool hot = n > 0 && (w->action.deploy.hot || hot_update_there(w));
	const char *metrics = w->action.deploy.metrics;
	cJSON *metrics_tree = NULL;
	model_info info;
	int code = hot ? hot_update_first(w, &steps[0]) : 0;

	plan.n = hot ? 1 : 0;
	plan.main = plan.n;
	for (size_t i = 0; i < n; i++)
		steps[plan.n++] = (deploy_step){.from = w->action.deploy.copies[i].from.url, .to = w->action.deploy.copies[i].to.url};
	if (hot && code == 0)
		code = hot_update_last(w, &steps[plan.n++]);
	if (code == 0 && metrics != NULL)
		code = json_parse(metrics, strlen(metrics), DOCUMENT_MAX, &metrics_tree, &w->err);
	plan.metrics = metrics_tree;
	if (code == 0)
		code = deploy_run(&plan, &info, &w->err);
	if (code == 0) {
		w->result.deploy.sha256 = info.sha256;
		code = tell_versions(w);
	}
	cJSON_Delete(metrics_tree);
	return code;
}

static int perform(file_work *w)
{
	switch (w->action.kind) {
	case EDGE_LOCATE:
		return locate(w);
	case EDGE_MEASURE:
		return measure(w);
	case EDGE_LOOK:
		return look(w);
	case EDGE_WRITE:
		return write_round(w);
	case EDGE_WRITE_EVAL:
		return write_eval(w);
	case EDGE_DEPLOY:
		return deploy(w);
	case EDGE_COMMIT:
	case EDGE_REPLY:
	case EDGE_PUBLISH:
	case EDGE_ASK:
	case EDGE_KEEP:
		break;
	}
	return error_set(&w->err, ERROR_INTERNAL, "action %d is not file work", (int)w->action.kind);
}

void file_work_hide_root(const char *root_dir, char *text)
{
	size_t len = strlen(root_dir);

	while (len > 0 && root_dir[len - 1] == '/')
		len--;
	for (char *at = text; len > 0 && (at = strstr(at, root_dir)) != NULL;) {
		if (at[len] == '/' && (at == text || strchr(" \"'(:=,", at[-1])))
			memmove(at, at + len, strlen(at + len) + 1);
		else
			at++;
	}
}

void file_work_run(file_work *w)
{
	int code;

	if (w->look) {
		look_at(w->scanner, w->stop);
		return;
	}
	code = find_paths(w);
	if (code == 0)
		code = perform(w);
	else if (w->action.kind == EDGE_LOOK && code == ERROR_UNSUPPORTED)
		code = 0; /* there is no folder to be found; writing one says why */
	file_work_hide_root(w->root_dir, w->err.text);
	w->result.code = code;
	w->result.text = code ? w->err.text : NULL;
	/* The file is not what the scanner took it for: begin anew, so that the core hears of a new generation before it decides again. */
	if (code == ERROR_CHANGED && w->scanner) {
		scanner_forget(w->scanner);
		look_at(w->scanner, w->stop);
	}
}
