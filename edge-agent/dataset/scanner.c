/* See scanner.h. A look is: open, compare with what is known, read on, compare again. The second comparison is for a file that is emptied
 * and written again while it is read: then the bytes just read may be those of the new file, and the next look could not tell.
 */
#include "edge-agent/dataset/scanner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "edge-agent/dataset/scanner_internal.h"
#include "edge-agent/storage/rooted.h"

scanner *scanner_new(const char *path, enum dataset_format format, int64_t line_max)
{
	scanner *s = mem_alloc(sizeof *s);
	s->path = mem_strdup(path);
	s->root = mem_strdup("");
	s->format = format;
	s->line_max = line_max;
	s->generation = 1;
	s->walk = walk_new(format, line_max);
	return s;
}

void scanner_free(scanner *s)
{
	if (s == NULL)
		return;
	walk_free(s->pass);
	walk_free(s->walk);
	free(s->path);
	free(s->root);
	free(s->file);
	free(s);
}

void scanner_set_root(scanner *s, const char *root)
{
	free(s->root);
	s->root = mem_strdup(root);
}

void scanner_set_file(scanner *s, const char *file)
{
	mem_replace(&s->file, file);
}

const mark *scanner__end(const scanner *s)
{
	return s->walk != NULL ? &s->walk->end : &s->saved.end;
}

int64_t scanner__position(const scanner *s)
{
	return s->walk != NULL ? s->walk->splitter.offset : s->saved.end.size;
}

void scanner__header(const scanner *s, int64_t *from, int64_t *to)
{
	bool walked = s->walk != NULL && s->walk->splitter.header_to >= 0;
	*from = walked ? s->walk->splitter.header_from : s->saved.header_from;
	*to = walked ? s->walk->splitter.header_to : s->saved.header_to;
}

static int64_t skipped(const scanner *s)
{
	return s->walk != NULL ? s->walk->splitter.skipped : s->saved.skipped;
}

void scanner__drop_pass(scanner *s)
{
	walk_free(s->pass);
	s->pass = NULL;
}

