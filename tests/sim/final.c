/* What must hold when all faults are over and all parts had their time: guarantees 1, 4, 5 and 7, and that everybody agrees.
 *
 * A world is settled when each job waits for samples that are not there. A job that could go on and does not, for longer than one retry
 * period and the time that a stage may take, breaks guarantee 4.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "edge-agent/core/split.h"
#include "tests/sim/sim.h"

enum { OBJECT_BYTES_MAX = 16000, CURSOR_SLACK_MS = 20 * 60 * 1000 };

static int64_t longest(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Index of the first waiting sample. */
static int64_t first_waiting(const dataset_file *f, const track *t)
{
	int64_t index = t->has_cursor ? file_locate(f, &t->cursor) : 0;

	return index < 0 ? 0 : index;
}

static bool waits_for_samples(world *w, const track *t)
{
	const job_setup *j = t->job;
	const dataset_file *f = &w->files[j->file];
	int64_t index = first_waiting(f, t), from = t->has_cursor ? t->cursor.sample : 0;

	if (t->pos.stage != STAGE_TRAIN || t->pos.phase != PHASE_WAITING)
		return false;
	return f->missing || split_count(from, from + f->n - index, j->train_prob) < j->train_threshold;
}

bool world_settled(world *w)
{
	int64_t period = longest(longest(MINUTES(10), w->slow_ms * 6 / 5), MINUTES(6)) + CURSOR_SLACK_MS;
	bool all = true;

	for (size_t i = 0; i < w->n_tracks; i++) {
		const track *t = w->tracks[i];
		char at_text[48];
		bool asks = t->alive && job_asks(t->job->object);

		if (asks && w->quiet && w->now - longest(longest(t->since, t->asked_at), w->last_fault) > period)
			violated(w, 4, "%s (%s) has been asked for a rollback in vain", t->job->name, t->uid);
		all = all && !asks;
		if (!t->alive || (t->placed && waits_for_samples(w, t)))
			continue;
		all = false;
		position_format(t->pos, at_text);
		if (w->quiet && w->now - longest(t->since, w->last_fault) > period)
			violated(w, 4, "%s (%s) does not go on from %s", t->job->name, t->uid, t->placed ? at_text : "its beginning");
	}
	return all;
}

/* ---- 1 ---- */

static void check_samples(world *w, const track *t)
{
	const dataset_file *f = &w->files[t->job->file];
	const sample_track *s = &t->samples[t->job->file];
	int64_t index = first_waiting(f, t);

	for (int64_t i = 0; i < f->n; i++) {
		uint32_t id = f->ids[i];
		bool used = id < s->cap && s->used[id] != 0;

		if (id < f->exempt || id < s->exempt)
			continue;
		if (i < index && !used)
			violated(w, 1, "%s: sample %u is lost: it does not wait, and no completed round has it", t->uid, id);
		if (i >= index && used)
			violated(w, 1, "%s: sample %u waits, but a completed round has it", t->uid, id);
	}
}

/* ---- 5 ---- */

/* A result that came before its document has a bounded time (checked where it is kept); once more than that has passed nothing is left. */
static void check_early(world *w, const device *d, const track *t)
{
	for (const object *o = w->objects; o != NULL; o = o->next) {
		for (size_t i = 0; i < d->store.n_early && o->pod != NULL && strcmp(o->pod->job_uid, t->uid) == 0; i++) {
			if (strcmp(d->store.early[i].worker, o->pod->worker) == 0)
				violated(w, 5, "%s still keeps a result of %s of the deleted job %s", d->name, o->pod->worker, t->uid);
		}
	}
}

static void check_gone(world *w, const track *t)
{
	for (const object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->pod != NULL && strcmp(o->pod->job_uid, t->uid) == 0)
			violated(w, 5, "pod %s of the deleted job %s is left", o->name, t->uid);
	}
	for (size_t i = 0; i < w->broker.n_retained; i++) {
		const msg *m = w->broker.retained[i];

		if (strstr(m->payload, t->uid) != NULL)
			violated(w, 5, "%s still speaks of the deleted job %s", m->topic, t->uid);
	}
	for (size_t i = 0; i < w->n_devices; i++) {
		const device *d = &w->devices[i];

		if (d->agent != NULL && edge_agent_record(d->agent, t->uid) != NULL)
			violated(w, 5, "%s still holds the deleted job %s", d->name, t->uid);
		for (size_t k = 0; k < d->store.n_jobs; k++) {
			if (strcmp(d->store.jobs[k]->desired->job.uid, t->uid) == 0)
				violated(w, 5, "the store of %s still holds the deleted job %s", d->name, t->uid);
		}
		check_early(w, d, t);
	}
}

