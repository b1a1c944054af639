/* See unpack.h for the contract.
 *
 * Two locks on the same door: each entry is checked here (paths, kinds, targets of links), and libarchive is told not to write through symbolic
 * links, to absolute paths or through "..". It writes relative to the working folder, since with a folder in front every path would be absolute.
 */
#include "transfer/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer/cancel.h"
#include "transfer/core/http_reply.h"
#include "transfer/sink.h"

enum { BLOCK = 256 * 1024 };
#define BYTES_FREE (INT64_C(1) << 30)
#define RATIO 100

typedef struct unpacking {
	struct archive *in, *out;
	const char *name; /* of the archive */
	int64_t entries, bytes, bytes_max;
} unpacking;

static int damaged(const unpacking *u, struct archive *a, error *err)
{
	int errnum = archive_errno(a);
	const char *why = archive_error_string(a);
	if (errnum == ENOSPC || errnum == EDQUOT || errnum == EROFS || errnum == EACCES || errnum == EPERM || errnum == EFBIG)
		return sink_errno(err, errnum, u->name);
	return error_set(err, ERROR_CORRUPT, "%s: the archive cannot be unpacked: %s", u->name, why != NULL ? why : "no reason is known");
}

/* Behind "./", as many archives begin their paths. */
static const char *trimmed(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return path;
}

static int check_entry(const unpacking *u, struct archive_entry *e, const char *path, error *err)
{
	const char *why = relative_wrong(path), *hard = archive_entry_hardlink(e), *soft = archive_entry_symlink(e);
	mode_t kind = archive_entry_filetype(e);
	if (why != NULL)
		return error_set(err, ERROR_CORRUPT, "%s: the path of an entry, \"%.100s\", %s; nothing is unpacked outside of the folder", u->name,
			path, why);
	if (hard != NULL && relative_wrong(trimmed(hard)) != NULL)
		return error_set(err, ERROR_CORRUPT, "%s: \"%.100s\" is a link out of the archive", u->name, path);
	if (hard != NULL)
		return 0;
	if (kind == AE_IFLNK && (soft == NULL || !relative_link_allowed(path, soft)))
		return error_set(err, ERROR_CORRUPT, "%s: \"%.100s\" is a link that leads, or could lead, out of the folder", u->name, path);
	if (kind != AE_IFREG && kind != AE_IFDIR && kind != AE_IFLNK)
		return error_set(err, ERROR_CORRUPT, "%s: \"%.100s\" is neither a file nor a folder nor a link", u->name, path);
	return 0;
}

static int copy_data(unpacking *u, error *err)
{
	for (;;) {
		const void *block;
		size_t len;
		la_int64_t at;
		int got = archive_read_data_block(u->in, &block, &len, &at);
		if (got == ARCHIVE_EOF)
			return 0;
		if (got < ARCHIVE_OK)
			return damaged(u, u->in, err);
		/* Where the block ends counts too: a file of holes takes no room, but is as long. */
		u->bytes += (int64_t)len;
		if (u->bytes > u->bytes_max || at > u->bytes_max)
			return error_set(err, ERROR_LIMIT, "%s: what is in the archive is more than a hundred times as large as itself", u->name);
		if (archive_write_data_block(u->out, block, len, at) < ARCHIVE_OK)
			return damaged(u, u->out, err);
		if (cancelled())
			return error_set(err, ERROR_CANCELLED, "%s: stopped on request", u->name);
	}
}

