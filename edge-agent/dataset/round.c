/* See round.h. Writing: temporary folder, files, manifest, each synced; the folder synced; the final name freed if need be; rename; parent
 * synced. Everything before the rename can be lost without a trace, everything after it can be repeated: it is then adopted.
 */
#include "edge-agent/dataset/round.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/path.h"
#include "edge-agent/core/split.h"
#include "edge-agent/dataset/index_file.h"
#include "edge-agent/dataset/round_files.h"
#include "edge-agent/dataset/scanner_internal.h"
#include "edge-agent/dataset/sink.h"
#include "edge-agent/storage/numbered.h"

enum { TRAIN, EVAL, SIDES };
static const char *const SIDE_NAMES[SIDES] = {"data", "eval"};

typedef struct writer {
	const scanner *scanner;
	const round_request *request;
	char *tmp; /* the folder being made */
	int fd;    /* the dataset file */
	walk *walk;
	mark begin, end;
	sink *sinks[SIDES];
	index_file *index; /* of the samples that train; NULL: the dataset is local */
	int64_t samples[SIDES];
} writer;

static char *side_path(const writer *w, int side)
{
	return mem_printf("%s/%s.%s", w->tmp, SIDE_NAMES[side], dataset_format_name(w->scanner->format));
}

static int open_sinks(writer *w, error *err)
{
	int code = 0;
	for (int side = 0; side < SIDES && code == 0; side++) {
		char *path = side_path(w, side);
		code = sink_new(&w->sinks[side], path, err);
		free(path);
	}
	if (code == 0 && w->request->files_url != NULL) {
		char *path = mem_printf("%s/" INDEX_FILE_NAME, w->tmp);
		code = index_file_new(&w->index, path, w->request->files_url, w->scanner->format, err);
		free(path);
	}
	return code;
}

/* Every csv file begins with the dataset's header. */
static int copy_header(writer *w, error *err)
{
	int64_t from, to;
	scanner__header(w->scanner, &from, &to);
	if (w->scanner->format != FORMAT_CSV)
		return 0;
	size_t len = to > from ? (size_t)(to - from) : 0;
	char *data = mem_alloc(len + 1);
	int code = 0;
	if (len == 0 || read_at(w->fd, data, len, from) != (ssize_t)len)
		code = error_set(err, ERROR_CHANGED, "dataset file %s: the header cannot be read any more", w->scanner->path);
	for (int side = 0; side < SIDES && code == 0; side++)
		code = sink_add(w->sinks[side], data, len, err);
	free(data);
	return code;
}

/* Give out the samples that end in data[done, len); data[0] is byte `base` of the file. */
static int copy_piece(writer *w, split *turn, const char *data, size_t done, size_t len, int64_t base, error *err)
{
	splitter *sp = &w->walk->splitter;
	size_t used;
	while (splitter_next(sp, data + done, len - done, &used)) {
		int side = split_next(turn) ? TRAIN : EVAL;
		const char *sample = data + (sp->from - base);
		size_t bytes = (size_t)(sp->offset - sp->from);
		int code = sink_add(w->sinks[side], sample, bytes, err);
		if (code == 0 && side == TRAIN && w->index != NULL)
			code = index_file_add(w->index, sample, bytes, err);
		if (code != 0)
			return code;
		w->samples[side]++;
		done += used;
	}
	return 0;
}

