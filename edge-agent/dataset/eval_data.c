/* See eval_data.h. A csv header may hold newlines in quotes, so where it ends is asked of the splitter. */
#include "edge-agent/dataset/eval_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "edge-agent/dataset/index_file.h"
#include "edge-agent/dataset/sink.h"
#include "edge-agent/dataset/walk.h"

enum { HEADER_MAX = 64 * 1024 * 1024 };

typedef struct assembly {
	const char *output_dir;
	const atomic_bool *stop;
	enum dataset_format format;
	buf header;            /* csv: of the round itself */
	const char *files_url; /* NULL: no index */
	sink *sink;
	index_file *index; /* NULL: none */
	eval_result *result;
} assembly;

/* One round's eval file, open. */
typedef struct part {
	int fd;
	manifest manifest;
	int64_t begin; /* of the samples: after the header */
} part;

static void skip(eval_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void skip(eval_result *r, const char *fmt, ...)
{
	size_t used = strlen(r->skipped);
	va_list args;
	va_start(args, fmt);
	if (used > 0 && used + 2 < sizeof r->skipped) {
		memcpy(r->skipped + used, "; ", 3);
		used += 2;
	}
	vsnprintf(r->skipped + used, sizeof r->skipped - used, fmt, args);
	va_end(args);
}

/* The csv header at the beginning of the file; empty if the file has none. */
static int read_header(int fd, buf *out, error *err)
{
	char *data = mem_alloc(WALK_PIECE);
	splitter sp;
	ssize_t n = 1;
	size_t used;
	int code = 0;
	splitter_start(&sp, FORMAT_CSV, HEADER_MAX);
	while (!splitter_has_header(&sp) && !sp.bad_header && (n = read_at(fd, data, WALK_PIECE, sp.offset)) > 0) {
		buf_add(out, data, (size_t)n);
		(void)splitter_next(&sp, data, (size_t)n, &used);
	}
	if (n < 0)
		code = error_errno(err, errno, "reading eval data");
	else if (sp.bad_header)
		code = error_set(err, ERROR_CORRUPT, "a csv header is longer than %d bytes", HEADER_MAX);
	else
		out->len = splitter_has_header(&sp) ? (size_t)sp.header_to : 0;
	free(data);
	return code;
}

static void part_close(part *p)
{
	if (p != NULL && p->fd >= 0)
		close(p->fd);
	free(p);
}

static int part_open(const assembly *a, int64_t round, part **out, error *err)
{
	part *p = mem_alloc(sizeof *p);
	p->fd = -1;
	*out = p;
	int code = round_read(a->output_dir, round, &p->manifest, err);
	if (code != 0)
		return code;
	char name[16];
	snprintf(name, sizeof name, "eval.%s", dataset_format_name(p->manifest.format));
	char *path = round_path(a->output_dir, "train", round, name);
	if (manifest_find(&p->manifest, name) == NULL) {
		code = error_set(err, ERROR_CORRUPT, "the manifest of round %lld lists no %s", (long long)round, name);
	} else {
		p->fd = open(path, O_RDONLY | O_CLOEXEC);
		if (p->fd < 0)
			code = error_errno(err, errno, "opening %s", path);
	}
	free(path);
	return code;
}

static int copy_part(assembly *a, const part *p, error *err)
{
	char *data = mem_alloc(WALK_PIECE);
	int64_t at = p->begin;
	int code = 0;
	for (;;) {
		ssize_t n = read_at(p->fd, data, WALK_PIECE, at);
		if (n < 0)
			code = error_errno(err, errno, "reading eval data of round %lld", (long long)p->manifest.round);
		if (n <= 0)
			break;
		code = sink_add(a->sink, data, (size_t)n, err);
		if (code == 0 && a->index != NULL)
			code = index_file_add(a->index, data, (size_t)n, err);
		if (code == 0 && stopped(a->stop, err))
			code = ERROR_TIMEOUT;
		if (code != 0)
			break;
		at += n;
	}
	free(data);
	a->result->samples += p->manifest.eval;
	a->result->rounds++;
	return code;
}

/* An earlier round: left out if it cannot be used. */
static int add_earlier(assembly *a, int64_t round, error *err)
{
	part *p;
	error why = {0};
	buf header = {0};
	int code = part_open(a, round, &p, &why);
	if (code == 0 && a->format == FORMAT_CSV && p->manifest.format == FORMAT_CSV)
		code = read_header(p->fd, &header, &why);
	bool fits = code == 0 && p->manifest.format == a->format && header.len == a->header.len &&
		memcmp(buf_text(&header), buf_text(&a->header), header.len) == 0;
	if (code != 0)
		skip(a->result, "round %lld: %s", (long long)round, error_name(code));
	else if (!fits)
		skip(a->result, "round %lld: other columns or format", (long long)round);
	p->begin = (int64_t)header.len;
	code = fits ? copy_part(a, p, err) : 0;
	buf_fini(&header);
	part_close(p);
	return code;
}

static int assemble(assembly *a, part *present, const int64_t *rounds, size_t n, const char *tmp, error *err)
{
	int code = sink_new(&a->sink, tmp, err);
	if (code == 0)
		code = sink_add(a->sink, buf_text(&a->header), a->header.len, err);
	for (size_t i = 0; i + 1 < n && code == 0; i++)
		code = add_earlier(a, rounds[i], err);
	present->begin = (int64_t)a->header.len;
	if (code == 0)
		code = copy_part(a, present, err);
	manifest_file done = {0};
	if (code == 0)
		code = sink_end(a->sink, &done, err);
	a->result->bytes = done.bytes;
	a->result->sha256 = done.sha256;
	return code;
}

static int end_index(const assembly *a, const char *tmp, const char *final, error *err)
{
	manifest_file ignored;
	int code = a->index != NULL ? index_file_end(a->index, &ignored, err) : 0;
	if (code == 0 && a->index != NULL && rename(tmp, final) != 0)
		code = error_errno(err, errno, "renaming %s", tmp);
	return code;
}

/* A file that a killed run left. */
static int remove_old(const char *tmp, error *err)
{
	return unlink(tmp) != 0 && errno != ENOENT ? error_errno(err, errno, "removing %s", tmp) : 0;
}

static int put_in_place(const assembly *a, part *present, const int64_t *rounds, size_t n, error *err)
{
	int64_t round = rounds[n - 1];
	char *dir = round_path(a->output_dir, "eval", round, NULL);
	char *final = mem_printf("%s/data.%s", dir, dataset_format_name(a->format));
	char *tmp = mem_printf("%s/.data.%s.tmp", dir, dataset_format_name(a->format));
	char *index = mem_printf("%s/" INDEX_FILE_NAME, dir), *index_tmp = mem_printf("%s/." INDEX_FILE_NAME ".tmp", dir);
	assembly mine = *a;
	int code = file_make_dirs(dir, 0755, err);
	if (code == 0)
		code = remove_old(tmp, err);
	if (code == 0)
		code = remove_old(index_tmp, err);
	if (code == 0 && a->files_url != NULL)
		code = index_file_new(&mine.index, index_tmp, a->files_url, a->format, err);
	if (code == 0)
		code = assemble(&mine, present, rounds, n, tmp, err);
	if (code == 0)
		code = end_index(&mine, index_tmp, index, err);
	if (code == 0 && rename(tmp, final) != 0)
		code = error_errno(err, errno, "renaming %s", tmp);
	if (code == 0)
		code = file_sync_dir(dir, err);
	if (code != 0) {
		(void)unlink(tmp);
		(void)unlink(index_tmp);
	}
	sink_free(mine.sink);
	index_file_free(mine.index);
	free(index_tmp);
	free(index);
	free(tmp);
	free(final);
	free(dir);
	return code;
}

int eval_data_write(const char *output_dir, const int64_t *rounds, size_t n, const char *files_url, const atomic_bool *stop,
	eval_result *out, error *err)
{
	assembly a = {.output_dir = output_dir, .files_url = files_url, .stop = stop, .result = out};
	part *present = NULL;
	memset(out, 0, sizeof *out);
	if (n == 0)
		return error_set(err, ERROR_NOT_FOUND, "there is no round to evaluate");
	int code = part_open(&a, rounds[n - 1], &present, err);
	if (code == 0) {
		a.format = present->manifest.format;
		if (a.format == FORMAT_CSV)
			code = read_header(present->fd, &a.header, err);
	}
	if (code == 0)
		code = put_in_place(&a, present, rounds, n, err);
	buf_fini(&a.header);
	part_close(present);
	return code;
}
