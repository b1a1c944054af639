/* What a device's agent does with files: looks at datasets, and the core's file actions.
 *
 * An action takes effect at some moment between its start and its answer, so a crash finds it done, not done, or (a deployment of several
 * copies) half done. Its answer is about the file as it was at that moment, which may be another one than the core has seen.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "edge-agent/core/split.h"
#include "edge-agent/core/window.h"
#include "tests/sim/sim.h"

/* ---- looks ---- */

static size_t file_index(const world *w, const dataset_file *f)
{
	return (size_t)(f - w->files);
}

static void look(world *w, void *obj, void *data)
{
	device *d = obj;
	dataset_file *f = *(dataset_file **)data;
	dataset_view v = {.looked = true,
		.generation = f->generation,
		.samples = f->n,
		.size = f->size_at[f->n],
		.changed_ms = f->changed_ms,
		.error = f->missing ? "the file is not there" : NULL};

	free(data);
	d->look_life[file_index(w, f)] = 2;
	edge_agent_dataset(d->agent, f->url, f->format, &v, device_moment(d));
	device_pump_soon(w, d);
}

static void look_at(world *w, device *d, dataset_file *f, int64_t after)
{
	dataset_file **arg = mem_alloc(sizeof(*arg));

	*arg = f;
	at_life(w, w->now + after, look, d, arg, &d->life);
}

void device_look(world *w, dataset_file *f)
{
	device *d = f->node;

	if (d->agent != NULL && d->look_life[file_index(w, f)] > 0)
		look_at(w, d, f, rnd_delay(w, 50));
}

void device_files_sync(world *w, device *d)
{
	const char *url;
	enum dataset_format format;
	bool watched[SIM_JOBS_MAX] = {false};

	for (size_t i = 0; edge_agent_watch(d->agent, i, &url, &format); i++) {
		dataset_file *f = file_of(w, d, url);

		if (f == NULL)
			continue;
		watched[file_index(w, f)] = true;
		if (d->look_life[file_index(w, f)] != 0 && d->looks[file_index(w, f)] == d->life)
			continue;
		d->look_life[file_index(w, f)] = 1;
		d->looks[file_index(w, f)] = d->life;
		look_at(w, d, f, rnd_delay(w, 5));
	}
	for (size_t i = 0; i < w->n_files; i++) {
		if (!watched[i])
			d->look_life[i] = 0;
	}
}

/* ---- actions ---- */

typedef struct work {
	edge_action a;
	edge_result r;
	size_t step;
	edge_version versions[16];
} work;

static void work_done(world *w, void *obj, void *data)
{
	device *d = obj;
	work *k = data;

	edge_agent_done(d->agent, k->a.id, &k->r, device_moment(d));
	if (k->r.code == ERROR_CHANGED && k->a.kind != EDGE_DEPLOY) {
		const char *url = k->a.kind == EDGE_WRITE ? k->a.round.url : k->a.sample.url;
		dataset_file *f = file_of(w, d, url);

		if (f != NULL)
			look_at(w, d, f, 1);
	}
	free(k);
	device_pump_soon(w, d);
}

static int fail(work *k, int code, const char *text)
{
	k->r.code = code;
	k->r.text = text;
	return code;
}

static int locate(world *w, device *d, work *k)
{
	dataset_file *f = file_of(w, d, k->a.sample.url);
	int64_t index;

	if (f == NULL || f->missing)
		return fail(k, ERROR_NOT_FOUND, "the file is not there");
	index = file_locate(f, &k->a.sample.cursor);
	k->r.locate.generation = f->generation;
	k->r.locate.matched = index >= 0;
	if (index >= 0) {
		k->r.locate.line = index;
		k->r.locate.offset = f->size_at[index];
	}
	return 0;
}

static int measure(world *w, device *d, work *k)
{
	dataset_file *f = file_of(w, d, k->a.sample.url);
	int64_t end, line = k->a.sample.line, max = k->a.sample.bytes_max;

	if (f == NULL || f->missing)
		return fail(k, ERROR_NOT_FOUND, "the file is not there");
	if (line > f->n || f->size_at[line] != k->a.sample.offset)
		return fail(k, ERROR_CHANGED, "the file is another one");
	for (end = line; end < f->n && (max == 0 || f->size_at[end + 1] - f->size_at[line] <= max || end == line); end++)
		;
	k->r.measure.generation = f->generation;
	k->r.measure.end = file_cursor(f, end, k->a.sample.cursor.sample + end - line);
	return 0;
}

static void give_manifest(work *k, const folder *f)
{
	edge_manifest *m = &k->r.round.manifest;

	k->r.round.found = true;
	strncpy(m->uid, f->uid, sizeof(m->uid) - 1);
	m->round = f->round;
	m->range = f->range;
	m->begin = f->begin;
}

