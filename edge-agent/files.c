/* Watching and scheduling: which file is looked at when, and whose turn it is. The work itself is in file_work.c.
 *
 * A dataset has at most one piece of work under way, and a line of those that wait. A look is wanted or not wanted: however many events come,
 * one look answers them. What runs when its dataset is no longer watched ends by the stop flag; the dataset lives until then.
 *
 * Work that goes over the network waits for its turn, in order, until fewer than REMOTE_MAX pieces run and none of them is about the same place: a
 * dataset or job that goes and comes again is another one, whose work may follow closely on what the former one's has not ended yet. It gets its keys
 * when its turn has come, so they are those of that moment.
 */
#include "edge-agent/files.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/dataset/watch.h"
#include "edge-agent/file_work.h"
#include "edge-agent/remote_prune.h"
#include "edge-agent/source.h"
#include "proto/url.h"

/* REMOTE_MAX: pieces of work that go over the network, at a time; fewer than libuv's pool has threads. */
enum { WATCH_INTERVAL_MS = 10, RETRY_MIN_MS = 1000, REMOTE_MAX = 4 };

#define POOL_THREADS "8"

typedef struct job job;
typedef struct dataset dataset;

/* A url that work is about. */
typedef struct remote_url {
	struct remote_url *next;
	const char *uid, *url;
} remote_url;

struct job {
	job *next;
	files *files;
	dataset *dataset; /* NULL: needs none */
	uint64_t id;
	uv_work_t work;
	file_work file;
	remote_url *urls;  /* not NULL: it goes over the network */
	const char *place; /* of these: at most one at a time for each */
};

struct dataset {
	dataset *next;
	files *files;
	source source;
	watch *watch; /* NULL: remote */
	job *running, *waiting;
	bool look_wanted, wanted; /* wanted: the core listed it in this sync */
	bool looked;              /* the last piece of work was a look */
	bool dropped;             /* free it when nothing runs */
	bool failing;             /* the last look found a file that it could not read */
	atomic_bool stop;
};

struct files {
	uv_loop_t *loop;
	files_config config;
	files_events events;
	dataset *datasets;
	uv_timer_t slow, again; /* looks at all; looks at those that failed */
	uint64_t again_ms;
	atomic_bool stop;
	int running, timers;
	int n_remote;
	job *remote;         /* that run */
	job *remote_waiting; /* for their turn, in order */
	bool pruned;         /* what stands for remote things that nothing wants is gone, as far as is known */
	bool stopping;
};

static void run_next(dataset *d);
static void on_again(uv_timer_t *timer);

static void free_if_done(files *f)
{
	if (f->stopping && f->timers == 0 && f->running == 0 && !f->datasets)
		free(f);
}

static bool has_copy(const files *f, const char *folder)
{
	for (const dataset *d = f->datasets; d; d = d->next)
		if (d->source.folder && strcmp(d->source.folder, folder) == 0)
			return true;
	return false;
}

static void dataset_free(dataset *d)
{
	files *f = d->files;

	for (dataset **p = &f->datasets; *p; p = &(*p)->next)
		if (*p == d) {
			*p = d->next;
			break;
		}
	if (d->source.folder && !f->stopping && !has_copy(f, d->source.folder))
		(void)file_remove_tree(d->source.folder, NULL);
	watch_free(d->watch);
	source_close(&d->source);
	free(d);
}

static void job_free(job *j)
{
	file_work_forget_keys(&j->file);
	arena_free(j->file.mem);
	free(j);
}

static void dataset_drop(dataset *d)
{
	job *next;

	d->dropped = true;
	atomic_store(&d->stop, true);
	for (job *j = d->waiting; j; j = next) {
		edge_result gone = {.code = ERROR_NOT_FOUND, .text = "this dataset is no longer watched"};

		next = j->next;
		if (!d->files->stopping)
			d->files->events.done(d->files->events.ctx, j->id, &gone);
		job_free(j);
	}
	d->waiting = NULL;
	if (!d->running)
		dataset_free(d);
}

/* ---- what a look found ---- */

/* Nobody tells that a file can be read again. For one that is missing, the watch does. */
static void look_again(dataset *d, int code)
{
	files *f = d->files;
	bool any = false;

	d->failing = code != 0 && code != ERROR_NOT_FOUND;
	for (const dataset *each = f->datasets; each; each = each->next)
		any = any || (each->failing && !each->dropped);
	if (!any) {
		f->again_ms = RETRY_MIN_MS;
		uv_timer_stop(&f->again);
	} else if (!uv_is_active((uv_handle_t *)&f->again)) {
		uv_timer_start(&f->again, on_again, f->again_ms, 0);
		f->again_ms = f->again_ms * 2 < (uint64_t)f->config.look_ms ? f->again_ms * 2 : (uint64_t)f->config.look_ms;
	}
}

