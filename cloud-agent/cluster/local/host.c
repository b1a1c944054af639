/* This machine: see host.h. */
#include "cloud-agent/cluster/local/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/lock_file.h"
#include "common/mem.h"
#include "common/program.h"

#define SUPERVISOR "ilmare-worker"
#define TRANSFER "ilmare-transfer"

static char *absolute(const char *path)
{
	char here[PATH_MAX];
	if (path[0] == '/' || getcwd(here, sizeof here) == NULL)
		return mem_strdup(path);
	return mem_printf("%s/%s", here, path);
}

/* Without a trailing '/', so that names can be put behind it. */
static char *absolute_folder(const char *path)
{
	char *whole = absolute(path);
	size_t len = strlen(whole);
	while (len > 1 && whole[len - 1] == '/')
		whole[--len] = '\0';
	return whole;
}

/* Beside this program (a build), beside its prefix (an installation that was moved), where it was to be installed. */
static char *supervisor_find(error *err)
{
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[n > 0 ? n : 0] = '\0';
	char *folder = file_parent(program);
	char *places[] = {mem_printf("%s/" SUPERVISOR, folder), mem_printf("%s/../libexec/ilmare/" SUPERVISOR, folder),
		mem_strdup(ILMARE_LIBEXECDIR "/ilmare/" SUPERVISOR)};
	char *found = NULL;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		if (found == NULL && access(places[i], X_OK) == 0)
			found = mem_strdup(places[i]);
	}
	if (found == NULL)
		error_set(err, ERROR_NOT_FOUND, "the program that runs workers is not found: looked for %s, %s and %s", places[0], places[1],
			places[2]);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		free(places[i]);
	free(folder);
	return found;
}

static void fill(int64_t *value, int64_t fallback)
{
	if (*value <= 0)
		*value = fallback;
}

int host_config_init(const cluster_local_config *from, cluster_local_config *out, error *err)
{
	*out = *from;
	out->manifests = out->state = out->supervisor = out->transfer = NULL;
	if (from->manifests == NULL || from->manifests[0] == '\0')
		return error_set(err, ERROR_INVALID, "a folder of manifests is needed");
	if (from->state == NULL || from->state[0] == '\0')
		return error_set(err, ERROR_INVALID, "a state folder is needed");
	out->manifests = absolute_folder(from->manifests);
	out->state = absolute_folder(from->state);
	out->supervisor = from->supervisor != NULL && from->supervisor[0] != '\0' ? absolute(from->supervisor) : supervisor_find(err);
	if (out->supervisor == NULL)
		return ERROR_NOT_FOUND;
	if (access(out->supervisor, X_OK) != 0)
		return error_errno(err, errno, "the program that runs workers, %s", out->supervisor);
	out->transfer = from->transfer != NULL ? absolute(from->transfer) : program_beside(TRANSFER);
	fill(&out->worker_log_max, INT64_C(10) * 1024 * 1024);
	fill(&out->logs_max, 100);
	fill(&out->settle_ms, 100);
	fill(&out->remove_ms, 1000);
	fill(&out->rescan_ms, 60000);
	fill(&out->restart_min_ms, 10000);
	fill(&out->restart_max_ms, 300000);
	fill(&out->restart_reset_ms, 600000);
	fill(&out->retry_ms, 1000);
	return 0;
}

void host_config_fini(cluster_local_config *c)
{
	free((void *)(uintptr_t)c->manifests);
	free((void *)(uintptr_t)c->state);
	free((void *)(uintptr_t)c->supervisor);
	free((void *)(uintptr_t)c->transfer);
	*c = (cluster_local_config){0};
}

int host_lock(const char *folder, int *fd, error *err)
{
	char *path = mem_printf("%s/lock", folder), *what = mem_printf("the state folder %s", folder);
	int code = lock_file_take(path, what, fd, err);
	free(what);
	free(path);
	return code;
}
