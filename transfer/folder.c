/* See folder.h. */
#include "transfer/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "transfer/core/relative.h"
#include "transfer/upload.h"

enum { FILES_MAX = 1000000 };

typedef struct names {
	char **at;
	size_t n;
	int64_t bytes;
} names;

static int walk(names *out, const char *root, const char *below, error *err);

static int look(names *out, const char *root, const char *relative, error *err)
{
	struct stat st;
	char *path = mem_printf("%s/%s", root, relative);
	const char *why = relative_wrong(relative);
	int code = 0;
	if (lstat(path, &st) != 0)
		code = error_errno(err, errno, "cannot look at %s", path);
	else if (why != NULL)
		code = error_set(err, ERROR_INVALID, "%s cannot be sent: its path %s", path, why);
	else if (S_ISDIR(st.st_mode))
		code = walk(out, root, relative, err);
	else if (!S_ISREG(st.st_mode))
		code = error_set(err, ERROR_INVALID, "%s is neither a file nor a folder; nothing was sent", path);
	else if (out->n == FILES_MAX)
		code = error_set(err, ERROR_LIMIT, "%s has more than %d files", root, FILES_MAX);
	else {
		out->at = mem_resize_array(out->at, out->n + 1, sizeof *out->at);
		out->at[out->n++] = mem_strdup(relative);
		out->bytes += (int64_t)st.st_size;
	}
	free(path);
	return code;
}

static int walk(names *out, const char *root, const char *below, error *err)
{
	char *path = below[0] != '\0' ? mem_printf("%s/%s", root, below) : mem_strdup(root);
	DIR *dir = opendir(path);
	int code = dir == NULL ? error_errno(err, errno, "cannot read the folder %s", path) : 0;
	while (code == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (entry == NULL) {
			if (errno != 0)
				code = error_errno(err, errno, "cannot read the folder %s", path);
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strncmp(entry->d_name, ".ilmare-part-", 13) == 0)
			continue;
		char *relative = below[0] != '\0' ? mem_printf("%s/%s", below, entry->d_name) : mem_strdup(entry->d_name);
		code = look(out, root, relative, err);
		free(relative);
	}
	if (dir != NULL)
		closedir(dir);
	free(path);
	return code;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int send_one(client *c, const char *folder, const location *to, const char *relative, bool only_new, error *err)
{
	size_t len = strlen(to->key);
	char *path = mem_printf("%s/%s", folder, relative);
	char *key = mem_printf("%s%s%s", to->key, len > 0 && to->key[len - 1] != '/' ? "/" : "", relative);
	location of;
	upload u = {.path = path, .to = &of, .only_new = only_new};
	int code = location_object(to->bucket, key, &of, err);
	if (code == 0)
		code = upload_file(c, &u, err);
	location_fini(&of);
	free(key);
	free(path);
	return code;
}

int folder_send(client *c, const char *folder, const location *to, const char *last, bool only_new, int64_t *files, error *err)
{
	names all = {0};
	bool found = last == NULL;
	int code = walk(&all, folder, "", err);
	*files = 0;
	if (code == 0 && all.n > 1)
		qsort(all.at, all.n, sizeof *all.at, by_bytes);
	for (size_t i = 0; i < all.n; i++)
		found = found || strcmp(all.at[i], last) == 0;
	if (code == 0 && !found)
		code = error_set(err, ERROR_NOT_FOUND, "%s has no file %.200s, which is to be sent last", folder, last);
	if (code == 0 && all.n == 0)
		code = error_set(err, ERROR_NOT_FOUND, "%s has no files", folder);
	atomic_store(&client_session(c)->size, all.bytes);
	for (size_t i = 0; code == 0 && i < all.n; i++) {
		if (last != NULL && strcmp(all.at[i], last) == 0)
			continue;
		code = send_one(c, folder, to, all.at[i], false, err);
		*files += code == 0;
	}
	if (code == 0 && last != NULL) {
		code = send_one(c, folder, to, last, only_new, err);
		*files += code == 0;
	}
	for (size_t i = 0; i < all.n; i++)
		free(all.at[i]);
	free(all.at);
	return code;
}