static int copy_samples(writer *w, error *err)
{
	const splitter *sp = &w->walk->splitter;
	size_t held = 0; /* bytes of the line that has not ended */
	int64_t total = w->request->end.size - sp->offset, room = w->scanner->line_max + WALK_PIECE;
	char *data = mem_alloc((size_t)(total < room ? total : room) + 1);
	split turn;
	int code = 0;
	split_start(&turn, w->request->from, w->request->train_prob);
	while (code == 0 && sp->offset < w->request->end.size) {
		int64_t left = w->request->end.size - sp->offset, base = sp->offset - (int64_t)held;
		size_t len = left < WALK_PIECE ? (size_t)left : WALK_PIECE;
		ssize_t n = read_at(w->fd, data + held, len, sp->offset);
		if (n < 0) {
			code = error_errno(err, errno, "dataset file %s", w->scanner->path);
			break;
		}
		if ((size_t)n < len) {
			code = error_set(err, ERROR_CHANGED, "dataset file %s became shorter while it was read", w->scanner->path);
			break;
		}
		chain_add(w->walk->chain, data + held, len);
		code = copy_piece(w, &turn, data, held, held + len, base, err);
		size_t waiting = (size_t)splitter_waiting(sp) > (size_t)w->scanner->line_max ? 0 : (size_t)splitter_waiting(sp);
		memmove(data, data + held + len - waiting, waiting);
		held = waiting;
		if (code == 0 && stopped(w->request->stop, err))
			code = ERROR_TIMEOUT;
	}
	free(data);
	return code;
}

/* What was copied must be what was allocated. */
static int check_end(writer *w, error *err)
{
	const round_request *r = w->request;
	const splitter *sp = &w->walk->splitter;
	uint64_t blocks;
	w->end = (mark){.size = sp->offset, .samples = sp->samples};
	chain_value(w->walk->chain, &w->end.digest);
	chain_boundary(w->walk->chain, &blocks, &w->end.block);
	if (sp->offset != r->end.size || splitter_waiting(sp) != 0 || sp->samples - r->line != r->end.sample - r->from ||
		!digest_equal(&w->end.digest, &r->end.digest))
		return error_set(err, ERROR_CHANGED, "dataset file %s: bytes %lld to %lld are not those that were counted", w->scanner->path,
			(long long)r->offset, (long long)r->end.size);
	return 0;
}

static int end_files(writer *w, manifest *out, error *err)
{
	int code = 0;
	for (int side = 0; side < SIDES && code == 0; side++) {
		manifest_file *f = &out->files[side];
		snprintf(f->name, sizeof f->name, "%s.%s", SIDE_NAMES[side], dataset_format_name(w->scanner->format));
		f->samples = w->samples[side];
		code = sink_end(w->sinks[side], f, err);
	}
	if (code == 0 && w->index != NULL)
		code = index_file_end(w->index, &out->files[out->n_files++], err);
	return code;
}

static int write_manifest(writer *w, manifest *out, error *err)
{
	const round_request *r = w->request;
	*out = (manifest){.round = r->round,
		.format = w->scanner->format,
		.from = r->from,
		.to = r->end.sample,
		.before = {.sample = r->from, .size = w->begin.size, .digest = w->begin.digest},
		.after = r->end,
		.train_prob = r->train_prob,
		.train = w->samples[TRAIN],
		.eval = w->samples[EVAL],
		.n_files = SIDES};
	memcpy(out->uid, r->uid, strlen(r->uid) + 1);
	int code = end_files(w, out, err);
	if (code != 0)
		return code;
	char *path = mem_printf("%s/manifest.json", w->tmp), *text = manifest_encode(out);
	manifest_file ignored;
	sink *s = NULL;
	code = sink_new(&s, path, err);
	if (code == 0)
		code = sink_add(s, text, strlen(text), err);
	if (code == 0)
		code = sink_end(s, &ignored, err);
	sink_free(s);
	free(text);
	free(path);
	return code == 0 ? file_sync_dir(w->tmp, err) : code;
}

/* Fill w->tmp. */
static int write_folder(writer *w, manifest *out, error *err)
{
	const round_request *r = w->request;
	int code = scanner__reopen(w->scanner, &w->fd, err);
	if (code == 0)
		code = scanner__walk_to(w->scanner, w->fd, r->offset, r->line, r->stop, &w->walk, err);
	if (code != 0)
		return code;
	w->begin = w->walk->end;
	if (mkdir(w->tmp, 0755) != 0)
		return error_errno(err, errno, "creating folder %s", w->tmp);
	code = open_sinks(w, err);
	if (code == 0)
		code = copy_header(w, err);
	if (code == 0)
		code = copy_samples(w, err);
	if (code == 0)
		code = check_end(w, err);
	return code == 0 ? write_manifest(w, out, err) : code;
}

