/* What the files of the Kubernetes cluster share:
 *   kube.c     the cluster: its parts, the turn, start and stop      kube_read.c   the reflectors' requests
 *   kube_lead.c  the Lease's requests, and what they mean for us     kube_write.c  patches, pods, Events: one queue
 *   kube_secret.c  one Secret's values                            kube_ask.c    requests of others
 */
#ifndef CLUSTER_KUBE_KUBE_INTERNAL_H
#define CLUSTER_KUBE_KUBE_INTERNAL_H

#include "cloud-agent/cluster/kube/access.h"
#include "cloud-agent/cluster/kube/kube.h"
#include "cloud-agent/cluster/kube/lease.h"
#include "cloud-agent/cluster/kube/limiter.h"
#include "cloud-agent/cluster/kube/recorder.h"
#include "cloud-agent/cluster/kube/reflector.h"
#include "cloud-agent/cluster/kube/transport.h"
#include "common/turn.h"

typedef struct kube kube;
typedef struct kube_write kube_write;
typedef struct kube_asked kube_asked;

typedef struct kube_source { /* one reflector and its request */
	kube *k;
	enum object_kind kind;
	char *ns; /* NULL: all namespaces */
	reflector *r;
	transport_call *call; /* NULL: none */
	watch_lines lines;
} kube_source;

enum kube_verb { KUBE_PATCH, KUBE_ANNOTATE, KUBE_CREATE, KUBE_DELETE, KUBE_GET, KUBE_VERBS }; /* PATCH: of the status */

struct kube {
	cluster base;
	uv_loop_t *loop;
	kube_access *access;
	transport *transport;
	turn turn;

	kube_source *sources;
	size_t n_sources;
	int64_t silence_ms;
	bool synced; /* as last told */

	lease *lease;
	transport_call *lease_call;
	bool leading; /* as last told */
	int64_t epoch, fence;
	bool raising;
	uint64_t raise_id;
	int64_t raise_above;

	limiter limiter;
	kube_write *first, *last;                            /* in the order in which they were asked for */
	int under_way;                                       /* of them */
	int64_t blocked_until[OBJECT_KINDS][KUBE_VERBS];     /* by kind and kube_verb: the server said when to come again */
	bool denied[OBJECT_KINDS][KUBE_VERBS], event_denied; /* as last logged */
	int64_t write_ms;
	bool credentials_by_value;
	kube_asked *asked; /* that are under way */
	recorder *recorder;
	transport_call *event_call;
	uint64_t event_id;
	int64_t event_at; /* not before, while a write is under way */
	size_t churn;     /* objects read since memory was given back */

	bool started, closed;
	uv_timer_t stop_limit;
	void (*stopped_lease)(kube *k);
	void (*stopped)(void *ctx);
	void *stopped_ctx;
};

void kube__go(kube *k); /* something has happened */

void kube__read_init(kube *k, const cluster_kube_config *config);
void kube__read_act(kube *k);
int64_t kube__read_wake(const kube *k);
void kube__read_again(kube *k);                /* all lists anew */
const char *kube__read_problem(const kube *k); /* why not all is known; "" if all is */
void kube__read_fini(kube *k);
/* What a write was answered with counts as seen. */
void kube__read_wrote(kube *k, enum object_kind kind, const char *ns, const cJSON *object);

void kube__lead_act(kube *k);
int64_t kube__lead_wake(const kube *k);
/* Gives the Lease back; kube__lead_act is not to be called again. `done` once. */
void kube__lead_release(kube *k, void (*done)(kube *k));

void kube__write_act(kube *k);
int64_t kube__write_wake(const kube *k);
void kube__write_fini(kube *k);
void kube__patch_status(cluster *c, uint64_t id, enum object_kind kind, const char *ns, const char *name, const char *uid,
	const char *resource_version, const cJSON *status);
void kube__patch_annotations(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid, const char *resource_version,
	const cJSON *annotations);
void kube__create_pod(cluster *c, uint64_t id, const char *ns, const char *name, const cJSON *pod);
void kube__delete_pod(cluster *c, uint64_t id, const char *ns, const char *name, const char *uid);
void kube__event(cluster *c, const char *ns, const char *job, const char *uid, bool warning, const char *reason, const char *message);
void kube__read_secret(cluster *c, const char *ns, const char *name, cluster_secret done, void *ctx);
void kube__asked_fini(kube *k);
void kube__raise_epoch(cluster *c, uint64_t id, int64_t above);

/* The object of an answer that is 2xx, to be freed; else the error, with its text. */
int kube__answer(const transport_answer *answer, cJSON **object, error *err);

#endif
