/* Answers to nodes that ask for the keys of a Secret: reads it from the cluster and publishes the answer, or why there is none. What may be
 * answered was decided by the core. Values are overwritten when the answer is on its way; no log line holds one. Loop thread.
 */
#ifndef CLOUD_CREDENTIALS_H
#define CLOUD_CREDENTIALS_H

#include "cloud-agent/cluster/cluster.h"
#include "common/mqtt/agent.h"

/* Whose job it is; must outlive the answers (which end with the cluster's stop). */
typedef struct credentials {
	controller *core;
	mqtt_client *mqtt;
	void (*answered)(void *ctx); /* controller_answered was called: there may be more to do */
	void *ctx;
} credentials;

/* A CLOUD_CREDENTIAL. All of it is copied. */
void credentials_answer(credentials *c, cluster *from, const cloud_action *action);

#endif
