/* What an agent finds at its start, by the pod's row, the lock on its worker's folder and the status there:
 *
 *   lock    status            the agent before …                     now
 *   any     any, row is over  has seen to it                         nothing (restartPolicy Always: as below)
 *   held    any               left it running                        watched on
 *   free    none              stopped before the supervisor ran      started
 *   free    ended             left; it ended meanwhile               stored
 *   free    running, waiting  left; the machine or the               Failed, Lost: a train or eval worker never runs twice.
 *                             supervisor died                        restartPolicy Always: started again
 *   A row with a deletionTimestamp is carried to its end. A folder without a row (the store was lost): a worker that lives gets its row
 *   again, Terminating, so that nobody works beside it unseen; the rest is removed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/pods_internal.h"
#include "cloud-agent/cluster/local/podstatus.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

static const char *text_at(const cJSON *object, const char *part, const char *name)
{
	const char *text = cJSON_GetStringValue(json_member(json_member(object, part), name));
	return text != NULL ? text : "";
}

static bool final(const cJSON *pod)
{
	const char *phase = text_at(pod, "status", "phase");
	return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

static bool runs_always(const cJSON *pod)
{
	const char *policy = text_at(pod, "spec", "restartPolicy");
	return policy[0] == '\0' || strcmp(policy, "Always") == 0;
}

/* Not alive, not being deleted. */
static int resume(pods *p, const cJSON *pod, const char *folder, error *err)
{
	const char *ns = text_at(pod, "metadata", "namespace"), *name = text_at(pod, "metadata", "name");
	const char *uid = text_at(pod, "metadata", "uid"), *container = launch_container(pod);
	cJSON *written = NULL;
	int64_t restarts = 0;
	int code = worker_status(folder, &written, err);
	if (code != 0)
		return code;
	/* Those of a fetcher are not the worker's. */
	bool ran = written != NULL && json_member(written, "fetch") == NULL;
	if (ran && json_get_int(written, "status", "restarts", 0, JSON_MAX_INT, &restarts, NULL) >= 0)
		restarts++;
	if (written == NULL)
		pods__launch(p, pod, 0);
	else if (runs_always(pod))
		code = pods__set_status(p, ns, name, uid, podstatus_pending(container), err);
	else
		code = pods__set_status(p, ns, name, uid, podstatus_from(written, false, container), err);
	if (code == 0 && written != NULL && runs_always(pod))
		pods__launch(p, pod, restarts);
	cJSON_Delete(written);
	return code;
}

static int adopt_row(pods *p, const object_key *key, error *err)
{
	cJSON *pod = NULL;
	int code = objects_get(p->host.store, OBJECT_POD, key->ns, key->name, &pod, err);
	if (code != 0)
		return code;
	const char *uid = text_at(pod, "metadata", "uid");
	bool deleting = text_at(pod, "metadata", "deletionTimestamp")[0] != '\0';
	char *folder = pods__folder(p, uid);
	p->host.object(p->host.ctx, key->ns, key->name, cJSON_Duplicate(pod, 1));
	bool known = pods__find(p, uid) != NULL; /* an earlier try came so far */
	/* A supervisor that is dying may have its lock for a moment longer than it was watched for: what is over stays over. */
	bool over = final(pod) && !runs_always(pod);
	if (known)
		code = 0;
	else
		code = over ? ERROR_NOT_FOUND : pods__watch(p, pod, err);
	if (code == 0 && deleting)
		code = worker_end(folder, err);
	else if (code == ERROR_NOT_FOUND && deleting)
		code = pods__finish(p, key->ns, key->name, uid, err);
	else if (code == ERROR_NOT_FOUND && (!final(pod) || (runs_always(pod) && strcmp(text_at(pod, "status", "reason"), "Stopped") == 0)))
		code = resume(p, pod, folder, err);
	else if (code == ERROR_NOT_FOUND)
		code = 0;
	free(folder);
	cJSON_Delete(pod);
	return code;
}

