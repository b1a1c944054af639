/* What the files of the cloud agent's core share, and nobody else includes.
 *
 * From a fed object to an action:
 *   objects.c    keeps what the cluster holds (datasets, models, secrets, pods, nodes) and touches the jobs that this concerns
 *   job_view.c   (job_view.h) reads a job object once per resourceVersion: spec, conditions, `ilmare` member of the last one
 *   facts.c      what a job's decisions rest on besides its object: resolved references, nodes, pods, what is wrong
 *   decide.c     looks at a touched job: at most one write (a `flight`), and when to look again
 *     report_judge.c  the table of rule 3          stage_work.c  Train and Eval: pods       stage_deploy.c  Deploy, and the next round
 *     inference.c     the pod that serves          reap.c        pods that have to go
 *     explain.c       why it stands still, for people        reason.c       the same on the object itself
 *     reports.c       what arrived, and what it leads to
 *     conditions.c    a write to the conditions    pod.c         what a pod is made of      select.c, base_model.c  which model for what
 *     rollback.c      an annotation that asks for an earlier model                          versions.c      which there are
 *   documents.c  what the topics should hold       publisher.c   what they hold, and the queue in between
 *   fleet.c      nodes: presence, inventory        dataset_status.c  statuses from the edge into Dataset.status
 *   credential.c which Secrets a node needs, and who gets their keys
 *   models.c     models, and what a deployment makes of Model.status               status_write.c  patches of these two statuses
 *
 * Ownership: a job's view and facts are valid until it is touched again (then job_facts makes them anew). Flights own all that they point to.
 */
#ifndef CLOUD_CORE_CORE_H
#define CLOUD_CORE_CORE_H

#include "cloud-agent/core/controller.h"
#include "cloud-agent/core/job_view.h"
#include "cloud-agent/core/table.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/text.h"
#include "proto/document.h"
#include "proto/url.h"
#include "proto/worker.h"

enum {
	NODES_MAX = 16384,
	DOCS_MAX = 4 * NODES_MAX, /* beyond it, what others publish below our topics is left alone */
	REPORTS_MAX = 16,
	EVENTS_MAX = 64,
	CONDITION_MESSAGE_MAX = 256,
	CONDITIONS_BYTES_MAX = 12 * 1024,
	STATUSES_MAX = 8192
};

#define LABEL_NAME "incrementallearningjob.sedna.io/name"
#define LABEL_UID "incrementallearningjob.sedna.io/uid"
#define LABEL_WORKER "incrementallearningjob.sedna.io/worker-type"
#define ANNOTATION_JOB "ilmare/job"
#define ANNOTATION_ROUND "ilmare/round"
#define ANNOTATION_HOT "ilmare/hot-update"
#define ANNOTATION_RETRAIN "ilmare/retrain-from"
#define ANNOTATION_FIRST "ilmare/first-sample"
#define ANNOTATION_ROLLBACK "ilmare/rollback-to" /* the user's: a round */
#define ANNOTATION_TAKEN "ilmare/rollback"       /* ours: see rollback.c */
#define KIND_JOB "IncrementalLearningJob"

typedef struct job job;
typedef struct pod pod;
typedef struct owner owner;
typedef struct node node;
typedef struct doc doc;
typedef struct flight flight;
typedef struct credential_ask credential_ask;

/* ---- objects.c ---- */

typedef struct status_write { /* the patches of a Dataset's or Model's status */
	flight *flight;
	char *rv; /* of the object */
	char *conflict_rv;
	int64_t retry_at, retry_delay, patched_at, wake;
	bool done; /* one was written; the look that follows takes it back */
} status_write;

typedef struct dataset {
	char *ns, *name, *key, *uid, *url, *node, *credential;
	char *wrong; /* what is wrong with its spec, or NULL */
	enum dataset_format format;
	bool has_samples; /* .status.numberOfSamples */
	int64_t samples;
	status_write write;
	doc *doc;
} dataset;

typedef struct model_object {
	char *ns, *name;
	arena *mem;                           /* of what its object says */
	const char *uid, *wrong, *credential; /* credential: the Secret's name, or NULL */
	model m;
	/* its status: .updateTime as it is, of what was written last, on its way, and as it is to be; Unix ms, 0: none */
	int64_t updated, told, sent, wanted;
	cJSON *metrics; /* that belong to `wanted`; NULL: none */
	status_write write;
} model_object;

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED, POD_UNKNOWN };

