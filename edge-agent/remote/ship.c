/* See ship.h. */
#include "edge-agent/remote/ship.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/remote/entries.h"
#include "edge-agent/storage/numbered.h"
#include "edge-agent/storage/version.h"
#include "proto/url.h"

/* Versions at the store; one without its record is none yet, or none any more. */
typedef struct found {
	entry_numbers numbers;
	deploy_found *all;
	version *told;
} found;

typedef struct ship {
	const deploy_plan *asked; /* with urls */
	const transfer *t;
	const char *scratch;
	arena *mem;
	const char *record_max; /* VERSION_MAX */
	const char *output;     /* the output folder's url, without '/' at its end; NULL: it is of this machine */
	deploy_step *steps;     /* with paths, but for remote targets */
	deploy_plan plan;
	found found;
} ship;

static int run(const ship *s, const char *url, const char *const *args, transfer_event_fn on_event, void *ctx, error *err)
{
	int code = transfer_run(s->t, url, args, on_event, ctx, err);
	return code == ERROR_CHANGED ? error_set(err, ERROR_IO, "%s changed while it was read", url) : code;
}

/* Where something goes to is not there: a bucket. Only a model that is missing is what NOT_FOUND says of a deployment. */
static int not_there(int code, error *err)
{
	return code == ERROR_NOT_FOUND ? error_set(err, ERROR_IO, "%s", err->text) : code;
}

static const char *without_slash(arena *mem, const char *url)
{
	size_t len = strlen(url);
	while (len > 0 && url[len - 1] == '/')
		len--;
	return arena_strndup(mem, url, len);
}

/* ---- fetching ---- */

static void on_done(void *ctx, const cJSON *event)
{
	json_get_int(event, "event", "files", 0, JSON_MAX_INT, ctx, NULL);
}

static int fetch_folder(const ship *s, const char *url, const char *path, error *err)
{
	const char *args[] = {"get-folder", url, path, NULL};
	int64_t files = 0;
	int code = file_remove_tree(path, err);
	if (code == 0)
		code = run(s, url, args, on_done, &files, err);
	return code == 0 && files == 0 ?
		error_set(err, ERROR_NOT_FOUND, "model %s: there is neither an object nor a folder of that name", url) :
		code;
}

/* A file, else a folder. */
static int fetch(const ship *s, const char *url, const char *path, error *err)
{
	size_t len = strlen(url);
	const char *args[] = {"get", url, path, NULL};
	bool store = strncmp(url, "s3://", 5) == 0;
	struct stat st;
	int code = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? file_remove_tree(path, err) : 0;
	if (code == 0)
		code = store && url[len - 1] == '/' ? ERROR_NOT_FOUND : run(s, url, args, NULL, NULL, err);
	return code == ERROR_NOT_FOUND && store ? fetch_folder(s, without_slash(s->mem, url), path, err) : code;
}

/* Where what is at this url gets a place here; of the arena. */
static int place_for(const ship *s, const char *what, size_t i, const char *url, const char **path, error *err)
{
	char *folder = mem_printf("%s/%s-%zu", s->scratch, what, i), *given, *name = NULL;
	int code = url_file_name(url, &given, err);
	if (code == 0)
		code = file_make_dirs(folder, 0700, err);
	if (code == 0) {
		name = version_model_name(given);
		*path = arena_printf(s->mem, "%s/%s", folder, name);
	}
	free(name);
	free(given);
	free(folder);
	return code;
}

/* What should tell of a version does not, and will not the next time. */
static bool is_no_record(int code)
{
	return code == ERROR_NOT_FOUND || code == ERROR_INVALID || code == ERROR_UNSUPPORTED || code == ERROR_LIMIT;
}

