/* A walk over the bytes of a dataset file: splitter, chain digest and the last bytes seen, kept in step. Internal to this folder.
 *
 * A mark is the end of a sample: how many bytes and samples lie before it, the chain digest of those bytes, and the digest of the whole
 * blocks among them. With the latter a walk can begin there by reading at most one block again, and it checks that the file still holds
 * what was digested then. Any thread; one owner.
 */
#ifndef EDGE_DATASET_WALK_H
#define EDGE_DATASET_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/digest.h"
#include "common/error.h"
#include "edge-agent/dataset/splitter.h"

enum { TAIL_SIZE = 4096, WALK_PIECE = 256 * 1024 };

typedef struct mark {
	int64_t size, samples;
	digest digest; /* chain of the first `size` bytes; zeros for size 0 */
	digest block;  /* chain of the whole blocks among them */
} mark;

typedef struct tail { /* the last bytes before a position */
	size_t n;         /* min(TAIL_SIZE, position) once filled */
	char bytes[TAIL_SIZE];
} tail;

typedef struct walk {
	splitter splitter; /* its offset is the walk's position */
	chain *chain;      /* there */
	tail tail;         /* before that position */
	mark end;          /* the last sample that ended */
	tail end_tail;
	int64_t end_skipped; /* splitter.skipped there */
} walk;

/* At the beginning of a file. */
walk *walk_new(enum dataset_format format, int64_t line_max);
void walk_free(walk *w);
/* At a mark of the open file. CHANGED if the file does not hold what the mark says. */
int walk_resume(walk **out, enum dataset_format format, int64_t line_max, const mark *from, int fd, error *err);
/* The next bytes. */
void walk_add(walk *w, const char *data, size_t len);
/* Read on to `to`, no further. CHANGED if the file ends before; TIMEOUT once *stop (may be NULL) is true. */
int walk_read_to(walk *w, int fd, int64_t to, const atomic_bool *stop, error *err);

void tail_add(tail *t, const char *data, size_t len);
/* True if the bytes of the file before byte `at` are those. */
bool tail_matches(const tail *t, int fd, int64_t at);

/* pread until len bytes or the end of the file; -1 with errno. */
ssize_t read_at(int fd, void *data, size_t len, int64_t offset);
/* True if `stop` is set; fills err then. */
bool stopped(const atomic_bool *stop, error *err);

#endif
