/* Locating cursors and measuring ranges in a file that a scanner knows (scanner.h). Whatever is read again here begins at the nearest known
 * mark, and the chain digest tells whether the bytes are still those that were read then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "edge-agent/dataset/scanner_internal.h"

static dataset_point point_of(const mark *m)
{
	return (dataset_point){.size = m->size, .samples = m->samples, .digest = m->digest};
}

static const mark *nearest(const scanner *s, int64_t size)
{
	static const mark beginning;
	const mark *known = marks_before(&s->marks, size), *end = scanner__end(s);
	if (end->size <= size && (known == NULL || end->size > known->size))
		known = end;
	return known != NULL ? known : &beginning;
}

int scanner__walk_to(const scanner *s, int fd, int64_t size, int64_t samples, const atomic_bool *stop, walk **out, error *err)
{
	int code = walk_resume(out, s->format, s->line_max, nearest(s, size), fd, err);
	if (code != 0)
		return code;
	code = walk_read_to(*out, fd, size, stop, err);
	if (code == 0 && ((*out)->end.size != size || (*out)->end.samples != samples))
		code = error_set(err, ERROR_CHANGED, "dataset file %s: sample %lld does not begin at byte %lld (any more)", s->path,
			(long long)samples, (long long)size);
	if (code != 0) {
		walk_free(*out);
		*out = NULL;
	}
	return code;
}

/* The wanted mark at the front lies in what was read already: read up to there again, a slice a call. */
static int pass_on(scanner *s, int64_t bytes_max, error *err)
{
	int fd = -1;
	int64_t to = s->marks.at[0].mark.size;
	int code = scanner__reopen(s, &fd, err);
	if (code != 0)
		goto done;
	if (s->pass == NULL || s->pass_to != to) {
		scanner__drop_pass(s);
		code = walk_resume(&s->pass, s->format, s->line_max, nearest(s, to), fd, err);
		s->pass_to = to;
	}
	if (code != 0)
		goto done;
	int64_t left = to - s->pass->splitter.offset;
	code = walk_read_to(s->pass, fd, left < bytes_max ? to : to - left + bytes_max, NULL, err);
	if (code == 0 && s->pass->splitter.offset == to)
		marks_decide(&s->marks, s->pass);
done:
	if (fd >= 0)
		close(fd);
	if (code != 0 || s->marks.at[0].state != MARK_WANTED)
		scanner__drop_pass(s);
	return code;
}

int scanner_locate(scanner *s, int64_t size, const digest *d, int64_t bytes_max, enum locate_result *result, dataset_point *out, error *err)
{
	static const digest zeros;
	*result = LOCATE_UNMATCHED;
	if (s->problem.code != 0)
		return error_set(err, s->problem.code, "%s", s->problem.text);
	if (size <= 0) {
		if (size == 0 && digest_equal(d, &zeros)) {
			*out = (dataset_point){0};
			*result = LOCATE_MATCHED;
		}
		return 0;
	}
	if (scanner__end(s)->size == size && digest_equal(&scanner__end(s)->digest, d))
		marks_add(&s->marks, scanner__end(s));
	marks_want(&s->marks, size, d);
	if (s->marks.at[0].state == MARK_WANTED) {
		if (!s->looked || (size > scanner__position(s) && s->more)) {
			*result = LOCATE_MORE;
			return 0;
		}
		if (size > scanner__position(s))
			return 0; /* the file is shorter; stays wanted, for it may grow to that */
		int code = pass_on(s, bytes_max, err);
		if (code != 0)
			return code;
	}
	if (s->marks.at[0].state == MARK_HOLDS) {
		*out = point_of(&s->marks.at[0].mark);
		*result = LOCATE_MATCHED;
	} else if (s->marks.at[0].state == MARK_WANTED) {
		*result = LOCATE_MORE;
	}
	return 0;
}

/* Read on to the end of the next sample. */
static int walk_one(walk *w, int fd, int64_t file_end, const atomic_bool *stop, error *err)
{
	char *data = mem_alloc(WALK_PIECE);
	int64_t begin = w->end.size;
	int code = 0;
	while (code == 0 && w->end.size == begin && w->splitter.offset < file_end) {
		int64_t left = file_end - w->splitter.offset;
		ssize_t n = read_at(fd, data, left < WALK_PIECE ? (size_t)left : WALK_PIECE, w->splitter.offset);
		splitter probe = w->splitter;
		size_t used = 0;
		if (n < 0)
			code = error_errno(err, errno, "reading the dataset");
		else if (n == 0)
			code = error_set(err, ERROR_CHANGED, "the dataset file became shorter while it was read");
		else
			(void)splitter_next(&probe, data, (size_t)n, &used);
		walk_add(w, data, used);
		if (code == 0 && stopped(stop, err))
			code = ERROR_TIMEOUT;
	}
	free(data);
	return code;
}

int scanner_range_end(scanner *s, int64_t offset, int64_t samples, int64_t bytes_max, const atomic_bool *stop, dataset_point *out,
	error *err)
{
	int fd = -1;
	walk *w = NULL;
	const mark *end = scanner__end(s);
	if (s->problem.code != 0)
		return error_set(err, s->problem.code, "%s", s->problem.text);
	if (end->size < offset || end->samples < samples)
		return error_set(err, ERROR_CHANGED, "dataset file %s ends before byte %lld", s->path, (long long)offset);
	if (bytes_max <= 0 || end->size - offset <= bytes_max) {
		marks_add(&s->marks, end);
		*out = point_of(end);
		return 0;
	}
	int64_t last = end->size;
	int code = scanner__reopen(s, &fd, err);
	if (code == 0)
		code = scanner__walk_to(s, fd, offset, samples, stop, &w, err);
	if (code == 0)
		code = walk_read_to(w, fd, offset + bytes_max, stop, err);
	if (code == 0 && w->end.size == offset)
		code = walk_one(w, fd, last, stop, err);
	if (code == 0) {
		marks_add(&s->marks, &w->end);
		*out = point_of(&w->end);
	}
	walk_free(w);
	if (fd >= 0)
		close(fd);
	return code;
}