static int look_folder(world *w, device *d, work *k)
{
	const folder *f = folder_find(disk_of(w, d, k->a.round.output_dir), k->a.round.output_dir, k->a.round.round);

	if (f != NULL)
		give_manifest(k, f);
	return 0;
}

static int write_new(world *w, device *d, work *k)
{
	const allocation *al = &k->a.round.alloc;
	dataset_file *f = file_of(w, d, k->a.round.url);
	int64_t n = al->range.to - al->range.from, line = k->a.round.line;
	cursor end;
	folder *made;

	if (f == NULL || f->missing)
		return fail(k, ERROR_NOT_FOUND, "the file is not there");
	if (n <= 0)
		violated(w, 0, "%s: an empty folder is asked for", d->name);
	if (line + n > f->n || (line > 0 && f->size_at[line] != k->a.round.offset))
		return fail(k, ERROR_CHANGED, "the file is another one");
	end = file_cursor(f, line + n, al->range.to);
	if (end.size != al->range.end.size || !digest_equal(&end.digest, &al->range.end.digest))
		return fail(k, ERROR_CHANGED, "the file is another one");
	made = folder_add(disk_of(w, d, k->a.round.output_dir), k->a.round.output_dir, k->a.round.round);
	strncpy(made->uid, k->a.round.uid, sizeof(made->uid) - 1);
	made->format = k->a.round.format;
	made->range = al->range;
	made->file = (int)file_index(w, f);
	made->begin = file_cursor(f, line, al->range.from);
	made->ids = mem_alloc((size_t)n * sizeof(*made->ids));
	memcpy(made->ids, &f->ids[line], (size_t)n * sizeof(*made->ids));
	made->touched = w->now;
	say(w, "%s: folder %s/data/train/%lld of %s holds [%lld,%lld)", d->name, made->output_dir, (long long)made->round, made->uid,
		(long long)made->range.from, (long long)made->range.to);
	give_manifest(k, made);
	return 0;
}

static int write_folder(world *w, device *d, work *k)
{
	folder *old = folder_find(disk_of(w, d, k->a.round.output_dir), k->a.round.output_dir, k->a.round.round);

	if (old != NULL && strcmp(old->uid, k->a.round.uid) == 0 && old->range.from == k->a.round.alloc.range.from &&
		old->begin.size == k->a.round.offset) {
		say(w, "%s: folder of round %lld is adopted", d->name, (long long)old->round);
		give_manifest(k, old);
		return 0;
	}
	if (old != NULL && !k->a.round.may_move_aside)
		return fail(k, ERROR_CONFLICT, "something else is in the way");
	if (old != NULL) {
		for (object *o = w->objects; o != NULL; o = o->next) {
			char dir[128];
			int64_t round;

			if (o->pod != NULL && o->json != NULL && o->pod->kind == WORKER_TRAIN && o->pod->phase == POD_IS_RUNNING &&
				folder_of_url(o->pod->data_url, "train", dir, sizeof(dir), &round) && round == old->round &&
				strcmp(dir, old->output_dir) == 0 && track_of(w, o->pod->job_uid)->alive)
				violated(w, 1, "%s: the folder of round %lld is moved aside under a running pod", d->name, (long long)round);
		}
		say(w, "%s: folder of round %lld is moved aside", d->name, (long long)old->round);
		old->aside = true;
		old->touched = w->now;
	}
	return write_new(w, d, k);
}

/* The folder of this job's round; NULL if there is none. */
static const folder *own_folder(disk *files, const work *k, int64_t round)
{
	const folder *f = folder_find(files, k->a.round.output_dir, round);

	return f && strcmp(f->uid, k->a.round.uid) == 0 ? f : NULL;
}

static window_round in_window(const folder *f)
{
	return (window_round){.round = f->round, .from = f->range.from, .to = f->range.to};
}

static int write_eval(world *w, device *d, work *k)
{
	disk *files = disk_of(w, d, k->a.round.output_dir);
	const folder *f = own_folder(files, k, k->a.round.round);
	window taken;
	bool more = true;

	if (!f)
		return fail(k, ERROR_NOT_FOUND, "the round has no folder");
	window_round one = in_window(f);
	window_start(&taken, &one);
	for (int64_t round = f->round - 1; more && round > 0; round--) {
		const folder *earlier = own_folder(files, k, round);

		if (earlier) {
			one = in_window(earlier);
			more = window_offer(&taken, &one);
		}
	}
	for (size_t i = 0; i < taken.n; i++) {
		f = own_folder(files, k, taken.rounds[i]);
		k->r.eval.samples += f->range.to - f->range.from - split_count(f->range.from, f->range.to, k->a.round.train_prob);
	}
	eval_add(files, k->a.round.output_dir, k->a.round.round)->samples = (size_t)k->r.eval.samples;
	return 0;
}