int scanner__open(const scanner *s, struct stat *st, error *err)
{
	/* Found anew each time: links may lead elsewhere by now. */
	char *path = mem_strdup(s->file);
	if (path == NULL && rooted_path(s->root, s->path, &path, err) != 0) {
		(void)error_prefix(err, "dataset");
		return -1;
	}
	/* Not waiting for a writer, should somebody have put a pipe there. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(path);
	if (fd < 0) {
		error_errno(err, errno, "dataset file %s", s->path);
		return -1;
	}
	if (fstat(fd, st) != 0)
		error_errno(err, errno, "dataset file %s", s->path);
	else if (S_ISDIR(st->st_mode))
		error_set(err, ERROR_INVALID, "dataset %s is a folder; its url must name a file", s->path);
	else if (!S_ISREG(st->st_mode))
		error_set(err, ERROR_INVALID, "dataset %s is not a regular file", s->path);
	else
		return fd;
	close(fd);
	return -1;
}

static bool saved_tail_matches(const scanner *s, int fd)
{
	char bytes[TAIL_SIZE];
	int64_t end = s->saved.end.size;
	size_t n = end < TAIL_SIZE ? (size_t)end : TAIL_SIZE;
	digest d;
	if (read_at(fd, bytes, n, end - (int64_t)n) != (ssize_t)n)
		return false;
	digest_of(bytes, n, &d);
	return digest_equal(&d, &s->saved.tail);
}

bool scanner__same(const scanner *s, int fd, const struct stat *st)
{
	if (!s->begun)
		return scanner__position(s) == 0;
	if (s->device != (uint64_t)st->st_dev || s->inode != (uint64_t)st->st_ino || st->st_size < scanner__position(s))
		return false;
	return s->walk != NULL ? tail_matches(&s->walk->tail, fd, scanner__position(s)) : saved_tail_matches(s, fd);
}

int scanner__reopen(const scanner *s, int *fd, error *err)
{
	struct stat st;
	error problem = {0};
	if (s->problem.code != 0)
		return error_set(err, s->problem.code, "%s", s->problem.text);
	*fd = scanner__open(s, &st, &problem);
	if (*fd < 0)
		return error_set(err, problem.code, "%s", problem.text);
	if (scanner__same(s, *fd, &st))
		return 0;
	close(*fd);
	*fd = -1;
	return error_set(err, ERROR_CHANGED, "dataset file %s was replaced or started over", s->path);
}

/* The file is another one, or started over. */
static void begin_anew(scanner *s)
{
	if (scanner__position(s) > 0)
		s->generation++;
	scanner__drop_pass(s);
	walk_free(s->walk);
	s->walk = walk_new(s->format, s->line_max);
	memset(&s->saved, 0, sizeof s->saved);
	marks_reset(&s->marks);
}

void scanner_forget(scanner *s)
{
	begin_anew(s);
	s->more = true;
}

/* Feed in pieces that end where a mark is wanted. */
static void feed(scanner *s, const char *data, size_t len)
{
	while (len > 0) {
		int64_t at = s->walk->splitter.offset, next = marks_next(&s->marks, at);
		size_t n = next - at < (int64_t)len ? (size_t)(next - at) : len;
		walk_add(s->walk, data, n);
		if (s->walk->splitter.offset == next)
			marks_decide(&s->marks, s->walk);
		data += n;
		len -= n;
	}
}

static int read_on(scanner *s, int fd, int64_t to, error *err)
{
	int64_t total = to - s->walk->splitter.offset;
	char *data = mem_alloc(total < WALK_PIECE ? (size_t)(total > 0 ? total : 0) + 1 : WALK_PIECE);
	int code = 0;
	while (s->walk->splitter.offset < to) {
		int64_t left = to - s->walk->splitter.offset;
		ssize_t n = read_at(fd, data, left < WALK_PIECE ? (size_t)left : WALK_PIECE, s->walk->splitter.offset);
		if (n < 0)
			code = error_errno(err, errno, "dataset file %s", s->path);
		if (n <= 0)
			break; /* shorter than it was: the next look sees to that */
		feed(s, data, (size_t)n);
	}
	free(data);
	return code;
}

/* After a restore the walk is made only now that bytes have to be read. */
static int make_walk(scanner *s, int fd, error *err)
{
	if (s->walk != NULL)
		return 0;
	int code = walk_resume(&s->walk, s->format, s->line_max, &s->saved.end, fd, err);
	if (code == 0)
		s->walk->splitter.skipped = s->walk->end_skipped = s->saved.skipped;
	return code;
}

static int look_at(scanner *s, int fd, const struct stat *st, int64_t bytes_max, error *err)
{
	if (!scanner__same(s, fd, st))
		begin_anew(s);
	s->begun = true;
	s->device = (uint64_t)st->st_dev;
	s->inode = (uint64_t)st->st_ino;
	s->file_size = st->st_size;
	s->changed_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
	if (scanner__position(s) == s->file_size)
		return 0;
	int code = make_walk(s, fd, err);
	if (code == ERROR_CHANGED) {
		begin_anew(s);
		code = 0;
	}
	if (code != 0)
		return code;
	tail *before = mem_alloc(sizeof *before);
	int64_t at = s->walk->splitter.offset, left = s->file_size - at;
	*before = s->walk->tail;
	code = read_on(s, fd, left < bytes_max ? s->file_size : at + bytes_max, err);
	if (code == 0 && !tail_matches(before, fd, at))
		begin_anew(s);
	free(before);
	return code;
}

int scanner_look(scanner *s, int64_t bytes_max)
{
	struct stat st;
	error problem = {0};
	int fd = scanner__open(s, &st, &problem);
	if (fd >= 0) {
		(void)look_at(s, fd, &st, bytes_max, &problem);
		close(fd);
	}
	if (problem.code == 0 && s->walk != NULL && s->walk->splitter.bad_header)
		error_set(&problem, ERROR_LIMIT, "dataset file %s: the header line is longer than %lld bytes", s->path, (long long)s->line_max);
	s->problem = problem;
	s->looked = true;
	s->more = problem.code == 0 && scanner__position(s) < s->file_size;
	return problem.code;
}

void scanner_fail(scanner *s, const error *why)
{
	s->problem = *why;
	s->looked = true;
	s->more = false;
}

void scanner_view(const scanner *s, scan_view *out)
{
	*out = (scan_view){.looked = s->looked, .generation = s->generation, .changed_ms = s->changed_ms};
	if (s->problem.code != 0) {
		out->code = s->problem.code;
		out->error = s->problem.text;
		return;
	}
	const mark *end = scanner__end(s);
	out->more = s->more || !s->looked;
	out->end = (dataset_point){.size = end->size, .samples = end->samples, .digest = end->digest};
	out->file_size = s->file_size;
	out->waiting_bytes = s->walk != NULL ? splitter_waiting(&s->walk->splitter) : 0;
	out->skipped = skipped(s);
}
