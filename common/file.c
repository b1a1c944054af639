/* Files: see file.h for the contract.
 *
 * A durable write keeps its temporary file in the target's folder under a short name of its own (".ilmare-XXXXXX"), so any name that the
 * target may have works, and a leftover of a crash is easy to tell. Where nobody looks for those, the caller names the file. What is removed is
 * opened without following links, folder by folder, so a link that a worker planted leads nowhere.
 */
#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"

enum { TREE_DEPTH = 64, READ_STEP = 64 * 1024, SECRET_MAX = 4096 };

/* Appends all that can be read; one byte more than max is asked for, to see that there is more. */
static int read_all(int fd, const char *path, size_t max, buf *out, error *err)
{
	size_t got = 0;
	for (;;) {
		size_t step = max - got < READ_STEP ? max - got + 1 : READ_STEP;
		buf_reserve(out, step);
		ssize_t n = read(fd, out->data + out->len, step);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "cannot read %s", path);
		if (n == 0)
			return 0;
		got += (size_t)n;
		if (got > max)
			return error_set(err, ERROR_LIMIT, "%s has more than %zu bytes", path, max);
		out->len += (size_t)n;
		out->data[out->len] = '\0';
	}
}

int file_read(const char *path, size_t max, buf *out, error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "cannot open %s", path);
	size_t before = out->len;
	int code = read_all(fd, path, max, out, err);
	close(fd);
	if (out->data != NULL && code != 0) {
		out->len = before;
		out->data[before] = '\0';
	}
	return code;
}

int file_read_secret(const char *path, char **out, error *err)
{
	buf text = {0};
	int code = file_read(path, SECRET_MAX, &text, err);
	*out = code == 0 ? mem_strndup(buf_text(&text), strcspn(buf_text(&text), "\r\n")) : NULL;
	buf_wipe(&text);
	return code;
}

void file_secret_free(char *secret)
{
	if (secret != NULL)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* fd is that of the temporary file, or -1 with errno. */
static int write_through(int fd, const char *temp, const char *path, const void *data, size_t len, mode_t mode, error *err)
{
	char *parent = file_parent(path);
	int code = 0;
	if (fd < 0) {
		code = error_errno(err, errno, "cannot write in %s", parent);
		goto free_names;
	}
	int errnum = write_all(fd, data, len);
	if (errnum == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
		errnum = errno;
	/* Some file systems say only here that the disk is full. */
	if (close(fd) != 0 && errnum == 0)
		errnum = errno;
	if (errnum == 0 && rename(temp, path) != 0)
		errnum = errno;
	if (errnum != 0) {
		unlink(temp);
		code = error_errno(err, errnum, "cannot write %s", path);
		goto free_names;
	}
	code = file_sync_dir(parent, err);
free_names:
	free(parent);
	return code;
}

int file_write(const char *path, const void *data, size_t len, mode_t mode, error *err)
{
	char *parent = file_parent(path), *temp = mem_printf("%s/.ilmare-XXXXXX", parent);
	int code = write_through(mkostemp(temp, O_CLOEXEC), temp, path, data, len, mode, err);
	free(temp);
	free(parent);
	return code;
}

int file_write_by(const char *temp, const char *path, const void *data, size_t len, mode_t mode, error *err)
{
	(void)unlink(temp);
	return write_through(open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), temp, path, data, len, mode, err);
}

/* One folder of a path; its parent is there. */
static int make_dir(const char *path, mode_t mode, error *err)
{
	struct stat st;
	if (mkdir(path, mode) != 0) {
		int errnum = errno;
		if (errnum == EEXIST && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
			errnum = ENOTDIR;
		return errnum == EEXIST ? 0 : error_errno(err, errnum, "cannot make the folder %s", path);
	}
	/* The mode is meant as it was said, whatever the umask. */
	if (chmod(path, mode) != 0)
		return error_errno(err, errno, "cannot set the mode of the folder %s", path);
	char *parent = file_parent(path);
	int code = file_sync_dir(parent, err);
	/* So that the next attempt syncs it too. */
	if (code != 0)
		(void)rmdir(path);
	free(parent);
	return code;
}

int file_make_dirs(const char *path, mode_t mode, error *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	char *copy = mem_strdup(path);
	size_t len = strlen(copy);
	int code = 0;
	for (size_t i = 1; i <= len && code == 0; i++) {
		if ((copy[i] != '/' && copy[i] != '\0') || copy[i - 1] == '/')
			continue;
		char c = copy[i];
		copy[i] = '\0';
		if (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode))
			code = make_dir(copy, mode, err);
		copy[i] = c;
	}
	free(copy);
	return code;
}

int file_sync_dir(const char *path, error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "cannot open the folder %s", path);
	int code = 0;
	/* EINVAL: a file system that cannot sync a folder; there is nothing more to be done there. */
	if (fsync(fd) != 0 && errno != EINVAL)
		code = error_errno(err, errno, "cannot sync the folder %s", path);
	close(fd);
	return code;
}

static int remove_at(int parent, const char *name, int depth, error *err);

/* Everything inside an open folder; takes fd. */
static int remove_inside(int fd, const char *name, int depth, error *err)
{
	DIR *dir = fdopendir(fd);
	if (dir == NULL) {
		int errnum = errno;
		close(fd);
		return error_errno(err, errnum, "cannot read the folder %s", name);
	}
	int code = 0;
	while (code == 0) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (entry == NULL) {
			if (errno != 0)
				code = error_errno(err, errno, "cannot read the folder %s", name);
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			code = remove_at(fd, entry->d_name, depth + 1, err);
	}
	closedir(dir);
	return code;
}

static int remove_at(int parent, const char *name, int depth, error *err)
{
	if (depth > TREE_DEPTH)
		return error_set(err, ERROR_LIMIT, "cannot remove %s: folders nested more than %d deep", name, TREE_DEPTH);
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* Linux says EISDIR for a folder, POSIX EPERM; some file systems follow POSIX. */
	if (errno != EISDIR && errno != EPERM)
		return error_errno(err, errno, "cannot remove %s", name);
	int errnum = errno;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno == ENOTDIR ? errnum : errno, "cannot remove %s", name);
	int code = remove_inside(fd, name, depth, err);
	if (code == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
		code = error_errno(err, errno, "cannot remove the folder %s", name);
	return code;
}

int file_remove_tree(const char *path, error *err)
{
	return remove_at(AT_FDCWD, path, 0, err);
}

/* For file systems without RENAME_NOREPLACE. A hard link fails if the name is taken; folders, and file systems without links, are
 * checked first: there another process could still come between, which nobody does who keeps to one owner per folder. */
static int rename_checked(const char *from, const char *to)
{
	struct stat st;
	if (lstat(from, &st) != 0)
		return errno;
	if (S_ISREG(st.st_mode)) {
		if (link(from, to) == 0)
			return unlink(from) == 0 ? 0 : errno;
		if (errno == EEXIST)
			return EEXIST;
	}
	if (lstat(to, &st) == 0)
		return EEXIST;
	if (errno != ENOENT)
		return errno;
	return rename(from, to) == 0 ? 0 : errno;
}

int file_rename_new(const char *from, const char *to, error *err)
{
	int errnum = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ? 0 : errno;
	if (errnum == EINVAL || errnum == ENOSYS)
		errnum = rename_checked(from, to);
	return errnum == 0 ? 0 : error_errno(err, errnum, "cannot rename %s to %s", from, to);
}

char *file_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL)
		return mem_strdup(".");
	if (slash == path)
		return mem_strdup("/");
	return mem_strndup(path, (size_t)(slash - path));
}