static int unpack_entry(unpacking *u, struct archive_entry *e, error *err)
{
	const char *given = archive_entry_pathname(e);
	if (given == NULL)
		return error_set(err, ERROR_CORRUPT, "%s: the path of an entry cannot be read", u->name);
	char path[4096];
	const char *rest = trimmed(given);
	if (strlen(rest) >= sizeof path)
		return error_set(err, ERROR_CORRUPT, "%s: the path of an entry is too long", u->name);
	memcpy(path, rest, strlen(rest) + 1);
	if (path[0] == '\0' || strcmp(path, ".") == 0)
		return 0; /* the folder itself */
	int code = check_entry(u, e, path, err);
	if (code != 0)
		return code;
	archive_entry_set_pathname(e, path);
	if (archive_entry_hardlink(e) != NULL) {
		char target[4096];
		const char *hard = trimmed(archive_entry_hardlink(e));
		if (strlen(hard) >= sizeof target)
			return error_set(err, ERROR_CORRUPT, "%s: the target of a link is too long", u->name);
		memcpy(target, hard, strlen(hard) + 1);
		archive_entry_set_hardlink(e, target);
	}
	mode_t least = archive_entry_filetype(e) == AE_IFDIR ? 0700 : 0600;
	archive_entry_set_perm(e, (archive_entry_perm(e) & 0777) | least);
	if (archive_write_header(u->out, e) < ARCHIVE_OK)
		return damaged(u, u->out, err);
	if (archive_entry_filetype(e) == AE_IFREG)
		code = copy_data(u, err);
	if (code == 0 && archive_write_finish_entry(u->out) < ARCHIVE_OK)
		code = damaged(u, u->out, err);
	return code;
}

static int unpack_all(unpacking *u, error *err)
{
	for (;;) {
		struct archive_entry *e;
		int got = archive_read_next_header(u->in, &e);
		if (got == ARCHIVE_EOF)
			return archive_write_close(u->out) < ARCHIVE_OK ? damaged(u, u->out, err) : 0;
		/* A warning is of a name that this locale cannot write: still the same bytes. */
		if (got < ARCHIVE_WARN)
			return damaged(u, u->in, err);
		if (++u->entries > UNPACK_ENTRIES_MAX)
			return error_set(err, ERROR_LIMIT, "%s: the archive has more than %d entries", u->name, UNPACK_ENTRIES_MAX);
		int code = unpack_entry(u, e, err);
		if (code != 0)
			return code;
	}
}

static int open_archive(unpacking *u, enum archive_kind kind, int fd, error *err)
{
	u->in = archive_read_new();
	u->out = archive_write_disk_new();
	if (u->in == NULL || u->out == NULL)
		return error_set(err, ERROR_INTERNAL, "%s: no memory for the archive", u->name);
	if (kind == ARCHIVE_ZIP)
		archive_read_support_format_zip(u->in);
	else
		archive_read_support_format_tar(u->in);
	if (kind == ARCHIVE_TAR_GZ)
		archive_read_support_filter_gzip(u->in);
	archive_write_disk_set_options(u->out,
		ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS | ARCHIVE_EXTRACT_TIME |
			ARCHIVE_EXTRACT_UNLINK);
	return archive_read_open_fd(u->in, fd, BLOCK) < ARCHIVE_OK ? damaged(u, u->in, err) : 0;
}

int unpack(enum archive_kind kind, const char *path, const char *folder, int64_t *entries, error *err)
{
	unpacking u = {.name = path};
	struct stat st = {0};
	int code = 0, fd = open(path, O_RDONLY | O_CLOEXEC), back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || back < 0) {
		code = error_errno(err, errno, "cannot open %s", path);
		goto close_files;
	}
	u.bytes_max = BYTES_FREE + (int64_t)st.st_size * RATIO;
	/* Now, since an entry may have the archive's name. */
	(void)unlink(path);
	if (chdir(folder) != 0) {
		code = error_errno(err, errno, "cannot enter %s", folder);
		goto close_files;
	}
	code = open_archive(&u, kind, fd, err);
	if (code == 0)
		code = unpack_all(&u, err);
	if (code == 0 && u.entries == 0)
		code = error_set(err, ERROR_CORRUPT, "%s: there is nothing in the archive", path);
	*entries = u.entries;
	archive_read_free(u.in);
	archive_write_free(u.out);
	if (fchdir(back) != 0 && code == 0)
		code = error_errno(err, errno, "cannot go back to the working folder");
close_files:
	if (back >= 0)
		close(back);
	if (fd >= 0)
		close(fd);
	return code;
}
