/* The documents that travel (JSON in UTF-8), as C structs. docs/protocol.md and proto/schemas/ describe each member.
 *
 * Decoding: bounded (DOCUMENT_MAX bytes, JSON_MAX_DEPTH), case-sensitive, strict about types and ranges, lenient about members it does not
 * know; a version `v` other than 1 is ERROR_UNSUPPORTED, too long or too deep ERROR_LIMIT, all else ERROR_INVALID with the member's path. Absent is not zero: what is
 * optional has a `has_` flag or is a NULL pointer. A decoded document lives in its own arena `mem` and is freed with *_free; strings and
 * arrays in a document that is only encoded may live anywhere. Encoding gives compact text, to be freed. Pure; any thread, one owner.
 */
#ifndef PROTO_DOCUMENT_H
#define PROTO_DOCUMENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "common/mem.h"
#include "proto/position.h"
#include "proto/topic.h"

/* Numbers of documents end far below JSON_MAX_INT, so that what is added to one that was read, however often, can still be written. Epochs
 * begin with the seconds since 1970 and only go up: one above the year 36812 is no epoch, and would use up the numbers. */
#define DOCUMENT_MAX_INT (INT64_C(1) << 52)
#define DOCUMENT_MAX_EPOCH (INT64_C(1) << 40)

enum {
	DOCUMENT_VERSION = 1,
	DOCUMENT_MAX = 256 * 1000, /* bytes of one MQTT payload */
	DOCUMENT_MAX_MODELS = 32,
	DOCUMENT_MAX_CREDENTIALS = 8, /* Secrets in one document */
	DOCUMENT_MAX_CREDENTIAL_URLS = 8,
	DOCUMENT_MAX_INVENTORY = 4096, /* uids of each kind */
	DOCUMENT_MAX_VERSIONS = 16,    /* deployed models that are kept, in one list */
	TEXT_MAX_REASON = 64,
	TEXT_MAX_MESSAGE = 1024,
	TEXT_MAX_URL = 4095,
	TEXT_MAX_UID = 64,
	TEXT_MAX_VERSION = 64,
	TEXT_MAX_KEY = 1024, /* each of an object store's keys */
};

/* ---- pieces ---- */

typedef struct stamp {
	int64_t epoch, gen; /* {0,0}: none yet */
} stamp;
int stamp_compare(stamp a, stamp b);

typedef struct job_ref {
	const char *ns, *name, *uid;
} job_ref;

/* A model or a result: where it is and what it is. */
typedef struct model {
	const char *format; /* may be "" */
	const char *url;    /* not empty */
	const char **socs;  /* device_soc_versions; n_socs 0: not said */
	size_t n_socs;
	const cJSON *metrics; /* any JSON, or NULL */
} model;
/* The same shape wherever a model is written down, also in a condition's `data`. Text points into `obj`, which must live as long as *out. */
int model_decode(arena *mem, const cJSON *obj, const char *where, model *out, error *err);
cJSON *model_encode(const model *m);

/* The number of the first unused sample, and the dataset's identity up to there (digest: chain of digest.h over `size` bytes). */
typedef struct cursor {
	int64_t sample, size;
	digest digest;
} cursor;
bool cursor_equal(const cursor *a, const cursor *b);
int cursor_decode(const cJSON *obj, const char *where, cursor *out, error *err);
cJSON *cursor_encode(const cursor *c);

enum trigger_op { OP_GT, OP_GE, OP_EQ, OP_NE, OP_LE, OP_LT };
bool trigger_op_parse(const char *text, enum trigger_op *out); /* gt > ge >= eq = == ne != le <= lt < */
const char *trigger_op_text(enum trigger_op op);               /* ">" … */

typedef struct trigger {
	int64_t check_period_s; /* >= 1 */
	bool has_timer;
	int start, end; /* minutes of the day 0…1440, both inclusive, start > end crosses midnight */
	bool has_condition;
	enum trigger_op op;
	double threshold;
	const char *metric;
} trigger;
/* From a job's spec or a document, the same shape ({checkPeriodSeconds, timer{start,end}, condition{operator,threshold,metric}}). */
int trigger_decode(arena *mem, const cJSON *obj, const char *where, trigger *out, error *err);
cJSON *trigger_encode(const trigger *t);

enum dataset_format { FORMAT_TXT, FORMAT_CSV };
const char *dataset_format_name(enum dataset_format f); /* also the file's ending */
bool dataset_format_parse(const char *name, enum dataset_format *out);

typedef struct dataset_ref {
	const char *ns, *name, *uid, *url;
	enum dataset_format format;
} dataset_ref;

/* A Secret whose keys a node needs, and what for. The keys themselves are asked for (credential_request), and never part of a document. */
typedef struct credential_need {
	const char *secret;  /* its name, in the namespace of what the document is about */
	const char *version; /* opaque, another one when the Secret was changed; NULL: there is no such Secret at present */
	const char **urls;   /* s3://…, each with all that is below it */
	size_t n_urls;
} credential_need;

