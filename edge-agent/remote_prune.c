/* See remote_prune.h. */
#include "edge-agent/remote_prune.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "edge-agent/file_work.h"
#include "edge-agent/remote/folders.h"

typedef struct outputs {
	const char *remote_dir, *of;
	const edge_agent *agent;
} outputs;

static bool is_wanted(void *ctx, const char *path)
{
	const outputs *o = ctx;
	arena *mem = arena_new();
	const char *url;
	bool wanted = false;

	for (size_t i = 0; !wanted && edge_agent_output(o->agent, i, &url); i++)
		wanted = strcmp(file_work_folder(mem, o->remote_dir, o->of, url), path) == 0;
	arena_free(mem);
	return wanted;
}

void remote_prune(const char *remote_dir, const edge_agent *agent, bool (*is_copy)(void *ctx, const char *folder), void *ctx)
{
	static const char *const kinds[] = {FOLDER_OUTPUTS, FOLDER_DEPLOYS};
	char *datasets = mem_printf("%s/datasets", remote_dir);

	remote_folders_prune(datasets, is_copy, ctx);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		outputs o = {.remote_dir = remote_dir, .of = kinds[i], .agent = agent};
		char *dir = mem_printf("%s/%s", remote_dir, kinds[i]);

		remote_folders_prune(dir, is_wanted, &o);
		free(dir);
	}
	free(datasets);
}
