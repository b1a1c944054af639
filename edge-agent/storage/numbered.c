/* See numbered.h. */
#include "edge-agent/storage/numbered.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

enum { DIGITS_MAX = 16, ENDING = 4 };

int64_t numbered_parse(const char *text, size_t len)
{
	int64_t number = 0;
	if (len == 0 || len > DIGITS_MAX || (text[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = number * 10 + (text[i] - '0');
	}
	return number;
}

static int descending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? 1 : x > y ? -1 : 0;
}

int numbered_list(const char *folder, int64_t **all, size_t *n, error *err)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t room = 0;
	*all = NULL;
	*n = 0;
	if (dir == NULL)
		return errno == ENOENT ? 0 : error_errno(err, errno, "cannot read the folder %s", folder);
	while ((errno = 0, entry = readdir(dir)) != NULL) {
		int64_t number = numbered_parse(entry->d_name, strlen(entry->d_name));
		if (number < 0)
			continue;
		if (*n == room) {
			room = room == 0 ? 64 : room * 2;
			*all = mem_resize_array(*all, room, sizeof **all);
		}
		(*all)[(*n)++] = number;
	}
	int code = errno == 0 ? 0 : error_errno(err, errno, "cannot read the folder %s", folder);
	closedir(dir);
	if (code != 0) {
		free(*all);
		*all = NULL;
		*n = 0;
	} else if (*n > 0) {
		qsort(*all, *n, sizeof **all, descending);
	}
	return code;
}

static bool leftover(const char *name)
{
	size_t len = strlen(name);
	if (len < 2 + ENDING || name[0] != '.' || numbered_parse(name + 1, len - 1 - ENDING) < 0)
		return false;
	return strcmp(name + len - ENDING, ".tmp") == 0 || strcmp(name + len - ENDING, ".old") == 0;
}

void numbered_clean(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (!leftover(entry->d_name))
			continue;
		char *path = mem_printf("%s/%s", folder, entry->d_name);
		(void)file_remove_tree(path, NULL);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
}

int numbered_remove(const char *folder, int64_t number, error *err)
{
	char *final = mem_printf("%s/%lld", folder, (long long)number);
	char *old = mem_printf("%s/.%lld.old", folder, (long long)number);
	int code = file_remove_tree(old, err);
	if (code == 0 && rename(final, old) != 0)
		code = errno == ENOENT ? 0 : error_errno(err, errno, "moving %s away", final);
	else if (code == 0)
		code = file_remove_tree(old, err);
	free(old);
	free(final);
	return code;
}

int numbered_replace(const char *folder, int64_t number, error *err)
{
	char *final = mem_printf("%s/%lld", folder, (long long)number);
	char *tmp = mem_printf("%s/.%lld.tmp", folder, (long long)number);
	char *old = mem_printf("%s/.%lld.old", folder, (long long)number);
	int code = file_rename_new(tmp, final, err);
	bool taken = code == ERROR_EXISTS;
	if (taken) {
		code = file_remove_tree(old, err);
		if (code == 0 && rename(final, old) != 0)
			code = error_errno(err, errno, "moving %s away", final);
		if (code == 0)
			code = file_rename_new(tmp, final, err);
	}
	if (code == 0)
		code = file_sync_dir(folder, err);
	if (code == 0 && taken)
		(void)file_remove_tree(old, NULL); /* if not now, then by the next numbered_clean */
	free(old);
	free(tmp);
	free(final);
	return code;
}
