/* Scheduler and kubelets: what becomes of a pod between its creation and its end.
 *
 * A pod lives on its node whatever the API server knows: while the node's network is down nothing is reported and no deletion is heard of.
 * A container that fails is started again in place, later and later, unless the pod says Never. Power off ends all processes of a node.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/sim.h"

#define HOSTNAME_LABEL "kubernetes.io/hostname"

enum { UNREACHABLE_MS = 40 * 1000 };

bool pod_alive(const pod *p)
{
	return p->o->json != NULL && (p->phase == POD_IS_PENDING || p->phase == POD_IS_RUNNING);
}

pod *pod_find(const world *w, const char *job_uid, enum worker_kind kind, int64_t round)
{
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->pod != NULL && o->pod->kind == kind && o->pod->round == round && strcmp(o->pod->job_uid, job_uid) == 0)
			return o->pod;
	}
	return NULL;
}

static device *device_named(world *w, const char *name)
{
	for (size_t i = 0; i < w->n_devices; i++) {
		if (strcmp(w->devices[i].name, name) == 0)
			return &w->devices[i];
	}
	return NULL;
}

static bool reachable(const device *d)
{
	return d->lan && d->powered;
}

/* ---- reports ---- */

static void put_status(pod *p)
{
	static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed"};
	cJSON *status = cJSON_CreateObject(), *list = cJSON_CreateArray(), *container = cJSON_CreateObject();

	json_put_string(status, "phase", names[p->phase]);
	json_put_int(container, "restartCount", p->restarts);
	cJSON_AddItemToArray(list, container);
	json_put(status, "containerStatuses", list);
	cJSON_DeleteItemFromObjectCaseSensitive(p->o->json, "status");
	json_put(p->o->json, "status", status);
}

void pod_report(world *w, pod *p)
{
	if (p->o->json == NULL)
		return;
	if (p->node != NULL && !reachable(p->node)) {
		p->dirty = true;
		return;
	}
	p->dirty = false;
	put_status(p);
	object_changed(w, p->o);
}

/* ---- steps ---- */

static void advance(world *w, void *obj, void *data);

static void advance_later(world *w, pod *p, int64_t mean)
{
	at(w, w->now + rnd_delay(w, mean), advance, p, NULL);
}

static void bind_node(world *w, pod *p)
{
	cJSON *spec = cJSON_GetObjectItemCaseSensitive(p->o->json, "spec");
	const cJSON *pinned = json_member(spec, "nodeName"), *selected = json_member(json_member(spec, "nodeSelector"), HOSTNAME_LABEL);

	if (pinned != NULL)
		p->node = device_named(w, pinned->valuestring);
	else if (selected != NULL)
		p->node = device_named(w, selected->valuestring);
	else
		p->node = &w->devices[rnd(w) % w->n_devices];
	if (p->node == NULL)
		violated(w, 0, "pod %s names an unknown node", p->o->name);
	say(w, "pod %s is bound to %s", p->o->name, p->node->name);
	if (pinned == NULL) {
		json_put_string(spec, "nodeName", p->node->name);
		object_changed(w, p->o);
	}
}

void pod_gone(world *w, pod *p)
{
	if (p->o->json == NULL)
		return;
	p->life++;
	p->phase = p->phase == POD_IS_SUCCEEDED ? POD_IS_SUCCEEDED : POD_IS_FAILED;
	object_delete(w, p->o);
}

void pod_taken(world *w, pod *p)
{
	track *t = track_of(w, p->job_uid);
	enum stage stage = p->kind == WORKER_TRAIN ? STAGE_TRAIN : STAGE_EVAL;

	if (t == NULL || p->kind == WORKER_INFERENCE || t->pos.round != p->round || t->pos.stage != stage || t->pos.phase != PHASE_READY)
		return;
	track_round(t, p->round)->creates[p->kind == WORKER_EVAL]--;
}

static void advance(world *w, void *obj, void *data)
{
	pod *p = obj;

	(void)data;
	if (p->o->json == NULL)
		return;
	if (p->deleting && (p->node == NULL || !pod_alive(p) || reachable(p->node))) {
		pod_gone(w, p);
		return;
	}
	if (p->deleting || p->phase != POD_IS_PENDING)
		return;
	if (p->node == NULL) {
		bind_node(w, p);
		advance_later(w, p, 500);
		return;
	}
	if (!reachable(p->node))
		return; /* pod_flush comes back */
	p->phase = POD_IS_RUNNING;
	pod_report(w, p);
	worker_start(w, p);
}

void pod_delete(world *w, pod *p)
{
	char time[32];

	if (p->deleting || p->o->json == NULL)
		return;
	p->deleting = true;
	time_format(w->unix_base + w->now, time);
	json_put_string(cJSON_GetObjectItemCaseSensitive(p->o->json, "metadata"), "deletionTimestamp", time);
	object_changed(w, p->o);
	advance_later(w, p, 300);
}

void pod_end(world *w, pod *p, bool succeeded)
{
	p->life++;
	p->phase = succeeded ? POD_IS_SUCCEEDED : POD_IS_FAILED;
	say(w, "pod %s %s", p->o->name, succeeded ? "succeeded" : "failed");
	pod_report(w, p);
}