struct pod {
	char *ns, *name, *key, *uid, *node; /* node: "" while it is not bound */
	char *message;                      /* of its end: exit code and last words; or why it does not start */
	const char *trouble;                /* Unschedulable, ImagePull, or NULL */
	enum worker_kind kind;
	enum pod_phase phase;
	bool terminating, hot;
	int64_t restarts;
	int64_t restarted_at; /* monotonic, first sight of the last restart; -1: none, or before it was seen first */
	int64_t round;        /* that its name was made from, as its annotation says and its name proves; -1: none */
	int64_t live_since;   /* monotonic: since when its stage is over and it still lives; -1 */
	int64_t seen_at;      /* monotonic: first sight of it */
	int64_t ran_at;       /* the same, of it at work; -1 */
	int64_t remove_again; /* monotonic: asked to go, not before this once more; -1: not asked */
	int64_t remove_delay; /* of the last request that failed; 0: none has */
	flight *flight;       /* its deletion */
	owner *owner;
	pod *next; /* of the same owner */
};

struct owner {
	char *uid, *ns, *job; /* job: the full name, from the annotation, else the owner reference */
	pod *pods;
};

typedef struct secret_object {
	char *endpoint; /* url of the object store; "" if the Secret does not say */
	char *version;
} secret_object;

bool pod_live(const pod *p); /* has not ended; Terminating counts as live */
void objects_fini(controller *c);
void objects_touch_users(controller *c, enum object_kind kind, const char *ns, const char *name);
void objects_put(controller *c, enum object_kind kind, const char *key, const char *ns, const char *name, cJSON *object);
bool pod_owned_by(const cJSON *object, const char *job_uid);
pod *pod_put(controller *c, const char *ns, const char *name, const cJSON *object);
void pod_drop(controller *c, const char *key);
char *object_key(const char *ns, const char *name);                               /* "ns/name" */
const char *object_text(const cJSON *object, const char *part, const char *name); /* "" if absent */

/* ---- models.c ---- */

model_object *model_find(const controller *c, const char *ns, const char *name); /* NULL: there is none */
void model_object_put(controller *c, const char *key, const char *ns, const char *name, const cJSON *object);
void model_object_drop(controller *c, const char *key);
/* What this job deployed last, into the status of the Models that it replaced. */
void models_wish(controller *c, const job *j);
void models_touch_all(controller *c);
void model_status_look(controller *c, model_object *m);

/* ---- select.c, base_model.c ---- */

enum model_use { USE_SERVE, USE_TRAIN };
const model *model_select(const model *list, size_t n, const model *target, enum model_use use); /* NULL: there is none */
/* What training starts from. */
const model *base_model(const job_view *v, const model *initial);

/* ---- facts.c ---- */

typedef struct role_node {
	const char *node;
	unsigned roles;
} role_node;

typedef struct facts {
	const dataset *dataset;
	const model *initial, *eval, *deploy;                 /* eval: NULL if the spec has none */
	const char *dataset_node, *worker_node, *deploy_node; /* NULL: not known. worker: the pod of the present stage */
	pod *worker;                                          /* of the present stage, as it was created; NULL: there is none */
	bool worker_ended;                                    /* and it never comes back */
	pod *inference;                                       /* that serves, or shall; NULL: none */
	const char *output_dir;
	enum dataset_format format;
	const char *problem; /* reason, NULL: none */
	bool blocked;        /* by it: no new round, no pod, and what is published stays as it is */
	role_node roles[4];
	size_t n_roles;
} facts;

enum pod_place { PLACE_PRESENT, PLACE_RECENT, PLACE_OTHER };
/* Where a train or eval pod belongs: to the present stage, to one that is kept for a while, or nowhere. */
enum pod_place pod_place(const job *j, const pod *p);
const facts *job_facts(controller *c, job *j);
unsigned facts_roles(const facts *f, const char *node_name); /* of enum role; 0: none */
/* The node that a template pins its pods to; NULL: none. */
const char *template_node(const controller *c, const cJSON *template, const dataset *d);
bool url_usable(const char *url); /* a path from the root, or of a scheme that is known */
char *url_wrong(const char *url); /* what is wrong with the url of a dataset or model, to be freed; or NULL */
/* Both jobs would write to one folder. */
bool folder_shared(const controller *c, const job *a, const job *b);
/* No other job names this one's folder: then nobody need be asked, however many jobs there are. */
bool folder_alone(const controller *c, const job *j);
/* A view comes (more) or goes; NULL: none. */
void folder_count(controller *c, const job_view *v, bool more);

/* ---- job.c ---- */

