/* See tree.h. */
#include "edge-agent/storage/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

typedef struct tree {
	tree_fn fn;
	void *arg;
	const char *root;
	size_t entries;
} tree;

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* The sorted names in an open folder. */
static int read_names(tree *t, int folder, char ***out, size_t *n, error *err)
{
	char **names = NULL;
	size_t room = 0;
	struct dirent *entry;
	int copy = fcntl(folder, F_DUPFD_CLOEXEC, 0), code = 0;
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	*n = 0;
	*out = NULL;
	if (dir == NULL) {
		code = error_errno(err, errno, "reading a folder below %s", t->root);
		if (copy >= 0)
			close(copy);
		return code;
	}
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (++t->entries > TREE_ENTRIES_MAX) {
			code = error_set(err, ERROR_LIMIT, "%s holds more than %d files", t->root, TREE_ENTRIES_MAX);
			break;
		}
		if (*n == room) {
			room = room == 0 ? 32 : room * 2;
			names = mem_resize_array(names, room, sizeof *names);
		}
		names[(*n)++] = mem_strdup(entry->d_name);
	}
	if (code == 0 && errno != 0)
		code = error_errno(err, errno, "reading a folder below %s", t->root);
	closedir(dir);
	if (*n > 1)
		qsort(names, *n, sizeof *names, by_bytes);
	*out = names;
	return code;
}

/* `..` of a folder that was reached without following links is its real parent, so counting them at the beginning is exact; later ones may
 * come after a link, and are refused. */
static bool link_stays_inside(const char *link, int depth)
{
	int up = 0;
	bool named = false;
	if (*link == '/' || *link == '\0')
		return false;
	while (*link != '\0') {
		size_t len = strcspn(link, "/");
		if (len == 2 && memcmp(link, "..", 2) == 0) {
			if (named || ++up > depth)
				return false;
		} else if (len > 0 && !(len == 1 && *link == '.')) {
			named = true;
		}
		link += len;
		link += *link == '/';
	}
	return true;
}

static int walk_folder(tree *t, int folder, const char *path, int depth, error *err);

static int show_link(tree *t, tree_entry *e, int depth, error *err)
{
	char link[PATH_MAX];
	ssize_t n = readlinkat(e->folder, e->name, link, sizeof link - 1);
	if (n < 0)
		return error_errno(err, errno, "reading link %s/%s", t->root, e->path);
	link[n] = '\0';
	if (!link_stays_inside(link, depth))
		return error_set(err, ERROR_INVALID, "%s/%s is a link that leads out of the folder; models may not hold such links", t->root,
			e->path);
	e->link = link;
	return t->fn(t->arg, e, err);
}

static int show_folder(tree *t, tree_entry *e, int depth, error *err)
{
	if (depth >= TREE_DEPTH_MAX)
		return error_set(err, ERROR_LIMIT, "%s has folders more than %d deep", t->root, TREE_DEPTH_MAX);
	int fd = openat(e->folder, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "opening folder %s/%s", t->root, e->path);
	int code = t->fn(t->arg, e, err);
	if (code == 0)
		code = walk_folder(t, fd, e->path, depth + 1, err);
	close(fd);
	e->leaving = true;
	return code == 0 ? t->fn(t->arg, e, err) : code;
}

static int show(tree *t, int folder, const char *name, const char *parent, int depth, error *err)
{
	char *path = *parent == '\0' ? mem_strdup(name) : mem_printf("%s/%s", parent, name);
	tree_entry e = {.folder = folder, .name = name, .path = path};
	int code;
	if (fstatat(folder, name, &e.st, AT_SYMLINK_NOFOLLOW) != 0)
		code = error_errno(err, errno, "%s/%s", t->root, path);
	else if (S_ISDIR(e.st.st_mode))
		code = show_folder(t, &e, depth, err);
	else if (S_ISLNK(e.st.st_mode))
		code = show_link(t, &e, depth, err);
	else if (S_ISREG(e.st.st_mode))
		code = t->fn(t->arg, &e, err);
	else
		code = error_set(err, ERROR_INVALID, "%s/%s is neither a file, a folder nor a link", t->root, path);
	free(path);
	return code;
}

static int walk_folder(tree *t, int folder, const char *path, int depth, error *err)
{
	char **names;
	size_t n;
	int code = read_names(t, folder, &names, &n, err);
	for (size_t i = 0; i < n && code == 0; i++)
		code = show(t, folder, names[i], path, depth, err);
	free_names(names, n);
	return code;
}

int tree_walk(const char *root, tree_fn fn, void *arg, error *err)
{
	tree t = {.fn = fn, .arg = arg, .root = root};
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "opening folder %s", root);
	int code = walk_folder(&t, fd, "", 0, err);
	close(fd);
	return code;
}