static void tell(dataset *d)
{
	const files *f = d->files;
	scan_view v;
	dataset_view view;
	char *problem;

	scanner_view(d->source.scanner, &v);
	if (v.more || !v.looked)
		return;
	look_again(d, v.code);
	view = source_view(&d->source, &v, &problem);
	f->events.view(f->events.ctx, d->source.url, d->source.format, &view);
	free(problem);
}

/* ---- work ---- */

static void after(uv_work_t *work, int status);

static void after_dataset(job *j)
{
	dataset *d = j->dataset;
	scan_view v;

	if (!d->dropped) {
		scanner_view(d->source.scanner, &v);
		source_save(&d->source, &v, !j->file.look && j->file.action.kind == EDGE_WRITE && j->file.result.code == 0);
		/* A view belongs before the result of work that saw the file change. Whoever hears of it may drop the dataset: it counts as
		 * running until then. */
		if (j->file.look || j->file.result.code == ERROR_CHANGED)
			tell(d);
	}
	d->running = NULL;
	if (d->dropped)
		dataset_free(d);
	else
		run_next(d);
}

static void append(job **list, job *j)
{
	while (*list)
		list = &(*list)->next;
	j->next = NULL;
	*list = j;
}

static void detach(job **list, const job *j)
{
	while (*list != j)
		list = &(*list)->next;
	*list = j->next;
}

static bool is_place_free(const files *f, const char *place)
{
	for (const job *j = f->remote; j; j = j->next)
		if (strcmp(j->place, place) == 0)
			return false;
	return true;
}

static void in_pool(uv_work_t *work)
{
	job *j = work->data;

	file_work_run(&j->file);
}

static void begin(job *j)
{
	files *f = j->files;

	for (const remote_url *each = j->urls; each; each = each->next) {
		credential_keys keys;
		enum credential_state state = f->events.keys(f->events.ctx, each->uid, each->url, &keys);

		file_work_add_key(&j->file, each->url, state, &keys);
	}
	if (j->urls) {
		append(&f->remote, j);
		f->n_remote++;
	}
	f->running++;
	uv_queue_work(f->loop, &j->work, in_pool, after);
}

static void begin_waiting(files *f)
{
	job *next;

	for (job *j = f->remote_waiting; j && f->n_remote < REMOTE_MAX; j = next) {
		next = j->next;
		if (!is_place_free(f, j->place))
			continue;
		detach(&f->remote_waiting, j);
		begin(j);
	}
}

static void start(job *j)
{
	if (!j->urls) {
		begin(j);
		return;
	}
	append(&j->files->remote_waiting, j);
	begin_waiting(j->files);
}

static void after(uv_work_t *work, int status)
{
	job *j = work->data;
	files *f = j->files;

	(void)status;
	f->running--;
	if (j->urls) {
		detach(&f->remote, j);
		f->n_remote--;
		f->pruned &= j->file.look; /* what it made here may be wanted no more */
	}
	begin_waiting(f);
	if (j->dataset)
		after_dataset(j);
	if (!f->stopping && !j->file.look)
		f->events.done(f->events.ctx, j->id, &j->file.result);
	job_free(j);
	free_if_done(f);
}

static job *job_new(files *f, dataset *d)
{
	job *j = mem_alloc(sizeof *j);

	j->files = f;
	j->dataset = d;
	j->work.data = j;
	j->file.mem = arena_new();
	j->file.scanner = d ? d->source.scanner : NULL;
	j->file.stop = d ? &d->stop : &f->stop;
	j->file.rounds_kept = f->config.rounds_kept;
	j->file.deployed_kept = f->config.deployed_kept;
	j->file.root_dir = f->config.root_dir;
	j->file.remote_dir = f->config.remote_dir;
	j->file.transfer = (transfer){.program = f->config.transfer_program, .stop = j->file.stop};
	return j;
}

/* Names a url that the work is about: if it is remote, it goes over the network, and the keys for it go along. Texts of the job's. */
static void about(job *j, const char *uid, const char *url)
{
	remote_url *each;

	if (!url_is_remote(url))
		return;
	each = arena_alloc(j->file.mem, sizeof *each);
	*each = (remote_url){.next = j->urls, .uid = uid, .url = url};
	j->urls = each;
}