static void start_again(world *w, void *obj, void *data)
{
	pod *p = obj;

	(void)data;
	if (p->o->json != NULL && p->phase == POD_IS_RUNNING && p->node->powered)
		worker_start(w, p);
}

void pod_container_failed(world *w, pod *p)
{
	int64_t wait = SECONDS(10) << (p->restarts < 5 ? p->restarts : 5);

	if (p->restart_never && p->kind != WORKER_INFERENCE) {
		pod_end(w, p, false);
		return;
	}
	p->life++;
	p->restarts++;
	say(w, "pod %s: its container failed, restart %d", p->o->name, p->restarts);
	pod_report(w, p);
	at_life(w, w->now + (w->script ? 1000 : wait), start_again, p, NULL, &p->life);
}

/* ---- nodes ---- */

static void node_check(world *w, void *obj, void *data)
{
	device *d = obj;
	object *o = object_find(w, OBJECT_NODE, d->name);
	cJSON *status;

	(void)data;
	if (o == NULL)
		return;
	if (d->listed == reachable(d))
		return;
	d->listed = reachable(d);
	status = cJSON_Parse(d->listed ? "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}" :
									 "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]}");
	cJSON_DeleteItemFromObjectCaseSensitive(o->json, "status");
	json_put(o->json, "status", status);
	object_changed(w, o);
}

void pod_flush(world *w, device *d)
{
	at(w, w->now + (reachable(d) ? SECONDS(2) : UNREACHABLE_MS), node_check, d, NULL);
	for (object *o = w->objects; o != NULL && reachable(d); o = o->next) {
		pod *p = o->pod;

		if (o->json == NULL || p == NULL || p->node != d)
			continue;
		if (p->dirty)
			pod_report(w, p);
		if (p->deleting || p->phase == POD_IS_PENDING)
			advance_later(w, p, 1000);
	}
}

void pod_power(world *w, device *d, bool on)
{
	for (object *o = w->objects; o != NULL; o = o->next) {
		pod *p = o->pod;

		if (o->json == NULL || p == NULL || p->node != d || p->phase != POD_IS_RUNNING)
			continue;
		p->life++;
		if (on)
			pod_container_failed(w, p);
	}
	pod_flush(w, d);
}

/* ---- making ---- */

static const char *env_of(const cJSON *pod_json, const char *name)
{
	const cJSON *containers = json_member(json_member(pod_json, "spec"), "containers"), *entry;

	cJSON_ArrayForEach(entry, json_member(cJSON_GetArrayItem(containers, 0), "env")) {
		const cJSON *n = json_member(entry, "name"), *v = json_member(entry, "value");

		if (cJSON_IsString(n) && strcmp(n->valuestring, name) == 0)
			return cJSON_IsString(v) ? v->valuestring : "";
	}
	return "";
}

void url_outside(char *out, size_t size, const char *path)
{
	bool fetched = strncmp(path, "/downloads/", 11) == 0;

	snprintf(out, size, "%s%s", fetched ? "s3://" : "", fetched ? path + 11 : strncmp(path, "/home/data/", 11) == 0 ? path + 10 : path);
}

pod *pod_new(world *w, object *o)
{
	pod *p = mem_alloc(sizeof(*p));
	const cJSON *metadata = json_member(o->json, "metadata"), *labels = json_member(metadata, "labels");
	const cJSON *policy = json_member(json_member(o->json, "spec"), "restartPolicy");

	p->o = o;
	p->life = 1;
	snprintf(p->job_uid, sizeof(p->job_uid), "%s", json_member(labels, "incrementallearningjob.sedna.io/uid")->valuestring);
	snprintf(p->job_name, sizeof(p->job_name), "%s", json_member(labels, "incrementallearningjob.sedna.io/name")->valuestring);
	if (!worker_kind_parse(json_member(labels, "incrementallearningjob.sedna.io/worker-type")->valuestring, &p->kind))
		violated(w, 0, "pod %s has no worker type", o->name);
	p->round = strtoll(json_member(json_member(metadata, "annotations"), "ilmare/round")->valuestring, NULL, 10);
	p->hot = json_member(json_member(metadata, "annotations"), "ilmare/hot-update") != NULL;
	p->restart_never = cJSON_IsString(policy) && strcmp(policy->valuestring, "Never") == 0;
	snprintf(p->worker, sizeof(p->worker), "%s", env_of(o->json, "WORKER_NAME"));
	url_outside(p->model_url, sizeof(p->model_url), env_of(o->json, "MODEL_URL"));
	url_outside(p->data_url, sizeof(p->data_url), env_of(o->json, p->kind == WORKER_TRAIN ? "TRAIN_DATASET_URL" : "TEST_DATASET_URL"));
	snprintf(p->model_urls, sizeof(p->model_urls), "%s", env_of(o->json, "MODEL_URLS"));
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(o->json, "spec"), "containers");
	p->by_hand = w->script;
	put_status(p);
	advance_later(w, p, 500);
	return p;
}
