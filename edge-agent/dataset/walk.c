/* See walk.h. The chain is hashed in as few pieces as possible: per call once up to the last sample that ended, and once for the rest. */
#include "edge-agent/dataset/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

ssize_t read_at(int fd, void *data, size_t len, int64_t offset)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = pread(fd, (char *)data + done, len - done, (off_t)(offset + (int64_t)done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

bool stopped(const atomic_bool *stop, error *err)
{
	if (stop == NULL || !atomic_load(stop))
		return false;
	error_set(err, ERROR_TIMEOUT, "stopped on request");
	return true;
}

void tail_add(tail *t, const char *data, size_t len)
{
	if (len >= TAIL_SIZE) {
		memcpy(t->bytes, data + len - TAIL_SIZE, TAIL_SIZE);
		t->n = TAIL_SIZE;
		return;
	}
	size_t keep = t->n + len > TAIL_SIZE ? TAIL_SIZE - len : t->n;
	memmove(t->bytes, t->bytes + t->n - keep, keep);
	memcpy(t->bytes + keep, data, len);
	t->n = keep + len;
}

bool tail_matches(const tail *t, int fd, int64_t at)
{
	char bytes[TAIL_SIZE];
	return read_at(fd, bytes, t->n, at - (int64_t)t->n) == (ssize_t)t->n && memcmp(bytes, t->bytes, t->n) == 0;
}

walk *walk_new(enum dataset_format format, int64_t line_max)
{
	walk *w = mem_alloc(sizeof *w);
	splitter_start(&w->splitter, format, line_max);
	w->chain = chain_new();
	return w;
}

void walk_free(walk *w)
{
	if (w == NULL)
		return;
	chain_free(w->chain);
	free(w);
}

/* Bring the chain from the mark's last whole block to the mark, and the tail with it. */
static int chain_catch_up(walk *w, const mark *from, int fd, error *err)
{
	int64_t whole = from->size / CHAIN_BLOCK * CHAIN_BLOCK;
	int64_t before = whole > TAIL_SIZE ? whole - TAIL_SIZE : 0; /* so that the tail is full */
	size_t len = (size_t)(from->size - before);
	char *data = mem_alloc(len + 1);
	ssize_t n = read_at(fd, data, len, before);
	int code = 0;
	if (n < 0) {
		code = error_errno(err, errno, "reading the dataset");
	} else if ((size_t)n < len) {
		code = error_set(err, ERROR_CHANGED, "the dataset file became shorter while it was read");
	} else {
		chain_resume(w->chain, (uint64_t)(from->size / CHAIN_BLOCK), &from->block);
		chain_add(w->chain, data + (whole - before), (size_t)(from->size - whole));
		tail_add(&w->tail, data, len);
	}
	free(data);
	return code;
}

int walk_resume(walk **out, enum dataset_format format, int64_t line_max, const mark *from, int fd, error *err)
{
	digest now;
	walk *w = walk_new(format, line_max);
	*out = NULL;
	if (from->size > 0) {
		splitter_resume(&w->splitter, format, line_max, from->size, from->samples);
		int code = chain_catch_up(w, from, fd, err);
		if (code == 0) {
			chain_value(w->chain, &now);
			if (!digest_equal(&now, &from->digest))
				code = error_set(err, ERROR_CHANGED, "the dataset file was changed before byte %lld", (long long)from->size);
		}
		if (code != 0) {
			walk_free(w);
			return code;
		}
		w->end = *from;
		w->end_tail = w->tail;
	}
	*out = w;
	return 0;
}

void walk_add(walk *w, const char *data, size_t len)
{
	size_t done = 0, last = 0, used;
	while (done < len && splitter_next(&w->splitter, data + done, len - done, &used)) {
		done += used;
		last = done;
		w->end.size = w->splitter.offset;
		w->end_skipped = w->splitter.skipped;
	}
	if (last > 0) {
		uint64_t blocks;
		chain_add(w->chain, data, last);
		chain_value(w->chain, &w->end.digest);
		chain_boundary(w->chain, &blocks, &w->end.block);
		w->end.samples = w->splitter.samples;
		tail_add(&w->tail, data, last);
		w->end_tail = w->tail;
	}
	chain_add(w->chain, data + last, len - last);
	tail_add(&w->tail, data + last, len - last);
}

int walk_read_to(walk *w, int fd, int64_t to, const atomic_bool *stop, error *err)
{
	int64_t total = to - w->splitter.offset;
	char *data = mem_alloc(total < WALK_PIECE ? (size_t)(total > 0 ? total : 0) + 1 : WALK_PIECE);
	int code = 0;
	while (code == 0 && w->splitter.offset < to) {
		int64_t left = to - w->splitter.offset;
		size_t len = left < WALK_PIECE ? (size_t)left : WALK_PIECE;
		ssize_t n = read_at(fd, data, len, w->splitter.offset);
		if (n < 0)
			code = error_errno(err, errno, "reading the dataset");
		else if ((size_t)n < len)
			code = error_set(err, ERROR_CHANGED, "the dataset file became shorter while it was read");
		else
			walk_add(w, data, len);
		if (code == 0 && stopped(stop, err))
			code = ERROR_TIMEOUT;
	}
	free(data);
	return code;
}
