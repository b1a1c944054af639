/* What the edge agents tell about datasets, brought into Dataset.status: from the dataset's own node and about its own uid alone, at most once
 * in an interval, and only what changed. Messages may come before the dataset does; the newest of each node is kept.
 *
 * A status is retained, and whoever said it may be gone for good, together with its dataset. So what belongs to no Dataset, or to one that is
 * on another node now, is cleared here: from complete lists alone, like all that is cleared, and again from time to time until the broker shows
 * that it is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"

static char *status_key(const char *ns, const char *name, const char *node_name)
{
	return mem_printf("%s/%s/%s", ns, name, node_name);
}

static void status_free(edge_status *s)
{
	if (s == NULL)
		return;
	free(s->ns);
	free(s->name);
	free(s->node);
	free(s->uid);
	free(s->changed);
	free(s->error);
	free(s);
}

void dataset_statuses_fini(controller *c)
{
	for (size_t i = 0; i < c->statuses.n; i++)
		status_free(c->statuses.entries[i].value);
	table_fini(&c->statuses);
}

const edge_status *dataset_status_of(const controller *c, const dataset *d)
{
	char *key = status_key(d->ns, d->name, d->node);
	const edge_status *s = table_get(&c->statuses, key);
	free(key);
	return s != NULL && strcmp(s->uid, d->uid) == 0 ? s : NULL;
}

void dataset_touch(controller *c, dataset *d)
{
	status_write_touch(c, &d->write);
}

static void touch(controller *c, const topic *t)
{
	char *key = object_key(t->ns, t->name);
	dataset *d = table_get(&c->datasets, key);
	free(key);
	if (d == NULL)
		return;
	dataset_touch(c, d);
	objects_touch_users(c, OBJECT_DATASET, t->ns, t->name);
}

static bool is_left_over(const controller *c, const edge_status *s)
{
	char *key = object_key(s->ns, s->name);
	const dataset *d = table_get(&c->datasets, key);
	free(key);
	return d == NULL || (d->wrong == NULL && strcmp(d->node, s->node) != 0);
}

int dataset_status_take(controller *c, const topic *t, const void *payload, size_t len, error *err)
{
	dataset_status *said = NULL;
	char *key = status_key(t->ns, t->name, t->node);
	int code = len > 0 ? dataset_status_decode(payload, len, &said, err) : 0;
	if (code == 0 && said != NULL &&
		(strcmp(said->node, t->node) != 0 || strcmp(said->dataset.ns, t->ns) != 0 || strcmp(said->dataset.name, t->name) != 0))
		code = error_set(err, ERROR_INVALID, "status: what it says it is of is not what its topic says");
	if (code == 0 && c->statuses.n >= STATUSES_MAX && table_get(&c->statuses, key) == NULL)
		code = error_set(err, ERROR_LIMIT, "status: more than %d datasets", STATUSES_MAX);
	if (code == 0) {
		status_free(table_remove(&c->statuses, key));
		if (said != NULL) {
			edge_status *s = mem_alloc(sizeof *s);
			s->ns = mem_strdup(t->ns);
			s->name = mem_strdup(t->name);
			s->node = mem_strdup(said->node);
			s->uid = mem_strdup(said->dataset.uid);
			s->changed = mem_strdup(said->changed);
			s->error = mem_strdup(said->error);
			s->samples = said->samples;
			table_put(&c->statuses, key, s);
			if (!c->synced || is_left_over(c, s))
				c->statuses_due = true;
		}
		touch(c, t);
	}
	dataset_status_free(said);
	free(key);
	return code;
}

/* ---- of nobody any more ---- */

void dataset_statuses_again(controller *c)
{
	for (size_t i = 0; i < c->statuses.n; i++)
		((edge_status *)c->statuses.entries[i].value)->cleared = false;
	c->statuses_due = c->statuses.n > 0;
}

static bool clear(controller *c, edge_status *s, cloud_action *out)
{
	topic t = {.kind = TOPIC_DATASET_STATUS};
	text_copy(t.ns, sizeof t.ns, s->ns);
	text_copy(t.name, sizeof t.name, s->name);
	text_copy(t.node, sizeof t.node, s->node);
	s->cleared = true;
	c->count.cleared++;
	c->out_topic = topic_format(c->cfg.root, &t);
	*out = (cloud_action){.kind = CLOUD_PUBLISH};
	out->publish.topic = c->out_topic;
	out->publish.payload = "";
	out->publish.retained = true;
	return true;
}

bool dataset_status_clear_next(controller *c, cloud_action *out)
{
	for (size_t i = 0; c->statuses_due && i < c->statuses.n; i++) {
		edge_status *s = c->statuses.entries[i].value;
		if (!is_left_over(c, s))
			s->cleared = false;
		else if (!s->cleared)
			return clear(c, s, out);
	}
	c->statuses_due = false;
	return false;
}

/* ---- Dataset.status ---- */

void dataset_status_look(controller *c, dataset *d)
{
	const edge_status *s = dataset_status_of(c, d);
	bool due = status_write_due(c, &d->write, s != NULL && !(d->has_samples && d->samples == s->samples));
	if (!due)
		return;
	char time[32];
	time_format(c->now.unix_ms, time);
	cJSON *status = cJSON_CreateObject();
	json_put_int(status, "numberOfSamples", s->samples);
	json_put_string(status, "updateTime", s->changed != NULL ? s->changed : time);
	status_write_patch(c, &d->write, OBJECT_DATASET, d->ns, d->name, d->uid, d->node, status);
}
