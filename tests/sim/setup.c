/* Scenarios: the objects that a user would make, from a seed or for a script, and whole runs.
 *
 * A random run has two parts. First samples arrive and faults happen until every job has had its rounds or the time is over. Then all faults stop,
 * everything is up, some samples come, and the world has to settle; what must hold in the end is checked after one more retry period.
 */
#include <stdarg.h>
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
	object_add(w, OBJECT_DATASET, id,
		parse(mem_printf("{\"metadata\":{},\"spec\":{\"url\":\"%s\",\"format\":\"%s\",\"nodeName\":\"%s\"}}", f->url,
			dataset_format_name(f->format), f->node->name)));
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

void job_create(world *w, job_setup *j)
{
	char *train = template_text(j, j->train_node, j->restart_never), *eval = template_text(j, j->eval_node, j->restart_never);
	char *deploy = template_text(j, j->deploy_node, false), *pad = mem_alloc((size_t)j->manifest_bytes + 1);
	char *compare = j->eval[0] != '\0' ? mem_printf("\"initialEvalModel\":{\"name\":\"%s\"},", j->eval) : mem_strdup("");
	char *text;

	memset(pad, 'x', (size_t)j->manifest_bytes);
	text = mem_printf(
		"{\"apiVersion\":\"sedna.io/v1alpha1\",\"kind\":\"IncrementalLearningJob\",\"metadata\":{\"annotations\":{\"pad\":\"%s\"}},"
		"\"spec\":{\"dataset\":{\"name\":\"%s\",\"trainProb\":%.17g},\"initialModel\":{\"name\":\"%s\"},"
		"\"trainSpec\":{\"template\":%s,\"trigger\":{\"checkPeriodSeconds\":%lld,%s\"condition\":{\"operator\":\">=\","
		"\"threshold\":%lld,\"metric\":\"num_of_samples\"}}},\"evalSpec\":{%s\"template\":%s},"
		"\"deploySpec\":{\"model\":{\"name\":\"%s\",\"hotUpdateEnabled\":%s,\"pollPeriodSeconds\":10},\"trigger\":{"
		"\"checkPeriodSeconds\":5,\"condition\":{\"operator\":\"%s\",\"threshold\":%g,\"metric\":\"accuracy_delta\"}},"
		"\"template\":%s},\"outputDir\":\"%s\"},\"status\":{}}",
		pad, j->dataset, j->train_prob, j->initial, train, (long long)j->check_s,
		j->timer ? "\"timer\":{\"start\":\"06:00\",\"end\":\"18:00\"}," : "", (long long)j->train_threshold, compare, eval, j->deploy,
		j->hot ? "true" : "false", j->deploy_op, j->deploy_threshold, deploy, j->output_dir);
	j->object = object_add(w, OBJECT_JOB, j->name, parse(text));
	j->object->track = track_new(w, j, j->object->uid);
	say(w, "job %s is created, %s", j->name, j->object->uid);
	free(train);
	free(eval);
	free(deploy);
	free(pad);
	free(compare);
}

