/* Scenarios: what a user sets up, from a seed or for a script.
 *
 * A random run has two parts. First samples arrive and faults happen until every job has had its rounds or the time is over. Then all faults stop,
 * everything is up, some samples come, and the world has to settle; what must hold in the end is checked after one more retry period.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

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
	*j = (job_setup){.train_prob = 1, .train_threshold = 1, .check_s = 1, .deploy_threshold = -1, .pinned = true};
	j->rule = metric_rule_first();
	name(j->name, sizeof(j->name), "job-%c", 'a' + index);
	name(j->initial, sizeof(j->initial), "initial");
	name(j->deploy, sizeof(j->deploy), "deploy-%s", j->name);
	name(j->output_dir, sizeof(j->output_dir), "/out/%s", j->name);
	name(j->deploy_url, sizeof(j->deploy_url), "/models/%s/model.bin", j->name);
	name(j->hot_dir, sizeof(j->hot_dir), "/var/lib/sedna/model-hot-update/default/incrementallearningjob/%s/model", j->name);
	j->dataset_node = j->train_node = j->eval_node = j->deploy_node = &w->devices[0];
}

static void make_devices(world *w, size_t n)
{
	char id[NAME_SIZE];

	w->n_devices = n;
	for (size_t i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "edge-%zu", i);
		device_init(w, &w->devices[i], id);
		if (w->nodes_listed)
			node_create(w, &w->devices[i]);
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
	k->odd_metrics = chance(w, 0.2) ? 0.1 * level : 0;
}

static void random_job(world *w, int index)
{
	static const double probs[] = {1, 0.8, 0.5, 0.29};
	job_setup *j = &w->jobs[index];

	job_defaults(w, j, index);
	j->file = (int)(rnd(w) % w->n_files);
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
	j->deploy_timer = chance(w, 0.03);
	j->rule = metric_rule_random(w);
	j->many_metrics = chance(w, 0.15);
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
