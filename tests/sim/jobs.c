/* What users do: datasets, models and jobs that are made, changed, deleted and made again.
 *
 * A job_setup is what the user wants at the moment, and its object holds the same as JSON. A change replaces the whole spec, as an apply does;
 * when it takes effect is the cores' business. Which of a dataset's samples may be new again after the job read another one is noted here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/sim.h"

enum { MODEL_AT_FIRST = 1 };

/* ---- objects ---- */

static cJSON *parse(char *text)
{
	cJSON *json = cJSON_Parse(text);

	if (json == NULL)
		abort();
	free(text);
	return json;
}

void dataset_create(world *w, int file)
{
	const dataset_file *f = &w->files[file];
	char id[NAME_SIZE];

	snprintf(id, sizeof(id), "data-%d", file);
	if (object_find(w, OBJECT_DATASET, id) != NULL)
		return;
	object_add(w, OBJECT_DATASET, id,
		parse(mem_printf("{\"metadata\":{},\"spec\":{\"url\":\"%s\",\"format\":\"%s\",\"nodeName\":\"%s\"}}", f->url,
			dataset_format_name(f->format), f->node->name)));
}

void node_create(world *w, device *d)
{
	d->listed = true;
	object_add(w, OBJECT_NODE, d->name,
		parse(mem_strdup("{\"metadata\":{},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}")));
}

static void model_create(world *w, const char *name, const char *url, device *node)
{
	if (model_get(disk_of(w, node, url), url) == 0)
		model_put(disk_of(w, node, url), url, MODEL_AT_FIRST);
	if (object_find(w, OBJECT_MODEL, name) == NULL)
		object_add(w, OBJECT_MODEL, name, parse(mem_printf("{\"metadata\":{},\"spec\":{\"url\":\"%s\",\"format\":\"bin\"}}", url)));
}

static bool apart(const job_setup *j)
{
	return strncmp(j->output_dir, "s3://", 5) == 0;
}

void models_create(world *w, job_setup *j)
{
	char url[128];

	snprintf(url, sizeof(url), "%s/models/initial.bin", apart(j) ? "s3://bucket" : "");
	model_create(w, j->initial, url, j->train_node);
	model_create(w, j->deploy, j->deploy_url, j->deploy_node);
	if (j->eval[0] == '\0')
		return;
	snprintf(url, sizeof(url), "%s/models/%s/eval.bin", apart(j) ? "s3://bucket" : "", j->name);
	model_create(w, j->eval, url, j->eval_node);
}

static char *template_text(const job_setup *j, const device *node, bool never)
{
	char *pin = j->pinned ? mem_printf("\"nodeName\":\"%s\",", node->name) :
							mem_printf("\"nodeSelector\":{\"kubernetes.io/hostname\":\"%s\"},", node->name);
	char *text = mem_printf("{\"spec\":{%s%s\"containers\":[{\"name\":\"w\",\"image\":\"i\",\"command\":[\"w\"]}]}}", pin,
		never ? "\"restartPolicy\":\"Never\"," : "");

	free(pin);
	return text;
}

static char *timer_text(bool timer)
{
	return mem_strdup(timer ? "\"timer\":{\"start\":\"06:00\",\"end\":\"18:00\"}," : "");
}