/* A worker that lives without a row. */
static int adopt_stray(pods *p, const char *folder, error *err)
{
	cJSON *spec = NULL, *out = NULL;
	int code = worker_spec(folder, &spec, err);
	if (code != 0)
		return code;
	cJSON *pod = cJSON_DetachItemFromObjectCaseSensitive(spec, "pod");
	const char *ns = text_at(pod, "metadata", "namespace"), *name = text_at(pod, "metadata", "name");
	code = error_set(err, ERROR_INVALID, "%s does not say whose it is", folder);
	if (ns[0] != '\0' && name[0] != '\0')
		code = objects_add_pod(p->host.store, ns, name, pod, &out, err);
	cJSON_Delete(out);
	out = NULL;
	if (code == 0)
		code = objects_mark_deleting(p->host.store, ns, name, &out, err);
	if (code == 0) {
		log_warn("local", "a worker runs that is not known any more; it is ended", L_STR("pod", name));
		p->host.object(p->host.ctx, ns, name, cJSON_Duplicate(out, 1));
		code = pods__watch(p, out, err);
		/* It ended just now: the row goes as it came. */
		if (code == ERROR_NOT_FOUND)
			code = pods__finish(p, ns, name, text_at(out, "metadata", "uid"), err);
	}
	int told = worker_end(folder, code == 0 ? err : NULL);
	cJSON_Delete(out);
	cJSON_Delete(pod);
	secret_delete(spec);
	return code != 0 ? code : told;
}

static bool has_row(const char *uid, char *const *uids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(uids[i], uid) == 0)
			return true;
	}
	return false;
}

/* A folder without a row. What is known of it is enough to go on, or an error. */
static int look_at_stray(pods *p, const char *folder, error *err)
{
	bool alive = false;
	error why = {0};
	int code = worker_alive(folder, &alive, err);
	if (code != 0)
		return code;
	code = alive ? adopt_stray(p, folder, &why) : file_remove_tree(folder, &why);
	if (code != 0)
		log_warn("local", "a worker's folder that is not known any more stays", L_STR("folder", folder), L_STR("error", why.text));
	if (!alive || code == ERROR_INVALID || code == ERROR_EXISTS)
		code = 0;
	return code == 0 ? 0 : error_set(err, code, "%s", why.text);
}

static int look_for_strays(pods *p, char *const *uids, size_t n, error *err)
{
	DIR *dir = opendir(p->folder);
	if (dir == NULL)
		return error_errno(err, errno, "cannot read the folder %s", p->folder);
	const struct dirent *entry;
	int code = 0;
	while (code == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' || has_row(entry->d_name, uids, n))
			continue;
		char *folder = pods__folder(p, entry->d_name);
		code = look_at_stray(p, folder, err);
		free(folder);
	}
	if (code == 0 && errno != 0)
		code = error_errno(err, errno, "cannot read the folder %s", p->folder);
	closedir(dir);
	return code;
}

int pods_start(pods *p, error *err)
{
	object_key *keys = NULL;
	size_t n = 0;
	int code = file_make_dirs(p->folder, 0700, err);
	if (code == 0)
		code = file_make_dirs(p->logs, 0750, err);
	if (code == 0)
		code = objects_keys(p->host.store, true, &keys, &n, err);
	char **uids = mem_alloc((n > 0 ? n : 1) * sizeof *uids);
	for (size_t i = 0; i < n && code == 0; i++) {
		cJSON *pod = NULL;
		code = objects_get(p->host.store, OBJECT_POD, keys[i].ns, keys[i].name, &pod, err);
		uids[i] = mem_strdup(text_at(pod, "metadata", "uid"));
		cJSON_Delete(pod);
	}
	if (code == 0)
		code = look_for_strays(p, uids, n, err);
	for (size_t i = 0; i < n && code == 0; i++)
		code = adopt_row(p, &keys[i], err);
	for (size_t i = 0; i < n; i++)
		free(uids[i]);
	free(uids);
	object_keys_free(keys, n);
	return code;
}