typedef struct told { /* all that the documents of a job depend on, in short */
	bool any, worker_ended;
	uint64_t version, roles;
	char reason[TEXT_MAX_REASON + 1], message[CONDITION_MESSAGE_MAX + 1];
} told;

typedef struct made_pod { /* created by this process: never again, even if it vanished before the patch */
	int64_t round;        /* 0: none */
	char *uid, *node;
} made_pod;

struct job {
	char *ns, *name, *key, *uid, *rv;
	cJSON *object;
	data_cache cache;
	job_view *view;
	facts facts;
	char problem_text[CONDITION_MESSAGE_MAX + 1];
	bool stale; /* facts are to be made anew */
	bool dirty;
	uint64_t version; /* grows with its object and with every object that it names */
	told told;        /* what its documents were last compared for */
	job *dirty_next;
	flight *flight;
	char *answered_rv; /* of an answer to our own write, until the watch has caught up with it */
	char *conflict_rv; /* a write was refused at this one: wait for another */
	int64_t retry_at, retry_delay;
	bool compact;
	report *reports[REPORTS_MAX]; /* in the order of arrival */
	size_t n_reports;
	made_pod made[2];     /* train, eval */
	doc *state, *docs[4]; /* what is published for it: state, desired documents */
	size_t n_docs;
	position seen; /* position whose first sight was at seen_at */
	int64_t seen_at, seen_unix;
	bool clock_stopped;            /* the node could not be reached: limits begin again when it can */
	char *kill_uid, *kill_message; /* a pod that was deleted for a reason */
	char *refused;                 /* what the cluster said of a worker's pod in this round; NULL: nothing */
	int64_t refused_round;
	const char *kill_reason;
	int64_t inference_retry_at, inference_delay;
	char *inference_refused; /* what the cluster said of the pod that is to serve; NULL: nothing */
	int64_t answered_at;     /* last answer to a report that did not match; -1 */
	int64_t wake;
	int64_t annotate_at, annotate_delay; /* not before; of the last that failed */
	char *annotate_error;                /* why it did; NULL: it did not */
	bool annotate_denied;
	char *refusal_said; /* id of the last refused rollback that an Event was made for, and when */
	int64_t refusal_said_at;
	char *event_seen;                                                                 /* the last warning, said once */
	char state_reason[TEXT_MAX_REASON + 1], state_message[CONDITION_MESSAGE_MAX + 1]; /* why it waits, beside the condition's own */
	bool state_warns;                                                                 /* it is a warning */
	char tell_reason[TEXT_MAX_REASON + 1]; /* to be written on the object, since (-1: none), and not before */
	int64_t tell_since, tell_at, tell_delay;
	struct {
		bool there; /* the inference worker has told something */
		int64_t inferences, hard_examples;
		int64_t next_at, delay;
	} counts;
};

void job_touch(controller *c, job *j);   /* a pod or a node that it rests on has changed */
void job_changed(controller *c, job *j); /* itself, or an object that it names */
void job_poke(controller *c, job *j);    /* look at it again */
job *job_of_uid(const controller *c, const char *uid);
bool version_older(const char *a, const char *b);
void job_put(controller *c, const char *key, const char *ns, const char *name, cJSON *object, bool answer);
void job_drop(controller *c, job *j);
void jobs_fini(controller *c);
void jobs_touch_all(controller *c);
void job_wake_at(controller *c, job *j, int64_t mono_ms);
/* A reason that the state topic shows, and a warning event once. */
void job_warn(controller *c, job *j, const char *reason, const char *message);

/* ---- flights.c ---- */

enum flight_tells { TELLS_POSITION, TELLS_REASON, TELLS_COUNTS, TELLS_ANNOTATIONS };

struct flight {
	flight *next;
	uint64_t id;
	bool sent;
	enum cloud_action_kind kind;
	job *job;            /* NULL: gone, or not a job's */
	status_write *write; /* NULL: gone, or not one of those */
	enum object_kind object;
	char *node; /* whose backlog it is of; "": of none */
	char *ns, *name, *uid, *rv;
	cJSON *body;
	report *report; /* that this patch applies; owned by the job */
	char *settles;  /* its node */
	bool warning;   /* event to say when it is done; reason NULL: none */
	char *reason, *message;
	bool compact;
	enum flight_tells tells; /* patch: this alone, for people */
	enum worker_kind worker; /* create */
	int64_t round;
	bool vanished;                                    /* create: the pod was seen to go before the answer came */
	int rounds_completed, rounds_failed, deployments; /* to count when it is done */
};