/* What serves at first, once, and the new one. */
static void keep_versions(world *w, device *d, work *k, uint64_t content)
{
	disk *files = disk_of(w, d, k->a.deploy.output_dir);
	const char *served = k->a.deploy.copies[0].to.url;

	version_keep(files, k->a.deploy.output_dir, 0, k->a.deploy.uid, model_get(disk_of(w, d, served), served));
	version_keep(files, k->a.deploy.output_dir, k->a.deploy.round, k->a.deploy.uid, content);
}

static void tell_versions(world *w, device *d, work *k)
{
	disk *files = disk_of(w, d, k->a.deploy.output_dir);
	int64_t rounds[16];
	size_t n;

	version_prune(files, k->a.deploy.output_dir, k->a.deploy.round, k->a.deploy.of, k->a.deploy.uid);
	n = version_list(files, k->a.deploy.output_dir, k->a.deploy.uid, rounds, 16);
	for (size_t i = 0; i < n; i++) {
		k->versions[i] = (edge_version){.round = rounds[i],
			.name = rounds[i] == 0 ? "first" : k->a.deploy.uid,
			.sha256 = content_digest(version_recorded(files, k->a.deploy.output_dir, rounds[i], k->a.deploy.uid))};
	}
	k->r.deploy.versions = k->versions;
	k->r.deploy.n_versions = n;
}

/* One copy after the other: each may be the last before a crash. */
static int deploy_step(world *w, device *d, work *k)
{
	const deploy_copy *c = &k->a.deploy.copies[k->step];
	uint64_t content = model_get(disk_of(w, d, c->from.url), c->from.url);

	if (k->step == 0) {
		for (size_t i = 0; i < k->a.deploy.n; i++) {
			if (model_get(disk_of(w, d, k->a.deploy.copies[i].from.url), k->a.deploy.copies[i].from.url) == 0)
				return fail(k, ERROR_NOT_FOUND, "a model is not there");
		}
		k->r.deploy.sha256 = content_digest(content);
		if (k->a.deploy.back && !digest_equal(&k->r.deploy.sha256, &k->a.deploy.of_sha256))
			return fail(k, ERROR_CHANGED, "the version is not what was deployed");
		keep_versions(w, d, k, content);
	}
	say(w, "%s: copies %s to %s", d->name, c->from.url, c->to.url);
	model_put(disk_of(w, d, c->to.url), c->to.url, content);
	track_deploy(w, d, k->a.deploy.uid, c->to.url, content);
	if (k->step == 0 && k->a.deploy.hot)
		worker_hot(w, d, k->a.deploy.ns, k->a.deploy.job, content);
	if (k->step + 1 < k->a.deploy.n)
		return 0;
	if (!k->a.deploy.hot)
		worker_not_hot(d, k->a.deploy.ns, k->a.deploy.job);
	tell_versions(w, d, k);
	return 0;
}

static void work_effect(world *w, void *obj, void *data)
{
	device *d = obj;
	work *k = data;
	bool writes = k->a.kind == EDGE_WRITE || k->a.kind == EDGE_WRITE_EVAL || k->a.kind == EDGE_DEPLOY;

	if (writes && d->disk_full)
		fail(k, ERROR_NO_SPACE, "the disk is full");
	else if (chance(w, w->k.file_fail))
		fail(k, ERROR_IO, "it failed");
	else if (k->a.kind == EDGE_LOCATE)
		locate(w, d, k);
	else if (k->a.kind == EDGE_MEASURE)
		measure(w, d, k);
	else if (k->a.kind == EDGE_LOOK)
		look_folder(w, d, k);
	else if (k->a.kind == EDGE_WRITE)
		write_folder(w, d, k);
	else if (k->a.kind == EDGE_WRITE_EVAL)
		write_eval(w, d, k);
	else if (deploy_step(w, d, k) == 0 && ++k->step < k->a.deploy.n) {
		at_life(w, w->now + rnd_delay(w, w->k.file_ms), work_effect, d, k, &d->life);
		return;
	}
	at_life(w, w->now + rnd_delay(w, w->k.file_ms), work_done, d, k, &d->life);
}

void device_file_action(world *w, device *d, const edge_action *a)
{
	work *k = mem_alloc(sizeof(*k));

	k->a = *a;
	say(w, "%s: file action %d", d->name, (int)a->kind);
	at_life(w, w->now + rnd_delay(w, w->k.file_ms), work_effect, d, k, &d->life);
}