static void collect(world *w, void *obj, void *data)
{
	(void)obj;
	for (object *o = w->objects, *next; o != NULL; o = next) {
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

/* ---- what jobs look like ---- */

static void name(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void name(char *out, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, size, fmt, args);
	va_end(args);
}

void job_defaults(world *w, job_setup *j, int index)
{
	*j = (job_setup){.train_prob = 1, .train_threshold = 1, .check_s = 1, .deploy_op = ">", .deploy_threshold = -1, .pinned = true};
	name(j->name, sizeof(j->name), "job-%c", 'a' + index);
	name(j->dataset, sizeof(j->dataset), "data-0");
	name(j->initial, sizeof(j->initial), "initial");
	name(j->deploy, sizeof(j->deploy), "deploy-%s", j->name);
	name(j->output_dir, sizeof(j->output_dir), "/out/%s", j->name);
	name(j->deploy_url, sizeof(j->deploy_url), "/models/%s/model.bin", j->name);
	name(j->hot_dir, sizeof(j->hot_dir), "/var/lib/sedna/model-hot-update/default/incrementallearningjob/%s/model", j->name);
	j->dataset_node = j->train_node = j->eval_node = j->deploy_node = &w->devices[0];
}

static void add_node(world *w, device *d)
{
	d->listed = true;
	object_add(w, OBJECT_NODE, d->name,
		parse(mem_strdup("{\"metadata\":{},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}")));
}

static void make_devices(world *w, size_t n)
{
	char id[NAME_SIZE];

	w->n_devices = n;
	for (size_t i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "edge-%zu", i);
		device_init(w, &w->devices[i], id);
		if (w->nodes_listed)
			add_node(w, &w->devices[i]);
	}
	for (int i = 0; i < SIM_CLOUDS; i++)
		cloud_init(w, &w->clouds[i], i);
}

static void spread(world *w, job_setup *j)
{
	name(j->output_dir, sizeof(j->output_dir), "s3://bucket/out/%s", j->name);
	name(j->deploy_url, sizeof(j->deploy_url), "s3://bucket/models/%s/model.bin", j->name);
	name(j->initial, sizeof(j->initial), "initial-s3");
	j->train_node = j->eval_node = &w->devices[w->n_devices > 1 ? 1 : 0];
	j->deploy_node = &w->devices[w->n_devices > 2 ? 2 : 0];
}

void setup_script(world *w, size_t devices)
{
	job_setup *j = &w->jobs[0];

	w->script = true;
	w->quiet = true;
	w->k = (knobs){.delay_ms = 5, .api_ms = 5, .watch_ms = 5, .file_ms = 5, .commit_ms = 0, .work_ms = SECONDS(5)};
	w->retain_as_published = true;
	w->nodes_listed = false;
	w->gc = false;
	w->check_on_arrival = true;
	make_devices(w, devices);
	w->n_files = 1;
	file_init(w, &w->files[0], &w->devices[0], "/data/0.txt", FORMAT_TXT);
	w->n_jobs = 1;
	job_defaults(w, j, 0);
	if (devices > 1)
		spread(w, j);
	dataset_create(w, 0);
	models_create(w, j);
}

static void random_knobs(world *w)
{
	double level = chance(w, 0.15) ? 0 : chance(w, 0.5) ? 1 : 3;
	knobs *k = &w->k;

	*k = (knobs){.delay_ms = rnd_range(w, 1, 300), .api_ms = rnd_range(w, 1, 100), .watch_ms = rnd_range(w, 1, 200)};
	k->file_ms = rnd_range(w, 1, 200);
	k->commit_ms = rnd_range(w, 1, 30);
	k->work_ms = rnd_range(w, SECONDS(2), SECONDS(40));
	k->slow_ms = rnd_range(w, SECONDS(5), MINUTES(3));
	k->drop = chance(w, 0.6) ? 0.03 * level : 0;
	k->repeat = chance(w, 0.6) ? 0.05 * level : 0;
	k->slow = chance(w, 0.6) ? 0.02 * level : 0;
	k->api_fail = chance(w, 0.5) ? 0.02 * level : 0;
	k->api_lost = chance(w, 0.5) ? 0.02 * level : 0;
	k->crash_edge = chance(w, 0.4) ? 0.003 * level : 0;
	k->crash_cloud = chance(w, 0.4) ? 0.003 * level : 0;
	k->file_fail = chance(w, 0.3) ? 0.03 * level : 0;
	k->commit_fail = chance(w, 0.3) ? 0.02 * level : 0;
	k->work_fail = chance(w, 0.4) ? 0.06 * level : 0;
	k->work_silent = chance(w, 0.3) ? 0.05 * level : 0;
	k->work_twice = chance(w, 0.3) ? 0.2 * level : 0;
	k->work_hang = chance(w, 0.25) ? 0.05 * level : 0;
	k->load_fail = chance(w, 0.3) ? 0.1 * level : 0;
}

static void random_job(world *w, int index)
{
	static const double probs[] = {1, 0.8, 0.5, 0.29};
	job_setup *j = &w->jobs[index];

	job_defaults(w, j, index);
	j->file = (int)(rnd(w) % w->n_files);
	name(j->dataset, sizeof(j->dataset), "data-%d", j->file);
	j->dataset_node = j->train_node = j->eval_node = j->deploy_node = w->files[j->file].node;
	if (chance(w, 0.3)) {
		spread(w, j);
		j->deploy_node = &w->devices[rnd(w) % w->n_devices];
	}
	if (chance(w, 0.25))
		name(j->eval, sizeof(j->eval), "eval-%s", j->name);
	j->hot = chance(w, 0.4);
	j->pinned = chance(w, 0.5);
	j->restart_never = chance(w, 0.3);
	j->train_prob = probs[rnd(w) % 4];
	j->train_threshold = rnd_range(w, 1, 8);
	j->check_s = rnd_range(w, 1, 20);
	j->timer = chance(w, 0.05);
	j->deploy_threshold = chance(w, 0.5) ? 0 : -1;
	j->manifest_bytes = (int)rnd_range(w, 0, 1200);
}

void setup_random(world *w)
{
	static const int limits[] = {12, 14, 14, 20};
	char url[64];

	random_knobs(w);
	w->nodes_listed = chance(w, 0.5);
	w->retain_as_published = chance(w, 0.7);
	w->sedna_crds = chance(w, 0.5);
	w->gc = chance(w, 0.5);
	w->check_on_arrival = chance(w, 0.5);
	w->conditions_max = limits[rnd(w) % 4];
	w->slow_ms = chance(w, 0.2) ? HOURS(1) : MINUTES(rnd_range(w, 10, 30));
	make_devices(w, (size_t)(chance(w, 0.5) ? 1 : rnd_range(w, 2, 3)));
	w->n_files = (size_t)rnd_range(w, 1, 2);
	for (size_t i = 0; i < w->n_files; i++) {
		snprintf(url, sizeof(url), "/data/%zu.set", i);
		file_init(w, &w->files[i], &w->devices[rnd(w) % w->n_devices], url, chance(w, 0.7) ? FORMAT_TXT : FORMAT_CSV);
		dataset_create(w, (int)i);
	}
	w->n_jobs = (size_t)(chance(w, 0.6) ? 1 : rnd_range(w, 2, 3));
	for (size_t i = 0; i < w->n_jobs; i++) {
		random_job(w, (int)i);
		models_create(w, &w->jobs[i]);
		job_create(w, &w->jobs[i]);
	}
	for (size_t i = 0; i < w->n_devices; i++)
		device_start(w, &w->devices[i]);
	cloud_start(w, &w->clouds[0]);
	if (chance(w, 0.4))
		cloud_start(w, &w->clouds[1]);
}
