/* See output.h. */
#include "edge-agent/remote/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/dataset/index_file.h"
#include "edge-agent/dataset/retention.h"
#include "edge-agent/dataset/round_files.h"
#include "edge-agent/remote/entries.h"
#include "edge-agent/storage/numbered.h"

#define MANIFEST "manifest.json"

/* "{url}/data/{kind}/{round}"; to be freed. */
static char *round_url(const output *o, const char *kind, int64_t round)
{
	return mem_printf("%s/data/%s/%lld", o->url, kind, (long long)round);
}

static char *train_dir(const output *o)
{
	return mem_printf("%s/data/train", o->folder);
}

/* That a file of ours changed while it was sent is not what CHANGED says of a dataset; nor is what came wrong what CORRUPT says of a round. */
static int run(const output *o, const char *const *args, transfer_event_fn on_event, void *ctx, error *err)
{
	error why = {0};
	int code = transfer_run(o->transfer, o->url, args, on_event, ctx, &why);
	if (code == ERROR_CHANGED)
		return error_set(err, ERROR_IO, "%s: %s changed meanwhile", o->url, args[0]);
	return code == 0 ? 0 : error_set(err, code == ERROR_CORRUPT ? ERROR_IO : code, "%s", why.text);
}

/* ---- manifests ---- */

/* The manifest that is there, and its text. NOT_FOUND: none. CORRUPT: one that makes no sense. */
static int fetch_manifest(const output *o, int64_t round, buf *text, manifest *out, error *err)
{
	char *folder = round_url(o, "train", round), *url = mem_printf("%s/" MANIFEST, folder);
	char *file = mem_printf("%s/.fetched-" MANIFEST, o->folder);
	char *max = mem_printf("%d", (int)MANIFEST_BYTES_MAX);
	const char *args[] = {"get", "--fresh", "--max-size", max, url, file, NULL};
	error why = {0};
	int code = file_make_dirs(o->folder, 0700, err);
	if (code == 0)
		code = run(o, args, NULL, NULL, err);
	if (code == ERROR_LIMIT)
		code = ERROR_CORRUPT;
	if (code == 0) {
		buf_clear(text);
		code = file_read(file, MANIFEST_BYTES_MAX, text, &why);
		if (code == 0)
			code = manifest_decode(buf_text(text), text->len, out, &why);
		if (code != 0)
			code = error_set(err, ERROR_CORRUPT, "%s: %s", url, why.text);
	}
	(void)unlink(file);
	free(max);
	free(file);
	free(url);
	free(folder);
	return code;
}

int output_look(const output *o, int64_t round, manifest *out, error *err)
{
	buf text = {0};
	int code = fetch_manifest(o, round, &text, out, err);
	buf_fini(&text);
	return code;
}

/* True if the copy here is of the round that this manifest there tells of. */
static bool copy_is(const output *o, int64_t round, const buf *text)
{
	char *path = round_path(o->folder, "train", round, MANIFEST);
	manifest *ignored = mem_alloc(sizeof *ignored);
	buf here = {0};
	bool same = file_read(path, MANIFEST_BYTES_MAX, &here, NULL) == 0 && here.len == text->len &&
		memcmp(buf_text(&here), buf_text(text), here.len) == 0 && round_read(o->folder, round, ignored, NULL) == 0;
	buf_fini(&here);
	free(ignored);
	free(path);
	return same;
}

static int drop_copy(const output *o, int64_t round, error *err)
{
	char *dir = train_dir(o);
	int code = numbered_remove(dir, round, err);
	free(dir);
	return code;
}

/* ---- writing ---- */

static bool fits(const manifest *m, const round_request *r)
{
	return strcmp(m->uid, r->uid) == 0 && m->round == r->round && m->from == r->from && m->before.size == r->offset;
}

