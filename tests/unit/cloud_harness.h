/* A world for the cloud agent's core: a cluster with resourceVersions and pods, a broker that keeps retained messages, and a clock.
 *
 * The harness performs the core's actions and feeds back what they lead to, at once and in order; a test breaks in between with `budget`
 * (actions until the run stops, as in a crash) and `refuse` (the next write of a kind is answered with this code). What the core did stays
 * visible as the state of the world: objects, retained messages, and how often a pod of a name was made.
 */
#ifndef TESTS_UNIT_CLOUD_HARNESS_H
#define TESTS_UNIT_CLOUD_HARNESS_H

#include "tests/unit/unit.h"

#include "cloud-agent/core/controller.h"
#include "common/json.h"
#include "proto/document.h"
#include "proto/worker.h"

typedef struct harness {
	cloud_config cfg;
	controller *c;
	moment now;
	int64_t epoch, rv, uids;
	cJSON *objects[OBJECT_KINDS];                   /* "ns/name": object */
	cJSON *retained;                                /* topic: payload */
	cJSON *created;                                 /* pod name: how often it was made */
	cJSON *events;                                  /* reasons, in order */
	int budget;                                     /* -1: no limit */
	bool mute;                                      /* the broker's messages do not come back */
	int refuse_patch, refuse_create, refuse_delete; /* one answer each: an error_code */
	int refuse_annotate;                            /* likewise */
	int annotations;                                /* writes of annotations, refused ones too */
	bool hang_deletes;                              /* pods that are deleted stay, Terminating */
	bool lose_answer;                               /* the next write is done, but answered with TIMEOUT */
	int published, patches, creates, deletes, cleared, raises;
	char *last_delete_uid;
	bool keeps; /* devices tell which versions they keep: all that they deployed, and what was there first */
	struct {
		int64_t round, content; /* content: the digest is made of 32 times this byte */
	} kept[64];
	size_t n_kept;
	bool raise_above; /* RAISE_EPOCH: it is given the next one */
	struct {
		int n; /* answered so far; the last one: */
		char topic[300], node[64], secret[64], uid[80], reason[64];
		unsigned char correlation[64];
		size_t correlation_len;
	} credential;
	bool hang_answers; /* the Secrets that are to be read take their time */
	int64_t raise_to;  /* answer of RAISE_EPOCH: this epoch; 0: another holds the Lease */
} harness;

harness *harness_new(void);
void harness_free(harness *h);
/* A controller that knows nothing yet. */
void harness_boot(harness *h);
/* Everything that is there is fed; then complete lists, the lead (epoch + 1) and the link. */
void harness_start(harness *h);
/* The process ends between two actions and begins anew. */
void harness_restart(harness *h);
/* Until there is nothing to do, or the budget is spent: then false. */
bool harness_run(harness *h);
void harness_advance(harness *h, int64_t ms); /* the clock alone */
/* To the core's next deadline, at most `ms` further, running; false when there is none before. */
bool harness_wake(harness *h, int64_t ms);

/* ---- the cluster ---- */
cJSON *harness_object(const harness *h, enum object_kind kind, const char *name); /* in namespace default; NULL: gone */
void harness_put(harness *h, enum object_kind kind, cJSON *object);               /* taken; uid and resourceVersion are given; fed */
void harness_touch(harness *h, enum object_kind kind, const char *name);          /* after editing the object: new resourceVersion, fed */
void harness_remove(harness *h, enum object_kind kind, const char *name);
void harness_feed(harness *h, enum object_kind kind, const char *name);
/* The objects of a job "j" on node n: Dataset d, Models initial and serve. */
void harness_add_world(harness *h, const char *node);
harness *harness_world(void);                                /* with these objects on edge-1, started, and at rest */
cJSON *harness_node(const char *name, const char *is_ready); /* a Node object: "True", "False", "Unknown" */
cJSON *harness_job(const char *name, const char *node, const char *output_dir);
cJSON *harness_spec(const harness *h, const char *name); /* of a job, to be edited; then harness_touch */

