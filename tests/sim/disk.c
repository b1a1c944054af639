/* Files as far as they decide anything: datasets as lists of numbered samples, the folders of rounds, models as content numbers.
 *
 * A sample is a number that never comes twice, and some bytes; the identity of a dataset's beginning is made of both, as the real chain digest
 * is. Files of a node are on its disk; what is below s3:// is shared by all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

disk *disk_of(world *w, device *d, const char *url)
{
	return strncmp(url, "s3://", 5) == 0 ? &w->shared : &d->disk;
}

/* ---- folders of rounds ---- */

folder *folder_find(disk *k, const char *output_dir, int64_t round)
{
	for (size_t i = k->n_folders; i-- > 0;) {
		folder *f = k->folders[i];

		if (!f->aside && f->round == round && strcmp(f->output_dir, output_dir) == 0)
			return f;
	}
	return NULL;
}

folder *folder_add(disk *k, const char *output_dir, int64_t round)
{
	folder *f = mem_alloc(sizeof(*f));

	strncpy(f->output_dir, output_dir, sizeof(f->output_dir) - 1);
	f->round = round;
	k->folders = mem_resize_array(k->folders, k->n_folders + 1, sizeof(*k->folders));
	k->folders[k->n_folders++] = f;
	return f;
}

/* "{output_dir}/data/{kind}/{round}/…" */
bool folder_of_url(const char *url, const char *kind, char *output_dir, size_t size, int64_t *round)
{
	char part[32];
	const char *p;

	snprintf(part, sizeof(part), "/data/%s/", kind);
	p = strstr(url, part);
	if (p == NULL || (size_t)(p - url) >= size)
		return false;
	memcpy(output_dir, url, (size_t)(p - url));
	output_dir[p - url] = '\0';
	*round = strtoll(p + strlen(part), NULL, 10);
	return *round > 0;
}

eval_folder *eval_find(disk *k, const char *output_dir, int64_t round)
{
	for (size_t i = 0; i < k->n_evals; i++) {
		if (k->evals[i].round == round && strcmp(k->evals[i].output_dir, output_dir) == 0)
			return &k->evals[i];
	}
	return NULL;
}

eval_folder *eval_add(disk *k, const char *output_dir, int64_t round)
{
	eval_folder *e = eval_find(k, output_dir, round);

	if (e != NULL)
		return e;
	k->evals = mem_resize_array(k->evals, k->n_evals + 1, sizeof(*k->evals));
	e = &k->evals[k->n_evals++];
	*e = (eval_folder){.round = round};
	strncpy(e->output_dir, output_dir, sizeof(e->output_dir) - 1);
	return e;
}

void disk_wipe(disk *k)
{
	for (size_t i = 0; i < k->n_folders; i++) {
		free(k->folders[i]->ids);
		free(k->folders[i]);
	}
	free(k->folders);
	free(k->evals);
	free(k->models);
	*k = (disk){0};
}

/* ---- models ---- */

uint64_t model_get(const disk *k, const char *url)
{
	for (size_t i = 0; i < k->n_models; i++) {
		if (strcmp(k->models[i].url, url) == 0)
			return k->models[i].content;
	}
	return 0;
}

void model_put(disk *k, const char *url, uint64_t content)
{
	for (size_t i = 0; i < k->n_models; i++) {
		if (strcmp(k->models[i].url, url) == 0) {
			k->models[i].content = content;
			return;
		}
	}
	k->models = mem_resize_array(k->models, k->n_models + 1, sizeof(*k->models));
	k->models[k->n_models] = (model_file){.content = content};
	strncpy(k->models[k->n_models++].url, url, sizeof(k->models[0].url) - 1);
}

/* ---- versions ---- */

enum { VERSIONS_KEPT = 3 };

void version_url(char *out, size_t size, const char *output_dir, int64_t round, const char *uid)
{
	snprintf(out, size, "%s/deployed/%lld/%s", output_dir, (long long)round, round == 0 ? "first" : uid);
}

void version_keep(disk *k, const char *output_dir, int64_t round, const char *uid, uint64_t content)
{
	char url[192];

	version_url(url, sizeof(url) - 1, output_dir, round, uid);
	for (size_t i = 0; i < k->n_models && round == 0; i++) {
		if (strcmp(k->models[i].url, url) == 0)
			return; /* also if there was nothing */
	}
	model_put(k, url, content);
	/* What it was is written down beside it. */
	strcat(url, "#");
	model_put(k, url, content);
}

uint64_t version_recorded(const disk *k, const char *output_dir, int64_t round, const char *uid)
{
	char url[192];

	version_url(url, sizeof(url) - 1, output_dir, round, uid);
	strcat(url, "#");
	return model_get(k, url);
}

size_t version_list(const disk *k, const char *output_dir, const char *uid, int64_t *rounds, size_t max)
{
	size_t n = 0;
	char url[192];

	for (size_t i = 0; i < k->n_models && n < max; i++) {
		size_t len = strlen(output_dir);
		int64_t round;

		if (strncmp(k->models[i].url, output_dir, len) != 0 || strncmp(k->models[i].url + len, "/deployed/", 10) != 0)
			continue;
		round = strtoll(k->models[i].url + len + 10, NULL, 10);
		version_url(url, sizeof(url), output_dir, round, uid);
		if (strcmp(url, k->models[i].url) != 0 || k->models[i].content == 0)
			continue;
		rounds[n++] = round;
		for (size_t p = n - 1; p > 0 && rounds[p] > rounds[p - 1]; p--) {
			rounds[p] = rounds[p - 1];
			rounds[p - 1] = round;
		}
	}
	return n;
}