flight *flight_status(controller *c, job *j, cJSON *status); /* the merge patch is taken */
flight *flight_patch(controller *c, job *j, const change *ch);
flight *flight_annotate(controller *c, job *j, cJSON *annotations); /* taken */
flight *flight_create(controller *c, job *j, enum worker_kind kind, int64_t round, const char *name, cJSON *body);
flight *flight_delete(controller *c, job *j, pod *p);
/* node_name: whose backlog it belongs to; NULL: nobody's. */
flight *flight_new(controller *c, enum cloud_action_kind kind, enum object_kind object, const char *ns, const char *name,
	const char *node_name);
void flight_cancel(controller *c, flight *f); /* not sent yet */
void flight_free(controller *c, flight *f);
/* A worker's pod was made, by this process or by one before. */
void remember_made(job *j, enum worker_kind kind, int64_t round, const char *uid, const char *node_name);
bool flight_next(controller *c, cloud_action *out);
bool flight_waits(const controller *c); /* one can be handed out now */
void flights_fini(controller *c);
int64_t retry_delay(controller *c, int64_t *delay, int64_t retry_after_ms); /* doubles *delay; what to wait now, with jitter */

/* ---- status_write.c ---- */
void status_write_init(status_write *w);
void status_write_fini(controller *c, status_write *w);
void status_write_touch(controller *c, status_write *w); /* looked at in this turn */
/* A look begins; what was planned and not sent is taken back. True: write now. Else w->wake says when to look again. */
bool status_write_due(controller *c, status_write *w, bool wanted);
void status_write_patch(controller *c, status_write *w, enum object_kind kind, const char *ns, const char *name, const char *uid,
	const char *node_name, cJSON *status);
void status_write_answered(controller *c, flight *f, int code, cJSON *object, int64_t retry_after_ms);

/* ---- counts.c: of inference workers ---- */
int counts_take(controller *c, const topic *t, const void *payload, size_t len, error *err);
bool counts_tell(controller *c, job *j); /* in the status; true: a flight was planned */
void counts_told(controller *c, job *j, int code, int64_t retry_after_ms);

/* ---- lanes.c: how many writes of a node are under way ---- */
bool lane_open(const controller *c, const char *node_name);
void lane_enter(controller *c, const char *node_name);
void lane_leave(controller *c, const char *node_name);

