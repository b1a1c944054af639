/* What the store holds: the durable facts of one job on this node, of the store itself, and of results that came too early.
 *
 * A record is immutable once made: the core proposes a new one, the shell commits it (EDGE_COMMIT), and only then does it take effect. So
 * what the core believes is never ahead of the disk. Waiting samples are not listed anywhere: they are the range of the dataset file from
 * the cursor to its end. Pure; a record owns its arena.
 */
#ifndef EDGE_CORE_RECORD_H
#define EDGE_CORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/mem.h"
#include "proto/document.h"
#include "proto/worker.h"

enum { RECORD_MAX_ROWS = 32 };

/* The samples taken for a round: committed before the folder is written; replaced by the manifest's range once the folder is there. */
typedef struct allocation {
	int64_t round;
	sample_range range;
	cursor begin; /* where the range starts in the file: begin.sample == range.from */
	bool written; /* the folder is in place and `range` is its manifest's */
} allocation;

/* One report. Unique by (position.round, position.stage, what). */
typedef struct outbox_row {
	position position;
	enum report_what what;
	int64_t seq;
	bool settled;       /* a document has shown this position or a later one: stop repeating. Says nothing about acceptance. */
	int64_t from;       /* train ready: first sample of its range; deploy: version that it goes back to, -1 if to none; else -1 */
	const char *reason; /* failed, or completed with a reason; else NULL */
	const char *payload;
} outbox_row;

typedef struct record_document record_document;

typedef struct record {
	arena *mem;
	record_document *shared; /* owns the next two; shared by the copies of a record, never changed */
	const char *document;    /* the newest desired document, as it came */
	desired *desired;        /* the same, decoded */
	bool has_base;           /* first-sample: end — where this job began to read */
	cursor base;
	bool has_alloc; /* of the present round only */
	allocation alloc;
	int64_t removed;  /* samples that left the file before a round took them */
	outbox_row *rows; /* present round and the one before (and later ones, after a cluster was restored) */
	size_t n_rows;
} record;

record *record_new(void); /* empty, with its arena */
record *record_copy(const record *r);
void record_free(record *r);
const outbox_row *record_row(const record *r, int64_t round, enum stage stage, enum report_what what); /* NULL: none */

/* The job's state beside document and rows as a JSON text, and back: a column of the store. */
char *record_state_encode(const record *r);
int record_state_decode(record *r, const char *text, error *err);
/* Put the document in and decode it. */
int record_set_document(record *r, const char *text, size_t len, error *err);

/* The store itself. */
typedef struct store_meta {
	char node[NAME_MAX_NAME + 1];
	char store[33];  /* random hex id, made when the store was made */
	int64_t seq;     /* last one given out */
	bool confirmed;  /* an inventory that answered a birth of this store has been seen: until then no job is accepted */
	stamp inventory; /* of the newest inventory seen; {0,0}: none */
	char **jobs;     /* uids that it listed */
	size_t n_jobs;
	char **datasets;
	size_t n_datasets;
} store_meta;
void store_meta_fini(store_meta *m);

/* A well-formed result of a worker that no document expects yet. Unique by (worker, ns, job, kind): what a name
 * alone says of a worker that nobody knows is only what was posted. */
typedef struct provisional {
	char *worker, *ns, *job;
	enum post_kind kind; /* the body's; not set when the store gives it back */
	char *body;          /* as worker_post_encode gives it */
	int64_t uptime_ms;   /* how long it has been kept, counted while the agent runs */
} provisional;
bool provisional_same(const provisional *a, const provisional *b); /* of one key */

#endif
