/* See lease.h for the contract. */
#include "cloud-agent/cluster/kube/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/resource.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/random.h"
#include "proto/document.h"

#define ANNOTATION_EPOCH "ilmare/epoch"

enum { LAST_REQUESTS = 4 }; /* of one who leaves: enough for a write that was lost and one that met another */

struct lease {
	char *ns, *name, *identity;
	int64_t duration_ms, renew_ms, retry_ms;
	uint64_t random;

	cJSON *object; /* as last answered; NULL: unknown, or there is none */
	bool absent;   /* there is none */
	bool leads, busy, must_read, reading;
	enum { STAYS, LEAVES, RELEASING, GONE, RELEASED } end; /* RELEASING: the request under way gives it back */
	int last_requests;                                     /* since it leaves */
	char *holder, *version;
	int64_t seen_at;       /* since when we see this version */
	int64_t their_ms;      /* how long its holder wants it to last */
	int64_t epoch, wanted; /* ours; to be written with the request under way */
	int64_t raise_above;
	int64_t next_at, asked_at, renewed_at;
	char *problem, *trouble; /* of the last answer that was none; in whole sentences */
};

lease *lease_new(const lease_config *c)
{
	lease *l = mem_alloc(sizeof *l);

	l->ns = mem_strdup(c->ns);
	l->name = mem_strdup(c->name);
	l->identity = mem_strdup(c->identity);
	l->duration_ms = c->duration_ms;
	l->renew_ms = c->renew_ms;
	l->retry_ms = c->retry_ms;
	l->random = c->seed;
	l->holder = mem_strdup("");
	l->version = mem_strdup("");
	l->problem = mem_strdup("");
	l->must_read = true;
	l->raise_above = -1;
	return l;
}

void lease_free(lease *l)
{
	if (l == NULL)
		return;
	cJSON_Delete(l->object);
	free(l->ns);
	free(l->name);
	free(l->identity);
	free(l->holder);
	free(l->version);
	free(l->problem);
	free(l->trouble);
	free(l);
}

bool lease_leads(const lease *l)
{
	return l->leads && l->end == STAYS;
}

int64_t lease_epoch(const lease *l)
{
	return l->epoch;
}

int64_t lease_fence(const lease *l)
{
	return l->renewed_at + l->renew_ms;
}

const char *lease_holder(const lease *l)
{
	return l->leads || strcmp(l->holder, l->identity) == 0 ? "" : l->holder;
}

/* ---- the object ---- */

static const char *text_in(const cJSON *object, const char *part, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(object, part), name));

	return text != NULL ? text : "";
}

static int64_t epoch_of(const cJSON *object)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(json_member(object, "metadata"), "annotations"), ANNOTATION_EPOCH));
	long long epoch = text != NULL ? strtoll(text, NULL, 10) : 0;

	return epoch > 0 && epoch < DOCUMENT_MAX_EPOCH ? epoch : 0;
}

static void micro_time(int64_t unix_ms, char out[40])
{
	char text[32];

	time_format(unix_ms, text); /* "…:05.123Z"; MicroTime has six digits */
	snprintf(out, 40, "%.*s000Z", (int)strcspn(text, "Z"), text);
}

static cJSON *part_of(cJSON *object, const char *name)
{
	cJSON *part = cJSON_GetObjectItemCaseSensitive(object, name);

	if (part != NULL)
		return part;
	part = cJSON_CreateObject();
	json_put(object, name, part);
	return part;
}

static void replace(cJSON *object, const char *name, cJSON *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(object, name);
	json_put(object, name, value);
}