/* ---- pods ---- */
void harness_pod_phase(harness *h, const char *name, const char *phase);
char *harness_pod_name(const harness *h, const char *job, enum worker_kind kind, int64_t round); /* "": there is none */
bool harness_has_pod(const harness *h, const char *job, enum worker_kind kind, int64_t round);
void harness_work_phase(harness *h, const char *job, enum worker_kind kind, int64_t round, const char *phase);
cJSON *harness_pod(const harness *h, enum worker_kind kind, int64_t round); /* of job j; there is one */
/* Somebody makes one of this worker type, owned by a job j of this uid. */
void harness_add_pod(harness *h, const char *name, const char *kind, const char *owner_uid);
int harness_created(const harness *h, const char *job_uid, const char *job, enum worker_kind kind, int64_t round);

/* ---- the broker ---- */
const char *harness_retained(const harness *h, const char *topic); /* NULL: nothing */
void harness_deliver(harness *h, const char *topic, const char *payload, bool retained);
void harness_foreign(harness *h, const char *topic, const char *payload);     /* somebody else publishes, retained */
void harness_foreign_any(harness *h, const char *topic, const char *payload); /* and it may be refused */
void harness_birth(harness *h, const char *node, const char *session);
desired *harness_desired(const harness *h, const char *node, const char *job); /* NULL: none; to be freed */
inventory *harness_inventory(const harness *h, const char *node);
job_state *harness_state(const harness *h, const char *job);
const char *harness_reason(const harness *h, const char *job); /* of its state topic; until the next call */
stamp harness_stamp(const harness *h, const char *topic_text);
stamp harness_stamp_of(const char *payload);
void harness_check_stamps(const harness *h); /* every retained topic of ours has the present epoch, and no stamp is there twice */
#define DESIRED_OF_J "ilmare/v1/node/edge-1/job/default/j"
#define STATE_OF_J "ilmare/v1/ns/default/job/j/state"
#define DATASET_OF_D "ilmare/v1/node/edge-1/dataset/default/d"
#define INVENTORY_OF_1 "ilmare/v1/node/edge-1/inventory"
#define CLOUD_PRESENCE "ilmare/v1/presence/cloud"

/* ---- reports ---- */
typedef struct says {
	const char *uid; /* NULL: the job's */
	const char *node, *reason, *message;
	const char *dir;  /* output folder; NULL: the job's */
	int64_t from, to; /* train: the range */
	bool no_range;
	double metric, metric_old; /* eval completed */
	int64_t content;           /* written: of the model; 0: the round */
} says;
void harness_report(harness *h, const char *job, int64_t round, enum stage stage, enum report_what what, const says *s);
/* Of job j from edge-1, with ten samples a round and a better model; then run. */
void harness_say(harness *h, int64_t round, enum stage stage, enum report_what what);

/* ---- what a job's conditions say ---- */
position harness_position(const harness *h, const char *job);
int harness_conditions(const harness *h, const char *job);
const char *harness_last(const harness *h, const char *job, const char *member); /* of the last condition; "" */
cJSON *harness_member(const harness *h, const char *job);                        /* `ilmare` of the last one; to be freed */
void harness_expect(const harness *h, const char *job, int64_t round, enum stage stage, enum phase phase);

/* A device that does its part at once: reports by the retained documents of `node`, pods that run and end. One pass; false: nothing to do. */
typedef struct device {
	const char *node, *job;
	double metric;      /* of the new model; the old one has 0.5 */
	int64_t samples;    /* in the file */
	int64_t last_round; /* no `ready` for later ones */
} device;
bool device_pass(harness *h, device *d);
/* Until quiet. */
void device_run(harness *h, device *d);
void device_until(harness *h, device *d, enum stage stage, enum phase phase); /* fails if it never comes there */

/* A string at obj.group.name; "" where there is none. */
const char *harness__text(const cJSON *obj, const char *group, const char *name);

#endif
