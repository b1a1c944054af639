/* The real cluster: objects, pods, Events and the leadership are those of a Kubernetes API server.
 *
 * What there is to know is kept by one reflector for each kind (and namespace, if only some are watched); what there is to do goes through one
 * queue with a limit of requests a second, and only while this agent leads. Loop thread.
 */
#ifndef CLUSTER_KUBE_KUBE_H
#define CLUSTER_KUBE_KUBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "cloud-agent/cluster/cluster.h"

/* Texts that are NULL or "", and numbers that are 0, stand for their defaults. */
typedef struct cluster_kube_config {
	const char *kubeconfig;                           /* files, separated by ':'. Default: the pod's service account */
	const char *context;                              /* default: the kubeconfig's current one */
	const char *namespaces;                           /* that are watched, joined by newline. Default: all */
	bool credentials_by_value;                        /* put a Secret's keys into the pods, instead of references */
	const char *lease, *lease_namespace;              /* "ilmare-cloud", in our own namespace */
	const char *identity;                             /* of this agent, not of another one */
	int64_t lease_ms, lease_renew_ms, lease_retry_ms; /* 15, 10, 2 s */
	int64_t requests_per_second, burst;               /* 50, 300 */
	int64_t connect_ms;                               /* 5 s */
	int64_t silence_ms;                               /* 150 s: a watch that brings nothing, no bookmark either, is dead */
	const char *version;                              /* of this program */
	uint64_t seed;
} cluster_kube_config;

/* Copies what it needs; nothing is sent before ops->start. NULL, with *err, if there is no usable kubeconfig or service account: the text says
 * which file, entry or variable. After `stopped`, ops->free; in between there has to be ops->stop. */
cluster *cluster_kube_new(uv_loop_t *loop, const cluster_kube_config *config, const cluster_events *events, cluster_done done,
	void *done_ctx, error *err);

/* One request that is no part of following the cluster. What it points to is copied. */
typedef struct cluster_kube_question {
	const char *method, *path;
	const char *content_type, *body; /* NULL: none */
	int64_t total_ms;                /* at most so long in all; 0: 10 s */
} cluster_kube_question;

/* code: 0 with the object that was answered, which is overwritten when this returns; or a negative error_code with its text. */
typedef void (*cluster_kube_answer)(void *ctx, int code, const char *text, const cJSON *object);

/* Of a cluster of this kind. `done` is called exactly once: from inside, later, or from inside `stop`. */
void cluster_kube_ask(cluster *c, const cluster_kube_question *question, cluster_kube_answer done, void *ctx);
/* The one of our service account, or of the kubeconfig's context. */
const char *cluster_kube_namespace(const cluster *c);

#endif