/* A model that was deployed and is kept: what a job can go back to. */
typedef struct model_version {
	int64_t round; /* that deployed it; 0: what was there first */
	digest sha256;
	const char *url;
} model_version;

/* ---- cloud -> edge ---- */

enum role { ROLE_DATASET = 1, ROLE_TRAIN = 2, ROLE_EVAL = 4, ROLE_DEPLOY = 8 };

/* One copy of a deployment: this result to that place. */
typedef struct deploy_copy {
	model from, to;
} deploy_copy;

typedef struct desired {
	arena *mem;
	const char *ts; /* RFC 3339; information only */
	stamp stamp;
	const char *node;
	job_ref job;
	unsigned roles; /* of enum role */
	position position;
	bool worker_ended; /* the pod of the present stage has ended (Succeeded or gone), or will never be made again */

	bool has_trained; /* the last Train/Completed */
	int64_t trained_round;
	model *trained_models;
	size_t n_trained_models;
	bool has_cursor; /* where the used samples end; absent with Sedna's conditions */
	cursor cursor;

	bool has_deployed;
	int64_t deployed_round;
	digest deployed_sha256;
	bool has_deployed_sha256;

	bool has_rollback; /* the deployment under way goes back to this version, whatever the trigger says */
	int64_t rollback_round;
	digest rollback_sha256; /* that its model has to have */

	model *eval_results; /* while the stage is Deploy: what the eval worker reported, new model first. None with a rollback */
	size_t n_eval_results;

	bool has_dataset; /* for the dataset role */
	dataset_ref dataset;
	double train_prob;
	bool first_sample_end; /* annotation ilmare/first-sample: end */

	model base; /* what training starts from */
	bool has_base;
	model *eval_models; /* to compare: the newly trained one, then the old one */
	size_t n_eval_models;
	deploy_copy *copies; /* to make at Deploy/Ready, in this order */
	size_t n_copies;

	trigger train, deploy;
	const char *output_dir;
	bool hot_update;
	int64_t poll_period_s; /* with hot_update */

	credential_need *credentials; /* n_credentials 0: nothing of it is remote, or nothing has a Secret */
	size_t n_credentials;
} desired;

int desired_decode(const char *data, size_t len, desired **out, error *err);
char *desired_encode(const desired *d);
void desired_free(desired *d);

typedef struct dataset_doc { /* a dataset to watch */
	arena *mem;
	const char *ts, *node;
	stamp stamp;
	dataset_ref dataset;
	credential_need *credentials; /* one at most is made */
	size_t n_credentials;
} dataset_doc;
int dataset_doc_decode(const char *data, size_t len, dataset_doc **out, error *err);
char *dataset_doc_encode(const dataset_doc *d);
void dataset_doc_free(dataset_doc *d);

typedef struct inventory {
	arena *mem;
	const char *ts, *node;
	stamp stamp;
	const char *session;           /* of the birth that it answers; NULL if none was seen */
	const char **jobs, **datasets; /* uids */
	size_t n_jobs, n_datasets;
} inventory;
int inventory_decode(const char *data, size_t len, inventory **out, error *err);
char *inventory_encode(const inventory *inv);
void inventory_free(inventory *inv);

/* ---- edge -> cloud ---- */

/* The samples of a round: numbers [from, to), and the cursor after them. */
typedef struct sample_range {
	int64_t from, to;
	cursor end; /* end.sample == to */
} sample_range;

typedef struct report {
	arena *mem;
	const char *ts, *node;
	job_ref job;
	/* The position that it speaks of: ready -> Ready, completed -> Completed, failed -> Failed, written -> Starting. */
	position position;
	enum report_what what; /* travels in the topic, not in the document */
	const char *store;     /* id of the store, and number in it: for people */
	int64_t seq;
	bool has_input; /* ready */
	struct {
		model *models;
		size_t n_models;
		const char *data_url, *data_index_url, *output_dir; /* NULL: absent */
	} input;
	bool has_output; /* completed */
	struct {
		model *models;
		size_t n_models;
		const cJSON *owner_info; /* NULL: absent */
	} output;
	bool has_range; /* train: ready, and completed from the dataset node */
	sample_range range;
	const char *reason, *message; /* NULL: absent */
	bool has_sha256;              /* of what is in place: written, and what follows from it */
	digest sha256;
	bool has_versions; /* the same reports: what is kept now, newest first */
	model_version *versions;
	size_t n_versions;
} report;
/* `what` and `stage` come from the topic; a document whose position contradicts them is refused. */
int report_decode(const char *data, size_t len, enum stage stage, enum report_what what, report **out, error *err);
char *report_encode(const report *r);
void report_free(report *r);

