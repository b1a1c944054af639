/* See place.h. */
#include "edge-agent/storage/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"

/* NAME_PART: characters of the name in a temporary name, which has to fit in 255 bytes. */
enum { LINKS_MAX = 40, NAME_PART = 200 };

/* Follow links at the end of the path; *path is replaced. */
static int follow_links(char **path, error *err)
{
	char to[PATH_MAX];
	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n = readlink(*path, to, sizeof to - 1);
		if (n < 0)
			return errno == EINVAL || errno == ENOENT ? 0 : error_errno(err, errno, "%s", *path);
		to[n] = '\0';
		char *folder = file_parent(*path), *next = to[0] == '/' ? mem_strdup(to) : mem_printf("%s/%s", folder, to);
		free(folder);
		free(*path);
		*path = next;
	}
	return error_set(err, ERROR_INVALID, "%s: too many links", *path);
}

static char *without_slashes(const char *path)
{
	size_t len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		len--;
	return mem_strndup(path, len);
}

static char *temp_prefix(const place *p)
{
	return mem_printf(".%.*s.ilmare-tmp-", NAME_PART, p->name);
}

static char *old_path(const place *p)
{
	return mem_printf("%s/.%.*s.ilmare-old", p->folder, NAME_PART, p->name);
}

char *place_temp(const place *p)
{
	char *prefix = temp_prefix(p), *temp = mem_printf("%s/%sXXXXXX", p->folder, prefix);
	free(prefix);
	return temp;
}

static int look(place *p, error *err)
{
	p->exists = lstat(p->path, &p->st) == 0;
	return p->exists || errno == ENOENT ? 0 : error_errno(err, errno, "%s", p->path);
}

static void remove_temps(const place *p)
{
	char *prefix = temp_prefix(p);
	DIR *dir = opendir(p->folder);
	struct dirent *entry;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		char *path = mem_printf("%s/%s", p->folder, entry->d_name);
		(void)file_remove_tree(path, NULL);
		free(path);
	}
	if (dir != NULL)
		closedir(dir);
	free(prefix);
}

static int clean(place *p, error *err)
{
	char *old = old_path(p);
	int code = 0;
	if (p->exists)
		(void)file_remove_tree(old, NULL);
	else if (rename(old, p->path) == 0)
		code = look(p, err);
	else if (errno != ENOENT)
		code = error_errno(err, errno, "putting %s back", p->path);
	remove_temps(p);
	free(old);
	return code;
}

int place_open(place *p, const char *path, error *err)
{
	size_t len = strlen(path);
	*p = (place){.path = without_slashes(path), .wants_folder = len > 1 && path[len - 1] == '/'};
	int code = follow_links(&p->path, err);
	if (code != 0)
		return code;
	const char *slash = strrchr(p->path, '/');
	p->name = mem_strdup(slash != NULL ? slash + 1 : p->path);
	p->folder = slash == p->path ? mem_strdup("/") : file_parent(p->path);
	if (*p->name == '\0' || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
		return error_set(err, ERROR_INVALID, "\"%s\" cannot be replaced: it names no file", path);
	code = file_make_dirs(p->folder, 0755, err);
	if (code == 0)
		code = look(p, err);
	return code == 0 ? clean(p, err) : code;
}

void place_close(place *p)
{
	free(p->path);
	free(p->folder);
	free(p->name);
	*p = (place){0};
}

/* Without RENAME_EXCHANGE there is a moment in which the name is free. */
static int move_over(const place *p, const char *temp, error *err)
{
	char *old = old_path(p);
	int code = 0;
	if (rename(p->path, old) != 0) {
		code = error_errno(err, errno, "moving %s away", p->path);
	} else if (rename(temp, p->path) != 0) {
		code = error_errno(err, errno, "putting %s in place", p->path);
		(void)rename(old, p->path);
	} else {
		code = file_sync_dir(p->folder, err);
		(void)file_remove_tree(old, NULL);
	}
	free(old);
	return code;
}

int place_put(const place *p, const char *temp, error *err)
{
	struct stat st;
	int code = 0;
	if (lstat(temp, &st) != 0)
		return error_errno(err, errno, "%s", temp);
	if (!p->exists || (S_ISREG(st.st_mode) && !S_ISDIR(p->st.st_mode))) {
		if (rename(temp, p->path) != 0)
			code = error_errno(err, errno, "putting %s in place", p->path);
		else
			return file_sync_dir(p->folder, err);
	} else if (renameat2(AT_FDCWD, temp, AT_FDCWD, p->path, RENAME_EXCHANGE) == 0) {
		code = file_sync_dir(p->folder, err);
	} else if (errno == EINVAL || errno == ENOSYS) {
		code = move_over(p, temp, err);
	} else {
		code = error_errno(err, errno, "putting %s in place", p->path);
	}
	(void)file_remove_tree(temp, NULL); /* now the old one, or what could not be put; if not now, then by the next place_open */
	return code;
}

int place_dress(int fd, const struct stat *like, const char *path, error *err)
{
	/* Only root can give files away; for others the new one is theirs. */
	if (geteuid() == 0 && fchown(fd, like->st_uid, like->st_gid) != 0 && errno != EPERM)
		return error_errno(err, errno, "setting the owner of %s", path);
	if (fchmod(fd, like->st_mode & 0777) != 0)
		return error_errno(err, errno, "setting the mode of %s", path);
	return 0;
}

static int write_text(int fd, const char *text, const char *path, error *err)
{
	size_t len = strlen(text);
	while (len > 0) {
		ssize_t n = write(fd, text, len);
		if (n < 0 && errno != EINTR)
			return error_errno(err, errno, "writing %s", path);
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

int place_put_text(const char *path, const char *text, error *err)
{
	const struct stat plain = {.st_mode = 0644, .st_uid = geteuid(), .st_gid = getegid()};
	place p;
	int code = place_open(&p, path, err), fd = -1;
	char *temp = NULL;
	if (code != 0)
		goto done;
	if (p.exists && !S_ISREG(p.st.st_mode)) {
		code = error_set(err, ERROR_INVALID, "%s is not a file", p.path);
		goto done;
	}
	temp = place_temp(&p);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0) {
		code = error_errno(err, errno, "creating %s", temp);
		goto done;
	}
	code = write_text(fd, text, temp, err);
	if (code == 0)
		code = place_dress(fd, p.exists ? &p.st : &plain, temp, err);
	if (code == 0 && fsync(fd) != 0)
		code = error_errno(err, errno, "syncing %s", temp);
	if (code == 0)
		code = place_put(&p, temp, err);
	else
		(void)unlink(temp);
done:
	if (fd >= 0)
		close(fd);
	free(temp);
	place_close(&p);
	return code;
}
