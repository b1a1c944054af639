/* The cloud agent's core: all that decides about jobs, pods and what the broker holds. Pure: no I/O, no threads, no clock.
 *
 * The shell feeds it objects as the cluster holds them (Kubernetes JSON), messages, link and leadership, with a reading of the clocks, then
 * asks for the next action until there is none, performs each and says how it went:
 *
 *     feed → while (controller_next(c, now, &action)) perform(action) … controller_done(c, action.id, code, object, now) → timer at controller_wake()
 *
 * Rules that hold everywhere:
 * - Level-triggered: a job is looked at as a whole, from what the cluster last showed. Only a position that was read back (a fed object, or the
 *   answer to our own patch) is published or acted on.
 * - Per job at most one write to the cluster is under way. After CONFLICT the job is looked at again when its newer object is fed.
 * - Before the lists of all kinds are complete nothing is created, deleted, cleared, and no inventory goes out (rule 13). Before leadership,
 *   or past the fence, nothing goes out at all (*Fence*).
 * - It owns nothing that it cannot rebuild from the cluster and the broker.
 * Rule numbers in comments of the .c files are those of docs/protocol.md.
 */
#ifndef CLOUD_CORE_CONTROLLER_H
#define CLOUD_CORE_CONTROLLER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/moment.h"
#include "proto/document.h"
#include "proto/topic.h"

/* On a job: its backend cannot run its pods, and this is why. The job waits with reason InvalidSpec. */
#define ANNOTATION_REFUSED "ilmare/refused"

enum object_kind { OBJECT_JOB, OBJECT_DATASET, OBJECT_MODEL, OBJECT_SECRET, OBJECT_POD, OBJECT_NODE, OBJECT_KINDS };
const char *object_kind_name(enum object_kind k); /* "IncrementalLearningJob", "Dataset", … */

typedef struct cloud_config {
	const char *root, *version;
	const char *session; /* random, new at each start */
	const char *client;  /* MQTT client id, for the presence; NULL: not said */
	uint64_t seed;       /* of the jitter */
	/* Where workers run: with a cluster, in containers that mount the node's folders below /home/data (DATA_PATH_PREFIX); without one, in
	 * place, with paths of this machine and DATA_PATH_PREFIX empty. */
	bool workers_in_place;
	const char *storage_image; /* with a cluster: of the init container that fetches remote files */
	const char *lc_server;     /* default of LC_SERVER: http://localhost:9100 */
	/* Node's own LC_SERVER, or NULL. */
	const char *(*lc_server_of)(void *ctx, const char *node);
	void *lc_server_ctx;
	bool nodes_listed;                      /* OBJECT_NODE objects are fed: a node without one has left the cluster */
	int64_t slow_ms;                        /* 1 h, ± 20 % */
	int64_t backoff_min_ms, backoff_max_ms; /* after failed rounds: 10 s … 360 s */
	int64_t retry_min_ms, retry_max_ms;     /* cluster writes that failed: 1 s … 2 min */
	int64_t start_timeout_ms;               /* 10 min */
	int64_t starting_hold_ms;               /* a pod that waits for less is not shown as Starting: a status write fewer. 0 */
	int64_t running_hold_ms;                /* a worker that runs for less is not shown as Running: a status write fewer. 0 */
	int64_t reported_running_ms;            /* 5 min: a worker that has reported and does not end is deleted */
	int64_t node_silence_ms;                /* 0: never */
	int64_t status_interval_ms;             /* at most one Dataset status patch in this time: 10 s */
	int max_restarts;                       /* 3 */
	int conditions_max;                     /* 14 */
	size_t metrics_max;                     /* 1,024 bytes in one condition */
} cloud_config;
void cloud_config_init(cloud_config *c);

typedef struct controller controller;
controller *controller_new(const cloud_config *config); /* copies */
void controller_free(controller *c);

/* ---- what happens ---- */

/* The cluster holds this object now (taken, freed by the core), or, object NULL, no longer. Objects are as Kubernetes gives them: metadata
 * {namespace, name, uid, resourceVersion, annotations, labels, ownerReferences, deletionTimestamp, creationTimestamp}, spec, status. Secrets:
 * metadata alone; their data never enters the core. */
void controller_object(controller *c, enum object_kind kind, const char *ns, const char *name, cJSON *object, moment now);
/* All kinds have been listed completely and consistently (true), or that is no longer so: a relist has begun (false). At true, objects that were
 * not fed since the last false are gone: the shell has fed their NULLs before. */
