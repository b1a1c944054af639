/* See slim.h for the contract.
 *
 * The names of members are most of what a parsed object consists of: each is an allocation of its own, of 32 bytes for a word like "name". What is
 * not in the table, such as the keys of labels, stays as it is.
 */
#include "cloud-agent/cluster/kube/slim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Sorted. Those of our custom resources and of pod templates. */
static const char *const names[] = {"annotations", "apiVersion", "args", "checkPeriodSeconds", "command", "condition", "conditions",
	"containers", "cpu", "creationTimestamp", "credentialName", "data", "dataset", "deployModel", "deploySpec", "deployedRound", "end",
	"env", "evalSpec", "format", "generation", "hardExampleMining", "hardExamples", "hostNetwork", "hostPath", "hotUpdateEnabled", "image",
	"imagePullPolicy", "inference", "inferences", "initialEvalModel", "initialModel", "key", "kind", "labels", "lastHeartbeatTime",
	"lastMetric", "lastTransitionTime", "limits", "memory", "message", "metadata", "metric", "model", "mountPath", "name", "namespace",
	"nodeName", "nodeSelector", "numberOfSamples", "operator", "outputDir", "parameters", "path", "phase", "pollPeriodSeconds", "readOnly",
	"reason", "requests", "resourceVersion", "resources", "restartPolicy", "round", "spec", "stage", "start", "startTime", "status",
	"template", "threshold", "timer", "tolerations", "trainProb", "trainSpec", "trigger", "type", "uid", "updateTime", "url", "value",
	"valueFrom", "volumeMounts", "volumes", "workingDir"};

static int compare(const void *name, const void *entry)
{
	return strcmp(name, *(const char *const *)entry);
}

static void share_name(cJSON *item)
{
	const char *const *known;

	if (item->string == NULL || (item->type & cJSON_StringIsConst) != 0)
		return;
	known = bsearch(item->string, names, sizeof names / sizeof names[0], sizeof names[0], compare);
	if (known == NULL)
		return;
	cJSON_free(item->string);
	item->string = (char *)(uintptr_t)*known; /* cJSON neither writes to it nor frees it, by the flag */
	item->type |= cJSON_StringIsConst;
}

static void share_names(cJSON *parent)
{
	/* As deep as the parser lets it be. */
	for (cJSON *item = parent != NULL ? parent->child : NULL; item != NULL; item = item->next) {
		share_name(item);
		share_names(item);
	}
}

void object_slim(cJSON *object)
{
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "managedFields");
	share_names(object);
}