/* What is written down of the version that a rollback takes the model from. */
static int fetch_record(const ship *s, const char *model_url, const char *model, error *err)
{
	char *from = file_parent(without_slash(s->mem, model_url)), *to = file_parent(model);
	char *url = mem_printf("%s/" VERSION_FILE, from), *path = mem_printf("%s/" VERSION_FILE, to);
	const char *args[] = {"get", "--fresh", "--max-size", s->record_max, url, path, NULL};
	int code = run(s, url, args, NULL, NULL, err);
	if (code != 0)
		(void)unlink(path); /* of a run before */
	free(path);
	free(url);
	free(to);
	free(from);
	return is_no_record(code) ? 0 : code;
}

/* What a step before has fetched already, or NULL. */
static const char *fetched_before(const ship *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (s->asked->steps[k].from != NULL && strcmp(s->asked->steps[k].from, s->asked->steps[i].from) == 0)
			return s->steps[k].from;
	return NULL;
}

static int fetch_source(ship *s, size_t i, error *err)
{
	const char *url = s->asked->steps[i].from, *before;
	int code = 0;
	if (!url_is_remote(url))
		return 0;
	before = fetched_before(s, i);
	if (before != NULL) {
		s->steps[i].from = before;
	} else {
		code = place_for(s, "from", i, url, &s->steps[i].from, err);
		if (code == 0)
			code = fetch(s, url, s->steps[i].from, err);
	}
	if (code == 0 && i == s->asked->main && s->asked->back != NULL)
		code = fetch_record(s, url, s->steps[i].from, err);
	return code;
}

/* ---- versions at the store ---- */

static char *version_url(const ship *s, int64_t number)
{
	return mem_printf("%s/deployed/%lld", s->output, (long long)number);
}

/* 1 if it is there, 0 if not, or an error. */
static int has_first(const ship *s, error *err)
{
	char *folder = s->output != NULL ? version_url(s, 0) : mem_printf("%s/deployed/0", s->asked->output_dir);
	char *url = mem_printf("%s/" VERSION_FILE, folder);
	const char *args[] = {"head", url, NULL};
	struct stat st;
	int code = s->output == NULL ? (stat(folder, &st) == 0 ? 0 : ERROR_NOT_FOUND) : run(s, url, args, NULL, NULL, err);
	free(url);
	free(folder);
	return code == 0 ? 1 : code == ERROR_NOT_FOUND ? 0 : code;
}

/* That version 0 is kept already is shown to the deployment by a folder. */
static int show_first(const ship *s, error *err)
{
	char *path = mem_printf("%s/deployed/0", s->plan.output_dir);
	int code = file_make_dirs(path, 0700, err);
	free(path);
	return code;
}

/* What is served now, if it has to be kept as version 0 and is at a store. */
static int fetch_served(ship *s, error *err)
{
	const char *url = s->asked->steps[s->asked->main].to;
	int first = s->output != NULL || url_is_remote(url) ? has_first(s, err) : 0, code = 0;
	if (first < 0)
		return first;
	if (first > 0)
		return s->output != NULL ? show_first(s, err) : 0;
	if (!url_is_remote(url))
		return 0;
	code = place_for(s, "served", 0, url, &s->plan.served, err);
	if (code == 0)
		code = fetch(s, url, s->plan.served, err);
	/* What a run before has fetched is served no more. */
	return code == ERROR_NOT_FOUND ? file_remove_tree(s->plan.served, err) : code;
}

static int send_version(const ship *s, int64_t number, error *err)
{
	char *from = mem_printf("%s/deployed/%lld", s->plan.output_dir, (long long)number), *to = version_url(s, number);
	char *record = mem_printf("%s/" VERSION_FILE, from);
	const char *args[] = {"put-folder", "--only", "--last", VERSION_FILE, from, to, NULL};
	struct stat st;
	int code = stat(record, &st) == 0 ? run(s, to, args, NULL, NULL, err) : 0; /* without it: what show_first made */
	free(record);
	free(to);
	free(from);
	return code;
}