static void run_next(dataset *d)
{
	if (d->running || d->dropped)
		return;
	/* A look first: what follows is then about the file as it is. But not two: over a slow network the next one may be wanted before the first
	 * has ended, and again, for ever. */
	if (d->look_wanted && !(d->looked && d->waiting)) {
		d->look_wanted = false;
		d->looked = true;
		d->running = job_new(d->files, d);
		d->running->file.look = true;
		d->running->file.url = d->source.url;
		d->running->file.mirror = d->source.mirror;
		d->running->place = d->source.folder;
		about(d->running, NULL, d->source.url);
	} else if (d->waiting) {
		d->running = d->waiting;
		d->waiting = d->waiting->next;
		d->running->next = NULL;
		d->looked = false;
	}
	if (d->running)
		start(d->running);
}

static void want_look(dataset *d)
{
	d->look_wanted = true;
	run_next(d);
}

static void on_change(void *arg)
{
	want_look(arg);
}

static void on_again(uv_timer_t *timer)
{
	files *f = timer->data;

	for (dataset *d = f->datasets; d; d = d->next)
		if (d->failing && !d->dropped)
			want_look(d);
}

static void on_slow(uv_timer_t *timer)
{
	files *f = timer->data;

	f->pruned = false; /* jobs come and go without their datasets */
	for (dataset *d = f->datasets; d; d = d->next) {
		if (d->dropped)
			continue;
		if (d->watch)
			watch_rearm(d->watch);
		want_look(d);
	}
}

/* ---- datasets ---- */

static dataset *dataset_find(files *f, const char *url, enum dataset_format format)
{
	for (dataset *d = f->datasets; d; d = d->next)
		if (!d->dropped && d->source.format == format && strcmp(d->source.url, url) == 0)
			return d;
	return NULL;
}

static dataset *dataset_new(files *f, const char *url, enum dataset_format format)
{
	dataset *d = mem_alloc(sizeof *d);

	d->files = f;
	source_open(&d->source, &f->config, url, format);
	if (!d->source.mirror)
		d->watch = watch_new(f->loop, f->config.root_dir, url, WATCH_INTERVAL_MS, on_change, d);
	d->next = f->datasets;
	f->datasets = d;
	want_look(d);
	return d;
}

static bool is_watched(void *ctx, const char *url, enum dataset_format format)
{
	return dataset_find(ctx, url, format) != NULL;
}

static bool is_copy_wanted(void *ctx, const char *path)
{
	return has_copy(ctx, path);
}

static void drop_unwanted(files *f, const edge_agent *agent)
{
	dataset *next;
	bool any = false;

	for (dataset *d = f->datasets; d; d = next) {
		next = d->next;
		if (d->wanted || d->dropped)
			continue;
		any = true;
		dataset_drop(d);
	}
	if (any)
		store_scan_prune(f->config.store, is_watched, f, NULL);
	if (any || !f->pruned)
		remote_prune(f->config.remote_dir, agent, is_copy_wanted, f);
	f->pruned = true;
}

void files_keys_changed(files *f)
{
	for (dataset *d = f->datasets; d; d = d->next)
		if (d->source.mirror && !d->dropped)
			want_look(d);
}

void files_sync(files *f, const edge_agent *agent)
{
	const char *url;
	enum dataset_format format;

	for (dataset *d = f->datasets; d; d = d->next)
		d->wanted = false;
	for (size_t i = 0; edge_agent_watch(agent, i, &url, &format); i++) {
		dataset *d = dataset_find(f, url, format);

		if (!d)
			d = dataset_new(f, url, format);
		d->wanted = true;
	}
	drop_unwanted(f, agent);
	if (f->datasets && !uv_is_active((uv_handle_t *)&f->slow))
		uv_timer_start(&f->slow, on_slow, (uint64_t)f->config.look_ms, (uint64_t)f->config.look_ms);
	else if (!f->datasets)
		uv_timer_stop(&f->slow);
}

/* ---- actions ---- */

