/* What the agent's log says of workers: that they start, end, are to start again. The words of the workers themselves are in their own logs. */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/pods_internal.h"
#include "cloud-agent/cluster/local/supervisor/contract.h"
#include "common/json.h"
#include "common/log.h"

static const char *text_at(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(object, name));
	return text != NULL ? text : "";
}

static int64_t number_at(const cJSON *object, const char *name)
{
	const cJSON *m = json_member(object, name);
	return cJSON_IsNumber(m) ? (int64_t)m->valuedouble : 0;
}

/* As its pod's status has it. */
static int64_t exit_of(const cJSON *written)
{
	const cJSON *last = json_member(written, "last");
	int64_t signal = number_at(last, "signal");
	return signal != 0 ? 128 + signal : number_at(last, "exitCode");
}

void pods__say_again(tracked *t, const cJSON *written)
{
	int64_t restarts = number_at(written, "restarts");
	bool fetching = text_at(written, "fetch")[0] != '\0';
	int64_t this_one = fetching ? -restarts - 1 : restarts + 1;
	if (strcmp(text_at(written, "state"), WORKER_WAITING) != 0 || t->said_again == this_one)
		return;
	t->said_again = this_one;
	char *log = pods__log(t->owner, t->ns, t->name);
	log_warn("local", fetching ? "what a worker reads cannot be fetched; it is tried again" : "worker ended, starts again",
		L_STR("pod", t->name), L_INT("exit", exit_of(written)), L_INT("restarts", restarts),
		L_INT("in_ms", number_at(written, "backoffMs")), L_STR("log", log));
	free(log);
}

void pods__say_ended(const tracked *t, const cJSON *written)
{
	if (written != NULL && json_member(written, "last") != NULL)
		log_info("local", "worker ended as it was asked to", L_STR("pod", t->name), L_INT("exit", exit_of(written)));
	else
		log_info("local", "worker ended as it was asked to", L_STR("pod", t->name));
}

void pods__say_phase(const char *name, const cJSON *status)
{
	const cJSON *fetcher = cJSON_GetArrayItem(json_member(status, "initContainerStatuses"), 0);
	const cJSON *container = fetcher != NULL ? fetcher : cJSON_GetArrayItem(json_member(status, "containerStatuses"), 0);
	const cJSON *end = json_member(json_member(container, "state"), "terminated");
	const char *phase = text_at(status, "phase");
	/* Phase Failed is what a pod has whose worker was stopped; as news it would mislead. */
	if (strcmp(text_at(status, "reason"), "Stopped") == 0)
		log_info("local", "worker ended as it was asked to", L_STR("pod", name), L_INT("exit", number_at(end, "exitCode")));
	else if (end != NULL)
		log_info("local", "worker", L_STR("pod", name), L_STR("phase", phase), L_INT("exit", number_at(end, "exitCode")));
	else
		log_info("local", "worker", L_STR("pod", name), L_STR("phase", phase), L_STR("reason", text_at(status, "reason")));
}