/* The Lease as it shall be: ours from now on, or given back. Its version stays in it, so that the write fails if somebody else was faster. */
static char *body(const lease *l, moment now, bool release)
{
	cJSON *object = l->object != NULL ? cJSON_Duplicate(l->object, 1) : cJSON_CreateObject();
	cJSON *metadata, *spec;
	char when[40], epoch[24], *text;
	const cJSON *transitions;
	int64_t seconds = (l->duration_ms + 999) / 1000;

	json_put_string(object, "apiVersion", l->object != NULL ? NULL : "coordination.k8s.io/v1");
	json_put_string(object, "kind", l->object != NULL ? NULL : "Lease");
	metadata = part_of(object, "metadata");
	spec = part_of(object, "spec");
	replace(metadata, "namespace", cJSON_CreateString(l->ns));
	replace(metadata, "name", cJSON_CreateString(l->name));
	cJSON_DeleteItemFromObjectCaseSensitive(metadata, "managedFields");
	snprintf(epoch, sizeof epoch, "%lld", (long long)l->wanted);
	replace(part_of(metadata, "annotations"), ANNOTATION_EPOCH, cJSON_CreateString(epoch));
	micro_time(now.unix_ms, when);
	transitions = json_member(spec, "leaseTransitions");
	if (!l->leads) {
		replace(spec, "leaseTransitions", cJSON_CreateNumber(cJSON_IsNumber(transitions) ? transitions->valuedouble + 1 : 0));
		replace(spec, "acquireTime", cJSON_CreateString(when));
	}
	replace(spec, "holderIdentity", cJSON_CreateString(release ? "" : l->identity));
	replace(spec, "leaseDurationSeconds", cJSON_CreateNumber((double)(release ? 1 : seconds)));
	replace(spec, "renewTime", cJSON_CreateString(when));
	text = json_print(object);
	cJSON_Delete(object);
	return text;
}

static char *path(const lease *l, bool collection)
{
	return mem_printf("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", l->ns, collection ? "" : "/", collection ? "" : l->name);
}

/* ---- what comes next ---- */

static bool may_take(const lease *l, moment now)
{
	if (l->absent || l->holder[0] == 0 || strcmp(l->holder, l->identity) == 0)
		return true;
	return now.mono_ms - l->seen_at >= l->their_ms;
}

const char *lease_trouble(const lease *l, moment now)
{
	return l->leads || l->problem[0] == 0 || !may_take(l, now) ? "" : l->trouble;
}

static int64_t new_epoch(const lease *l, moment now)
{
	int64_t epoch = epoch_of(l->object) + 1;

	if (l->leads && l->raise_above < l->epoch)
		return l->epoch;
	if (epoch <= l->raise_above)
		epoch = l->raise_above + 1;
	return epoch > now.unix_ms / 1000 ? epoch : now.unix_ms / 1000;
}

/* What is left to ask by one who leaves. */
static bool last_next(lease *l, moment now, lease_request *out)
{
	if (l->busy || l->end >= GONE)
		return false;
	if ((!l->must_read && !l->leads) || l->last_requests == LAST_REQUESTS) {
		l->end = GONE;
		return false;
	}
	l->last_requests++;
	l->busy = true;
	l->reading = l->must_read;
	if (l->reading) {
		*out = (lease_request){.method = "GET", .path = path(l, false)};
		return true;
	}
	l->end = RELEASING;
	l->wanted = l->epoch;
	*out = (lease_request){.method = "PUT", .path = path(l, false), .body = body(l, now, true)};
	return true;
}

bool lease_next(lease *l, moment now, lease_request *out)
{
	if (l->end != STAYS)
		return last_next(l, now, out);
	if (l->leads && now.mono_ms >= lease_fence(l)) {
		log_warn("kube", "the Lease could not be renewed in time", L_STR("lease", l->name), L_STR("error", l->problem));
		l->leads = false;
		l->must_read = true;
	}
	if (l->busy || now.mono_ms < l->next_at)
		return false;
	l->busy = true;
	l->asked_at = now.mono_ms;
	l->reading = l->must_read || (!l->leads && !may_take(l, now));
	if (l->reading) {
		*out = (lease_request){.method = "GET", .path = path(l, false)};
		return true;
	}
	l->wanted = new_epoch(l, now);
	*out = (lease_request){.method = l->absent ? "POST" : "PUT", .path = path(l, l->absent), .body = body(l, now, false)};
	return true;
}

int64_t lease_timeout(const lease *l)
{
	return l->renew_ms / 2;
}

int64_t lease_wake(const lease *l)
{
	int64_t at = l->busy ? MOMENT_NEVER : l->next_at;

	return l->leads && lease_fence(l) < at ? lease_fence(l) : at;
}

/* ---- answers ---- */

