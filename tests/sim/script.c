/* What the traces are told with. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/trace.h"

enum { PATIENCE_MS = 60 * 60 * 1000 };

track *script_track(const world *w)
{
	return w->jobs[0].object != NULL ? w->jobs[0].object->track : w->tracks[w->n_tracks - 1];
}

bool script_is(const world *w, int64_t round, enum stage stage, enum phase phase)
{
	const track *t = script_track(w);

	return t->placed && t->pos.round == round && t->pos.stage == stage && t->pos.phase == phase;
}

void script_until(world *w, int64_t round, enum stage stage, enum phase phase)
{
	position wanted = {.round = round, .stage = stage, .phase = phase};
	int64_t end = w->now + PATIENCE_MS;
	char text[48], here[48];

	while (!script_track(w)->placed || position_compare(script_track(w)->pos, wanted) < 0) {
		if (!world_step(w, end)) {
			position_format(wanted, text);
			position_format(script_track(w)->pos, here);
			violated(w, 0, "%s is not reached, the job is at %s", text, here);
		}
	}
}

void script_start(world *w)
{
	for (size_t i = 0; i < w->n_devices; i++)
		device_start(w, &w->devices[i]);
	cloud_start(w, &w->clouds[0]);
	job_create(w, &w->jobs[0]);
	script_until(w, 1, STAGE_TRAIN, PHASE_WAITING);
}

void script_begin(world *w, size_t devices, int64_t samples)
{
	setup_script(w, devices);
	file_append(w, &w->files[0], samples);
	script_start(w);
}

pod *script_pod(world *w, enum worker_kind kind, int64_t round)
{
	int64_t end = w->now + PATIENCE_MS;
	pod *p;

	while ((p = pod_find(w, script_track(w)->uid, kind, round)) == NULL || p->phase != POD_IS_RUNNING) {
		if (!world_step(w, end))
			violated(w, 0, "no %s worker of round %lld runs", worker_kind_word(kind), (long long)round);
	}
	return p;
}

void script_post(world *w, pod *p)
{
	int64_t end = w->now + PATIENCE_MS;

	worker_post_result(w, p, "completed");
	while (!p->accepted && world_step(w, end))
		;
	EXPECT(w, p->accepted);
}

void script_work(world *w, enum worker_kind kind, int64_t round)
{
	pod *p = script_pod(w, kind, round);

	if (kind == WORKER_TRAIN)
		worker_write(w, p);
	script_post(w, p);
	pod_end(w, p, true);
}

void script_finish(world *w, int64_t round)
{
	if (script_track(w)->pos.stage == STAGE_TRAIN)
		script_work(w, WORKER_TRAIN, round);
	script_until(w, round, STAGE_EVAL, PHASE_WAITING);
	if (script_track(w)->pos.stage == STAGE_EVAL)
		script_work(w, WORKER_EVAL, round);
	script_until(w, round + 1, STAGE_TRAIN, PHASE_WAITING);
}

void script_round(world *w, int64_t round)
{
	script_until(w, round, STAGE_TRAIN, PHASE_READY);
	script_finish(w, round);
}

folder *script_folder(world *w, int64_t round)
{
	job_setup *j = &w->jobs[0];

	return folder_find(disk_of(w, j->dataset_node, j->output_dir), j->output_dir, round);
}

void script_wait_folder(world *w, int64_t round, int64_t to)
{
	int64_t end = w->now + PATIENCE_MS;

	while ((script_folder(w, round) == NULL || script_folder(w, round)->range.to != to) && world_step(w, end))
		;
	EXPECT(w, script_folder(w, round) != NULL && script_folder(w, round)->range.to == to);
}

const record *script_record(const world *w, size_t device_index)
{
	const device *d = &w->devices[device_index];

	return d->agent != NULL ? edge_agent_record(d->agent, script_track(w)->uid) : NULL;
}

uint64_t script_deployed(const world *w)
{
	const job_setup *j = &w->jobs[0];

	return model_get(disk_of((world *)w, j->deploy_node, j->deploy_url), j->deploy_url);
}

char *script_topic(const world *w, enum topic_kind kind, size_t device_index)
{
	topic t = {.kind = kind, .ns = "default"};

	strncpy(t.name, w->jobs[0].name, sizeof(t.name) - 1);
	strncpy(t.node, w->devices[device_index].name, sizeof(t.node) - 1);
	return topic_format(TOPIC_ROOT, &t);
}

bool script_state_says(const world *w, const char *text)
{
	char *where = script_topic(w, TOPIC_STATE, 0);
	const msg *m = broker_retained(w, where);

	free(where);
	return m != NULL && strstr(m->payload, text) != NULL;
}

void script_publish(world *w, const char *topic_text, const char *payload)
{
	broker_put(w, topic_text, payload);
}

/* ---- the cluster by hand ---- */

void script_condition(world *w, enum phase phase, const char *reason)
{
	object *o = w->jobs[0].object;
	cJSON *list = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o->json, "status"), "conditions");
	cJSON *last = cJSON_Duplicate(cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1), 1);
	char time[32];

	time_format(w->unix_base + w->now, time);
	cJSON_ReplaceItemInObjectCaseSensitive(last, "type", cJSON_CreateString(phase_name(phase)));
	cJSON_ReplaceItemInObjectCaseSensitive(last, "lastTransitionTime", cJSON_CreateString(time));
	cJSON_DeleteItemFromObjectCaseSensitive(last, "reason");
	json_put_string(last, "reason", reason);
	cJSON_AddItemToArray(list, last);
	object_changed(w, o);
	track_status(w, o);
}

void script_threshold(world *w, double threshold)
{
	object *o = w->jobs[0].object;
	cJSON *node = o->json;
	static const char *const path[] = {"spec", "deploySpec", "trigger", "condition"};

	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++)
		node = cJSON_GetObjectItemCaseSensitive(node, path[i]);
	cJSON_ReplaceItemInObjectCaseSensitive(node, "threshold", cJSON_CreateNumber(threshold));
	w->jobs[0].deploy_threshold = threshold;
	w->jobs[0].edited_at = w->now;
	object_changed(w, o);
}

/* ---- the end ---- */

static void workers_go_on(world *w)
{
	for (object *o = w->objects; o != NULL; o = o->next) {
		pod *p = o->json != NULL ? o->pod : NULL;

		if (p == NULL || p->kind == WORKER_INFERENCE)
			continue;
		p->by_hand = false;
		if (p->phase != POD_IS_RUNNING)
			continue;
		if (p->accepted)
			pod_end(w, p, true);
		else
			worker_start(w, p);
	}
}

void trace_end(world *w)
{
	say(w, "---- the script ends ----");
	for (size_t i = 0; i < sizeof(w->broker.holds) / sizeof(w->broker.holds[0]); i++) {
		if (w->broker.holds[i].active)
			broker_release(w, &w->broker.holds[i]);
	}
	w->script = false;
	workers_go_on(w);
	for (size_t i = 0; i < w->n_devices; i++) {
		w->devices[i].disk_full = false;
		device_power(w, &w->devices[i], true);
		device_network(w, &w->devices[i], true);
		client_network(w, w->devices[i].link, true);
		device_start(w, &w->devices[i]);
		pod_flush(w, &w->devices[i]);
	}
	for (size_t i = 0; i < SIM_CLOUDS; i++) {
		client_network(w, w->clouds[i].link, true);
		if (w->clouds[i].enabled)
			cloud_start(w, &w->clouds[i]);
	}
	w->last_fault = w->now;
	world_settle(w);
}
