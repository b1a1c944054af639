/* How a worker in a container comes to the files that its variables name.
 *
 *   /a/b/model.pb        the folder of the node, /a/b, is mounted below /home/data; the worker sees /home/data/a/b/model.pb
 *   s3://bucket/m.pb     fetched before the worker starts, into a volume of the pod; the worker sees /downloads/bucket/m.pb. The same for
 *                        http:// and https://. What a worker only writes there is left as it is: it uploads by itself
 *
 * The folder of a file is always the parent, also of a model that is a folder; a url that ends in '/' is its own. A folder is mounted once, and
 * must exist: the edge agent makes those of the job's outputs. Fetching is one init container for each Secret that is needed, since
 * credentials are variables of a container. In place (the local backend) paths are those of this machine, and there is nothing to mount; the init
 * containers say what is to be fetched, and /downloads is a folder of the worker's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/pod.h"

#define DOWNLOADS "/downloads"
enum { FETCHED_MAX = 64 };

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return mem_printf("%.*s", slash != NULL ? (int)(slash - path) : 0, path);
}

static void mount_folder(pod_files *f, const char *url)
{
	char *folder = parent_of(url);
	for (size_t i = 0; i < f->n_mounts && folder != NULL; i++) {
		if (strcmp(f->mounts[i], folder) == 0) {
			free(folder);
			folder = NULL;
		}
	}
	if (folder == NULL)
		return;
	f->mounts = mem_resize_array(f->mounts, f->n_mounts + 1, sizeof *f->mounts);
	f->mounts[f->n_mounts++] = folder;
}

static const char *model_credential(const controller *c, const job *j, const char *name, const char *url)
{
	const model_object *m = name != NULL ? model_find(c, j->ns, name) : NULL;
	return m != NULL && m->wrong == NULL && m->credential != NULL && strcmp(m->m.url, url) == 0 ? m->credential : NULL;
}

const char *pod_credential(const controller *c, const job *j, const char *url)
{
	const job_view *v = j->view;
	const dataset *d = j->facts.dataset;
	const char *names[] = {v->initial_model, v->eval_model, v->deploy_model}, *own = NULL;
	for (size_t i = 0; url != NULL && own == NULL && i < sizeof names / sizeof names[0]; i++)
		own = model_credential(c, j, names[i], url);
	if (own == NULL && url != NULL && strcmp(d->url, url) == 0 && d->credential[0] != '\0')
		own = d->credential;
	if (own == NULL)
		own = v->credential != NULL ? v->credential : d->credential;
	return own != NULL && own[0] != '\0' ? own : NULL;
}

static void fetch(const controller *c, const job *j, pod_files *f, const char *url, bool index)
{
	const char *secret = strncmp(url, "s3://", 5) == 0 ? pod_credential(c, j, url) : NULL;
	for (size_t i = 0; i < f->n_fetched; i++) {
		if (strcmp(f->fetched[i].url, url) == 0)
			return;
	}
	if (f->n_fetched == FETCHED_MAX)
		return;
	f->fetched = mem_resize_array(f->fetched, f->n_fetched + 1, sizeof *f->fetched);
	f->fetched[f->n_fetched++] = (pod_fetched){.url = mem_strdup(url), .secret = mem_strdup(secret), .index = index};
}

char *pod_file_read(const controller *c, const job *j, pod_files *f, const char *url, bool index)
{
	if (!url_is_remote(url)) {
		if (c->cfg.workers_in_place)
			return mem_strdup(url);
		mount_folder(f, url);
		return mem_printf(POD_DATA_PREFIX "%s", url);
	}
	fetch(c, j, f, url, index && strncmp(url, "s3://", 5) == 0);
	return mem_printf(DOWNLOADS "/%s", url_after_scheme(url));
}

char *pod_file_written(const controller *c, pod_files *f, const char *url)
{
	if (c->cfg.workers_in_place || url_is_remote(url))
		return mem_strdup(url);
	mount_folder(f, url);
	return mem_printf(POD_DATA_PREFIX "%s", url);
}

void pod_files_fini(pod_files *f)
{
	for (size_t i = 0; i < f->n_mounts; i++)
		free(f->mounts[i]);
	for (size_t i = 0; i < f->n_fetched; i++) {
		free(f->fetched[i].url);
		free(f->fetched[i].secret);
	}
	free(f->mounts);
	free(f->fetched);
	*f = (pod_files){0};
}

/* ---- the pod's spec ---- */

static cJSON *list_in(cJSON *object, const char *name)
{
	cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);
	if (cJSON_IsArray(list))
		return list;
	cJSON_DeleteItemFromObjectCaseSensitive(object, name);
	list = cJSON_CreateArray();
	json_put(object, name, list);
	return list;
}