/* A name of which no manifest is there: free, or left half done by a move that was killed. */
static int move_aside(const output *o, const round_request *r, error *err)
{
	char *from = round_url(o, "train", r->round), *from_folder = mem_printf("%s/", from);
	int code = 0;
	bool done = false;
	for (int n = 1; n <= ROUND_ASIDE_MAX && code == 0 && !done; n++) {
		char *name = round_aside_name(r->round, r->uid, n), *to = mem_printf("%s/data/train/%s/", o->url, name);
		char *mark = mem_printf("%s" MANIFEST, to);
		const char *head[] = {"head", mark, NULL}, *move[] = {"move-folder", "--last", MANIFEST, from_folder, to, NULL};
		code = run(o, head, NULL, NULL, err);
		done = code == ERROR_NOT_FOUND;
		if (done)
			code = run(o, move, NULL, NULL, err);
		free(mark);
		free(to);
		free(name);
	}
	free(from_folder);
	free(from);
	return code == 0 && !done ? error_set(err, ERROR_LIMIT, "%s: too many rounds were moved aside", o->url) : code;
}

/* EXISTS: somebody else's manifest is there, or ours of a run whose end we did not see. */
static int send_round(const output *o, int64_t round, error *err)
{
	char *from = round_path(o->folder, "train", round, NULL), *to = round_url(o, "train", round);
	const char *args[] = {"put-folder", "--last", MANIFEST, "--new", from, to, NULL};
	int code = run(o, args, NULL, NULL, err);
	free(to);
	free(from);
	return code;
}

/* The copy is made anew unless one that begins there is here already: of a run that was killed before it could send it. */
static int make_copy(const output *o, scanner *s, const round_request *r, manifest *out, error *err)
{
	round_request here = *r;
	enum round_outcome ignored;
	int code = round_read(o->folder, r->round, out, NULL);
	here.output_dir = o->folder;
	here.may_move_aside = false;
	if (code != ERROR_NOT_FOUND && (code != 0 || !fits(out, r))) {
		code = drop_copy(o, r->round, err);
		if (code != 0)
			return code;
	}
	return round_write(s, &here, &ignored, out, err);
}

static int write_new(const output *o, scanner *s, const round_request *r, enum round_outcome *outcome, manifest *out, error *err)
{
	buf there = {0};
	int code = make_copy(o, s, r, out, err);
	*outcome = ROUND_WRITTEN;
	if (code == 0)
		code = send_round(o, r->round, err);
	if (code == ERROR_EXISTS) {
		*outcome = ROUND_ADOPTED;
		code = fetch_manifest(o, r->round, &there, out, err);
		if (code == 0 && !fits(out, r))
			code = error_set(err, ERROR_CONFLICT, "%s/data/train/%lld was written by somebody else meanwhile", o->url, (long long)r->round);
	}
	buf_fini(&there);
	return code;
}

int output_write(const output *o, scanner *s, const round_request *r, enum round_outcome *outcome, manifest *out, error *err)
{
	buf text = {0};
	int found = fetch_manifest(o, r->round, &text, out, err), code = 0;
	buf_fini(&text);
	if (found == 0 && fits(out, r)) {
		*outcome = ROUND_ADOPTED;
		return 0;
	}
	if (found != 0 && found != ERROR_NOT_FOUND && found != ERROR_CORRUPT)
		return found;
	if (found != ERROR_NOT_FOUND && !r->may_move_aside)
		return error_set(err, ERROR_CONFLICT, "%s/data/train/%lld exists and does not hold that round of this job from sample %lld on",
			o->url, (long long)r->round, (long long)r->from);
	if (found != ERROR_NOT_FOUND)
		code = move_aside(o, r, err);
	return code == 0 ? write_new(o, s, r, outcome, out, err) : code;
}

/* ---- eval data ---- */

static int list_rounds(const output *o, entry_numbers *out, error *err)
{
	char *url = mem_printf("%s/data/train/", o->url);
	int code = entry_numbers_list(o->transfer, url, out, err);
	free(url);
	return code;
}

static int fetch_round(const output *o, int64_t round, error *err)
{
	char *dir = train_dir(o), *tmp = mem_printf("%s/.%lld.tmp", dir, (long long)round), *url = round_url(o, "train", round);
	const char *args[] = {"get-folder", url, tmp, NULL};
	int code = file_make_dirs(dir, 0700, err);
	if (code == 0)
		code = file_remove_tree(tmp, err);
	if (code == 0)
		code = run(o, args, NULL, NULL, err);
	if (code == 0)
		code = numbered_replace(dir, round, err);
	if (code != 0)
		(void)file_remove_tree(tmp, NULL);
	free(url);
	free(tmp);
	free(dir);
	return code;
}

