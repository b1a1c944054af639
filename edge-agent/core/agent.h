/* The edge agent's core: all that decides on a device, for all its jobs and datasets. Pure: no I/O, no threads, no clock.
 *
 * The shell feeds it what happens (messages, posts, looks at files, results of actions) with a reading of the clocks, then asks for the next
 * action until there is none, performs each and says how it went:
 *
 *     feed → while (edge_agent_next(a, now, &action)) perform(action) … edge_agent_done(a, action.id, result, now) → timer at edge_agent_wake()
 *
 * Rules that hold everywhere:
 * - What must last goes out as EDGE_COMMIT, one for all that one turn brought, and takes effect only when that is done. A failed commit is
 *   tried again with back-off; nothing that depends on it goes out before.
 * - At most one file action (LOCATE, MEASURE, LOOK, WRITE, WRITE_EVAL, DEPLOY) per job is under way; its result is judged against what is
 *   then true, so a job may be gone, moved on or made again meanwhile.
 * - Nothing depends on a remembered sequence: after a crash between any two actions the same inputs lead on from what is stored.
 * - All urls are those of the documents; the shell adds the prefix of the node's root.
 * Rule numbers in comments of the .c files are those of docs/protocol.md.
 */
#ifndef EDGE_CORE_AGENT_H
#define EDGE_CORE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/moment.h"
#include "edge-agent/core/record.h"
#include "proto/document.h"
#include "proto/topic.h"
#include "proto/worker.h"

typedef struct edge_config {
	const char *node, *root, *version;
	const char *session; /* random, new at each start of the agent */
	const char **capabilities;
	size_t n_capabilities;
	uint64_t seed;                          /* of the jitter */
	bool check_on_arrival;                  /* look at the train trigger at once when samples arrive, not only every checkPeriodSeconds */
	int64_t retry_min_ms, retry_max_ms;     /* outbox: 2 s, 10 min */
	int64_t problem_min_ms, problem_max_ms; /* a file action or commit that failed: 1 s, 5 min */
	int64_t result_grace_ms;                /* 60 s from the first document that says that the worker has ended */
	int64_t status_interval_ms;             /* at most one dataset status (and stats message) in this time: 5 s */
	int64_t round_bytes_max;                /* 1 GiB */
	size_t provisional_max, provisional_bytes_max; /* 64, 4 MiB */
	int64_t provisional_ms;                        /* 24 h of uptime */
	size_t jobs_max, datasets_max;                 /* 1024, 256: more are refused, visibly */
	bool keep_credentials;                         /* EDGE_KEEP is asked for; else they are held in memory alone */
	size_t posts_max;                              /* worker posts waiting for their commit: 64; more get 503 */
} edge_config;
/* The defaults above; node, session, seed, version are the caller's. */
void edge_config_init(edge_config *c);

typedef struct edge_agent edge_agent;

/* Copies what it needs from config. Then edge_agent_restore_* with what the store holds, then edge_agent_start. */
edge_agent *edge_agent_new(const edge_config *config);
void edge_agent_free(edge_agent *a);
void edge_agent_restore_meta(edge_agent *a, const store_meta *meta);              /* copied */
void edge_agent_restore_job(edge_agent *a, record *r);                            /* taken */
void edge_agent_restore_dataset(edge_agent *a, const char *document, size_t len); /* a dataset_doc; unreadable ones are dropped, logged */
void edge_agent_restore_provisional(edge_agent *a, const provisional *p);         /* copied */
/* What EDGE_KEEP gave last; the caller overwrites it. What cannot be read is left out, logged. */
void edge_agent_restore_credentials(edge_agent *a, const char *text, size_t len);
void edge_agent_start(edge_agent *a, moment now);

/* ---- what happens ---- */

/* The link is up (each connect) or down. Up: the birth goes out, and all that is unsettled again. */
void edge_agent_link(edge_agent *a, bool up, moment now);
/* The link is up over TLS, with the broker's certificate verified: only then credentials are asked for. Before edge_agent_link; false at first. */
void edge_agent_secure(edge_agent *a, bool secure);
/* The link takes a further message of any size, or none at present: nothing is published until it does. Taken as true before the first call. */
void edge_agent_room(edge_agent *a, bool room);
/* A message of this node's subscription. Malformed ones are counted and reported as an error text for the log; nothing else happens. */
int edge_agent_message(edge_agent *a, const char *topic, const void *payload, size_t len, moment now, error *err);

