/* What the files of the core share: the agent, its jobs with what is remembered of them, and the way from facts to a proposal.
 *
 * Durable facts are in `record` (a job), `store_meta`, dataset documents and provisional results. All else in here is memory that a restart
 * may lose: results of actions that wait for their commit, back-offs, what was seen when. Decisions are derived anew at each turn from
 * (record, memory, now); none hangs on an event, so what failed is simply found again.
 *
 * A turn (edge_agent_next): posts are judged → replies → drafts of all jobs are made, and together become one EDGE_COMMIT → publishing →
 * file actions of the jobs that have nothing to commit. Each part that has to wait says until when (agent__wake_at); what the last part said
 * in a turn with nothing to do is the answer of edge_agent_wake.
 *
 * Functions with `__` are for the core's own files.
 */
#ifndef EDGE_CORE_AGENT_INTERNAL_H
#define EDGE_CORE_AGENT_INTERNAL_H

#include "edge-agent/core/agent.h"
#include "edge-agent/core/record_edit.h"
#include "edge-agent/core/trigger.h"

/* ---- a job ---- */

/* A file action that failed, and when the job's next one may start. */
typedef struct problem {
	enum edge_action_kind kind;
	int attempts;     /* in a row; 0: none */
	int64_t retry_at; /* mono */
	char *text;       /* shown in the dataset's status; NULL: nothing to show */
} problem;

typedef struct edge_file { /* a dataset file that is watched */
	char *url;
	enum dataset_format format;
	dataset_view view;
	char *error; /* what view.error points to */
	bool used;
} edge_file;

/* Where `asked` is in the file. `begin` is where reading goes on: asked itself, or byte 0 of a file that is new as a whole. */
typedef struct located {
	bool valid, matched;
	int64_t generation, line, offset;
	cursor asked, begin;
} located;

/* The manifest of a round's folder as last seen. */
typedef struct looked {
	bool valid, found, just_written;
	int64_t round;
	char *output_dir;
	edge_manifest manifest;
} looked;

typedef struct row_memory { /* when a report goes out again; rows are known by their seq */
	int64_t seq, due;
	int attempts;
} row_memory;

typedef struct stats_memory { /* the newest counters of the inference worker */
	infer_stats *newest;      /* owned; its arena holds the texts */
	bool dirty;
	int64_t next_at;
} stats_memory;

/* Results of file actions that wait for their commit. They belong to the position at which their action began, and go with it. */
typedef struct outcome {
	position at;   /* of evaluation and deployment: the position at which the action began */
	bool measured; /* train: what a round would take */
	cursor measured_begin, measured_end;
	bool base_measured; /* train: the end of the file, where a job with first-sample: end begins */
	cursor base_end;
	bool alloc_gone; /* train: the file no longer holds what was allocated */
	bool eval_written;
	bool eval_missing; /* the samples of the round are gone from the disk */
	bool deployed;
	digest deployed_sha256;
	arena *versions_mem; /* of the next; NULL: none */
	model_version *versions;
	size_t n_versions;
	int deploy_failed; /* error code, 0: none */
	char *deploy_error;
} outcome;

typedef struct job {
	char *uid, *ns, *name;
	uint64_t serial;           /* never the same for two jobs of one agent's life */
	record *rec;               /* as committed; NULL: nothing yet */
	record *draft;             /* in the commit under way */
	record_document *incoming; /* the newest accepted document that is not committed; NULL: none */
	bool drop, dropping;       /* to be dropped; in the commit under way */
	bool pending;              /* something of it waits for a commit: found in this turn */

	edge_file *file;
	problem problem;
	bool deploying; /* the copies of a deployment are being made */
	located located;
	looked look;        /* at Train/Waiting */
	looked result_look; /* for a train result: what the worker's folder held when it came */
	outcome outcome;

	bool check_dirty, fired; /* train trigger: something changed since the last check; it said yes */
	enum trigger_answer answered;
	int64_t check_at;
	bool deploy_outside; /* deploy trigger: wait for the window until deploy_check_at */
	int64_t deploy_check_at;

	bool seen; /* waiting samples: the number after the last one in the file, as last known */
	int64_t seen_generation, seen_end;
	int64_t removed, removed_draft; /* to be counted in the record; of these in the commit under way */

	position ended_at; /* since when a document said that the worker of this stage has ended */
	int64_t ended_since;
	int64_t loaded_round, loaded_since; /* hot update: since when the model is known to be in place */
	bool result_needs_look;             /* a train result waits for the manifest of its round */
	char *worker_failure;               /* what the present stage's worker said last about its failure */

	row_memory rows[RECORD_MAX_ROWS];
	size_t n_rows;
	stats_memory stats;
} job;

/* ---- credentials ---- */