typedef struct dataset_status {
	arena *mem;
	const char *ts, *node;
	dataset_ref dataset; /* url and format not sent */
	int64_t samples, size;
	int64_t waiting_bytes; /* of a tail that is not terminated yet */
	int64_t skipped;       /* lines over the limit */
	int64_t removed;       /* samples that left the file before a round took them */
	const char *changed;   /* RFC 3339 time of the last change seen; NULL: none */
	const char *error;     /* NULL: none */
} dataset_status;
int dataset_status_decode(const char *data, size_t len, dataset_status **out, error *err);
char *dataset_status_encode(const dataset_status *s);
void dataset_status_free(dataset_status *s);

typedef struct infer_stats {
	arena *mem;
	const char *ts, *node;
	job_ref job;
	const char *worker;
	int64_t inferences, hard_examples;
	bool has_upload_ratio;
	double upload_ratio;
	const char *start_time, *update_time; /* as the worker said; NULL: absent */
} infer_stats;
int infer_stats_decode(const char *data, size_t len, infer_stats **out, error *err);
char *infer_stats_encode(const infer_stats *s);
void infer_stats_free(infer_stats *s);

/* ---- object-store credentials: request and response, see docs/protocol.md ---- */

/* What a credential is for: a job or dataset whose document names the Secret. */
enum credential_owner { CREDENTIAL_JOB, CREDENTIAL_DATASET };
typedef struct credential_of {
	enum credential_owner kind;
	const char *ns, *name, *uid;
} credential_of;

typedef struct credential_request { /* edge -> cloud */
	arena *mem;
	const char *ts, *node;
	credential_of of;
	const char *secret;
} credential_request;
int credential_request_decode(const char *data, size_t len, credential_request **out, error *err);
char *credential_request_encode(const credential_request *r);
void credential_request_free(credential_request *r);

/* cloud -> edge. No error text holds a part of a key; what was decoded is overwritten before it is freed. */
typedef struct credential_response {
	arena *mem;
	const char *ts, *node;
	credential_of of;
	const char *secret;
	const char *reason, *message; /* refused, and why; reason NULL: it is not, and the keys are there */
	const char *version;          /* of the Secret, as in credential_need */
	const char *endpoint;         /* http(s)://host[:port]; NULL: the Secret does not say */
	const char *access_key_id, *secret_access_key;
} credential_response;
int credential_response_decode(const char *data, size_t len, credential_response **out, error *err);
/* To be freed with credential_text_free, which overwrites it; no other copy is left. */
char *credential_response_encode(const credential_response *r);
void credential_response_free(credential_response *r);
void credential_text_free(char *text); /* NULL is fine */

/* ---- anyone may read ---- */

typedef struct presence {
	arena *mem;
	const char *ts;   /* NULL in a will */
	const char *node; /* "cloud": the cloud agent */
	bool online;
	const char *version, *session; /* random per start of the agent */
	const char *client;            /* its MQTT client id; NULL: that is the node's name */
	int64_t epoch;                 /* cloud: of its leadership; node: the highest seen in a stamp; 0 = absent */
	const char **capabilities;
	size_t n_capabilities;
} presence;
int presence_decode(const char *data, size_t len, presence **out, error *err);
char *presence_encode(const presence *p);
/* Does this message tell of the birth of another agent than the one of this session, with the same client id at the broker? */
bool presence_is_rival(const char *data, size_t len, const char *session, const char *client);
void presence_free(presence *p);

typedef struct job_state {
	arena *mem;
	const char *ts;
	stamp stamp;
	job_ref job;
	position position;
	const char *since;            /* RFC 3339: when this position began */
	const char *reason, *message; /* "" if none */
	bool has_ended;               /* the stage before, or this one once it has ended: one patch may end a stage and begin the next */
	position ended;
	const char *ended_reason, *ended_message; /* "" if none */
	bool has_waiting;
	int64_t waiting_samples;                /* known from the dataset's status; -1: unknown */
	const char *waiting_trigger;            /* "num_of_samples > 500" */
	const cJSON *metrics_new, *metrics_old; /* of the last Eval; NULL: none */
	bool has_deployed;
	int64_t deployed_round;
	bool has_deployed_sha256;
	digest deployed_sha256;
	const char *deployed_since; /* NULL: unknown */
	bool has_deployed_of;       /* it was put there by a rollback, to the version of this round */
	int64_t deployed_of;
	int64_t *versions; /* rounds that a rollback can go back to, newest first */
	size_t n_versions;
	int64_t failures; /* rounds that failed in a row */
} job_state;
int job_state_decode(const char *data, size_t len, job_state **out, error *err);
char *job_state_encode(const job_state *s);
void job_state_free(job_state *s);

/* RFC 3339 UTC with milliseconds from milliseconds since 1970, e.g. "2026-11-30T04:05:06.789Z". */
void time_format(int64_t unix_ms, char out[32]);
/* 0 or ERROR_INVALID. Accepts what Kubernetes and time_format write (fraction optional, 'Z' or an offset). */
int time_parse(const char *text, int64_t *unix_ms);

#endif
