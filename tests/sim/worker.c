/* Workers: what a user's scripts do, as far as the two agents can tell.
 *
 * Train reads the samples of its folder when it starts, works for a while, writes its model, says so, and exits. Eval compares the models of
 * its list. Inference loads its model and, with hot update, each new one. A post is tried five times, three seconds apart; then the worker goes
 * on without. Workers fail, say nothing, say it twice, or do not exit, as chance has it; in scripts they do what the script says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/sim.h"

enum { ATTEMPTS = 5, POST_WAIT_MS = 3000, POLL_MS = 10 * 1000 };

static void tree_free(void *tree)
{
	cJSON_Delete(tree);
}

static job_setup *setup_of(world *w, const pod *p)
{
	track *t = track_of(w, p->job_uid);

	return t != NULL ? t->job : NULL;
}

/* ---- posts ---- */

static void add_result(worker_post *b, const char *url, const cJSON *metrics)
{
	b->results[b->n_results++] = (model){.format = "bin", .url = arena_strdup(b->mem, url), .metrics = metrics};
}

static void eval_results(world *w, pod *p, worker_post *b)
{
	char urls[sizeof(p->model_urls)], *rest = urls, *url;
	const job_setup *j = setup_of(w, p);
	double quality[2] = {0};
	bool odd = chance(w, w->k.odd_metrics);

	memcpy(urls, p->model_urls, sizeof(urls));
	while ((url = strtok_r(rest, ";", &rest)) != NULL && b->n_results < 2) {
		char path[sizeof(p->model_urls)];
		cJSON *metrics;

		url_outside(path, sizeof(path), url);
		quality[b->n_results] = content_quality(model_get(disk_of(w, p->node, path), path));
		metrics = metrics_of(j, quality[b->n_results], odd);
		if (metrics != NULL)
			arena_own(b->mem, metrics, tree_free);
		add_result(b, path, metrics);
	}
	track_eval(w, p, odd ? 0 : metrics_answer(j, quality[0], quality[1]));
}

/* Scripts return what they like. */
static const cJSON *train_metrics(world *w, worker_post *b)
{
	cJSON *metrics = NULL;

	if (chance(w, 0.2))
		metrics = chance(w, 0.5) ? cJSON_CreateString("done") : cJSON_CreateArray();
	if (metrics != NULL)
		arena_own(b->mem, metrics, tree_free);
	return metrics;
}

static worker_post *body_of(world *w, pod *p, enum post_status status)
{
	arena *mem = arena_new();
	worker_post *b = arena_alloc(mem, sizeof(*b));
	char url[sizeof(p->model_url) + 16];

	b->mem = mem;
	b->worker = arena_strdup(mem, p->worker);
	b->ns = "default";
	b->job = arena_strdup(mem, p->job_name);
	b->kind = p->kind == WORKER_TRAIN ? POST_TRAIN : p->kind == WORKER_EVAL ? POST_EVAL : POST_DEPLOY;
	b->status = status;
	b->results = arena_alloc(mem, 4 * sizeof(*b->results));
	if (status != POST_COMPLETED || p->kind == WORKER_INFERENCE)
		return b;
	if (p->kind == WORKER_EVAL) {
		eval_results(w, p, b);
		return b;
	}
	snprintf(url, sizeof(url), "%s/model.bin", p->model_url);
	add_result(b, url, train_metrics(w, b));
	return b;
}

static void finish(world *w, pod *p)
{
	if (chance(w, w->k.work_hang)) {
		say(w, "%s does not exit", p->worker);
		p->hangs = true;
		return;
	}
	pod_end(w, p, true);
}

static void finish_event(world *w, void *obj, void *data)
{
	(void)data;
	finish(w, obj);
}

static void post_again(world *w, void *obj, void *data);

static void post(world *w, pod *p, enum post_status status)
{
	int *again = mem_alloc(sizeof(*again));

	p->attempts++;
	*again = (int)status;
	if (device_post(w, p->node, p, body_of(w, p, status))) {
		p->posted = true;
		free(again);
		return;
	}
	p->last_status = 0;
	if (p->attempts < ATTEMPTS) {
		at_life(w, w->now + POST_WAIT_MS, post_again, p, again, &p->life);
		return;
	}
	free(again);
	if (!p->by_hand && p->kind != WORKER_INFERENCE)
		at_life(w, w->now + 100, finish_event, p, NULL, &p->life);
}

static void post_again(world *w, void *obj, void *data)
{
	int status = *(int *)data;

	free(data);
	post(w, obj, (enum post_status)status);
}

void worker_answer(world *w, pod *p, uint64_t life, int status)
{
	int *again;

	if (p->life != life || p->o->json == NULL)
		return;
	p->last_status = status;
	if (status == 200) {
		bool first = !p->accepted;

		p->accepted = true;
		if (p->by_hand || p->kind == WORKER_INFERENCE)
			return;
		if (first && chance(w, w->k.work_twice)) {
			p->attempts = 0;
			post(w, p, POST_COMPLETED);
			return;
		}
		at_life(w, w->now + rnd_delay(w, 500), finish_event, p, NULL, &p->life);
		return;
	}
	if (p->attempts < ATTEMPTS) {
		again = mem_alloc(sizeof(*again));
		*again = (int)POST_COMPLETED;
		at_life(w, w->now + POST_WAIT_MS, post_again, p, again, &p->life);
	} else if (!p->by_hand && p->kind != WORKER_INFERENCE) {
		at_life(w, w->now + 100, finish_event, p, NULL, &p->life);
	}
}