static void mount_at(cJSON *container, const char *volume, const char *path, bool read_only)
{
	cJSON *mount = cJSON_CreateObject();
	json_put_string(mount, "name", volume);
	json_put_string(mount, "mountPath", path);
	if (read_only)
		json_put_bool(mount, "readOnly", true);
	cJSON_AddItemToArray(list_in(container, "volumeMounts"), mount);
}

/* Into every container of the template, whose own volumes stay as they are. */
static void add_volume(cJSON *spec, int *number, const char *kind, cJSON *source, const char *path, bool read_only)
{
	cJSON *volume = cJSON_CreateObject(), *container;
	char name[24];
	(void)snprintf(name, sizeof name, "ilmare-%d", (*number)++);
	json_put_string(volume, "name", name);
	json_put(volume, kind, source);
	cJSON_AddItemToArray(list_in(spec, "volumes"), volume);
	cJSON_ArrayForEach(container, json_member(spec, "containers")) {
		mount_at(container, name, path, read_only);
	}
}

static cJSON *host_path(const char *path, const char *type)
{
	cJSON *source = cJSON_CreateObject();
	json_put_string(source, "path", path[0] != '\0' ? path : "/");
	json_put_string(source, "type", type);
	return source;
}

/* What a pod's init container asks for is kept for the pod as long as it lives, so this asks for what it needs and may take more. */
static cJSON *resources(void)
{
	static const char *const amounts[][3] = {{"requests", "10m", "64Mi"}, {"limits", "1", "1Gi"}};
	cJSON *all = cJSON_CreateObject();
	for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
		cJSON *one = cJSON_CreateObject();
		json_put_string(one, "cpu", amounts[i][1]);
		json_put_string(one, "memory", amounts[i][2]);
		json_put(all, amounts[i][0], one);
	}
	return all;
}

static bool same_secret(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

/* Arguments: pairs of source and destination folder, an index marked with '@'. */
static void add_fetcher(const controller *c, const job *j, cJSON *spec, const pod_files *f, size_t first, const char *volume, int number)
{
	cJSON *container = cJSON_CreateObject(), *args = cJSON_CreateArray(), *env = cJSON_CreateArray();
	char name[32];
	(void)snprintf(name, sizeof name, "ilmare-fetch-%d", number);
	for (size_t i = first; i < f->n_fetched; i++) {
		const pod_fetched *one = &f->fetched[i];
		if (!same_secret(one->secret, f->fetched[first].secret))
			continue;
		char *folder = parent_of(url_after_scheme(one->url)), *source = mem_printf("%s%s", one->index ? "@" : "", one->url),
			 *destination = mem_printf(DOWNLOADS "/%s", folder);
		cJSON_AddItemToArray(args, cJSON_CreateString(source));
		cJSON_AddItemToArray(args, cJSON_CreateString(destination));
		free(destination);
		free(source);
		free(folder);
	}
	if (f->fetched[first].secret != NULL)
		pod_env_credential(c, j, env, f->fetched[first].secret);
	json_put_string(container, "name", name);
	json_put_string(container, "image", c->cfg.storage_image);
	json_put_string(container, "imagePullPolicy", "IfNotPresent");
	json_put(container, "args", args);
	json_put(container, "env", env);
	json_put(container, "resources", resources());
	if (!c->cfg.workers_in_place)
		mount_at(container, volume, DOWNLOADS, false);
	cJSON_AddItemToArray(list_in(spec, "initContainers"), container);
}

static void add_fetchers(const controller *c, const job *j, cJSON *spec, const pod_files *f, int *volumes)
{
	char volume[24];
	int number = 0;
	if (f->n_fetched == 0)
		return;
	(void)snprintf(volume, sizeof volume, "ilmare-%d", *volumes);
	if (!c->cfg.workers_in_place)
		add_volume(spec, volumes, "emptyDir", cJSON_CreateObject(), DOWNLOADS, true);
	for (size_t i = 0; i < f->n_fetched; i++) {
		bool done = false;
		for (size_t k = 0; k < i; k++)
			done = done || same_secret(f->fetched[k].secret, f->fetched[i].secret);
		if (!done)
			add_fetcher(c, j, spec, f, i, volume, number++);
	}
}

void pod_files_mount(const controller *c, const job *j, const pod_files *f, cJSON *spec)
{
	int volumes = 0;
	for (size_t i = 0; i < f->n_mounts; i++) {
		char *inside = mem_printf(POD_DATA_PREFIX "%s", f->mounts[i]);
		add_volume(spec, &volumes, "hostPath", host_path(f->mounts[i], "Directory"), inside, false);
		free(inside);
	}
	if (f->hot_folder != NULL && !c->cfg.workers_in_place)
		add_volume(spec, &volumes, "hostPath", host_path(f->hot_folder, "DirectoryOrCreate"), POD_HOT_FOLDER, false);
	add_fetchers(c, j, spec, f, &volumes);
}
