/* An object as the API server sends it, made as small as it can be kept: thousands of them are. Pure.
 */
#ifndef CLUSTER_KUBE_SLIM_H
#define CLUSTER_KUBE_SLIM_H

#include <cjson/cJSON.h>

/* Takes out metadata.managedFields, which nobody here reads and which is up to a third of an object; and gives back the memory of each member's
 * name that is one of the API's usual ones: those point to constants then, in copies of the tree too. Everything else is as it was. */
void object_slim(cJSON *object);

#endif