void worker_post_result(world *w, pod *p, const char *status)
{
	p->attempts = 0;
	post(w, p, strcmp(status, "completed") == 0 ? POST_COMPLETED : POST_FAILED);
}

/* ---- work ---- */

void worker_read(world *w, pod *p)
{
	char dir[128];
	int64_t round;
	track *t = track_of(w, p->job_uid);
	const folder *f;
	round_track *r;

	if (t == NULL || !folder_of_url(p->data_url, "train", dir, sizeof(dir), &round))
		return;
	f = folder_find(disk_of(w, p->node, dir), dir, round);
	r = track_round(t, round);
	if (f == NULL)
		return; /* it trains from nothing and fails; what another one has read of this round stays what was read */
	free(r->read);
	r->file = f->file;
	memcpy(r->dir, dir, sizeof(r->dir));
	r->n_read = (size_t)(f->range.to - f->range.from);
	r->read = mem_alloc(r->n_read * sizeof(*r->read));
	memcpy(r->read, f->ids, r->n_read * sizeof(*r->read));
	say(w, "%s reads [%lld,%lld)", p->worker, (long long)f->range.from, (long long)f->range.to);
}

void worker_write(world *w, pod *p)
{
	char url[sizeof(p->model_url) + 16];

	snprintf(url, sizeof(url), "%s/model.bin", p->model_url);
	model_put(disk_of(w, p->node, url), url, ++w->next_content);
	say(w, "%s writes %s, content %llu", p->worker, url, (unsigned long long)w->next_content);
}

/* What it needs is there. */
static bool can_work(world *w, pod *p)
{
	track *t = track_of(w, p->job_uid);
	char dir[128], urls[sizeof(p->model_urls)], *rest = urls, *url;
	int64_t round;

	if (p->kind == WORKER_TRAIN)
		return t != NULL && track_round(t, p->round)->n_read > 0;
	if (!folder_of_url(p->data_url, "eval", dir, sizeof(dir), &round) || eval_find(disk_of(w, p->node, dir), dir, round) == NULL)
		return false;
	memcpy(urls, p->model_urls, sizeof(urls));
	while ((url = strtok_r(rest, ";", &rest)) != NULL) {
		const char *path = strncmp(url, "/home/data/", 11) == 0 ? url + 10 : url;

		if (model_get(disk_of(w, p->node, path), path) == 0)
			return false;
	}
	return true;
}

static void worked(world *w, void *obj, void *data)
{
	pod *p = obj;

	(void)data;
	if (!can_work(w, p) || chance(w, w->k.work_fail)) {
		if (chance(w, 0.5)) {
			p->attempts = ATTEMPTS - 1;
			device_post(w, p->node, p, body_of(w, p, POST_FAILED));
		}
		pod_container_failed(w, p);
		return;
	}
	if (p->kind == WORKER_TRAIN)
		worker_write(w, p);
	if (chance(w, w->k.work_silent)) {
		say(w, "%s says nothing", p->worker);
		pod_end(w, p, true);
		return;
	}
	p->attempts = 0;
	post(w, p, POST_COMPLETED);
}

static void loads(world *w, pod *p, uint64_t content)
{
	p->loaded = content;
	p->attempts = 0;
	say(w, "%s has loaded content %llu", p->worker, (unsigned long long)content);
	post(w, p, chance(w, w->k.load_fail) ? POST_FAILED : POST_COMPLETED);
}

static void serve(world *w, pod *p)
{
	job_setup *j = setup_of(w, p);
	uint64_t content = model_get(disk_of(w, p->node, p->model_url), p->model_url), newer;

	p->loaded = content;
	say(w, "%s serves content %llu", p->worker, (unsigned long long)content);
	if (!p->hot || j == NULL)
		return;
	newer = model_get(&p->node->disk, j->hot_dir);
	if (newer != 0)
		loads(w, p, newer);
}

void worker_start(world *w, pod *p)
{
	p->life++;
	p->posted = p->accepted = false;
	if (p->kind == WORKER_INFERENCE) {
		serve(w, p);
		return;
	}
	if (p->kind == WORKER_TRAIN)
		worker_read(w, p);
	if (!p->by_hand)
		at_life(w, w->now + rnd_delay(w, w->k.work_ms), worked, p, NULL, &p->life);
}

/* ---- hot update ---- */

static void polled(world *w, void *obj, void *data)
{
	pod *p = obj;
	job_setup *j = setup_of(w, p);
	uint64_t content = j != NULL ? model_get(&p->node->disk, j->hot_dir) : 0;

	(void)data;
	if (content != 0 && content != p->loaded && p->phase == POD_IS_RUNNING)
		loads(w, p, content);
}

static void hot_url(char *out, size_t size, const char *ns, const char *job)
{
	snprintf(out, size, "/var/lib/sedna/model-hot-update/%s/incrementallearningjob/%s/model", ns, job);
}

void worker_not_hot(device *d, const char *ns, const char *job)
{
	char dir[160];

	hot_url(dir, sizeof(dir), ns, job);
	if (model_get(&d->disk, dir) != 0)
		model_put(&d->disk, dir, 0);
}

void worker_hot(world *w, device *d, const char *ns, const char *job, uint64_t content)
{
	char dir[160];

	hot_url(dir, sizeof(dir), ns, job);
	model_put(&d->disk, dir, content);
	for (object *o = w->objects; o != NULL; o = o->next) {
		pod *p = o->pod;

		if (o->json != NULL && p != NULL && p->kind == WORKER_INFERENCE && p->hot && p->node == d && strcmp(p->job_name, job) == 0)
			at_life(w, w->now + rnd_delay(w, POLL_MS), polled, p, NULL, &p->life);
	}
}