/* ---- decide.c and its stages ---- */
void job_look(controller *c, job *j);
/* Each plans at most one flight (then true), or notes when to look again. */
bool stage_work(controller *c, job *j);
bool stage_deploy(controller *c, job *j);
bool stage_over(controller *c, job *j);
bool inference_ensure(controller *c, job *j);
bool pods_reap(controller *c, job *j);
bool orphans_reap(controller *c);
/* It may be asked to go now; else the job (NULL: the orphans) is looked at when it may be asked again. */
bool pod_removable(controller *c, job *j, const pod *p);
void pod_kill(controller *c, job *j, pod *p, const char *reason, const char *message);
/* What the state topic says if nothing else is to be said. */
void job_explain(controller *c, job *j);
/* reason.c: a warning, on the object (true: a flight was planned); and how that went. */
bool reason_tell(controller *c, job *j);
void reason_told(controller *c, job *j, int code, int64_t retry_after_ms);
const char *ended_message(arena *mem, position ended, const char *reason, const char *why); /* how a round ended, in words */
const char *waiting_message(arena *mem, const job_view *v);
/* Append the next round's Train/Waiting if nothing speaks against it; false: not yet. */
bool next_round_add(controller *c, job *j, change *ch);
void change_end_round(change *ch, enum stage stage, enum phase phase, const char *reason, const char *message);
/* Creation of a pod of this job is allowed now; else a reason was set. */
bool pod_allowed(controller *c, job *j, bool worker);
/* When a limit that began at the first sight of the present position is over. */
int64_t position_deadline(const job *j, int64_t limit_ms);
void job_wait(job *j, const char *reason, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

enum verdict { VERDICT_ACCEPT, VERDICT_IGNORE };
typedef struct judge_nodes {
	const char *dataset, *worker, *deploy; /* NULL: not known */
} judge_nodes;
/* Rule 3. *to: the phase that it leads to. *why: for the log and tests. */
enum verdict report_judge(const job_view *v, bool hot, const judge_nodes *nodes, const report *r, enum phase *to, const char **why);
/* reports.c */
int report_take(controller *c, const topic *t, const void *payload, size_t len, error *err);
bool reports_apply(controller *c, job *j); /* the first that is accepted; the others are dropped or wait */
bool serves_hot(const facts *f, const job_view *v);

/* ---- pod.c ---- */
cJSON *pod_build(const controller *c, const job *j, enum worker_kind kind, int64_t round, const char *name);
/* The Secret whose keys a container of it gets, but no address of the object store; NULL: none. */
const char *pod_without_endpoint(const cJSON *body);

/* ---- fleet.c ---- */

struct node {
	char *name;
	bool present; /* a presence is retained for it */
	bool online;
	char *session;
	int64_t seen_link;  /* the connect of ours after which its presence was seen last */
	bool unnamed;       /* no inventory that names its session has gone out since its last birth */
	int64_t offline_at; /* monotonic, first sight; -1 */
	bool listed, ready; /* a Node object is there */
	doc *inventory;
	doc *docs; /* linked by node_next */
	int64_t answered_at;
	int64_t asks_until; /* monotonic: requests for credentials are paid for up to then */
};

node *node_get(controller *c, const char *name, bool make);
void node_release(controller *c, node *n); /* frees it if nothing speaks of it any more */
void node_listed(controller *c, const char *name, const cJSON *object);
int fleet_presence(controller *c, const topic *t, const void *payload, size_t len, error *err);
void fleet_inventory(controller *c, node *n, bool force); /* wish of its inventory anew; force: a new stamp even if equal */
void fleet_fini(controller *c);
bool node_reachable(const controller *c, const char *name);
/* An epoch in a document that is not of this life: ours has to go above it. One that none can go above is not believed. */
void epoch_seen(controller *c, int64_t epoch);
/* Somebody else publishes with this epoch. If it is ours (the cluster was put back, Lease included), only one above it is of use. */
void epoch_taken(controller *c, int64_t epoch);
bool node_gone(const controller *c, const char *name); /* the cluster lists its nodes, and not this one */

/* ---- dataset_status.c ---- */

typedef struct edge_status {
	char *ns, *name, *node, *uid, *changed, *error; /* error NULL: none */
	int64_t samples;
	bool cleared; /* asked the broker to forget it, which has not been seen yet */
} edge_status;
int dataset_status_take(controller *c, const topic *t, const void *payload, size_t len, error *err);
void dataset_touch(controller *c, dataset *d);
void dataset_status_look(controller *c, dataset *d);
const edge_status *dataset_status_of(const controller *c, const dataset *d); /* NULL: none from its own node */
void dataset_statuses_again(controller *c); /* those that are of nobody any more are cleared, once more if they were */
bool dataset_status_clear_next(controller *c, cloud_action *out);
void dataset_statuses_fini(controller *c);

/* ---- controller.c ---- */

typedef struct queued_event {
	char *ns, *job, *uid, *reason, *message;
	bool warning;
} queued_event;

struct controller {
	cloud_config cfg;
	uint64_t random;
	moment now;
	bool synced, leading, link, full;             /* full: the link takes no message at present */
	int64_t fence, epoch, gen, seen_epoch, links; /* links: connects so far */
	bool birth_due, foreign_due, orphans_due;
	int64_t linked_at;                /* the last connect */
	bool foreign_kept, statuses_due;  /* something foreign is left alone for now; a status may be of nobody any more */
	int64_t slow_at, orphans_at, due; /* due: no job has to be looked at before */
	uint64_t raise_id;                /* 0: none under way */
	int64_t raise_at, raise_delay;
	int64_t rival_at, rival_delay, rival_until; /* another cloud agent: seen last (-1: never); nothing is said before rival_until */
	int64_t claim_at, claim_delay, claim_until; /* a node's epoch above ours: likewise; no other is believed before claim_until */
	uint64_t last_id;
	table folders; /* output folder → how many jobs name it, as a number in the pointer */
	table jobs, uids, datasets, models, pods, owners, nodes, docs, statuses;
	table secrets;
	bool secure; /* the link: see controller_secure */
	struct {
		credential_ask *first, *last, *out; /* out: of the last action */
		size_t n;
		int answering;
	} asks;
	job *dirty_head, *dirty_tail;
	flight *flights, *flights_tail;
	table lanes;
	doc *queue_head, *queue_tail;
	queued_event events[EVENTS_MAX], event_out;
	size_t n_events;
	char *out_topic, *out_payload;
	cloud_counters count;
};

void event_add(controller *c, const job *j, bool warning, const char *reason, const char *message);
stamp stamp_new(controller *c);
double random_unit(controller *c); /* [0, 1) */
int64_t jitter(controller *c, int64_t ms, double share);
bool may_write(const controller *c); /* leading, within the fence, all kinds listed */

#endif
