/* See credential_file.h for the contract. The file is made beside itself under a fixed name, so that nothing is left of one that was not
 * finished but what the next one overwrites, or what is removed with the file. */
#include "edge-agent/credential_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"

enum { FILE_MAX = 4 * 1024 * 1024 };

static char *path_of(const char *state_dir, const char *ending)
{
	return mem_printf("%s/credentials.json%s", state_dir, ending);
}

static int remove_file(const char *path, error *err)
{
	if (unlink(path) != 0 && errno != ENOENT)
		return error_errno(err, errno, "cannot remove %s", path);
	return 0;
}

static int remove_all(const char *state_dir, error *err)
{
	static const char *const endings[] = {"", ".new"};
	int code = 0;

	for (size_t i = 0; i < sizeof endings / sizeof endings[0] && code == 0; i++) {
		char *path = path_of(state_dir, endings[i]);

		code = remove_file(path, err);
		free(path);
	}
	return code;
}

/* The whole of a regular file that only its owner can read. 0 without a text: there is none of that kind. */
static int read_own(const char *path, char **text, error *err)
{
	struct stat st;
	size_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), code = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "cannot open %s", path);
	if (fstat(fd, &st) != 0)
		code = error_errno(err, errno, "cannot look at %s", path);
	else if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 || st.st_uid != geteuid())
		code = error_set(err, ERROR_DENIED, "%s is not a file that only this user can read", path);
	else if (st.st_size > FILE_MAX)
		code = error_set(err, ERROR_LIMIT, "%s has more than %d bytes", path, FILE_MAX);
	if (code == 0) {
		*text = mem_alloc((size_t)st.st_size + 1);
		for (ssize_t n = 1; n > 0 && got<(size_t)st.st_size; got += n> 0 ? (size_t)n : 0)
			n = read(fd, *text + got, (size_t)st.st_size - got);
		if (got < (size_t)st.st_size) {
			code = error_set(err, ERROR_IO, "%s cannot be read to its end", path);
			explicit_bzero(*text, got);
			free(*text);
			*text = NULL;
		}
	}
	close(fd);
	return code;
}

int credential_file_read(const char *state_dir, char **text, error *err)
{
	char *path = path_of(state_dir, "");
	int code;

	*text = NULL;
	code = read_own(path, text, err);
	free(path);
	if (code != ERROR_DENIED)
		return code;
	log_warn("credentials", "what was kept is removed, and asked for anew", L_STR("error", err->text));
	return remove_all(state_dir, err);
}

static int write_new(const char *path, const char *text, error *err)
{
	size_t len = strlen(text), done = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), code = 0;

	if (fd < 0)
		return error_errno(err, errno, "cannot make %s", path);
	if (fchmod(fd, 0600) != 0)
		code = error_errno(err, errno, "cannot set the mode of %s", path);
	while (code == 0 && done < len) {
		ssize_t n = write(fd, text + done, len - done);

		if (n < 0 && errno != EINTR)
			code = error_errno(err, errno, "cannot write %s", path);
		done += n > 0 ? (size_t)n : 0;
	}
	if (code == 0 && fsync(fd) != 0)
		code = error_errno(err, errno, "cannot sync %s", path);
	if (close(fd) != 0 && code == 0)
		code = error_errno(err, errno, "cannot write %s", path);
	return code;
}

int credential_file_write(const char *state_dir, const char *text, error *err)
{
	char *path = path_of(state_dir, ""), *fresh = path_of(state_dir, ".new");
	int code;

	if (text == NULL)
		code = remove_all(state_dir, err);
	else
		code = write_new(fresh, text, err);
	if (code == 0 && text != NULL && rename(fresh, path) != 0)
		code = error_errno(err, errno, "cannot rename %s", fresh);
	if (code == 0)
		code = file_sync_dir(state_dir, err);
	else if (text != NULL)
		unlink(fresh);
	free(fresh);
	free(path);
	return code;
}