enum { CREDENTIALS_MAX = 256 };

typedef struct credential_use { /* a job or dataset whose document names the Secret, and for which urls */
	enum credential_owner kind;
	char *name, *uid;
	char **urls;
	size_t n_urls;
} credential_use;

typedef struct credential { /* one Secret */
	char *ns, *secret;
	char *wanted; /* the version that the newest document names; NULL: there is no such Secret at present */
	char *next_wanted;
	stamp wanted_at; /* of that document */
	credential_use *uses;
	size_t n_uses;
	char *version, *endpoint, *key_id, *key; /* what is held; key NULL: nothing */
	bool asked;                              /* with this: */
	unsigned char correlation[16];
	int64_t due;              /* when it is asked for (again), if it is lacking */
	int attempts, unanswered; /* unanswered: since the last answer */
	char *refused;            /* the reason that was told last; NULL: none since it was held */
} credential;

/* ---- the rest of the agent ---- */

typedef struct dataset { /* one of dataset documents */
	char *uid, *ns, *name;
	dataset_doc *doc;   /* committed; NULL: nothing yet */
	dataset_doc *draft; /* in the commit under way */
	char *draft_text;
	dataset_doc *incoming;
	char *incoming_text;
	bool drop, dropping;
	edge_file *file;
	bool dirty; /* the status may have changed */
	bool force; /* publish it even if not: the link is new */
	int64_t next_at;
	char *published; /* the last status, without its time */
	char *trouble;   /* what was last said in the log about its file; NULL: nothing is wrong */
} dataset;

typedef struct departed { /* a dataset that left: its retained status is to be cleared */
	char *ns, *name;
	bool due;
} departed;

/* To whom a worker's name belongs, kept since finding out costs a hash per round tried. */
typedef struct worker_match {
	char uid[TEXT_MAX_UID + 1]; /* tried with this job … */
	int64_t round;              /* … at this round */
	bool found;
	int64_t worker_round;
} worker_match;

typedef struct kept { /* a provisional result */
	provisional p;
	int64_t since; /* mono, when p.uptime_ms was what it says */
	size_t bytes;
	bool putting, drop, dropping;
	worker_match match;
} kept;

typedef struct post {
	uint64_t id;
	worker_post *body;
	bool gone, keep; /* keep: to be stored as provisional */
	int status;      /* 0: waits */
	const char *message;
	worker_match match;
} post;

/* File actions at a time, of all jobs: more than the shell's threads, so that none of them waits for the core, and few enough to look through. */
enum { RUNNING_MAX = 16 };

typedef struct running { /* a file action under way; owns what the shell was given */
	arena *mem;
	uint64_t id, serial;
	enum edge_action_kind kind;
	const char *uid, *output_dir; /* output_dir: "" for actions on the dataset file alone */
	const char *url;              /* of these: which one; NULL: none of them */
	enum dataset_format format;
	position position;
	bool for_result;
	int64_t round;
	cursor cursor;
	int64_t of; /* DEPLOY: deploy__of */
} running;

typedef struct commit {
	bool active;
	uint64_t id;
	edge_change *changes;
	size_t n, cap;
	store_meta meta;
	bool has_meta;
	uint64_t meta_version;
	int64_t seq; /* last number given to a row of this proposal */
	int attempts;
	int64_t retry_at;
	char *error; /* last one logged */
} commit;

struct edge_agent {
	edge_config config;
	char *node, *root, *version, *session;
	char **capabilities;
	uint64_t random, next_id, next_serial;

	store_meta meta;      /* committed */
	store_meta meta_next; /* with the newest inventory; its seq is not used */
	uint64_t meta_version, meta_committed;
	bool in_session;
	stamp session_stamp;

	job **jobs;
	size_t n_jobs;
	dataset **datasets;
	size_t n_datasets;
	departed *departed;
	size_t n_departed;
	edge_file **files;
	size_t n_files;
	kept **kept;
	size_t n_kept;
	post *posts;
	size_t n_posts;
	running **running;
	size_t n_running;
	commit commit;

	credential **credentials;
	size_t n_credentials;
	uint64_t credentials_serial; /* grows with each that comes */
	bool secure, insecure_told;  /* secure: see edge_agent_secure */
	struct {
		bool due, active;
		uint64_t id;
		char *text; /* that the shell was given */
		int attempts;
		int64_t retry_at;
	} keep;

	bool linked, full, birth_due; /* full: the link takes no message at present */
	int64_t birth_at;             /* when an unanswered birth goes out again */
	int birth_attempts;
	char *out_topic, *out_payload, *out_response; /* of the last PUBLISH or ASK */
	bool stale;                                   /* fed since the last turn */
	int64_t wake;
	bool judged;         /* the last action was a PUBLISH, and before it there was nothing to reply or to commit … */
	int64_t judged_wake; /* … until then */
	edge_counters counters;
};