/* The same, of a message with correlation data: an answer to EDGE_ASK. No error text holds a part of a key. */
int edge_agent_response(edge_agent *a, const char *topic, const void *payload, size_t len, bool retained, const void *correlation,
	size_t correlation_len, moment now, error *err);

/* A worker's post, decoded (taken by the core, freed there). EDGE_REPLY with this id follows, at once or after a commit. */
void edge_agent_post(edge_agent *a, uint64_t id, worker_post *body, moment now);
/* The connection of that post is gone: no reply is needed. What it brought may still be stored. */
void edge_agent_post_gone(edge_agent *a, uint64_t id);

/* What a look at a dataset file found. */
typedef struct dataset_view {
	bool looked;           /* false: not looked yet; nothing is decided */
	int64_t generation;    /* grows when the file was replaced or started over; never the same for another content */
	int64_t samples, size; /* in the file, up to the last terminated sample */
	int64_t waiting_bytes, skipped;
	int64_t changed_ms; /* unix time of the last change seen; 0: none */
	const char *error;  /* NULL: none; else no samples are taken */
} dataset_view;
/* For the file that edge_agent_watch lists. Copied. */
void edge_agent_dataset(edge_agent *a, const char *url, enum dataset_format format, const dataset_view *view, moment now);

/* The files to watch, i from 0 until it returns false. A file that two jobs share is listed once. Valid until the next call into the core. */
bool edge_agent_watch(const edge_agent *a, size_t i, const char **url, enum dataset_format *format);

/* The output folders of all jobs, likewise; "" for a job of which there is no document. */
bool edge_agent_output(const edge_agent *a, size_t i, const char **url);

/* ---- what to do ---- */

enum edge_action_kind {
	EDGE_COMMIT,     /* all changes in one transaction, durable */
	EDGE_REPLY,      /* to a worker's post */
	EDGE_PUBLISH,    /* QoS 1; no result is awaited */
	EDGE_ASK,        /* a request for credentials: QoS 0, not retained, no result is awaited */
	EDGE_KEEP,       /* credentials over a restart: durable, readable by nobody else */
	EDGE_LOCATE,     /* does the file begin as the cursor says? */
	EDGE_MEASURE,    /* which samples would a round take that begins there? */
	EDGE_LOOK,       /* the manifest of a round's folder */
	EDGE_WRITE,      /* a round's folder, write once (protocol rule 7) */
	EDGE_WRITE_EVAL, /* the eval data of a round */
	EDGE_DEPLOY,     /* the copies of a deployment */
};

enum edge_change_kind {
	CHANGE_PUT_JOB,          /* record: document, state and all rows; replaces what the store has for its uid, which is base */
	CHANGE_DROP_JOB,         /* uid: record, rows */
	CHANGE_PUT_META,         /* meta */
	CHANGE_PUT_DATASET,      /* uid, text (the document) */
	CHANGE_DROP_DATASET,     /* uid */
	CHANGE_PUT_PROVISIONAL,  /* provisional */
	CHANGE_DROP_PROVISIONAL, /* provisional: what it is unique by */
};

typedef struct edge_change {
	enum edge_change_kind kind;
	const char *uid;
	const char *text;
	const record *record;
	const record *base; /* PUT_JOB: as last committed, so that what is the same need not be written; NULL: nothing is stored */
	const store_meta *meta;
	const provisional *provisional;
} edge_change;

typedef struct edge_action {
	enum edge_action_kind kind;
	uint64_t id; /* for edge_agent_done; REPLY, PUBLISH and ASK need none */
	union {
		struct {
			const edge_change *changes;
			size_t n;
		} commit;
		struct {
			uint64_t post;
			int status; /* HTTP */
			const char *message;
		} reply;
		struct {
			const char *topic, *payload;
			bool retained;
		} publish;
		struct {
			const char *topic, *payload, *response_topic;
			const void *correlation;
			size_t correlation_len;
		} ask;
		struct {
			const char *text; /* for edge_agent_restore_credentials; NULL: nothing is to be kept, nor left there */
		} keep;
		struct { /* LOCATE and MEASURE */
			const char *url;
			enum dataset_format format;
			cursor cursor;
			int64_t line, offset; /* MEASURE: what LOCATE answered */
			int64_t bytes_max;    /* MEASURE: 0: no limit */
		} sample;
		struct { /* LOOK, WRITE, WRITE_EVAL */
			const char *uid, *output_dir, *url;
			int64_t round;
			enum dataset_format format;
			double train_prob;
			allocation alloc;     /* WRITE */
			int64_t line, offset; /* WRITE: where alloc.begin is in the file */
			bool may_move_aside;  /* WRITE: a folder of another uid or beginning may be moved aside (only at Train/Waiting) */
		} round;
		struct {
			const char *uid, *ns, *job, *output_dir;
			int64_t round;
			const deploy_copy *copies;
			size_t n;
			bool hot;
			const char *metrics; /* of the new model, JSON; NULL: none. For those who read what is kept */
			bool back;           /* a rollback: the model is that of version `of`, and has to have this digest (else CHANGED) */
			int64_t of;
			digest of_sha256;
		} deploy;
	};
} edge_action;

