/* Credentials by value: in the place of the references to a Secret's keys that the core puts into a pod.
 *
 * For nodes that cannot resolve references (old versions of KubeEdge). Whoever may read pods reads the keys then, which is why this is a switch
 * that is off. Variables of the template stay as they are. Pure.
 */
#ifndef CLUSTER_KUBE_CREDENTIALS_H
#define CLUSTER_KUBE_CREDENTIALS_H

#include <cjson/cJSON.h>

#include "common/error.h"

/* The name of a Secret that one of our variables refers to; NULL: none is left. */
const char *credentials_needed(const cJSON *pod);
/* Put the values of this Secret (an object with base64 `data`) in. INVALID, with a text, if a key is missing or no text. */
int credentials_put(cJSON *pod, const char *secret, const cJSON *object, error *err);
/* Overwrite the values, before the pod is freed. */
void credentials_wipe(cJSON *pod);

#endif
