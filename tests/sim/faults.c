/* What goes wrong in a random run, and when: each class of faults is in a seed or not, and strikes some times. All of it ends with faults_end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

enum { TIMES_MAX = 4 };

static device *any_device(world *w)
{
	return &w->devices[rnd(w) % w->n_devices];
}

static cloud *any_cloud(world *w)
{
	return &w->clouds[w->clouds[1].enabled ? rnd(w) % 2 : 0];
}

static job_setup *any_job(world *w)
{
	return &w->jobs[rnd(w) % w->n_jobs];
}

static int64_t span(world *w)
{
	return chance(w, 0.2) ? rnd_range(w, MINUTES(2), MINUTES(20)) : rnd_range(w, 100, SECONDS(90));
}

/* ---- devices ---- */

static void network_back(world *w, void *obj, void *data)
{
	(void)data;
	device_network(w, obj, true);
}

static void network_away(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	device_network(w, d, false);
	at(w, w->now + span(w), network_back, d, NULL);
}

static void agent_crash(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	device_crash(w, any_device(w), span(w));
}

static void agent_start(world *w, void *obj, void *data)
{
	(void)data;
	device_start(w, obj);
}

static void agent_stop(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	device_stop(w, d);
	at(w, w->now + span(w), agent_start, d, NULL);
}

static void power_on(world *w, void *obj, void *data)
{
	(void)data;
	device_power(w, obj, true);
}

static void power_off(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	device_power(w, d, false);
	at(w, w->now + span(w), power_on, d, NULL);
}

static void store_lost(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	device_lose_store(w, any_device(w));
}

static void store_restored(world *w, void *obj, void *data)
{
	(void)data;
	device_restore(w, obj);
}

static void store_backup(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	device_backup(w, d);
	at(w, w->now + span(w), store_restored, d, NULL);
}

static void reimaged(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	device_reimage(w, any_device(w), chance(w, 0.7));
}

static void disk_free(world *w, void *obj, void *data)
{
	(void)w;
	(void)data;
	((device *)obj)->disk_full = false;
}

static void disk_full(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	say(w, "%s: the disk is full", d->name);
	d->disk_full = true;
	at(w, w->now + span(w), disk_free, d, NULL);
}

static void clock_jump(world *w, void *obj, void *data)
{
	device *d = any_device(w);

	(void)obj;
	(void)data;
	d->wall_offset = chance(w, 0.3) ? -w->unix_base - w->now : rnd_range(w, -HOURS(30), HOURS(30));
	say(w, "%s: the clock jumps", d->name);
}

/* ---- datasets ---- */

static void file_cut_short(world *w, void *obj, void *data)
{
	dataset_file *f = &w->files[rnd(w) % w->n_files];

	(void)obj;
	(void)data;
	if (chance(w, 0.5))
		file_truncate(w, f, f->n > 0 ? rnd_range(w, 0, f->n) : 0);
	else
		file_replace(w, f, rnd_range(w, 0, 20));
}

static void file_back(world *w, void *obj, void *data)
{
	dataset_file *f = obj;

	(void)data;
	f->missing = false;
	device_look(w, f);
}

static void file_missing(world *w, void *obj, void *data)
{
	dataset_file *f = &w->files[rnd(w) % w->n_files];

	(void)obj;
	(void)data;
	say(w, "%s is not there", f->url);
	f->missing = true;
	device_look(w, f);
	at(w, w->now + span(w), file_back, f, NULL);
}

/* ---- cloud, broker, cluster ---- */

static void cloud_down(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	cloud_crash(w, any_cloud(w), span(w));
}

static void cloud_stalls(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	cloud_stall(w, any_cloud(w), chance(w, 0.5) ? rnd_range(w, SECONDS(8), SECONDS(25)) : span(w));
}

static void cloud_clock(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	any_cloud(w)->wall_offset = rnd_range(w, -HOURS(30), HOURS(1));
}

static void cloud_link_back(world *w, void *obj, void *data)
{
	(void)data;
	client_network(w, ((cloud *)obj)->link, true);
}

static void cloud_link_away(world *w, void *obj, void *data)
{
	cloud *c = any_cloud(w);

	(void)obj;
	(void)data;
	say(w, "%s has no link", c->name);
	client_network(w, c->link, false);
	at(w, w->now + span(w), cloud_link_back, c, NULL);
}

static void api_away(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	cloud_api_down(w, any_cloud(w), span(w));
}

