/* A device in memory around the edge agent's core: store, dataset file, folders, models, and what was published and answered.
 *
 * A bench performs every action at once unless it is told to fail or hold it. It keeps what was committed apart from the agent, so that
 * bench_restart can end the agent at any moment and begin another one from the store, with a new session and an unchanged world.
 * Samples are 10 bytes each; a file's prefix is known by (version of the content, size).
 */
#ifndef TESTS_UNIT_EDGE_HARNESS_H
#define TESTS_UNIT_EDGE_HARNESS_H

#include "tests/unit/unit.h"

#include "edge-agent/core/agent.h"

enum { BENCH_MAX = 256, SAMPLE_BYTES = 10, ACTION_KINDS = EDGE_DEPLOY + 1 };

#define NODE "edge-1"
#define U1 "uid-1"
#define U2 "uid-2"
#define URL "/data/ds.txt"
#define OUT "/out"

typedef struct said { /* a message that was published */
	char *topic, *payload;
	bool retained;
} said;

typedef struct folder { /* a round's folder */
	char output_dir[64];
	int64_t round;
	edge_manifest manifest;
	int written;      /* times that it was written */
	bool moved_aside; /* no longer in place */
} folder;

typedef struct held { /* an action that the bench was told not to end */
	edge_action action;
	bool ended;
} held;

typedef struct bench {
	edge_config config;
	edge_agent *agent;
	moment now;
	int sessions;
	char session[24];

	/* the store */
	store_meta meta;
	record *jobs[BENCH_MAX];
	size_t n_jobs;
	char *dataset_uids[BENCH_MAX], *datasets[BENCH_MAX];
	size_t n_datasets;
	provisional kept[BENCH_MAX];
	size_t n_kept;
	int commits;

	/* the world */
	int64_t generation, version, samples, changed_ms; /* of the dataset file */
	const char *file_error;
	bool watched, blind; /* blind: the file is looked at when the test says so, not when the agent begins to watch it */
	folder folders[BENCH_MAX];
	size_t n_folders;
	int evals;                       /* times that eval data was written */
	char in_place[TEXT_MAX_URL + 1]; /* the model at the deploy Model's url: where it came from */
	int copies;                      /* deployments made */
	bool back;                       /* the last one asked for was a rollback, to this: */
	int64_t of;
	digest of_sha256;
	edge_version versions[20]; /* that a deployment finds kept */
	size_t n_versions;

	/* the link */
	bool linked;
	stamp stamp;
	said out[4 * BENCH_MAX];
	size_t n_out;

	struct { /* the last question for credentials */
		int n;
		char *topic, *payload, *response_topic;
		unsigned char correlation[64];
		size_t correlation_len;
	} question;
	char *keys_kept; /* what the shell was to keep; it is given back after a restart */
	int keeps;

	/* the workers */
	uint64_t next_post;
	int replies[BENCH_MAX]; /* by post id; 0: none yet */

	/* what goes wrong */
	int fail_code[ACTION_KINDS]; /* with fail_count: the next ones fail so */
	int fail_count[ACTION_KINDS];
	bool hold[ACTION_KINDS];
	held held[BENCH_MAX];
	size_t n_held;
	int asked[ACTION_KINDS]; /* how often each kind of action was asked for */
	int steps, crash_at;     /* crash_at: end the agent at this step; 0: never */
	bool crash_before;       /* before the step is performed, else between performing and edge_agent_done */
	bool fault_store;        /* and the store is lost */
	bool fault_commit;       /* no crash: from that step on the next three commits fail */
	edge_action last;
} bench;

void bench_init(bench *b); /* an agent with a new store, started, link down */
void bench_init_with(bench *b, void (*change)(edge_config *c));
void bench_fini(bench *b);
void bench_restart(bench *b);           /* as after kill -9; the link comes up again if it was up */
void bench_lose_store(bench *b);        /* then restart */
void bench_turn(bench *b);              /* everything that there is to do now */
void bench_sleep(bench *b, int64_t ms); /* time passes, turns at the agent's own wake times */
/* The next deadline: milliseconds from now, or -1 for never. */
int64_t bench_wake(bench *b);
void bench_end_held(bench *b, size_t i, int code); /* perform and end a held action now */

/* ---- the cloud ---- */

/* A document for job "job" in namespace "ns" on this node, all four roles, URL, OUT, train trigger num_of_samples >= 1, deploy trigger
 * acc_delta > 0. Models live in static memory; change what a test needs, then bench_send. */
desired bench_desired(const char *uid, int64_t round, enum stage stage, enum phase phase);
void bench_send(bench *b, desired *d);             /* with a new stamp, then a turn */
void bench_send_at(bench *b, desired *d, stamp s); /* no turn */
/* session NULL: of this agent. jobs: uids, ended by NULL. With a new stamp, no turn. */
void bench_inventory(bench *b, const char *session, const char *first, ...) __attribute__((sentinel));
void bench_inventory_at(bench *b, stamp s, const char *session, const char *uid);
void bench_dataset_doc(bench *b, const char *uid, const char *name, const char *url);
stamp bench_stamp(bench *b);
/* Link up, birth answered by an inventory that lists U1; so documents are accepted and are of this session. */
void bench_ready(bench *b);
int bench_message(bench *b, const char *to, const char *payload);

/* ---- the dataset ---- */

void bench_append(bench *b, int64_t n); /* and told to the agent */
void bench_replace(bench *b, int64_t n);
void bench_view(bench *b); /* tell the agent what the file is like */
cursor bench_cursor(const bench *b, int64_t sample, int64_t line);

/* ---- workers ---- */

uint64_t bench_post(bench *b, enum post_kind kind, enum post_status status, const char *worker); /* no turn */
uint64_t bench_post_of(bench *b, enum post_kind kind, enum post_status status, const char *worker, const char *job);
void bench_worker(enum worker_kind kind, const char *uid, int64_t round, char out[WORKER_NAME_SIZE]);
int bench_completed(bench *b, enum worker_kind kind, int64_t round); /* of U1: post, turn, answer */

/* ---- looking ---- */

const outbox_row *bench_row(const bench *b, int64_t round, enum stage stage, enum report_what what); /* of U1, as stored */
const record *bench_job(const bench *b, const char *uid);                                            /* as stored */
void bench_quiet(bench *b);                                                                          /* forget what was published */
int bench_said(const bench *b, const char *topic_end); /* how many messages on topics that end so */
const said *bench_last(const bench *b, const char *topic_end);
report *bench_report(const bench *b, int64_t round, enum stage stage, enum report_what what); /* decoded; to be freed */
const folder *bench_folder(const bench *b, int64_t round);

#endif
