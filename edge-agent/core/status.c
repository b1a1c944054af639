/* What is told beside reports: the status of datasets, and the counters of inference workers.
 *
 * Both are states, not events: the newest one counts, they are thinned to one in status_interval_ms each, and nothing is queued. A dataset's
 * status is retained, goes out when it differs from the last one, and once more on each new link, so one that was lost does not stay lost.
 *
 * When a dataset has left the node, an empty message takes its status from the broker (guarantee 5): once the store has let the dataset go,
 * and again on each new link, while this agent runs. The list of those that left is memory, bounded as the datasets are. What a stop or
 * a crash in between leaves behind is cleared by the cloud agent, which clears for nodes that never come back as well.
 */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "edge-agent/core/agent_internal.h"

/* ---- datasets ---- */

void status__dirty(edge_agent *a, const char *dataset_uid)
{
	for (size_t i = 0; i < a->n_datasets; i++)
		a->datasets[i]->dirty |= strcmp(a->datasets[i]->uid, dataset_uid) == 0;
}

/* Jobs tell of their dataset what its file cannot: what went unused, and why they cannot go on. */
static void add_jobs(const edge_agent *a, const dataset *d, dataset_status *s)
{
	for (size_t i = 0; i < a->n_jobs; i++) {
		const job *j = a->jobs[i];

		if (j->rec == NULL || !j->rec->desired->has_dataset || strcmp(j->rec->desired->dataset.uid, d->uid) != 0)
			continue;
		if (j->rec->removed > s->removed)
			s->removed = j->rec->removed;
		if (s->error == NULL)
			s->error = j->problem.text;
	}
}

/* Encoded twice at most: without the time, to be compared, and with it. */
static char *status_text(const edge_agent *a, const dataset *d, const char *ts)
{
	const dataset_view *v = &d->file->view;
	char changed[32];
	dataset_status s = {
		.ts = ts,
		.node = a->node,
		.dataset = d->doc->dataset,
		.samples = v->samples,
		.size = v->size,
		.waiting_bytes = v->waiting_bytes,
		.skipped = v->skipped,
		.error = v->error,
	};

	if (v->changed_ms > 0) {
		time_format(v->changed_ms, changed);
		s.changed = changed;
	}
	add_jobs(a, d, &s);
	return dataset_status_encode(&s);
}