/* The next thing to do, or false. What it points to is valid until edge_agent_done for its id, or the next call of edge_agent_next for
 * actions without a result. */
bool edge_agent_next(edge_agent *a, moment now, edge_action *out);
/* When to ask again if nothing happens before: monotonic milliseconds, MOMENT_NEVER, or 0 (at once: something was fed since). */
int64_t edge_agent_wake(const edge_agent *a);

typedef struct edge_manifest { /* the part of a round's manifest that decides */
	char uid[TEXT_MAX_UID + 1];
	int64_t round;
	sample_range range;
	cursor begin;
} edge_manifest;

typedef struct edge_version { /* a model that was deployed and is kept as {outputDir}/deployed/{round}/{name} */
	int64_t round;
	const char *name;
	digest sha256;
} edge_version;

typedef struct edge_result {
	int code;         /* 0 or a negative error_code. CHANGED: the file is not what it was; NOT_FOUND: a source is not there */
	const char *text; /* of the error; NULL: none */
	union {
		struct {                  /* LOCATE */
			int64_t generation;   /* of the file that was looked at */
			bool matched;         /* else all of the file is new: line and offset are 0 */
			int64_t line, offset; /* samples and bytes in the file before the cursor */
		} locate;
		struct { /* MEASURE */
			int64_t generation;
			cursor end; /* end.sample counts on from cursor.sample */
		} measure;
		struct { /* LOOK: found; WRITE: always, the manifest that is now in place, its own or an adopted one */
			bool found;
			edge_manifest manifest;
		} round;
		struct { /* WRITE_EVAL */
			int64_t samples;
		} eval;
		struct {                          /* DEPLOY */
			digest sha256;                /* of the model at the first copy's target */
			const edge_version *versions; /* what is kept now, newest first */
			size_t n_versions;
		} deploy;
	};
} edge_result;
void edge_agent_done(edge_agent *a, uint64_t id, const edge_result *result, moment now);

/* The will to connect with: topic and payload, to be freed. */
void edge_agent_will(const edge_agent *a, char **topic, char **payload);
/* A last presence before a clean stop. */
void edge_agent_farewell(const edge_agent *a, char **topic, char **payload);

/* ---- credentials, for who reads or writes an object store ---- */

enum credential_state {
	CREDENTIAL_NONE,    /* nothing says that this url needs any */
	CREDENTIAL_AWAITED, /* it does, and they are not here yet */
	CREDENTIAL_HELD,
};
typedef struct credential_keys { /* the core's, until the next call into it */
	const char *version;
	const char *endpoint; /* http(s)://host[:port]; NULL: the Secret does not say */
	const char *access_key_id, *secret_access_key;
	bool newest; /* false: the Secret has been changed, and the new ones are not here yet */
} credential_keys;
/* Whose keys a url needs: those of the longest url that is it or is above it, of the documents of this job or dataset (uid NULL: of all). */
enum credential_state edge_agent_credential_for(const edge_agent *a, const char *uid, const char *url, credential_keys *out);

/* Another number whenever keys came or were replaced. */
uint64_t edge_agent_credentials_serial(const edge_agent *a);

/* ---- to be seen ---- */

typedef struct edge_counters {
	int64_t jobs, datasets, unsettled, provisional, credentials_wanted, credentials_held; /* gauges */
	int64_t inferences, hard_examples;
	int64_t published, settled, commits, commit_failures; /* since start */
	int64_t messages, messages_refused, posts, posts_refused, posts_stored;
	int64_t messages_ignored; /* well-formed, but old news or not for this store (yet) */
	int64_t credentials_asked, credentials_refused;
	int64_t rounds_written, rounds_adopted, deployments, action_failures;
} edge_counters;
void edge_agent_counters(const edge_agent *a, edge_counters *out);

/* For the simulator's invariants and for debugging: the stored record of a job, or NULL. */
const record *edge_agent_record(const edge_agent *a, const char *uid);
/* True once an inventory has named this session. */
bool edge_agent_in_session(const edge_agent *a);

#endif