static void look(lease *l, const cJSON *object, moment now)
{
	const char *version = text_in(object, "metadata", "resourceVersion");
	const cJSON *seconds = json_member(json_member(object, "spec"), "leaseDurationSeconds");

	l->absent = false;
	if (strcmp(version, l->version) != 0) {
		mem_replace(&l->version, version);
		l->seen_at = now.mono_ms;
	}
	mem_replace(&l->holder, text_in(object, "spec", "holderIdentity"));
	l->their_ms = cJSON_IsNumber(seconds) && seconds->valueint > 0 ? seconds->valueint * INT64_C(1000) : l->duration_ms;
	cJSON_Delete(l->object);
	l->object = cJSON_Duplicate(object, 1);
}

static void wait(lease *l, moment now)
{
	/* Up to a fifth later, so that several do not ask in step. */
	l->next_at = now.mono_ms + l->retry_ms + random_below(&l->random, l->retry_ms / 5 + 1);
}

static void failed(lease *l, int code, const char *text, moment now)
{
	if (code == ERROR_NOT_FOUND && l->reading) {
		l->must_read = false;
		l->absent = true;
		cJSON_Delete(l->object);
		l->object = NULL;
		mem_replace(&l->holder, "");
		l->next_at = now.mono_ms;
		return;
	}
	/* Somebody was faster, or it is not known whether ours arrived: look before the next try. */
	l->must_read = true;
	if (code == ERROR_CONFLICT || code == ERROR_EXISTS) {
		l->next_at = now.mono_ms;
		return;
	}
	if (strcmp(text, l->problem) != 0)
		log_warn("kube", "the Lease cannot be read or written; tried again", L_STR("lease", l->name), L_STR("error", text),
			L_STR("help",
				code == ERROR_DENIED && resource_stranger(text) == NULL ?
					"needed are the verbs get, create and update for leases in API group \"coordination.k8s.io\"" :
					""));
	mem_replace(&l->problem, text);
	free(l->trouble);
	l->trouble = mem_printf("no agent leads: the Lease %s in namespace %s cannot be read or written: %s", l->name, l->ns, text);
	wait(l, now);
}

/* To one who leaves. Whose it is counts, not who leads: a request that was taken for lost may have made it ours. */
static void last_answer(lease *l, int code, const cJSON *object, moment now)
{
	bool releasing = l->end == RELEASING;

	if (code == 0 && object != NULL) {
		look(l, object, now);
		l->must_read = false;
		l->leads = strcmp(l->holder, l->identity) == 0;
		l->epoch = epoch_of(object);
		l->end = releasing ? RELEASED : LEAVES;
	} else if (code == ERROR_CONFLICT || (!l->reading && !releasing)) {
		l->must_read = true;
		l->end = LEAVES;
	} else {
		l->end = GONE;
	}
}

void lease_answer(lease *l, int code, const char *text, const cJSON *object, moment now)
{
	l->busy = false;
	if (l->end != STAYS) {
		last_answer(l, code, object, now);
		return;
	}
	if (code != 0 || object == NULL) {
		failed(l, code, text, now);
		return;
	}
	mem_replace(&l->problem, "");
	look(l, object, now);
	wait(l, now);
	if (l->reading) {
		l->must_read = false;
		/* Ours already: a write that we took for lost arrived, or an agent of the same identity was here before. */
		if (l->leads && strcmp(l->holder, l->identity) != 0)
			l->leads = false;
		if (l->leads || may_take(l, now))
			l->next_at = now.mono_ms;
		return;
	}
	l->leads = true;
	l->epoch = l->wanted;
	l->renewed_at = l->asked_at;
	if (l->raise_above < l->epoch)
		l->raise_above = -1;
}

/* ---- wishes ---- */

void lease_raise(lease *l, int64_t above)
{
	if (above > l->raise_above)
		l->raise_above = above;
	l->next_at = 0;
}

void lease_release(lease *l)
{
	if (l->end == STAYS)
		l->end = l->leads || (l->busy && !l->reading) ? LEAVES : GONE;
}

bool lease_over(const lease *l)
{
	return l->end >= GONE;
}

bool lease_released(const lease *l)
{
	return l->end == RELEASED;
}