static char *status_topic(const edge_agent *a, const char *ns, const char *name)
{
	topic t = {.kind = TOPIC_DATASET_STATUS};

	strncpy(t.ns, ns, sizeof(t.ns) - 1);
	strncpy(t.name, name, sizeof(t.name) - 1);
	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

static bool dataset_publish(edge_agent *a, dataset *d, moment now, edge_action *out)
{
	char ts[32];
	char *text;

	if (!d->dirty || d->doc == NULL || d->file == NULL || !d->file->view.looked)
		return false;
	if (!d->force && now.mono_ms < d->next_at) {
		agent__wake_at(a, d->next_at);
		return false;
	}
	d->dirty = false;
	text = status_text(a, d, NULL);
	if (!d->force && d->published != NULL && strcmp(text, d->published) == 0) {
		free(text);
		return false;
	}
	d->force = false;
	d->next_at = now.mono_ms + a->config.status_interval_ms;
	free(d->published);
	d->published = text;
	time_format(now.unix_ms, ts);
	agent__publish(a, out, status_topic(a, d->ns, d->name), status_text(a, d, ts), true);
	return true;
}

/* ---- those that left ---- */

static void departed_remove(edge_agent *a, size_t i)
{
	free(a->departed[i].ns);
	free(a->departed[i].name);
	memmove(&a->departed[i], &a->departed[i + 1], (a->n_departed - i - 1) * sizeof(*a->departed));
	a->n_departed--;
}

void status__held(edge_agent *a, const dataset *d)
{
	for (size_t i = 0; i < a->n_departed; i++) {
		if (strcmp(a->departed[i].name, d->name) == 0 && strcmp(a->departed[i].ns, d->ns) == 0) {
			departed_remove(a, i);
			return;
		}
	}
}

void status__left(edge_agent *a, const dataset *d)
{
	for (size_t i = 0; i < a->n_datasets; i++) {
		const dataset *other = a->datasets[i];

		if (other != d && strcmp(other->name, d->name) == 0 && strcmp(other->ns, d->ns) == 0)
			return; /* its topic is that of another uid now, or will be gone with it */
	}
	status__held(a, d);
	if (a->n_departed >= a->config.datasets_max)
		departed_remove(a, 0);
	a->departed = mem_resize_array(a->departed, a->n_departed + 1, sizeof(*a->departed));
	a->departed[a->n_departed++] = (departed){.ns = mem_strdup(d->ns), .name = mem_strdup(d->name), .due = true};
}

static bool departed_publish(edge_agent *a, edge_action *out)
{
	for (size_t i = 0; i < a->n_departed; i++) {
		if (!a->departed[i].due)
			continue;
		a->departed[i].due = false;
		agent__publish(a, out, status_topic(a, a->departed[i].ns, a->departed[i].name), mem_strdup(""), true);
		return true;
	}
	return false;
}

void status__link_up(edge_agent *a)
{
	for (size_t i = 0; i < a->n_datasets; i++)
		a->datasets[i]->dirty = a->datasets[i]->force = true;
	for (size_t i = 0; i < a->n_departed; i++)
		a->departed[i].due = true;
}

void status__fini(edge_agent *a)
{
	while (a->n_departed > 0)
		departed_remove(a, a->n_departed - 1);
	free(a->departed);
}

bool status__publish(edge_agent *a, moment now, edge_action *out)
{
	if (a->linked && departed_publish(a, out))
		return true;
	for (size_t i = 0; i < a->n_datasets; i++) {
		if (dataset_publish(a, a->datasets[i], now, out))
			return true;
	}
	return false;
}

/* ---- inference ---- */

/* Scripts differ in what they send and how; what is not understood is left out. */
static int64_t info_int(const cJSON *info, const char *name)
{
	int64_t value = 0;

	return json_get_int(info, "ownerInfo", name, 0, JSON_MAX_INT, &value, NULL) == 1 ? value : 0;
}

/* Times travel as words; one that is none, or too long for a document, is left out. */
static const char *info_time(arena *mem, const cJSON *info, const char *name)
{
	enum { TIME_TEXT_MAX = 64 };
	const char *text;

	if (json_get_string(info, "ownerInfo", name, &text, NULL) != 1 || strlen(text) > TIME_TEXT_MAX)
		return NULL;
	for (const char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7F)
			return NULL;
	}
	return arena_strdup(mem, text);
}

void stats__note(edge_agent *a, job *j, const worker_post *p, moment now)
{
	arena *mem;
	infer_stats *s;

	(void)a;
	(void)now;
	if (p->owner_info == NULL)
		return;
	mem = arena_new();
	s = arena_alloc(mem, sizeof(*s));
	s->mem = mem;
	s->worker = arena_strdup(mem, p->worker);
	s->inferences = info_int(p->owner_info, "inferenceNumber");
	s->hard_examples = info_int(p->owner_info, "hardExampleNumber");
	s->has_upload_ratio = json_get_double(p->owner_info, "ownerInfo", "uploadCloudRatio", &s->upload_ratio, NULL) == 1;
	s->start_time = info_time(mem, p->owner_info, "startTime");
	s->update_time = info_time(mem, p->owner_info, "updateTime");
	infer_stats_free(j->stats.newest);
	j->stats.newest = s;
	j->stats.dirty = true;
}

static char *stats_topic(const edge_agent *a, const job *j)
{
	topic t = {.kind = TOPIC_STATS};

	strncpy(t.ns, j->ns, sizeof(t.ns) - 1);
	strncpy(t.name, j->name, sizeof(t.name) - 1);
	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

bool stats__publish(edge_agent *a, moment now, edge_action *out)
{
	for (size_t i = 0; i < a->n_jobs; i++) {
		job *j = a->jobs[i];
		infer_stats s;
		char ts[32];

		if (!j->stats.dirty || j->rec == NULL)
			continue;
		if (now.mono_ms < j->stats.next_at) {
			agent__wake_at(a, j->stats.next_at);
			continue;
		}
		j->stats.dirty = false;
		j->stats.next_at = now.mono_ms + a->config.status_interval_ms;
		time_format(now.unix_ms, ts);
		s = *j->stats.newest;
		s.ts = ts;
		s.node = a->node;
		s.job = j->rec->desired->job;
		agent__publish(a, out, stats_topic(a, j), infer_stats_encode(&s), false);
		return true;
	}
	return false;
}
