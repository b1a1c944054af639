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
#include "transfer/remove.h"
#include "transfer/store.h"
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

/* The key below which all is put: empty, or with a '/' at its end. To be freed. */
static char *prefix_of(const location *to)
{
	size_t len = strlen(to->key);
	return mem_printf("%s%s", to->key, len > 0 && to->key[len - 1] != '/' ? "/" : "");
}

static int send_one(client *c, const folder_sending *s, const char *relative, bool only_new, error *err)
{
	char *path = mem_printf("%s/%s", s->folder, relative), *prefix = prefix_of(s->to), *key = mem_printf("%s%s", prefix, relative);
	location of;
	upload u = {.path = path, .to = &of, .only_new = only_new};
	int code = location_object(s->to->bucket, key, &of, err);
	if (code == 0)
		code = upload_file(c, &u, err);
	location_fini(&of);
	free(key);
	free(prefix);
	free(path);
	return code;
}

/* ---- what else is there ---- */

/* The objects of a page that were not sent come first; how many they are. */
static size_t others_first(s3_page *page, size_t prefix, const names *sent)
{
	size_t n = 0;
	for (size_t i = 0; i < page->n; i++) {
		const char *relative = page->items[i].key + prefix;
		if (bsearch(&relative, sent->at, sent->n, sizeof *sent->at, by_bytes) != NULL)
			continue;
		s3_object other = page->items[i];
		page->items[i] = page->items[n];
		page->items[n++] = other;
	}
	return n;
}

/* A list goes on behind the last key of a page, so what is removed before does not move it. */
static int remove_others(client *c, const location *to, const names *sent, error *err)
{
	char *prefix = prefix_of(to);
	listing l;
	listing_init(&l, c, to, prefix);
	int got;
	while ((got = listing_page(&l, err)) > 0) {
		size_t n = others_first(&l.page, strlen(prefix), sent);
		int code = n > 0 ? remove_objects(c, to, l.page.items, n, err) : 0;
		if (code != 0) {
			got = code;
			break;
		}
	}
	listing_fini(&l);
	free(prefix);
	return got;
}

/* ---- all of it ---- */

static int check(const folder_sending *s, const names *all, error *err)
{
	bool found = s->last == NULL;
	for (size_t i = 0; i < all->n; i++)
		found = found || strcmp(all->at[i], s->last) == 0;
	if (s->only && s->to->key[0] == '\0')
		return error_set(err, ERROR_INVALID, "%s is the whole bucket; with --only a prefix is needed", s->to->shown);
	if (!found)
		return error_set(err, ERROR_NOT_FOUND, "%s has no file %.200s, which is to be sent last", s->folder, s->last);
	return all->n > 0 ? 0 : error_set(err, ERROR_NOT_FOUND, "%s has no files", s->folder);
}

int folder_send(client *c, folder_sending *s, error *err)
{
	names all = {0};
	int code = walk(&all, s->folder, "", err);
	s->files = 0;
	if (code == 0 && all.n > 1)
		qsort(all.at, all.n, sizeof *all.at, by_bytes);
	if (code == 0)
		code = check(s, &all, err);
	atomic_store(&client_session(c)->size, all.bytes);
	for (size_t i = 0; code == 0 && i < all.n; i++) {
		if (s->last != NULL && strcmp(all.at[i], s->last) == 0)
			continue;
		code = send_one(c, s, all.at[i], false, err);
		s->files += code == 0;
	}
	if (code == 0 && s->last != NULL) {
		code = send_one(c, s, s->last, s->only_new, err);
		s->files += code == 0;
	}
	if (code == 0 && s->only)
		code = remove_others(c, s->to, &all, err);
	for (size_t i = 0; i < all.n; i++)
		free(all.at[i]);
	free(all.at);
	return code;
}
