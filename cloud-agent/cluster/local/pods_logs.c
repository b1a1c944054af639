/* The workers' logs: `{logs}/{namespace}_{pod}.log`, written by the supervisors, kept for a while after their pods are gone. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cloud-agent/cluster/local/pods_internal.h"
#include "common/log.h"
#include "common/mem.h"

typedef struct old_log {
	char *name;
	struct timespec modified;
} old_log;

char *pods__log(const pods *p, const char *ns, const char *name)
{
	/* No name holds '_'. */
	return mem_printf("%s/%s_%s.log", p->logs, ns, name);
}

static int compare_age(const void *a, const void *b)
{
	const old_log *x = a, *y = b;
	if (x->modified.tv_sec != y->modified.tv_sec)
		return x->modified.tv_sec < y->modified.tv_sec ? -1 : 1;
	return (x->modified.tv_nsec > y->modified.tv_nsec) - (x->modified.tv_nsec < y->modified.tv_nsec);
}

/* Is it the log of a pod that is there? */
static bool in_use(pods *p, const char *file)
{
	const char *line = strchr(file, '_'), *dot = strstr(file, ".log");
	for (const char *next = dot; next != NULL; next = strstr(next + 1, ".log"))
		dot = next; /* a pod's name may hold dots */
	if (line == NULL || dot == NULL || dot < line)
		return true; /* not ours */
	char *ns = mem_strndup(file, (size_t)(line - file)), *name = mem_strndup(line + 1, (size_t)(dot - line - 1));
	cJSON *pod = NULL;
	int code = objects_get(p->host.store, OBJECT_POD, ns, name, &pod, NULL);
	cJSON_Delete(pod);
	free(ns);
	free(name);
	return code != ERROR_NOT_FOUND;
}

static size_t list_logs(const pods *p, old_log **logs)
{
	DIR *dir = opendir(p->logs);
	const struct dirent *entry;
	size_t n = 0;
	*logs = NULL;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		struct stat st;
		if (strstr(entry->d_name, ".log") == NULL || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		*logs = mem_resize_array(*logs, n + 1, sizeof **logs);
		(*logs)[n++] = (old_log){mem_strdup(entry->d_name), st.st_mtim};
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

/* A pod has two files at most. A tenth more than needed is removed at once, so that the folder is not listed for each pod. */
void pods__logs_trim(pods *p)
{
	if (p->logs_room > 0) {
		p->logs_room--;
		return;
	}
	old_log *logs = NULL;
	size_t n = list_logs(p, &logs), max = (size_t)p->host.config->logs_max, left = n;
	if (n > max - max / 10) {
		qsort(logs, n, sizeof *logs, compare_age);
		for (size_t i = 0; i < n && left > max - max / 10; i++) {
			if (in_use(p, logs[i].name))
				continue;
			char *path = mem_printf("%s/%s", p->logs, logs[i].name);
			if (unlink(path) != 0 && errno != ENOENT)
				log_warn("local", "an old log cannot be removed", L_STR("file", path), L_STR("error", strerror(errno)));
			free(path);
			left--;
		}
	}
	p->logs_room = left < max ? (max - left) / 2 : 0;
	for (size_t i = 0; i < n; i++)
		free(logs[i].name);
	free(logs);
}