static void lists_again(world *w, void *obj, void *data)
{
	cloud *c = any_cloud(w);

	(void)obj;
	(void)data;
	if (c->c != NULL)
		cloud_relist(w, c, rnd_range(w, 10, SECONDS(20)));
}

static void lease_lost(world *w, void *obj, void *data)
{
	cloud *c = w->lease.holder;

	(void)obj;
	(void)data;
	say(w, "the lease is lost");
	w->lease.epoch = 0;
	if (c != NULL)
		cloud_crash(w, c, rnd_range(w, 100, SECONDS(5)));
}

static void broker_saves(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	broker_save(w);
}

static void broker_down(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	broker_restart(w, (int)(rnd(w) % 3));
}

static void pod_away(world *w, void *obj, void *data)
{
	pod *found = NULL;
	uint64_t n = 0;

	(void)obj;
	(void)data;
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->pod != NULL && rnd(w) % ++n == 0)
			found = o->pod;
	}
	if (found == NULL)
		return;
	say(w, "somebody deletes pod %s", found->o->name);
	pod_taken(w, found);
	if (chance(w, 0.5))
		pod_delete(w, found);
	else
		pod_gone(w, found);
}

/* ---- users ---- */

static void job_again(world *w, void *obj, void *data)
{
	job_setup *j = obj;

	(void)data;
	if (j->object == NULL)
		job_create(w, j);
}

static void job_away(world *w, void *obj, void *data)
{
	job_setup *j = any_job(w);

	(void)obj;
	(void)data;
	job_delete(w, j);
	if (!chance(w, 0.3))
		at(w, w->now + (chance(w, 0.5) ? rnd_range(w, 1, SECONDS(3)) : span(w)), job_again, j, NULL);
}

static void model_back(world *w, void *obj, void *data)
{
	(void)data;
	models_create(w, obj);
}

static void model_away(world *w, void *obj, void *data)
{
	job_setup *j = any_job(w);
	object *o = object_find(w, OBJECT_MODEL, j->initial);

	(void)obj;
	(void)data;
	if (o == NULL)
		return;
	object_delete(w, o);
	at(w, w->now + span(w), model_back, j, NULL);
}

static void dataset_back(world *w, void *obj, void *data)
{
	(void)data;
	dataset_create(w, (int)((dataset_file *)obj - w->files));
}

static void dataset_away(world *w, void *obj, void *data)
{
	int file = (int)(rnd(w) % w->n_files);
	char id[NAME_SIZE];
	object *o;

	(void)obj;
	(void)data;
	snprintf(id, sizeof(id), "data-%d", file);
	o = object_find(w, OBJECT_DATASET, id);
	if (o != NULL)
		object_delete(w, o);
	at(w, w->now + span(w), dataset_back, &w->files[file], NULL);
}

static void job_edited(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	job_edit_random(w, any_job(w));
}

static void ask(world *w, job_setup *j)
{
	int64_t rounds[16];
	char value[16];
	size_t n;

	if (j->object == NULL)
		return;
	n = version_list(disk_of(w, j->deploy_node, j->output_dir), j->output_dir, j->object->uid, rounds, 16);
	if (n > 0 && chance(w, 0.8))
		snprintf(value, sizeof(value), "%lld", (long long)rounds[rnd(w) % n]);
	else if (chance(w, 0.7))
		snprintf(value, sizeof(value), "%lld", (long long)rnd_range(w, 0, j->object->track->pos.round + 2));
	else
		snprintf(value, sizeof(value), "%s", chance(w, 0.5) ? "" : "last");
	job_ask(w, j, value);
}

static void ask_again(world *w, void *obj, void *data)
{
	(void)data;
	if (!w->quiet)
		ask(w, obj);
}

static void job_asked(world *w, void *obj, void *data)
{
	job_setup *j = any_job(w);

	(void)obj;
	(void)data;
	ask(w, j);
	/* Once more, perhaps while the first is being taken. */
	if (chance(w, 0.5))
		at(w, w->now + (chance(w, 0.5) ? rnd_range(w, 10, 500) : span(w)), ask_again, j, NULL);
}

