/* One task of the chart's hook: the custom resource definitions of files are brought to the cluster, whatever is there already.
 *
 * Helm installs definitions that are missing, and never changes one that is there: of an earlier version, or Sedna's own. Here each is applied
 * by the server's own merge (server-side apply, forced, manager "ilmare"), which can be repeated: what is already so stays so. Nothing else is
 * applied: a file with another kind is refused before anything is sent.
 *
 * A loop of its own; returns when all is done, at most APPLY_LIMIT_MS for each definition.
 */
#ifndef CLUSTER_KUBE_APPLY_H
#define CLUSTER_KUBE_APPLY_H

#include <stddef.h>

#include "common/error.h"

enum { APPLY_FILE_MAX = 1024 * 1024, APPLY_LIMIT_MS = 30000 };

/* `kubeconfig` as cluster_kube_config. Says each definition on stdout once the server has it. Errors name the file or the definition, with
 * the server's own words. */
int apply_definitions(const char *kubeconfig, const char *const *files, size_t n, error *err);

#endif