/* What a device said of a dataset does not outlive the dataset. */
static void check_statuses(world *w)
{
	for (size_t i = 0; i < w->broker.n_retained; i++) {
		const msg *m = w->broker.retained[i];
		const object *o;
		topic t;

		if (topic_parse(TOPIC_ROOT, m->topic, &t, NULL) != 0 || t.kind != TOPIC_DATASET_STATUS)
			continue;
		o = object_find(w, OBJECT_DATASET, t.name);
		if (o == NULL || strcmp(json_member(json_member(o->json, "spec"), "nodeName")->valuestring, t.node) != 0)
			violated(w, 5, "%s is left of a dataset that is not there", m->topic);
	}
}

/* ---- agreement ---- */

static void check_state_topic(world *w, const track *t)
{
	topic where = {.kind = TOPIC_STATE};
	position p;
	char *text, shown[48], held[48];
	const msg *m;

	strcpy(where.ns, "default");
	strncpy(where.name, t->job->name, sizeof(where.name) - 1);
	text = topic_format(TOPIC_ROOT, &where);
	m = broker_retained(w, text);
	free(text);
	position_format(t->pos, held);
	if (m == NULL || !payload_position(m->payload, &p))
		violated(w, 4, "no state of %s is on the broker", t->uid);
	position_format(p, shown);
	if (position_compare(p, t->pos) != 0)
		violated(w, 4, "the state topic of %s says %s, the cluster %s", t->uid, shown, held);
}

static void check_devices(world *w, const track *t)
{
	device *d = t->job->dataset_node;
	const record *r = d->agent != NULL ? edge_agent_record(d->agent, t->uid) : NULL;
	char seen[48], held[48];

	if (r == NULL)
		violated(w, 4, "%s does not hold job %s", d->name, t->uid);
	position_format(r->desired->position, seen);
	position_format(t->pos, held);
	if (position_compare(r->desired->position, t->pos) != 0)
		violated(w, 4, "%s believes that %s is at %s, the cluster says %s", d->name, t->uid, seen, held);
	for (size_t i = 0; i < r->n_rows; i++) {
		if (!r->rows[i].settled)
			violated(w, 4, "%s: a report of %s is not settled", d->name, t->uid);
	}
}

static void check_serving(world *w, const track *t)
{
	uint64_t content = model_get(disk_of(w, t->job->deploy_node, t->job->deploy_url), t->job->deploy_url);
	int running = 0;

	for (const object *o = w->objects; o != NULL; o = o->next) {
		const pod *p = o->json != NULL ? o->pod : NULL;

		if (p == NULL || p->kind != WORKER_INFERENCE || strcmp(p->job_uid, t->uid) != 0 || !pod_alive(p))
			continue;
		running++;
		if (p->phase == POD_IS_RUNNING && p->loaded != content && !t->reimaged && !t->displaced)
			violated(w, 3, "%s serves content %llu, but %llu is deployed", o->name, (unsigned long long)p->loaded,
				(unsigned long long)content);
	}
	if (running != 1)
		violated(w, 4, "%s has %d inference pods", t->uid, running);
}

/* Nothing is in the way any more, so the condition does not say so. */
static void check_reason(world *w, const track *t)
{
	const object *job = object_find(w, OBJECT_JOB, t->job->name);
	const cJSON *list = json_member(json_member(job->json, "status"), "conditions");
	const cJSON *reason = json_member(cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1), "reason");

	if (!phase_ended(t->pos.phase) && reason != NULL)
		violated(w, 4, "%s says %s, which is over", t->uid, reason->valuestring);
}