static int put_in_place(const writer *w, const char *train_dir, const char *final, bool taken, error *err)
{
	int code = taken ? round_files_move_aside(train_dir, w->request->round, w->request->uid, err) : 0;
	if (code == 0)
		code = file_rename_new(w->tmp, final, err);
	return code == 0 ? file_sync_dir(train_dir, err) : code;
}

static int write_new(scanner *s, const round_request *r, const char *train_dir, const char *final, bool taken, manifest *out, error *err)
{
	writer w = {.scanner = s, .request = r, .fd = -1};
	w.tmp = mem_printf("%s/.%lld.tmp", train_dir, (long long)r->round);
	int code = write_folder(&w, out, err);
	if (code == 0)
		code = put_in_place(&w, train_dir, final, taken, err);
	if (code == 0) {
		marks_add(&s->marks, &w.begin);
		marks_add(&s->marks, &w.end);
	} else {
		(void)file_remove_tree(w.tmp, NULL);
	}
	for (int side = 0; side < SIDES; side++)
		sink_free(w.sinks[side]);
	index_file_free(w.index);
	walk_free(w.walk);
	if (w.fd >= 0)
		close(w.fd);
	free(w.tmp);
	return code;
}

static int check_request(const round_request *r, error *err)
{
	size_t len = strlen(r->uid);
	if (len == 0 || len > TEXT_MAX_UID)
		return error_set(err, ERROR_INVALID, "round %lld: the job's uid is empty or too long", (long long)r->round);
	if (r->round < 1 || r->from < 0 || r->end.sample <= r->from || r->offset < 0 || r->line < 0 || r->end.size <= r->offset)
		return error_set(err, ERROR_INVALID, "round %lld: there are no samples to write", (long long)r->round);
	if (r->files_url != NULL && strlen(r->files_url) > TEXT_MAX_URL)
		return error_set(err, ERROR_LIMIT, "round %lld: the url of the dataset's folder is too long", (long long)r->round);
	if (!path_is_clean(r->output_dir))
		return error_set(err, ERROR_INVALID, "output folder \"%.200s\" is not an absolute, plain path", r->output_dir);
	return 0;
}

static int make_folders(const char *output_dir, const char *train_dir, error *err)
{
	char *models = mem_printf("%s/train", output_dir);
	int code = file_make_dirs(train_dir, 0755, err);
	if (code == 0)
		code = file_make_dirs(models, 0755, err);
	free(models);
	return code;
}

int round_write(scanner *s, const round_request *r, enum round_outcome *outcome, manifest *out, error *err)
{
	int code = check_request(r, err);
	if (code != 0)
		return code;
	char *train_dir = mem_printf("%s/data/train", r->output_dir), *final = round_path(r->output_dir, "train", r->round, NULL);
	error found_error = {0};
	int found = round_read(r->output_dir, r->round, out, &found_error);
	if (found == 0 && strcmp(out->uid, r->uid) == 0 && out->round == r->round && out->from == r->from && out->before.size == r->offset) {
		*outcome = ROUND_ADOPTED;
		code = make_folders(r->output_dir, train_dir, err);
		if (code == 0)
			code = file_sync_dir(train_dir, err);
		goto done;
	}
	if (found != 0 && found != ERROR_NOT_FOUND && found != ERROR_CORRUPT) {
		code = error_set(err, found, "%s", found_error.text);
		goto done;
	}
	if (found != ERROR_NOT_FOUND && !r->may_move_aside) {
		code = error_set(err, ERROR_CONFLICT, "%s exists and does not hold round %lld of this job from sample %lld on", final,
			(long long)r->round, (long long)r->from);
		goto done;
	}
	*outcome = ROUND_WRITTEN;
	code = make_folders(r->output_dir, train_dir, err);
	if (code == 0) {
		numbered_clean(train_dir);
		code = write_new(s, r, train_dir, final, found != ERROR_NOT_FOUND, out, err);
	}
done:
	free(final);
	free(train_dir);
	return code;
}
