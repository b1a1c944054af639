/* What scanner.c, locate.c and round.c share. */
#ifndef EDGE_DATASET_SCANNER_INTERNAL_H
#define EDGE_DATASET_SCANNER_INTERNAL_H

#include <sys/stat.h>

#include "edge-agent/dataset/marks.h"
#include "edge-agent/dataset/scanner.h"
#include "edge-agent/dataset/walk.h"

/* Where the file was read up to is either `walk`, or, after a restore and until more must be read, `saved` alone. */
struct scanner {
	char *path, *root;
	char *file; /* NULL: found by path and root */
	enum dataset_format format;
	int64_t line_max;

	bool begun; /* a file was seen: device and inode are its */
	uint64_t device, inode;
	int64_t generation;
	walk *walk;
	struct {
		mark end;
		int64_t skipped, header_from, header_to;
		digest tail; /* SHA-256 of the last min(4096, end.size) bytes before end */
	} saved;
	marks marks;

	bool looked, more;
	int64_t file_size, changed_ms;
	error problem; /* of the last look; code 0: none */

	walk *pass; /* locating: a second walk, up to pass_to */
	int64_t pass_to;
};

const mark *scanner__end(const scanner *s);
/* Read position: how many bytes of the file are known. */
int64_t scanner__position(const scanner *s);
/* Open the file; it must be a regular one. Returns the descriptor, or -1 with err filled. */
int scanner__open(const scanner *s, struct stat *st, error *err);
/* True if the open file is the one that was read, longer perhaps. */
bool scanner__same(const scanner *s, int fd, const struct stat *st);
/* Open the file for reading again what is known of it: errors of the view, CHANGED if it is not the same. */
int scanner__reopen(const scanner *s, int *fd, error *err);
/* A walk that stands at the sample end (size, samples); at the nearest known place before it first. CHANGED if there is no such place. */
int scanner__walk_to(const scanner *s, int fd, int64_t size, int64_t samples, const atomic_bool *stop, walk **out, error *err);
/* The bytes of the csv header; both 0 for txt. */
void scanner__header(const scanner *s, int64_t *from, int64_t *to);
void scanner__drop_pass(scanner *s);

#endif
