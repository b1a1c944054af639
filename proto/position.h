/* Where a job stands: (round, stage, phase), totally ordered.
 *
 * Rounds count from 1; round 0 is "before the first". Stages Train < Eval < Deploy; phases Waiting < Ready < Starting < Running < the end,
 * which is Completed or Failed (same rank: the first that is stored stays). Only the cloud agent moves a job, and only forward. Pure.
 */
#ifndef PROTO_POSITION_H
#define PROTO_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#define STAGE_MAP(X)                                                                                                                       \
	X(TRAIN, "Train", "train")                                                                                                             \
	X(EVAL, "Eval", "eval")                                                                                                                \
	X(DEPLOY, "Deploy", "deploy")
#define PHASE_MAP(X)                                                                                                                       \
	X(WAITING, "Waiting", 0)                                                                                                               \
	X(READY, "Ready", 1)                                                                                                                   \
	X(STARTING, "Starting", 2)                                                                                                             \
	X(RUNNING, "Running", 3)                                                                                                               \
	X(COMPLETED, "Completed", 4)                                                                                                           \
	X(FAILED, "Failed", 4)

enum stage {
#define X(id, name, word) STAGE_##id,
	STAGE_MAP(X)
#undef X
};
enum phase {
#define X(id, name, rank) PHASE_##id,
	PHASE_MAP(X)
#undef X
};

typedef struct position {
	int64_t round;
	enum stage stage;
	enum phase phase;
} position;

const char *stage_name(enum stage s); /* "Train": in documents and conditions */
const char *stage_word(enum stage s); /* "train": in topics, worker names, labels */
const char *phase_name(enum phase p);
bool stage_parse(const char *name, enum stage *out);
bool stage_parse_word(const char *word, enum stage *out);
bool phase_parse(const char *name, enum phase *out);
int phase_rank(enum phase p);
bool phase_ended(enum phase p);

/* <0, 0, >0 as for strcmp; Completed and Failed compare equal. */
int position_compare(position a, position b);
/* The stage that a position is in has ended, or a later one has begun: (round, stage) is over. */
bool position_over(position present, int64_t round, enum stage stage);
/* "12/Train/Waiting" */
void position_format(position p, char out[48]);

#endif
