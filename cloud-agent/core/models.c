/* Models: where they are, and what a deployment makes of their status.
 *
 * The status says when a file was replaced last, and what the evaluation said of what is there now. It follows from the job that deployed it:
 * from the member of its last condition, which names the urls that were written, and from its last Eval, as long as that is the one of the
 * deployed round. So it is worked out at each look at the job, written where it is newer than what is there, and a restart loses nothing.
 *
 * It is for people: nothing is decided by it, and a cluster that does not keep it is not asked twice for the same deployment. Times only ever
 * grow, so that two jobs with one Model between them, which is wrong, do not write in turn.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "proto/metric.h"

/* ---- the objects ---- */

static void model_read(model_object *m, const cJSON *object)
{
	arena *mem = arena_new();
	const cJSON *socs = json_member(json_member(object, "spec"), "device_soc_versions"), *soc;
	if (m->mem != NULL)
		arena_free(m->mem);
	m->mem = mem;
	m->wrong = m->credential = NULL;
	m->uid = arena_strdup(mem, object_text(object, "metadata", "uid"));
	m->m = (model){
		.url = arena_strdup(mem, object_text(object, "spec", "url")), .format = arena_strdup(mem, object_text(object, "spec", "format"))};
	if (object_text(object, "spec", "credentialName")[0] != '\0')
		m->credential = arena_strdup(mem, object_text(object, "spec", "credentialName"));
	char *wrong = url_wrong(m->m.url);
	m->wrong = arena_strdup(mem, wrong);
	free(wrong);
	if (m->wrong == NULL && strlen(m->m.format) > 64)
		m->wrong = "spec.format: is too long";
	if (cJSON_IsArray(socs)) {
		m->m.socs = arena_alloc(mem, ((size_t)cJSON_GetArraySize(socs) + 1) * sizeof *m->m.socs);
		cJSON_ArrayForEach(soc, socs) {
			if (cJSON_IsString(soc) && m->m.n_socs < 32)
				m->m.socs[m->m.n_socs++] = arena_strdup(mem, soc->valuestring);
		}
	}
	if (time_parse(object_text(object, "status", "updateTime"), &m->updated) != 0)
		m->updated = 0;
	free(m->write.rv);
	m->write.rv = mem_strdup(object_text(object, "metadata", "resourceVersion"));
}

static bool has_news(const model_object *m)
{
	return m->wanted > m->updated && m->wanted > m->told;
}

/* A look goes through all there is, so it is not asked for without need. */
static void touch(controller *c, model_object *m)
{
	if (has_news(m))
		status_write_touch(c, &m->write);
}

void model_object_put(controller *c, const char *key, const char *ns, const char *name, const cJSON *object)
{
	model_object *m = table_get(&c->models, key);
	if (m != NULL &&
		(strcmp(m->uid, object_text(object, "metadata", "uid")) != 0 || strcmp(m->m.url, object_text(object, "spec", "url")) != 0)) {
		model_object_drop(c, key); /* nothing that was to be said of it is true of this one */
		m = NULL;
	}
	if (m == NULL) {
		m = mem_alloc(sizeof *m);
		m->ns = mem_strdup(ns);
		m->name = mem_strdup(name);
		status_write_init(&m->write);
		table_put(&c->models, key, m);
	}
	model_read(m, object);
	touch(c, m);
}

void model_object_drop(controller *c, const char *key)
{
	model_object *m = table_remove(&c->models, key);
	if (m == NULL)
		return;
	status_write_fini(c, &m->write);
	arena_free(m->mem);
	cJSON_Delete(m->metrics);
	free(m->ns);
	free(m->name);
	free(m);
}

model_object *model_find(const controller *c, const char *ns, const char *name)
{
	char *key = object_key(ns, name);
	model_object *m = table_get(&c->models, key);
	free(key);
	return m;
}

void models_touch_all(controller *c)
{
	for (size_t i = 0; i < c->models.n; i++)
		touch(c, c->models.entries[i].value);
}

/* ---- status ---- */

static void metric_add(cJSON *list, const cJSON *metric)
{
	cJSON *entry = cJSON_CreateObject();
	char *text = cJSON_IsString(metric) ? mem_strdup(metric->valuestring) : json_print(metric);
	json_put_string(entry, "key", metric->string);
	json_put_string(entry, "value", text != NULL ? text : "");
	cJSON_AddItemToArray(list, entry);
	free(text);
}

/* [{key, value}] of the model that is deployed, the trigger's metric first; NULL: it is not known (any more). */
static cJSON *metrics_of(const job_view *v)
{
	const results *r = &v->evaluated;
	metric_expr e = {0};
	if (!r->there || v->m.deployed.back || r->round != v->m.deployed.round || r->n == 0 || r->models[0].metrics == NULL)
		return NULL;
	if (v->spec_error == NULL && v->deploy.has_condition && metric_parse(v->deploy.metric, &e, NULL) != 0)
		e.name[0] = '\0';
	cJSON *list = cJSON_CreateArray();
	const cJSON *first = json_member(r->models[0].metrics, e.name), *metric;
	if (first != NULL)
		metric_add(list, first);
	cJSON_ArrayForEach(metric, r->models[0].metrics) {
		if (metric != first)
			metric_add(list, metric);
	}
	return list;
}

static void wish(controller *c, const job *j, const char *name, const char *url, int64_t since)
{
	model_object *m = name != NULL && url != NULL ? model_find(c, j->ns, name) : NULL;
	if (m == NULL || strcmp(m->m.url, url) != 0 || since <= m->wanted)
		return;
	cJSON_Delete(m->metrics);
	m->metrics = metrics_of(j->view);
	m->wanted = since;
	model_status_look(c, m);
}

void models_wish(controller *c, const job *j)
{
	const job_view *v = j->view;
	int64_t since;
	if (v->spec_error != NULL || !v->m.has_deployed || v->m.deployed.round < 1 || v->m.deployed.since == NULL ||
		time_parse(v->m.deployed.since, &since) != 0)
		return;
	wish(c, j, v->deploy_model, v->m.deployed.url, since);
	wish(c, j, v->eval_model, v->m.deployed.eval_url, since);
}

void model_status_look(controller *c, model_object *m)
{
	if (m->write.done)
		m->told = m->sent;
	m->write.done = false;
	if (!status_write_due(c, &m->write, has_news(m)))
		return;
	char time[32];
	cJSON *status = cJSON_CreateObject();
	time_format(m->wanted, time);
	json_put_string(status, "updateTime", time);
	/* In a merge patch null takes away: what was said of an earlier file. */
	json_put(status, "metrics", m->metrics != NULL ? cJSON_Duplicate(m->metrics, 1) : cJSON_CreateNull());
	m->sent = m->wanted;
	status_write_patch(c, &m->write, OBJECT_MODEL, m->ns, m->name, m->uid, NULL, status);
}
