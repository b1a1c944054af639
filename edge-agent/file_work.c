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

#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "edge-agent/dataset/eval_data.h"
#include "edge-agent/dataset/retention.h"
#include "edge-agent/dataset/round.h"
#include "edge-agent/deploy_work.h"
#include "edge-agent/remote/folders.h"
#include "edge-agent/remote/mirror.h"
#include "edge-agent/remote/output.h"
#include "edge-agent/storage/rooted.h"
#include "proto/url.h"

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

/* A copy that could not be brought up to date is not looked at: what it holds may be long past. */
static void look_at_dataset(file_work *w)
{
	if (w->mirror != NULL && mirror_update(&w->transfer, w->url, w->mirror, &w->err) != 0)
		scanner_fail(w->scanner, &w->err);
	else
		look_at(w->scanner, w->stop);
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

/* ---- rounds ---- */

const char *file_work_folder(arena *mem, const char *remote_dir, const char *of, const char *output_dir)
{
	size_t len = strlen(output_dir);
	char *dir = mem_printf("%s/%s", remote_dir, of), *plain, *folder;
	const char *kept;

	while (len > 0 && output_dir[len - 1] == '/')
		len--;
	plain = mem_strndup(output_dir, len);
	folder = remote_folder(dir, plain, of);
	kept = arena_strdup(mem, folder);
	free(folder);
	free(plain);
	free(dir);
	return kept;
}

/* The output folder at an object store; false: it is one of this machine. */
static bool is_output(const file_work *w, output *out)
{
	const char *url = w->action.round.output_dir;
	size_t len = strlen(url);

	if (!url_is_remote(url))
		return false;
	while (len > 0 && url[len - 1] == '/')
		len--;
	out->url = arena_strndup(w->mem, url, len);
	out->folder = file_work_folder(w->mem, w->remote_dir, FOLDER_OUTPUTS, out->url);
	out->transfer = &w->transfer;
	return true;
}

/* The folder of a remote dataset: files that its samples name are there. NULL: it is local. */
static const char *files_url(const file_work *w)
{
	const char *url = w->action.round.url;
	char *file = url_is_remote(url) ? mem_strndup(url, url_length(url)) : NULL, *folder = file ? file_parent(file) : NULL;
	const char *kept = arena_strdup(w->mem, folder);

	free(folder);
	free(file);
	return kept;
}

/* A folder that is not there, or holds nothing whole, is no manifest: a write moves it aside. */
static int look(file_work *w)
{
	manifest m;
	output o;
	int code = is_output(w, &o) ? output_look(&o, w->action.round.round, &m, &w->err) :
								  round_read(w->action.round.output_dir, w->action.round.round, &m, &w->err);

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
		.files_url = files_url(w),
		.stop = w->stop};
	enum round_outcome outcome;
	manifest m;
	output o;
	int code =
		is_output(w, &o) ? output_write(&o, w->scanner, &r, &outcome, &m, &w->err) : round_write(w->scanner, &r, &outcome, &m, &w->err);

	if (code == 0)
		give_manifest(w, &m);
	return code;
}

/* oldest: the first round that the eval data are made of. */
static void remove_old_rounds(const file_work *w, const output *o, int64_t oldest)
{
	int64_t first = w->action.round.round - w->rounds_kept + 1, below = first < oldest ? first : oldest;

	if (w->rounds_kept > 0 && o != NULL)
		output_remove_before(o, w->action.round.uid, below);
	else if (w->rounds_kept > 0)
		rounds_remove_before(w->action.round.output_dir, w->action.round.uid, below);
}

static int local_eval(file_work *w, int64_t *oldest, eval_result *out)
{
	int64_t rounds[WINDOW_MAX];
	size_t n;
	int code = round_window(w->action.round.output_dir, w->action.round.uid, w->action.round.round, rounds, &n, &w->err);

	if (code == 0)
		code = eval_data_write(w->action.round.output_dir, rounds, n, files_url(w), w->stop, out, &w->err);
	if (code == 0)
		*oldest = rounds[0];
	return code;
}

static int write_eval(file_work *w)
{
	const char *uid = w->action.round.uid;
	int64_t round = w->action.round.round, oldest = 0;
	eval_result result;
	output o;
	bool remote = is_output(w, &o);
	int code = remote ? output_eval(&o, uid, round, files_url(w), &oldest, &result, &w->err) : local_eval(w, &oldest, &result);

	if (code == ERROR_NOT_FOUND)
		return error_set(&w->err, code, "the samples of round %lld are not in %s/data/train", (long long)round, w->action.round.output_dir);
	if (code == 0) {
		w->result.eval.samples = result.samples;
		if (result.skipped[0])
			log_warn("dataset", "earlier rounds are left out of the eval data", L_STR("folder", w->action.round.output_dir),
				L_INT("round", round), L_STR("skipped", result.skipped));
		remove_old_rounds(w, remote ? &o : NULL, oldest);
	}
	return code;
}

/* ---- keys ---- */

void file_work_add_key(file_work *w, const char *url, enum credential_state state, const credential_keys *keys)
{
	transfer_key *all = arena_alloc(w->mem, (w->transfer.n_keys + 1) * sizeof *all);

	if (w->transfer.n_keys > 0)
		memcpy(all, w->transfer.keys, w->transfer.n_keys * sizeof *all);
	all[w->transfer.n_keys++] = (transfer_key){.url = arena_strdup(w->mem, url),
		.awaited = state == CREDENTIAL_AWAITED,
		.held = state == CREDENTIAL_HELD,
		.endpoint = arena_strdup(w->mem, keys->endpoint),
		.id = arena_strdup(w->mem, keys->access_key_id),
		.secret = arena_strdup(w->mem, keys->secret_access_key)};
	w->transfer.keys = all;
}

void file_work_forget_keys(file_work *w)
{
	for (size_t i = 0; i < w->transfer.n_keys; i++)
		if (w->transfer.keys[i].secret)
			explicit_bzero(w->transfer.keys[i].secret, strlen(w->transfer.keys[i].secret));
}

/* ---- urls ---- */

/* `readable`: nothing is written there, so a web server will do. */
static int find_path(file_work *w, const char **url, bool readable)
{
	char *path = NULL;
	bool remote = *url && (readable ? url_is_remote(*url) : strncmp(*url, "s3://", 5) == 0);
	int code = *url && !remote ? rooted_path(w->root_dir, *url, &path, &w->err) : 0;

	if (path)
		*url = arena_strdup(w->mem, path);
	free(path);
	return code;
}

int file_work_path(file_work *w, const char **url)
{
	return find_path(w, url, false);
}

/* From here on the action names paths of this machine. */
static int find_paths(file_work *w)
{
	deploy_copy *copies;
	int code = 0;

	if (w->action.kind == EDGE_LOOK || w->action.kind == EDGE_WRITE || w->action.kind == EDGE_WRITE_EVAL)
		return file_work_path(w, &w->action.round.output_dir);
	if (w->action.kind != EDGE_DEPLOY)
		return 0;
	copies = arena_alloc(w->mem, w->action.deploy.n * sizeof *copies);
	for (size_t i = 0; i < w->action.deploy.n && code == 0; i++) {
		copies[i] = w->action.deploy.copies[i];
		code = find_path(w, &copies[i].from.url, true);
		if (code == 0)
			code = file_work_path(w, &copies[i].to.url);
	}
	w->action.deploy.copies = copies;
	return code ? code : file_work_path(w, &w->action.deploy.output_dir);
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
		return deploy_work(w);
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
		look_at_dataset(w);
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
