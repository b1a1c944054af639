/* The few positions of a dataset file that a scanner remembers, most recently used first. Internal to this folder. Pure.
 *
 * A mark is wanted (size and digest are known from a cursor, the file was not read up to there), holds (the file was found to begin so), or
 * is refuted. A new generation of the file makes all of them wanted again.
 */
#ifndef EDGE_DATASET_MARKS_H
#define EDGE_DATASET_MARKS_H

#include "edge-agent/dataset/walk.h"

enum { MARKS_MAX = 12 };

enum mark_state { MARK_WANTED, MARK_HOLDS, MARK_REFUTED };

typedef struct marks {
	size_t n;
	struct {
		enum mark_state state;
		mark mark; /* samples and block only if it holds */
	} at[MARKS_MAX];
} marks;

/* Bring the mark of that size and digest to the front, at[0]; added as wanted, in place of the last one, if there is none. */
void marks_want(marks *m, int64_t size, const digest *d);
/* A mark that is known to hold. */
void marks_add(marks *m, const mark *known);
/* The largest mark that holds and is not after `size`; NULL if there is none. */
const mark *marks_before(const marks *m, int64_t size);
/* The smallest wanted size after `at`; INT64_MAX if there is none. */
int64_t marks_next(const marks *m, int64_t at);
/* The walk stands at a wanted size: decide those marks. */
void marks_decide(marks *m, const walk *w);
void marks_reset(marks *m);

#endif