/* A version on the disk is not what it was, or not there. */
static void version_spoiled(world *w, void *obj, void *data)
{
	job_setup *j = any_job(w);
	disk *k = disk_of(w, j->deploy_node, j->output_dir);
	int64_t rounds[16];
	char url[192];
	size_t n;

	(void)obj;
	(void)data;
	if (j->object == NULL || (n = version_list(k, j->output_dir, j->object->uid, rounds, 16)) == 0)
		return;
	version_url(url, sizeof(url), j->output_dir, rounds[rnd(w) % n], j->object->uid);
	say(w, "%s is spoiled", url);
	model_put(k, url, chance(w, 0.5) ? 0 : ++w->next_content);
}

/* ---- a cluster that is put back ---- */

static void cloud_again(world *w, void *obj, void *data)
{
	cloud *c = obj;

	(void)data;
	if (c->enabled)
		cloud_start(w, c);
}

static void cluster_back(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	if (w->quiet || !cluster_restore(w))
		return;
	for (size_t i = 0; i < SIM_CLOUDS; i++)
		at(w, w->now + rnd_range(w, 100, SECONDS(60)), cloud_again, &w->clouds[i], NULL);
}

static void cluster_saved(world *w, void *obj, void *data)
{
	(void)obj;
	(void)data;
	cluster_backup(w);
	at(w, w->now + (chance(w, 0.5) ? rnd_range(w, MINUTES(1), MINUTES(15)) : span(w)), cluster_back, w, NULL);
}

/* ---- the plan ---- */

static const struct fault {
	event_fn fn;
	double p;
} faults[] = {
	{network_away, 0.5},
	{agent_crash, 0.4},
	{agent_stop, 0.15},
	{power_off, 0.3},
	{store_lost, 0.25},
	{store_backup, 0.25},
	{reimaged, 0.12},
	{disk_full, 0.2},
	{clock_jump, 0.3},
	{file_cut_short, 0.15},
	{file_missing, 0.15},
	{cloud_down, 0.35},
	{cloud_stalls, 0.3},
	{cloud_clock, 0.2},
	{cloud_link_away, 0.3},
	{api_away, 0.3},
	{lists_again, 0.3},
	{lease_lost, 0.15},
	{broker_saves, 0.3},
	{broker_down, 0.4},
	{pod_away, 0.25},
	{job_away, 0.3},
	{model_away, 0.15},
	{dataset_away, 0.1},
	{job_edited, 0.35},
	{job_asked, 0.4},
	{version_spoiled, 0.1},
	{cluster_saved, 0.12},
};

static void strike(world *w, void *obj, void *data)
{
	const struct fault *f = obj;

	(void)data;
	if (!w->quiet)
		f->fn(w, NULL, NULL);
}

void faults_plan(world *w)
{
	w->faults_until = w->target_rounds * MINUTES(2);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (!chance(w, faults[i].p))
			continue;
		for (int64_t n = rnd_range(w, 1, TIMES_MAX); n > 0; n--)
			at(w, rnd_range(w, SECONDS(1), w->faults_until), strike, (void *)&faults[i], NULL);
	}
}

void faults_end(world *w)
{
	knobs k = w->k;

	say(w, "---- no more faults ----");
	w->quiet = true;
	w->k = (knobs){.delay_ms = k.delay_ms,
		.api_ms = k.api_ms,
		.watch_ms = k.watch_ms,
		.file_ms = k.file_ms,
		.commit_ms = k.commit_ms,
		.work_ms = k.work_ms};
	w->last_fault = w->now;
	for (size_t i = 0; i < w->n_devices; i++) {
		device *d = &w->devices[i];

		d->disk_full = false;
		device_power(w, d, true);
		device_network(w, d, true);
		device_start(w, d);
	}
	for (size_t i = 0; i < SIM_CLOUDS; i++) {
		cloud *c = &w->clouds[i];

		client_network(w, c->link, true);
		if (c->enabled)
			cloud_start(w, c);
		if (c->stalled_until > w->last_fault)
			w->last_fault = c->stalled_until;
		if (c->api_down_until > w->last_fault)
			w->last_fault = c->api_down_until;
	}
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->pod != NULL && o->pod->hangs && pod_alive(o->pod))
			pod_end(w, o->pod, true);
	}
	for (size_t i = 0; i < w->n_jobs; i++) {
		models_create(w, &w->jobs[i]);
		job_edit_plain(w, &w->jobs[i]);
		if (chance(w, 0.2))
			ask(w, &w->jobs[i]);
	}
	for (size_t i = 0; i < w->n_files; i++) {
		dataset_create(w, (int)i);
		w->files[i].missing = false;
		file_append(w, &w->files[i], 40);
	}
}
