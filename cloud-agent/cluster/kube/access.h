/* Where the API server is and who we are: a kubeconfig, or the service account of the pod that we run in.
 *
 * A kubeconfig is what kubectl takes: several files are merged (the first that names a thing counts), relative file names are relative to the
 * file that has them. What this program cannot do is refused by name: exec and auth-provider plugins, passwords, impersonation, proxies, another
 * server name, and a server whose certificate is not checked.
 *
 * Files of tokens, certificates and keys are looked at again at each access_identity: Kubernetes replaces a pod's token every hour. A file that
 * is empty for a moment keeps its last content. Secrets are wiped when they are let go. Loop thread.
 */
#ifndef CLUSTER_KUBE_ACCESS_H
#define CLUSTER_KUBE_ACCESS_H

#include "cloud-agent/cluster/kube/transport.h"
#include "common/error.h"

#define ACCESS_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

typedef struct kube_access kube_access;

/* `paths`: files, separated by ':'; those that are not there are left out, as kubectl does, but one has to be. context NULL or "": the current
 * one. The text names the file and the entry. */
int access_kubeconfig(const char *paths, const char *context, kube_access **out, error *err);
/* `folder` holds token, ca.crt and namespace; host and port are KUBERNETES_SERVICE_HOST and _PORT. */
int access_in_cluster(const char *folder, const char *host, const char *port, kube_access **out, error *err);
/* The first of these if `kubeconfig` is given (not NULL, not ""), else the second with this process's own folder and variables. */
int access_open(const char *kubeconfig, const char *context, kube_access **out, error *err);
void access_free(kube_access *a);

const char *access_server(const kube_access *a);    /* url without a slash at its end */
const char *access_namespace(const kube_access *a); /* "default" if none is said */
const char *access_name(const kube_access *a);      /* for people: "context prod of /root/.kube/config" */

/* As transport_config.identity; ctx: the kube_access. DENIED if what is needed cannot be read. */
int access_identity(void *ctx, transport_identity *out, error *err);

#endif
