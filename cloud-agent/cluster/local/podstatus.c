/* A pod's status: see podstatus.h for the contract. */
#include "cloud-agent/cluster/local/podstatus.h"

#include <stdio.h>
#include <string.h>

#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/json.h"

static cJSON *one_container(const char *name, double restarts, bool running, cJSON *state, cJSON *last)
{
	cJSON *list = cJSON_CreateArray(), *container = cJSON_CreateObject();
	json_put_string(container, "name", name);
	json_put_int(container, "restartCount", (int64_t)restarts);
	json_put_bool(container, "ready", running);
	json_put_bool(container, "started", running);
	json_put(container, "state", state);
	json_put(container, "lastState", last);
	cJSON_AddItemToArray(list, container);
	return list;
}

static cJSON *wrap(const char *name, cJSON *value)
{
	cJSON *outer = cJSON_CreateObject();
	json_put(outer, name, value);
	return outer;
}

static cJSON *make(const char *phase, const char *reason, const char *message, cJSON *containers)
{
	cJSON *status = cJSON_CreateObject();
	json_put_string(status, "phase", phase);
	json_put(status, "reason", reason != NULL ? cJSON_CreateString(reason) : cJSON_CreateNull());
	json_put(status, "message", message != NULL ? cJSON_CreateString(message) : cJSON_CreateNull());
	json_put(status, "conditions", cJSON_CreateNull());
	json_put(status, "initContainerStatuses", cJSON_CreateNull());
	json_put(status, "containerStatuses", containers);
	return status;
}

static cJSON *waiting(const char *reason, const char *message)
{
	cJSON *state = cJSON_CreateObject();
	json_put_string(state, "reason", reason);
	json_put_string(state, "message", message);
	return wrap("waiting", state);
}

cJSON *podstatus_pending(const char *container)
{
	return make("Pending", NULL, NULL, one_container(container, 0, false, waiting("ContainerCreating", NULL), NULL));
}

cJSON *podstatus_unstarted(const char *container, const char *message)
{
	cJSON *status = podstatus_pending(container), *conditions = cJSON_CreateArray(), *condition = cJSON_CreateObject();
	json_put_string(condition, "type", "PodScheduled");
	json_put_string(condition, "status", "False");
	json_put_string(condition, "reason", "Unschedulable");
	json_put_string(condition, "message", message);
	cJSON_AddItemToArray(conditions, condition);
	cJSON_ReplaceItemInObjectCaseSensitive(status, "conditions", conditions);
	return status;
}

cJSON *podstatus_failed(const char *container, const char *reason, const char *message)
{
	return make("Failed", reason, message, one_container(container, 0, false, waiting(reason, message), NULL));
}

static double number(const cJSON *obj, const char *name)
{
	const cJSON *m = json_member(obj, name);
	return cJSON_IsNumber(m) ? m->valuedouble : 0;
}

/* Kubernetes' runtimes give 128 + signal as the exit code of a killed process. */
static cJSON *terminated(const cJSON *last)
{
	if (!cJSON_IsObject(last))
		return NULL;
	static const char *const texts[] = {"reason", "message", "startedAt", "finishedAt"};
	cJSON *state = cJSON_CreateObject();
	int64_t signal = (int64_t)number(last, "signal");
	json_put_int(state, "exitCode", signal != 0 ? 128 + signal : (int64_t)number(last, "exitCode"));
	if (signal != 0)
		json_put_int(state, "signal", signal);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		json_put_string(state, texts[i], cJSON_GetStringValue(json_member(last, texts[i])));
	return wrap("terminated", state);
}

static cJSON *back_off(const cJSON *status)
{
	char text[80];
	snprintf(text, sizeof text, "back-off %.0f s before the next start", number(status, "backoffMs") / 1000);
	return waiting("CrashLoopBackOff", text);
}

/* What the worker reads is being fetched, or could not be: as with an init container, of which the one that counts is listed. */
static cJSON *from_fetch(const cJSON *status, const char *fetch, const char *container)
{
	const char *word = cJSON_GetStringValue(json_member(status, "state"));
	bool stopped = cJSON_IsTrue(json_member(status, "stopped")), ended = word != NULL && strcmp(word, WORKER_ENDED) == 0;
	cJSON *last = terminated(json_member(status, "last")), *state = NULL, *outer;
	if (ended) {
		state = last != NULL ? last : waiting("Stopped", NULL);
		last = NULL;
	} else if (word != NULL && strcmp(word, WORKER_WAITING) == 0) {
		state = back_off(status);
	} else {
		cJSON *running = cJSON_CreateObject();
		json_put_string(running, "startedAt", cJSON_GetStringValue(json_member(status, "startedAt")));
		state = wrap("running", running);
	}
	outer = make(ended ? "Failed" : "Pending", stopped ? "Stopped" : NULL, stopped ? "the worker was ended on request" : NULL,
		one_container(container, 0, false, waiting("PodInitializing", NULL), NULL));
	cJSON_ReplaceItemInObjectCaseSensitive(outer, "initContainerStatuses",
		one_container(fetch, number(status, "restarts"), false, state, last));
	return outer;
}

static cJSON *from_ended(const cJSON *status, const char *container)
{
	const cJSON *last = json_member(status, "last");
	bool stopped = cJSON_IsTrue(json_member(status, "stopped"));
	bool good = cJSON_IsObject(last) && number(last, "exitCode") == 0 && number(last, "signal") == 0 && !stopped;
	cJSON *state = terminated(last);
	if (state == NULL)
		state = waiting("Stopped", NULL);
	return make(good ? "Succeeded" : "Failed", stopped ? "Stopped" : NULL, stopped ? "the worker was ended on request" : NULL,
		one_container(container, number(status, "restarts"), false, state, NULL));
}

cJSON *podstatus_from(const cJSON *status, bool alive, const char *container)
{
	const char *state = cJSON_GetStringValue(json_member(status, "state"));
	const char *fetch = cJSON_GetStringValue(json_member(status, "fetch"));
	if (fetch != NULL && (alive || (state != NULL && strcmp(state, WORKER_ENDED) == 0)))
		return from_fetch(status, fetch, container);
	if (state != NULL && strcmp(state, WORKER_ENDED) == 0)
		return from_ended(status, container);
	cJSON *last = terminated(json_member(status, "last"));
	double restarts = number(status, "restarts");
	if (!alive) {
		const char *text = "the worker's supervisor ended before the worker did: it was killed, or the machine went down";
		return make("Failed", "Lost", text, one_container(container, restarts, false, waiting("Lost", text), last));
	}
	if (state != NULL && strcmp(state, WORKER_WAITING) == 0) {
		return make("Running", NULL, NULL, one_container(container, restarts, false, back_off(status), last));
	}
	cJSON *running = cJSON_CreateObject();
	json_put_string(running, "startedAt", cJSON_GetStringValue(json_member(status, "startedAt")));
	return make("Running", NULL, NULL, one_container(container, restarts, true, wrap("running", running), last));
}