void controller_synced(controller *c, bool synced, moment now);
/* Leading begins (or goes on with a higher epoch, stored before this call), or has ended. */
void controller_lead(controller *c, int64_t epoch, moment now);
void controller_resign(controller *c, moment now);
/* Nothing goes out at or after this monotonic time; MOMENT_NEVER: no fence. Renewals move it: ask controller_next again after each that came late. */
void controller_fence(controller *c, int64_t mono_ms);
/* The link to the broker is up (each connect), or down. */
void controller_link(controller *c, bool up, moment now);
/* The link takes a further message of any size, or none at present: nothing is published until it does. Taken as true before the first call. */
void controller_room(controller *c, bool room);
/* A message (`text`: its topic) of the subscriptions of topic_cloud_filters. `retained` is as the broker says; nothing rests on it, as
 * brokers and options differ. Malformed ones: counted, error text for the log. */
int controller_message(controller *c, const char *text, const void *payload, size_t len, bool retained, moment now, error *err);

/* MQTT 5: where the answer to a message is to go, and what it is to carry. */
typedef struct message_reply {
	const char *topic;
	const void *correlation;
	size_t correlation_len;
} message_reply;
/* As controller_message, of a message with a response topic. */
int controller_request(controller *c, const char *text, const void *payload, size_t len, bool retained, const message_reply *reply,
	moment now, error *err);
/* The link is up over TLS, with the broker's certificate verified: only then credentials are handed out. Before controller_link; false at first. */
void controller_secure(controller *c, bool secure);

/* ---- what to do ---- */

enum cloud_action_kind {
	CLOUD_PATCH_STATUS,      /* guarded by resourceVersion; done with the object as it is afterwards */
	CLOUD_PATCH_ANNOTATIONS, /* of a job; guarded by resourceVersion; done with the object as it is afterwards */
	CLOUD_CREATE_POD,        /* done with the object; EXISTS: with the object that is there */
	CLOUD_DELETE_POD,        /* with uid as precondition; NOT_FOUND counts as done */
	CLOUD_PUBLISH,           /* QoS 1, no result; empty payload with `retained` clears */
	CLOUD_EVENT,             /* Kubernetes Event or a log line; no result */
	CLOUD_CREDENTIAL,        /* answer a request for credentials: QoS 0, not retained, and then controller_answered */
	CLOUD_RAISE_EPOCH, /* a higher epoch than ours was seen: read the Lease; if it is ours store one above `above`, call controller_lead, then
	                       done 0; if another holds it: controller_resign, then done CONFLICT */
};

typedef struct cloud_action {
	enum cloud_action_kind kind;
	uint64_t id;
	union {
		struct {
			enum object_kind kind; /* JOB, DATASET, MODEL */
			const char *ns, *name, *uid, *resource_version;
			const cJSON *status; /* merge patch of .status: members that are not named stay, arrays are replaced */
		} patch;
		struct {
			const char *ns, *name, *uid, *resource_version;
			const cJSON *annotations; /* name → text, or null: it is to go. Those that are not named stay */
		} annotate;
		struct {
			const char *ns, *name;
			const cJSON *pod;
			const char *job_uid;
		} create;
		struct {
			const char *ns, *name, *uid;
		} remove;
		struct {
			const char *topic, *payload; /* payload "" clears */
			bool retained;
		} publish;
		struct {
			const char *ns, *job, *uid;
			bool warning;
			const char *reason, *message;
		} event;
		struct {
			const char *topic;
			const void *correlation;
			size_t correlation_len;
			const credential_request *request;
			const char *reason; /* refused, in one word; NULL: read the Secret, and answer with its keys */
		} credential;
		struct {
			int64_t above;
		} epoch;
	};
} cloud_action;

/* The next thing to do, or false. What it points to is valid until controller_done for its id, or the next call of controller_next for
 * actions without a result. */
bool controller_next(controller *c, moment now, cloud_action *out);
/* `object` (taken; may be NULL) is what the cluster answered. code: 0 or a negative error_code; retry_after_ms > 0 when the cluster said so. */
void controller_done(controller *c, uint64_t id, int code, const char *text, cJSON *object, int64_t retry_after_ms, moment now);
/* A CLOUD_CREDENTIAL was answered, with keys (given) or without. Exactly once for each. */
void controller_answered(controller *c, bool given, moment now);
/* Monotonic milliseconds, or MOMENT_NEVER. */
int64_t controller_wake(const controller *c);

/* The cloud agent's presence: will, and a last one before a clean stop; topics (`text`) and payloads to be freed. */
void controller_will(const controller *c, char **text, char **payload);
void controller_farewell(const controller *c, char **text, char **payload);

/* ---- to be seen ---- */

typedef struct cloud_counters {
	int64_t jobs, nodes, nodes_online, inferences, hard_examples;         /* gauges */
	int64_t reports, reports_accepted, reports_ignored, messages_refused; /* since start */
	int64_t patches, conflicts, pods_created, pods_deleted, published, cleared, cluster_failures;
	int64_t rounds_completed, rounds_failed, deployments;
	int64_t credentials_asked, credentials_given, credentials_refused, credentials_dropped;
} cloud_counters;
void controller_counters(const controller *c, cloud_counters *out);

#endif