typedef struct remote_window {
	const output *output;
	const char *uid;
} remote_window;

/* Bring a round near, if it is one of the job. */
static int read_round(void *ctx, int64_t round, window_round *out, error *err)
{
	const remote_window *w = ctx;
	manifest *m = mem_alloc(sizeof *m);
	buf text = {0};
	int code = fetch_manifest(w->output, round, &text, m, err);
	bool ours = code == 0 && strcmp(m->uid, w->uid) == 0 && m->round == round;
	if (code == ERROR_CORRUPT || (code == 0 && !ours))
		code = error_set(err, ERROR_NOT_FOUND, "%s/data/train/%lld does not hold that round", w->output->url, (long long)round);
	if (code == 0 && !copy_is(w->output, round, &text))
		code = fetch_round(w->output, round, err);
	if (code == 0)
		code = round_window_read(w->output->folder, w->uid, round, out, err);
	buf_fini(&text);
	free(m);
	return code;
}

static int send_eval(const output *o, int64_t round, error *err)
{
	char *from = round_path(o->folder, "eval", round, NULL), *to = round_url(o, "eval", round);
	const char *args[] = {"put-folder", from, to, NULL};
	int code = run(o, args, NULL, NULL, err);
	free(to);
	free(from);
	return code;
}

/* Only a round's own manifest says that its samples are gone. A bucket that is not there may be the wrong store's. */
static int not_there(int code, error *err)
{
	return code == ERROR_NOT_FOUND ? error_set(err, ERROR_IO, "%s", err->text) : code;
}

int output_eval(const output *o, const char *uid, int64_t round, const char *files_url, int64_t *oldest, eval_result *out, error *err)
{
	remote_window w = {.output = o, .uid = uid};
	int64_t rounds[WINDOW_MAX];
	entry_numbers all = {0};
	size_t n = 0;
	int code = not_there(list_rounds(o, &all, err), err);
	if (code == 0)
		code = round_window_of(round, all.at, all.n, read_round, &w, rounds, &n, err);
	if (code == 0)
		code = not_there(eval_data_write(o->folder, rounds, n, files_url, o->transfer->stop, out, err), err);
	if (code == 0)
		code = not_there(send_eval(o, round, err), err);
	if (code == 0) {
		*oldest = rounds[0];
		rounds_remove_before(o->folder, uid, rounds[0]);
	}
	free(all.at);
	return code;
}

/* ---- retention ---- */

static int delete_file(const output *o, const char *kind, int64_t round, const char *name, error *err)
{
	char *folder = round_url(o, kind, round), *url = mem_printf("%s/%s", folder, name);
	const char *args[] = {"delete", url, NULL};
	int code = run(o, args, NULL, NULL, err);
	free(url);
	free(folder);
	return code;
}

/* What its manifest names, and no more: what else is there is somebody's own. The manifest goes last, so that a removal that was interrupted is
 * found again; a round so old is looked for by nobody else. */
static int delete_round(const output *o, const manifest *m, error *err)
{
	char *data = mem_printf("data.%s", dataset_format_name(m->format));
	int code = delete_file(o, "eval", m->round, data, err);
	if (code == 0)
		code = delete_file(o, "eval", m->round, INDEX_FILE_NAME, err);
	for (size_t i = 0; i < m->n_files && code == 0; i++)
		code = delete_file(o, "train", m->round, m->files[i].name, err);
	if (code == 0)
		code = delete_file(o, "train", m->round, MANIFEST, err);
	free(data);
	return code;
}

void output_remove_before(const output *o, const char *uid, int64_t below)
{
	entry_numbers all = {0};
	manifest *m = mem_alloc(sizeof *m);
	buf text = {0};
	error err = {0};
	int code = list_rounds(o, &all, &err);
	for (size_t i = 0; i < all.n && code == 0; i++) {
		if (all.at[i] >= below)
			continue;
		if (fetch_manifest(o, all.at[i], &text, m, NULL) == 0 && strcmp(m->uid, uid) == 0 && m->round == all.at[i])
			code = delete_round(o, m, &err);
	}
	if (code != 0)
		log_warn("dataset", "old rounds cannot be removed", L_STR("folder", o->url), L_STR("error", err.text));
	buf_fini(&text);
	free(m);
	free(all.at);
}