void version_prune(disk *k, const char *output_dir, int64_t round, int64_t of, const char *uid)
{
	int64_t rounds[64];
	size_t n = version_list(k, output_dir, uid, rounds, 64), kept = 0;
	char url[192];

	for (size_t i = 0; i < n; i++) {
		if (rounds[i] == 0 || rounds[i] == round || rounds[i] == of || kept++ + 1 < VERSIONS_KEPT)
			continue;
		version_url(url, sizeof(url), output_dir, rounds[i], uid);
		model_put(k, url, 0);
	}
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = (a ^ (b * UINT64_C(0x9E3779B97F4A7C15))) + UINT64_C(0xD1B54A32D192ED03);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static digest digest_of_number(uint64_t n)
{
	digest d;

	for (size_t i = 0; i < sizeof(d.b); i += 8) {
		uint64_t part = mix(n, i + 1);

		memcpy(&d.b[i], &part, 8);
	}
	return d;
}

digest content_digest(uint64_t content)
{
	return digest_of_number(content ^ UINT64_C(0x5555555555555555));
}

double content_quality(uint64_t content)
{
	return (double)(mix(content, 77) % 10000) / 10000;
}

/* ---- datasets ---- */

static void file_push(dataset_file *f, uint32_t id, int64_t bytes)
{
	if (f->n + 1 >= f->cap) {
		f->cap = f->cap == 0 ? 64 : 2 * f->cap;
		f->ids = mem_resize_array(f->ids, (size_t)f->cap, sizeof(*f->ids));
		f->size_at = mem_resize_array(f->size_at, (size_t)f->cap + 1, sizeof(*f->size_at));
		f->hash_at = mem_resize_array(f->hash_at, (size_t)f->cap + 1, sizeof(*f->hash_at));
	}
	f->ids[f->n] = id;
	f->n++;
	f->size_at[f->n] = f->size_at[f->n - 1] + bytes + (f->n == 1 && f->format == FORMAT_CSV ? 20 : 0);
	f->hash_at[f->n] = mix(f->hash_at[f->n - 1], id);
}

void file_init(world *w, dataset_file *f, device *node, const char *url, enum dataset_format format)
{
	*f = (dataset_file){.node = node, .format = format, .generation = 1, .next_id = 1, .cap = 64};
	strncpy(f->url, url, sizeof(f->url) - 1);
	f->ids = mem_alloc(64 * sizeof(*f->ids));
	f->size_at = mem_alloc(65 * sizeof(*f->size_at));
	f->hash_at = mem_alloc(65 * sizeof(*f->hash_at));
	for (const char *c = url; *c != '\0'; c++)
		f->hash_at[0] = mix(f->hash_at[0], (uint64_t)*c); /* no two files begin alike */
	f->changed_ms = w->unix_base;
}

void file_append(world *w, dataset_file *f, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		file_push(f, f->next_id, 20 + (int64_t)(f->next_id * 7 % 60));
		f->next_id++;
	}
	f->changed_ms = w->unix_base + w->now;
	say(w, "%s: %lld samples more, %lld in all", f->url, (long long)n, (long long)f->n);
	device_look(w, f);
}

static void file_cut(world *w, dataset_file *f, int64_t left)
{
	f->exempt = f->next_id;
	f->n = left;
	f->generation++;
	f->changed_ms = w->unix_base + w->now;
}

void file_truncate(world *w, dataset_file *f, int64_t left)
{
	if (left > f->n)
		return;
	file_cut(w, f, left);
	say(w, "%s: cut to %lld samples", f->url, (long long)left);
	device_look(w, f);
}

void file_replace(world *w, dataset_file *f, int64_t n)
{
	file_cut(w, f, 0);
	say(w, "%s: replaced", f->url);
	file_append(w, f, n);
}

cursor file_cursor(const dataset_file *f, int64_t index, int64_t sample)
{
	cursor c = {.sample = sample, .size = f->size_at[index]};

	if (index > 0)
		c.digest = digest_of_number(f->hash_at[index]);
	return c;
}

int64_t file_locate(const dataset_file *f, const cursor *c)
{
	int64_t low = 0, high = f->n;

	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (f->size_at[middle] < c->size)
			low = middle + 1;
		else
			high = middle;
	}
	if (f->size_at[low] != c->size)
		return -1;
	if (low > 0) {
		digest d = digest_of_number(f->hash_at[low]);

		return digest_equal(&d, &c->digest) ? low : -1;
	}
	return 0;
}

dataset_file *file_of(world *w, const device *d, const char *url)
{
	for (size_t i = 0; i < w->n_files; i++) {
		if (w->files[i].node == d && strcmp(w->files[i].url, url) == 0)
			return &w->files[i];
	}
	return NULL;
}