/* What was deployed last is in the Model's status. */
static void check_model(world *w, const track *t)
{
	const object *job = object_find(w, OBJECT_JOB, t->job->name), *model_is = object_find(w, OBJECT_MODEL, t->job->deploy);
	const cJSON *list = json_member(json_member(job->json, "status"), "conditions");
	const cJSON *text = json_member(cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1), "data"), *deployed, *since, *updated;
	int64_t deployed_at, updated_at = 0;
	cJSON *data = NULL;

	if (model_is == NULL || !cJSON_IsString(text) ||
		json_parse(text->valuestring, strlen(text->valuestring), OBJECT_BYTES_MAX, &data, NULL) != 0)
		return;
	deployed = json_member(json_member(data, "ilmare"), "deployed");
	since = json_member(deployed, "since");
	updated = json_member(json_member(model_is->json, "status"), "updateTime");
	if (cJSON_IsString(since) && time_parse(since->valuestring, &deployed_at) == 0 &&
		strcmp(json_member(deployed, "url")->valuestring, json_member(json_member(model_is->json, "spec"), "url")->valuestring) == 0 &&
		(!cJSON_IsString(updated) || time_parse(updated->valuestring, &updated_at) != 0 || updated_at < deployed_at))
		violated(w, 4, "Model %s does not say what was deployed at %s", t->job->deploy, since->valuestring);
	cJSON_Delete(data);
}

/* ---- 7 ---- */

static void check_object(world *w, const object *o)
{
	char *text = json_print(o->json);
	size_t bytes = strlen(text);
	const cJSON *list = json_member(json_member(o->json, "status"), "conditions");
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

	free(text);
	if (o->track != NULL && (int64_t)bytes > o->track->bytes_max)
		o->track->bytes_max = (int64_t)bytes;
	if (bytes > OBJECT_BYTES_MAX)
		violated(w, 7, "the object of job %s has %zu bytes", o->name, bytes);
	if (n > w->conditions_max)
		violated(w, 7, "job %s has %d conditions", o->name, n);
}

static void check_device(world *w, const device *d)
{
	size_t bytes = 0;

	for (size_t i = 0; i < d->store.n_jobs; i++) {
		const record *r = d->store.jobs[i];

		bytes += strlen(r->document);
		if (r->n_rows > RECORD_MAX_ROWS)
			violated(w, 7, "%s keeps %zu reports of one job", d->name, r->n_rows);
		for (size_t k = 0; k < r->n_rows; k++) {
			bytes += strlen(r->rows[k].payload);
			if (r->rows[k].position.round < r->desired->position.round - 1)
				violated(w, 7, "%s keeps a report of round %lld in round %lld", d->name, (long long)r->rows[k].position.round,
					(long long)r->desired->position.round);
		}
	}
	if (d->store.n_jobs > SIM_JOBS_MAX * 2)
		violated(w, 7, "%s holds %zu jobs", d->name, d->store.n_jobs);
	if (d->store.n_early > d->config.provisional_max)
		violated(w, 7, "%s keeps %zu early results", d->name, d->store.n_early);
	if (bytes > 60 * 1000 * (d->store.n_jobs + 1))
		violated(w, 7, "the store of %s has %zu bytes", d->name, bytes);
}

void bounds_check(world *w)
{
	size_t most = 2 + w->n_devices * 2 + w->n_files * (1 + w->n_devices) * 2 + w->n_jobs * (1 + w->n_devices) * 2;

	for (const object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->kind == OBJECT_JOB)
			check_object(w, o);
	}
	for (size_t i = 0; i < w->n_devices; i++)
		check_device(w, &w->devices[i]);
	if (w->broker.n_retained > most)
		violated(w, 7, "the broker holds %zu retained messages", w->broker.n_retained);
}

void final_checks(world *w)
{
	bounds_check(w);
	check_statuses(w);
	for (size_t i = 0; i < w->n_tracks; i++) {
		const track *t = w->tracks[i];

		if (!t->alive) {
			check_gone(w, t);
			continue;
		}
		check_samples(w, t);
		check_state_topic(w, t);
		check_devices(w, t);
		check_serving(w, t);
		check_model(w, t);
		check_reason(w, t);
		if (t->n_decided != t->n_asks)
			violated(w, 3, "%s: %d rollbacks were asked for, %d decided", t->uid, t->n_asks, t->n_decided);
	}
}