static int read_version(const ship *s, int64_t number, version *out, error *err)
{
	char *folder = version_url(s, number), *url = mem_printf("%s/" VERSION_FILE, folder);
	char *dir = mem_printf("%s/told", s->scratch), *path = mem_printf("%s/" VERSION_FILE, dir);
	const char *args[] = {"get", "--fresh", "--max-size", s->record_max, url, path, NULL};
	int code = file_make_dirs(dir, 0700, err);
	if (code == 0)
		code = run(s, url, args, NULL, NULL, err);
	*out = (version){.of = -1};
	if (code == 0)
		code = version_read(dir, out, err);
	free(path);
	free(dir);
	free(url);
	free(folder);
	return code;
}

static void remove_version(const ship *s, int64_t number)
{
	char *folder = version_url(s, number), *url = mem_printf("%s/", folder);
	const char *args[] = {"delete-folder", "--first", VERSION_FILE, url, NULL};
	error err = {0};
	if (run(s, url, args, NULL, NULL, &err) != 0)
		log_warn("deploy", "an old version cannot be removed; it goes with the next deployment", L_STR("folder", folder),
			L_STR("error", err.text));
	free(url);
	free(folder);
}

/* Before what is served is touched: whatever is wrong with the list is no reason to call a model that is in place a failure. */
static int find_versions(ship *s, error *err)
{
	found *f = &s->found;
	char *dir = mem_printf("%s/deployed/", s->output);
	int code = entry_numbers_list(s->t, dir, &f->numbers, err);
	f->all = mem_alloc((f->numbers.n + 1) * sizeof *f->all);
	f->told = mem_alloc((f->numbers.n + 1) * sizeof *f->told);
	for (size_t i = 0; i < f->numbers.n && code == 0; i++) {
		version *v = &f->told[i];
		int read = read_version(s, f->numbers.at[i], v, err);
		if (read != 0 && !is_no_record(read))
			code = read;
		f->all[i].round = f->numbers.at[i];
		f->all[i].foreign = read == 0 && v->uid != NULL && s->asked->uid != NULL && strcmp(v->uid, s->asked->uid) != 0;
	}
	free(dir);
	return code;
}

static int on_kept(void *ctx, error *err)
{
	ship *s = ctx;
	char *dir = mem_printf("%s/deployed", s->plan.output_dir);
	int64_t *all = NULL;
	size_t n = 0;
	int code = s->output != NULL ? numbered_list(dir, &all, &n, err) : 0;
	while (code == 0 && n > 0)
		code = send_version(s, all[--n], err); /* 0 first */
	free(all);
	free(dir);
	if (code == 0 && s->output != NULL)
		code = find_versions(s, err);
	return not_there(code, err);
}

/* Remove those that are superfluous, and list the others: of this job, and what was there first. */
static void tidy_versions(const ship *s, deploy_version **all, size_t *n)
{
	const found *f = &s->found;
	deploy_superfluous(s->asked, f->all, f->numbers.n);
	for (size_t i = 0; i < f->numbers.n; i++) {
		const version *v = &f->told[i];
		if (f->all[i].superfluous) {
			remove_version(s, f->all[i].round);
		} else if (v->name != NULL && v->round == f->all[i].round && (!f->all[i].foreign || v->round == 0)) {
			*all = mem_resize_array(*all, *n + 1, sizeof **all);
			(*all)[(*n)++] = (deploy_version){.round = v->round, .name = mem_strdup(v->name), .sha256 = v->sha256};
		}
	}
}

static void found_fini(found *f)
{
	for (size_t i = 0; f->told != NULL && i < f->numbers.n; i++)
		version_fini(&f->told[i]);
	free(f->told);
	free(f->all);
	free(f->numbers.at);
}

/* ---- models that are served at a store ---- */