static void copy_deploy(job *j, const edge_action *action)
{
	deploy_copy *copies = arena_alloc(j->file.mem, action->deploy.n * sizeof *copies);

	for (size_t i = 0; i < action->deploy.n; i++) {
		copies[i].from.url = arena_strdup(j->file.mem, action->deploy.copies[i].from.url);
		copies[i].from.format = arena_strdup(j->file.mem, action->deploy.copies[i].from.format);
		copies[i].to.url = arena_strdup(j->file.mem, action->deploy.copies[i].to.url);
	}
	j->file.action.deploy.copies = copies;
	j->file.action.deploy.output_dir = arena_strdup(j->file.mem, action->deploy.output_dir);
	j->file.action.deploy.uid = arena_strdup(j->file.mem, action->deploy.uid);
	j->file.action.deploy.ns = arena_strdup(j->file.mem, action->deploy.ns);
	j->file.action.deploy.job = arena_strdup(j->file.mem, action->deploy.job);
	j->file.action.deploy.metrics = arena_strdup(j->file.mem, action->deploy.metrics);
	j->file.scratch = file_work_folder(j->file.mem, j->file.remote_dir, FOLDER_DEPLOYS, action->deploy.output_dir);
	j->place = file_work_folder(j->file.mem, j->file.remote_dir, FOLDER_OUTPUTS, action->deploy.output_dir);
	about(j, j->file.action.deploy.uid, j->file.action.deploy.output_dir);
	for (size_t i = 0; i < action->deploy.n; i++) {
		about(j, j->file.action.deploy.uid, copies[i].from.url);
		about(j, j->file.action.deploy.uid, copies[i].to.url);
	}
}

static void copy_round(job *j, const edge_action *action)
{
	j->file.action.round.uid = arena_strdup(j->file.mem, action->round.uid);
	j->file.action.round.output_dir = arena_strdup(j->file.mem, action->round.output_dir);
	j->file.action.round.url = arena_strdup(j->file.mem, action->round.url);
	j->place = file_work_folder(j->file.mem, j->file.remote_dir, FOLDER_OUTPUTS, action->round.output_dir);
	about(j, j->file.action.round.uid, j->file.action.round.output_dir);
}

/* The dataset whose scanner an action needs; *needed says whether it does. */
static dataset *dataset_of(files *f, const edge_action *action, bool *needed)
{
	*needed = action->kind == EDGE_LOCATE || action->kind == EDGE_MEASURE || action->kind == EDGE_WRITE;
	if (!*needed)
		return NULL;
	if (action->kind == EDGE_WRITE)
		return dataset_find(f, action->round.url, action->round.format);
	return dataset_find(f, action->sample.url, action->sample.format);
}

void files_perform(files *f, const edge_action *action)
{
	bool needed;
	dataset *d = dataset_of(f, action, &needed);
	job *j;

	if (needed && !d) {
		/* The core lists a file before it asks about it, but the list is synced after this turn. */
		d = action->kind == EDGE_WRITE ? dataset_new(f, action->round.url, action->round.format) :
										 dataset_new(f, action->sample.url, action->sample.format);
	}
	j = job_new(f, d);
	j->id = action->id;
	j->file.action = *action;
	if (action->kind == EDGE_DEPLOY)
		copy_deploy(j, action);
	else if (action->kind == EDGE_LOOK || action->kind == EDGE_WRITE || action->kind == EDGE_WRITE_EVAL)
		copy_round(j, action);
	if (!d) {
		start(j);
		return;
	}
	append(&d->waiting, j);
	run_next(d);
}

/* ---- life ---- */

files *files_new(uv_loop_t *loop, const files_config *config, const files_events *events)
{
	files *f = mem_alloc(sizeof *f);

	setenv("UV_THREADPOOL_SIZE", POOL_THREADS, 1); /* before the pool is first used */
	f->loop = loop;
	f->config = *config;
	f->config.root_dir = config->root_dir ? config->root_dir : "";
	f->events = *events;
	f->again_ms = RETRY_MIN_MS;
	f->timers = 2;
	uv_timer_init(loop, &f->slow);
	uv_timer_init(loop, &f->again);
	f->slow.data = f->again.data = f;
	return f;
}

static void on_closed(uv_handle_t *handle)
{
	files *f = handle->data;

	f->timers--;
	free_if_done(f);
}

void files_stop(files *f)
{
	dataset *next;

	f->stopping = true;
	atomic_store(&f->stop, true);
	for (dataset *d = f->datasets; d; d = next) {
		next = d->next;
		if (!d->dropped)
			dataset_drop(d);
	}
	uv_close((uv_handle_t *)&f->slow, on_closed);
	uv_close((uv_handle_t *)&f->again, on_closed);
}