/* ---- agent.c, agent_action.c ---- */

void agent__wake_at(edge_agent *a, int64_t mono_ms);
int64_t agent__random(edge_agent *a, int64_t below); /* 0 … below - 1; below >= 1 */
/* The delay before attempt n + 1 of what failed n >= 1 times: doubling, between half and all of the step. */
int64_t agent__backoff(edge_agent *a, int attempts);
int64_t agent__period_ms(int64_t seconds);
/* EDGE_PUBLISH; takes topic and payload. */
void agent__publish(edge_agent *a, edge_action *out, char *topic_text, char *payload, bool retained);
/* Begin a file action of this job: `out` gets the id, and texts that live in the running's arena. */
running *agent__run(edge_agent *a, job *j, edge_action *out, enum edge_action_kind kind);
/* A file action on this job or its output folder is under way, also one of a job that is gone by now. */
bool agent__busy(const edge_agent *a, const job *j);
job *agent__job_by_uid(const edge_agent *a, const char *uid);
job *agent__job_by_name(const edge_agent *a, const char *ns, const char *name); /* one that is not to be dropped */

/* ---- agent_commit.c ---- */

/* Make the drafts; true: `out` is an EDGE_COMMIT. */
bool commit__gather(edge_agent *a, moment now, edge_action *out);
void commit__change(edge_agent *a, edge_change change); /* one more for the commit that is being made */
void commit__done(edge_agent *a, const edge_result *result, moment now);
void commit__fini(edge_agent *a);

/* ---- agent_files.c ---- */

/* After documents changed: what is watched, and who watches it. */
void files__refresh(edge_agent *a);
/* The dataset's samples changed, or where the job is in them. */
void files__note_seen(job *j);
void files__fini(edge_agent *a);

/* ---- agent_messages.c ---- */

job *messages__job_new(edge_agent *a, const char *uid, const char *ns, const char *name);
/* Of the newest document that was accepted. */
stamp messages__job_stamp(const job *j);
stamp messages__dataset_stamp(const dataset *d);
void messages__job_free(edge_agent *a, job *j);
dataset *messages__dataset_new(edge_agent *a, const dataset_ref *ref);
void messages__dataset_free(edge_agent *a, dataset *d);

/* ---- agent_posts.c, provisional.c, judge.c ---- */

void posts__judge(edge_agent *a, moment now);
bool posts__reply(edge_agent *a, edge_action *out);
void posts__fini(edge_agent *a);
void provisional__begin(edge_agent *a); /* before the drafts, which say which ones are used up */
/* Put what is to be stored or dropped into the commit (allowed), or only find out whether there is something. */
bool provisional__gather(edge_agent *a, moment now, bool allowed);
void provisional__committed(edge_agent *a);
void provisional__failed(edge_agent *a);
kept *provisional__find(const edge_agent *a, const worker_post *body);
void provisional__add(edge_agent *a, const provisional *p, int64_t since, bool putting);
void provisional__fini(edge_agent *a);

enum verdict {
	VERDICT_ANSWER, /* with status and message */
	VERDICT_STORE,  /* the end of the present stage: a row */
	VERDICT_LOOK,   /* the same, but the manifest has to be read first */
	VERDICT_KEEP,   /* not expected yet */
	VERDICT_WAIT,   /* a file action under way decides what it means */
};
typedef struct judgement {
	enum verdict verdict;
	int status;
	const char *message;
} judgement;
/* r NULL: no such job is known. Durable facts alone, but for result_look. */
judgement judge__result(const record *r, const job *j, enum post_kind kind, enum post_status status, const char *worker,
	worker_match *match);
/* The name is that of the job's inference worker. */
bool judge__is_inference_worker(const record *r, const char *worker, worker_match *match);

/* ---- draft.c: proposals ---- */

typedef struct draft {
	edge_agent *a;
	job *j;
	const record *base; /* committed, or NULL */
	record *next;       /* the proposal; NULL: nothing to propose */
	moment now;
} draft;

const record *draft__view(const draft *d); /* the proposal so far */
record *draft__edit(draft *d);
/* Add a row and its report: ts, node, job, store, seq and position are filled in. from: see outbox_row. */
void draft__report(draft *d, const report *rep, enum stage stage, enum report_what what, int64_t from);
void draft__fail(draft *d, enum stage stage, const char *reason, const char *message);

/* ---- job*.c ---- */