/* A reader takes an object of that name before a folder, so one that is left of a former model must not stay. */
static int put_folder(const ship *s, const char *from, const char *url, error *err)
{
	const char *to = without_slash(s->mem, url);
	const char *put[] = {"put-folder", "--only", from, to, NULL}, *remove[] = {"delete", to, NULL};
	log_warn("deploy", "a folder at an object store is replaced file by file; who reads it meanwhile may get a mixture", L_STR("url", to));
	int code = run(s, to, put, NULL, NULL, err);
	return code == 0 ? run(s, to, remove, NULL, NULL, err) : code;
}

static int on_put(void *ctx, const deploy_step *step, error *err)
{
	const ship *s = ctx;
	const char *put[] = {"put", step->from, step->to, NULL};
	struct stat st;
	if (stat(step->from, &st) == 0 && S_ISDIR(st.st_mode))
		return not_there(put_folder(s, step->from, step->to, err), err);
	return not_there(run(s, step->to, put, NULL, NULL, err), err);
}

/* ---- the whole ---- */

static int prepare(ship *s, error *err)
{
	const deploy_plan *asked = s->asked;
	int code = file_make_dirs(s->scratch, 0700, err);
	s->record_max = arena_printf(s->mem, "%d", (int)VERSION_MAX);
	s->plan = *asked;
	s->plan.steps = s->steps = arena_alloc(s->mem, (asked->n + 1) * sizeof *s->steps);
	memcpy(s->steps, asked->steps, asked->n * sizeof *s->steps);
	if (asked->output_dir != NULL && url_is_remote(asked->output_dir)) {
		s->output = without_slash(s->mem, asked->output_dir);
		s->plan.output_dir = arena_printf(s->mem, "%s/out", s->scratch);
		if (code == 0)
			code = file_remove_tree(s->plan.output_dir, err);
	}
	for (size_t i = 0; i < asked->n && code == 0; i++) {
		s->steps[i].remote = url_is_remote(asked->steps[i].to);
		code = fetch_source(s, i, err);
	}
	return code == 0 && asked->output_dir != NULL ? fetch_served(s, err) : code;
}

/* Errors speak of what was asked for, not of where it lies here for a moment. */
static void name_urls(const ship *s, error *err)
{
	for (size_t i = 0; err != NULL && i < s->asked->n; i++) {
		const char *path = s->steps != NULL ? s->steps[i].from : NULL, *at = path != NULL ? strstr(err->text, path) : NULL;
		if (at == NULL || !url_is_remote(s->asked->steps[i].from))
			continue;
		char *text = mem_printf("%.*s%s%s", (int)(at - err->text), err->text, s->asked->steps[i].from, at + strlen(path));
		error_set(err, err->code, "%s", text);
		free(text);
	}
}

static bool is_any_remote(const deploy_plan *plan)
{
	bool any = plan->output_dir != NULL && url_is_remote(plan->output_dir);
	for (size_t i = 0; i < plan->n; i++)
		any |= url_is_remote(plan->steps[i].from) || url_is_remote(plan->steps[i].to);
	return any;
}

int ship_run(const deploy_plan *plan, const transfer *t, const char *scratch, model_info *out, deploy_version **versions,
	size_t *n_versions, error *err)
{
	ship s = {.asked = plan, .t = t, .scratch = scratch, .mem = arena_new()};
	const deploy_remote remote = {.ctx = &s, .kept = on_kept, .put = on_put};
	bool any = is_any_remote(plan);
	*versions = NULL;
	*n_versions = 0;
	int code = any ? prepare(&s, err) : 0;
	s.plan.remote = &remote;
	if (code == 0)
		code = deploy_run(any ? &s.plan : plan, out, err);
	if (code == 0 && s.output != NULL)
		tidy_versions(&s, versions, n_versions);
	else if (code == 0 && plan->output_dir != NULL)
		code = deploy_versions(plan->output_dir, plan->uid, versions, n_versions, err);
	if (code == 0 && any)
		(void)file_remove_tree(scratch, NULL);
	else if (code != 0)
		name_urls(&s, err);
	found_fini(&s.found);
	arena_free(s.mem);
	return code;
}
