/* A small cloud and its workers around a bench: it takes reports as the protocol's table says, moves the job's position, answers births, and
 * runs at most one pod a stage. Enough to drive whole rounds; the simulator has the real one. */
#ifndef TESTS_UNIT_EDGE_CLOUD_H
#define TESTS_UNIT_EDGE_CLOUD_H

#include "tests/unit/edge_harness.h"

enum { CLOUD_ROUNDS = 64 };

typedef struct cloud {
	bench *b;
	position present;
	bool worker_ended;
	bool has_cursor;
	cursor cursor;
	sample_range ready;                 /* of the accepted train `ready` */
	sample_range trained[CLOUD_ROUNDS]; /* by round, with .to > 0 if its training completed */
	char deployed[TEXT_MAX_URL + 1];
	int refused;               /* rounds whose model was not better */
	int failures;              /* stages that failed */
	int pods[CLOUD_ROUNDS][3]; /* made for (round, stage) */
	bool pod_runs;
	position pod;  /* whose it is */
	uint64_t post; /* of the pod that runs; 0: to be made */
	size_t heard;  /* messages read from the bench */
	bool dirty;
	int answers; /* births answered */
	bool deaf;   /* messages do not arrive */
} cloud;

void cloud_init(cloud *c, bench *b);
/* What can happen now: messages both ways, pods, workers. */
void cloud_step(cloud *c);
/* Until the job stands at Train/Waiting of `round` and nothing more happens; samples are appended, two for each round. Fails the test if it
 * takes more than a day. */
void cloud_run(cloud *c, int64_t round);
/* What must hold in the end, whatever went wrong: guarantees 1, 2 and 3 as far as one device sees them. */
void cloud_check(const cloud *c);

#endif
