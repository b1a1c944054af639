/* A job object as it is read, and what is written to it: the view, made once per resourceVersion, and the change that a patch of its conditions makes.
 *
 * The conditions are the job's memory: what must survive a restart, another leader, or Sedna's own definitions is in their `data`, member `ilmare`.
 * Loop thread; internal to this folder.
 */
#ifndef CLOUD_CORE_JOB_VIEW_H
#define CLOUD_CORE_JOB_VIEW_H

#include "common/json.h"
#include "common/mem.h"
#include "proto/document.h"

/* ---- job_view.c ---- */

typedef struct kept_version { /* a deployed model that is kept */
	int64_t round;
	digest sha256;
	const char *url;
	const char *base_url, *base_format; /* what training would go on from; url NULL: the initial Model */
} kept_version;

typedef struct member { /* `ilmare` in a condition's data */
	int64_t round, failures;
	bool has_cursor;
	cursor cursor;
	const char *node, *pod_uid; /* of the stage's pod (deploy: node that deploys); NULL: not known */
	const char *dataset;        /* that this round's samples come from; NULL: not taken yet */
	bool has_deployed;
	struct {
		int64_t round;
		const char *url, *since;
		const char *eval_url; /* of the Model to compare with, which was replaced too; NULL: none */
		bool has_sha256;
		digest sha256;
		bool back; /* by a rollback, to the version of this round: */
		int64_t of;
	} deployed;
	kept_version *versions; /* newest first */
	size_t n_versions;
	struct {
		const char *id;      /* of the annotation that was decided last; NULL: none that may still be there */
		const char *refused; /* that one; NULL: it was not */
		bool under_way;      /* this round's deployment is one, to this version: */
		int64_t to;
		digest sha256;
	} rollback;
} member;

typedef struct results {
	bool there;
	int64_t round;
	model *models;
	size_t n;
} results;

typedef struct stage_input {
	bool there;
	model *models;
	size_t n;
	const char *data_url, *data_index_url, *output_dir; /* NULL: absent */
	bool has_next;
	cursor next; /* train: where the samples of the round end */
} stage_input;

enum retrain_from { RETRAIN_BETTER, RETRAIN_LAST, RETRAIN_DEPLOYED };

/* Parsed `data` of conditions, so that what stays in the list is not parsed again with every patch. */
typedef struct data_cache {
	struct data_entry {
		char *text;
		cJSON *tree;
		bool used;
	} entries[16];
	size_t n;
} data_cache;
void data_cache_sweep(data_cache *cache); /* drop what no view has used since the last sweep; the newest view stays valid */
void data_cache_fini(data_cache *cache);

typedef struct condition_note { /* what a condition is, in short */
	int stage, phase;           /* of the enums; -1: neither */
	int64_t round;              /* -1: not looked at */
} condition_note;

typedef struct job_view {
	arena *mem;
	data_cache *cache;
	bool deleting;
	const char *created;
	/* spec; when spec_error is not NULL the rest of this part is not to be used */
	const char *spec_error;
	const char *dataset, *initial_model, *eval_model, *deploy_model; /* eval_model: NULL if none */
	double train_prob;
	const cJSON *train_template, *eval_template, *deploy_template;
	trigger train, deploy;
	bool hot;
	int64_t poll_s;
	const char *hem_name;
	const cJSON *hem_parameters;
	const char *output_dir, *credential;
	enum retrain_from retrain;
	bool first_sample_end;
	const char *rollback_to, *rollback_taken; /* annotations, as they are; NULL: absent */
	/* status */
	const cJSON *conditions;
	condition_note *notes; /* one for each */
	size_t n_conditions;
	bool has_start_time, started; /* started: the last condition is one of ours */
	int64_t first_round;          /* not started: the round to begin with */
	position pos;
	const char *since, *reason, *message;
	bool has_summary; /* the cluster keeps the members beside the conditions */
	const char *summary_reason;
	int64_t since_unix;
	bool has_ended; /* the last condition that ended a stage */
	position ended;
	const char *ended_reason, *ended_message;
	member m;
	stage_input train_input, eval_input; /* of the present round */
	const char *round_dir;               /* output folder that the present round's samples were written to; NULL: not written yet */
	results trained;                     /* the last Train/Completed */
	results evaluated;                   /* the last Eval/Completed */
	results trained_evaluated;           /* Train/Completed of the round that was evaluated last */
	results trained_deployed;            /* Train/Completed of the round that is deployed */
} job_view;

job_view *job_view_new(const cJSON *object, data_cache *cache); /* points into object, and into the cache if there is one */
void job_view_free(job_view *v);
/* A condition's data: tree in mem, or NULL. */
const cJSON *condition_data(arena *mem, const cJSON *condition);
/* job_spec.c: the part of the view that comes from the spec. */
void job_spec_read(job_view *v, const cJSON *object);

/* ---- conditions.c ---- */

typedef struct step {
	enum stage stage;
	enum phase phase;
	const char *reason, *message; /* NULL: none */
	const cJSON *input, *output;  /* for `data`; NULL: none. Not owned */
	member m;
} step;

typedef struct change { /* what one patch appends, or, with `amend`, the new member of the last condition */
	arena *mem;
	member m; /* as the next step takes it */
	step steps[4];
	size_t n;
	bool amend, tells;            /* tells (with amend): reason and message of the last condition, if it has not ended: */
	const char *reason, *message; /* "" or NULL: none */
} change;

change change_begin(const job_view *v); /* m as it is now */
void change_end(change *ch);
void change_add(change *ch, enum stage stage, enum phase phase, const char *reason, const char *message);
typedef struct condition_limits {
	int max;
	size_t metrics_max;
	bool compact; /* the object was too large: keep what is needed alone */
} condition_limits;
/* The merge patch of .status, to be freed. */
cJSON *change_patch(const job_view *v, const change *ch, const condition_limits *limits, int64_t unix_ms);
void summary_put(const job_view *v, const change *ch, cJSON *status);
/* Models with their metrics bounded; *truncated says whether something was left out. */
cJSON *models_bounded(const model *models, size_t n, const trigger *t, size_t metrics_max, bool *truncated);

#endif
