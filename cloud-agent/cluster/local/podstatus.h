/* A pod's status, as Kubernetes would show it, from what its supervisor wrote (supervisor/contract.h). Each is a merge patch for the pod's
 * status, to be freed. Pure.
 */
#ifndef LOCAL_PODSTATUS_H
#define LOCAL_PODSTATUS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Created; its supervisor has said nothing yet. */
cJSON *podstatus_pending(const char *container);
/* It cannot run, or is lost. */
/* Pending, as no worker can be started on this machine just now: in a cluster, one that no node can take. */
cJSON *podstatus_unstarted(const char *container, const char *message);
cJSON *podstatus_failed(const char *container, const char *reason, const char *message);
/* As the supervisor says. Not alive, though its status says otherwise: lost. */
cJSON *podstatus_from(const cJSON *status, bool alive, const char *container);

#endif