static cJSON *job_spec(const job_setup *j)
{
	char *train = template_text(j, j->train_node, j->restart_never), *eval = template_text(j, j->eval_node, j->restart_never);
	char *deploy = template_text(j, j->deploy_node, false), *train_timer = timer_text(j->timer),
		 *deploy_timer = timer_text(j->deploy_timer);
	char *compare = j->eval[0] != '\0' ? mem_printf("\"initialEvalModel\":{\"name\":\"%s\"},", j->eval) : mem_strdup("");
	cJSON *spec = parse(mem_printf("{\"dataset\":{\"name\":\"data-%d\",\"trainProb\":%.17g},\"initialModel\":{\"name\":\"%s\"},"
								   "\"trainSpec\":{\"template\":%s,\"trigger\":{\"checkPeriodSeconds\":%lld,%s\"condition\":{"
								   "\"operator\":\"%s\",\"threshold\":%lld,\"metric\":\"num_of_samples\"}}},"
								   "\"evalSpec\":{%s\"template\":%s},"
								   "\"deploySpec\":{\"model\":{\"name\":\"%s\",\"hotUpdateEnabled\":%s,\"pollPeriodSeconds\":10},"
								   "\"trigger\":{\"checkPeriodSeconds\":5,%s\"condition\":{\"operator\":\"%s\",\"threshold\":%g,"
								   "\"metric\":\"%s\"}},\"template\":%s},\"outputDir\":\"%s\"}",
		j->file, j->train_prob, j->initial, train, (long long)j->check_s, train_timer,
		j->broken ? "about" : ">=", (long long)j->train_threshold, compare, eval, j->deploy, j->hot ? "true" : "false", deploy_timer,
		j->rule->op, rule_threshold(j), j->rule->metric, deploy, j->output_dir));

	free(train);
	free(eval);
	free(deploy);
	free(train_timer);
	free(deploy_timer);
	free(compare);
	return spec;
}

void job_create(world *w, job_setup *j)
{
	char *pad = mem_alloc((size_t)j->manifest_bytes + 1);
	cJSON *job;

	memset(pad, 'x', (size_t)j->manifest_bytes);
	job = parse(mem_printf("{\"apiVersion\":\"sedna.io/v1alpha1\",\"kind\":\"IncrementalLearningJob\","
						   "\"metadata\":{\"annotations\":{\"pad\":\"%s\"},\"generation\":1},\"status\":{}}",
		pad));
	free(pad);
	json_put(job, "spec", job_spec(j));
	j->object = object_add(w, OBJECT_JOB, j->name, job);
	j->object->track = track_new(w, j, j->object->uid);
	j->edited_at = w->now;
	say(w, "job %s is created, %s", j->name, j->object->uid);
}

void job_edit(world *w, job_setup *j)
{
	cJSON *metadata;
	int64_t generation;

	j->edited_at = w->now;
	if (j->object == NULL)
		return;
	metadata = cJSON_GetObjectItemCaseSensitive(j->object->json, "metadata");
	generation = (int64_t)json_member(metadata, "generation")->valuedouble;
	cJSON_ReplaceItemInObjectCaseSensitive(metadata, "generation", cJSON_CreateNumber((double)generation + 1));
	cJSON_ReplaceItemInObjectCaseSensitive(j->object->json, "spec", job_spec(j));
	say(w, "job %s is changed, generation %lld", j->name, (long long)generation + 1);
	object_changed(w, j->object);
}

void job_ask(world *w, job_setup *j, const char *round)
{
	cJSON *annotations;

	if (j->object == NULL)
		return;
	annotations = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(j->object->json, "metadata"), "annotations");
	if (json_member(annotations, "ilmare/rollback-to") != NULL || j->object->track->n_asks == SIM_ASKS_MAX)
		return;
	say(w, "job %s is to go back to round %s", j->name, round);
	json_put_string(annotations, "ilmare/rollback-to", round);
	track_ask(w, j->object->track, round);
	object_changed(w, j->object);
}

void job_read_other(world *w, job_setup *j, int file)
{
	if (file == j->file)
		return;
	say(w, "job %s is to read %s", j->name, w->files[file].url);
	j->file = file;
	j->dataset_node = w->files[file].node;
	for (size_t i = 0; i < w->n_files && j->object != NULL; i++)
		j->object->track->samples[i].exempt = w->files[i].next_id;
}

static void collect(world *w, void *obj, void *data)
{
	(void)obj;
	for (object *o = w->objects, *next; o != NULL && !track_of(w, data)->alive; o = next) {
		next = o->next;
		if (o->json != NULL && o->pod != NULL && strcmp(o->pod->job_uid, data) == 0)
			pod_delete(w, o->pod);
	}
	free(data);
}

void job_delete(world *w, job_setup *j)
{
	if (j->object == NULL)
		return;
	say(w, "job %s is deleted, %s", j->name, j->object->uid);
	j->object->track->alive = false;
	if (w->gc)
		at(w, w->now + rnd_range(w, 100, SECONDS(60)), collect, w, mem_strdup(j->object->uid));
	object_delete(w, j->object);
	j->object = NULL;
}