/* A proposal from record and memory, or NULL. Counts rows into commit.seq. */
record *job__draft(edge_agent *a, job *j, moment now);
/* Its draft, now j->rec, is durable; `before` is what it replaces (or NULL) and still there. */
void job__committed(edge_agent *a, job *j, const record *before, moment now);
/* The next file action. */
bool job__action(edge_agent *a, job *j, moment now, edge_action *out);
void job__result(edge_agent *a, job *j, const running *run, const edge_result *told, moment now);
void job__memory_fini(job *j);
/* Forget what belongs to a position. */
void job__outcome_clear(job *j);

bool job__has_role(const record *r, enum role role);
cursor job__cursor(const record *r); /* where the pool begins */
bool job__in_session(const edge_agent *a, const record *r);
char *job__round_url(const record *r, const char *folder, const char *file); /* {outputDir}/{folder}/{round}[/file]; to be freed */
char *job__index_url(const record *r, const char *folder); /* of the files that its samples name; to be freed; NULL: the dataset is local */
/* A problem to show without an action that failed; NULL: gone. Logged when it changes. */
void job__complain(edge_agent *a, job *j, const char *text);
/* What was in the way is over. */
void job__problem_clear(edge_agent *a, job *j);
/* The model without its metrics: all that an input needs. */
model job__input_model(const model *m);

void train__draft(draft *d);
bool train__action(edge_agent *a, job *j, moment now, edge_action *out);
void train__result(edge_agent *a, job *j, const running *run, const edge_result *result, moment now);
bool train__needs_base(const record *r);
bool train__manifest_fits(const record *r, const edge_manifest *m, int64_t sample);
void train__look(edge_agent *a, job *j, edge_action *out, bool for_result);
void looked__set(looked *l, int64_t round, const char *output_dir, const edge_manifest *manifest);
void looked__clear(looked *l);

void eval__draft(draft *d);
bool eval__action(edge_agent *a, job *j, edge_action *out);

void deploy__draft(draft *d);
bool deploy__action(edge_agent *a, job *j, edge_action *out);
bool deploy__under_way(const job *j); /* the model is being written, or its row is not stored yet */
/* The round of the version that the present deployment goes back to; -1: it goes back to none. */
int64_t deploy__of(const record *r);
void deploy__result(job *j, const running *run, const edge_result *result);
/* The worker has said whether it loaded the model, or nobody has (reason: see the protocol; NULL: it has). */
void deploy__report_end(draft *d, enum report_what what, const char *reason, const char *message);
/* Rows that say that a model is in place. */
bool deploy__says_in_place(const outbox_row *row, const void *ctx);
bool deploy__in_place(const record *r); /* the model of this round is written, as far as this node or the cluster knows */

/* Posts and provisional results that the present stage expects; then ResultsMissing. */
void result__draft(draft *d);

/* ---- outbox.c ---- */

/* Match memory to the committed rows; new ones are due at once. */
void outbox__sync(job *j, moment now);
void outbox__link_up(job *j, moment now);
/* A random time within a window that doubles with the attempts made so far. */
int64_t outbox__delay(edge_agent *a, int attempts);
bool outbox__publish(edge_agent *a, moment now, edge_action *out);

/* ---- credentials.c, credential_keep.c ---- */

/* After documents changed: what is needed. */
void credentials__refresh(edge_agent *a, moment now);
void credentials__link(edge_agent *a, moment now); /* there is another, or none */
bool credentials__ask(edge_agent *a, moment now, edge_action *out);
void credentials__count(const edge_agent *a, edge_counters *out);
void credentials__fini(edge_agent *a);
credential *credential__entry(edge_agent *a, const char *ns, const char *secret); /* NULL: there are too many */
void credential__hold(credential *c, const char *version, const char *endpoint, const char *key_id, const char *key);
void credential__wipe(char **text); /* overwrite, free, NULL */
void credential_keep__changed(edge_agent *a);
bool credential_keep__next(edge_agent *a, moment now, edge_action *out);
bool credential_keep__done(edge_agent *a, uint64_t id, const edge_result *result, moment now); /* true: it was that */
void credential_keep__fini(edge_agent *a);

/* ---- presence.c, status.c ---- */

char *presence__topic(const edge_agent *a);
char *presence__payload(const edge_agent *a, bool online, const char *ts);
bool status__publish(edge_agent *a, moment now, edge_action *out);
void status__dirty(edge_agent *a, const char *dataset_uid);
/* The dataset's row is gone; its memory is not yet. */
void status__left(edge_agent *a, const dataset *d);
/* One of this name is held (again): nothing is to be cleared. */
void status__held(edge_agent *a, const dataset *d);
void status__link_up(edge_agent *a);
void status__fini(edge_agent *a);
bool stats__publish(edge_agent *a, moment now, edge_action *out);
void stats__note(edge_agent *a, job *j, const worker_post *p, moment now);

#endif
