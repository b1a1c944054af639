/* See folders.h. */
#include "edge-agent/remote/folders.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/file.h"
#include "common/mem.h"

enum { NAME_CHARS = 26 };

char *remote_folder(const char *dir, const char *url, const char *kind)
{
	char name[NAME_CHARS + 1], *text = mem_printf("%s %s", kind, url);
	digest_name(text, NAME_CHARS, name);
	free(text);
	return mem_printf("%s/%s", dir, name);
}

void remote_folders_prune(const char *dir, bool (*is_wanted)(void *ctx, const char *path), void *ctx)
{
	DIR *all = opendir(dir);
	struct dirent *entry;
	while (all != NULL && (entry = readdir(all)) != NULL) {
		if (strlen(entry->d_name) != NAME_CHARS || strspn(entry->d_name, "abcdefghijklmnopqrstuvwxyz234567") != NAME_CHARS)
			continue;
		char *path = mem_printf("%s/%s", dir, entry->d_name);
		if (!is_wanted(ctx, path))
			(void)file_remove_tree(path, NULL);
		free(path);
	}
	if (all != NULL)
		closedir(all);
}
