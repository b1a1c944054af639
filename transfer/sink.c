/* See sink.h for the contract. */
#include "transfer/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "transfer/core/http_reply.h"

enum { STATE_MAX = 4096, NAME_CHARS = 16 };
#define SYNC_EVERY (INT64_C(64) * 1024 * 1024)
#define SIZE_LIMIT (INT64_C(1) << 50)

int sink_errno(error *err, int errnum, const char *path)
{
	if (errnum == EFBIG)
		return error_set(err, ERROR_NO_SPACE, "cannot write %s: the largest size of a file is reached", path);
	return error_errno(err, errnum, "cannot write %s", path);
}

static char *boot_id(void)
{
	buf b = {0};
	if (file_read("/proc/sys/kernel/random/boot_id", 64, &b, NULL) != 0)
		buf_clear(&b);
	while (b.len > 0 && b.data[b.len - 1] == '\n')
		b.data[--b.len] = '\0';
	return buf_detach(&b);
}

/* ---- the state beside a part ---- */

static int state_write(sink *s, error *err)
{
	cJSON *o = cJSON_CreateObject();
	char *boot = boot_id();
	json_put_int(o, "v", 1);
	json_put_string(o, "source", s->source);
	json_put_string(o, "etag", s->etag);
	json_put_int(o, "size", s->size);
	json_put_int(o, "synced", s->synced);
	json_put_string(o, "boot", boot);
	char *text = json_print(o);
	int code = file_write_by(s->next, s->state, text, strlen(text), 0644, err);
	free(text);
	free(boot);
	cJSON_Delete(o);
	return code;
}

static void state_remove(sink *s)
{
	(void)unlink(s->next);
	(void)unlink(s->state);
}

/* What may be taken of a part of `length` bytes; -1: nothing, it is of something else. */
static int64_t state_read(sink *s, int64_t length)
{
	buf b = {0};
	cJSON *o = NULL;
	const char *source, *etag, *boot;
	int64_t size, synced, take = -1;
	if (file_read(s->state, STATE_MAX, &b, NULL) != 0 || json_parse(buf_text(&b), b.len, STATE_MAX, &o, NULL) != 0)
		goto done;
	if (json_get_string(o, "", "source", &source, NULL) != 1 || strcmp(source, s->source) != 0 ||
		json_get_string(o, "", "etag", &etag, NULL) != 1 || strlen(etag) >= sizeof s->etag || !reply_etag_strong(etag) ||
		json_get_string(o, "", "boot", &boot, NULL) != 1 || json_get_int(o, "", "size", 0, SIZE_LIMIT, &size, NULL) != 1 ||
		json_get_int(o, "", "synced", 0, SIZE_LIMIT, &synced, NULL) != 1)
		goto done;
	char *now = boot_id();
	int64_t sure = strcmp(now, boot) == 0 && now[0] != '\0' ? length : synced;
	free(now);
	if (length > size || sure > length)
		goto done;
	(void)snprintf(s->etag, sizeof s->etag, "%s", etag);
	s->size = size;
	s->kept = true;
	s->synced = synced < sure ? synced : sure;
	take = sure;
done:
	buf_fini(&b);
	cJSON_Delete(o);
	return take;
}

/* ---- the part ---- */

/* Opened and locked, and still the file of that name: whoever had it may have renamed it meanwhile. */
static int part_open(sink *s, int flags, error *err)
{
	for (;;) {
		struct stat ours, named;
		int fd = open(s->part, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
		if (fd < 0)
			return errno == ENOENT && (flags & O_CREAT) == 0 ? 0 : sink_errno(err, errno, s->part);
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			int errnum = errno;
			close(fd);
			return errnum == EWOULDBLOCK ? error_set(err, ERROR_EXISTS, "%s is being fetched by another process", s->path) :
										   sink_errno(err, errnum, s->part);
		}
		if (fstat(fd, &ours) == 0 && stat(s->part, &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) {
			s->fd = fd;
			s->named = true;
			return 0;
		}
		close(fd);
	}
}

static void part_remove(sink *s)
{
	state_remove(s);
	(void)unlink(s->part);
}

static int find_part(sink *s, bool fresh, error *err)
{
	struct stat st;
	int code = part_open(s, 0, err);
	if (code != 0)
		return code;
	if (s->fd < 0) {
		state_remove(s); /* whoever was killed had removed or renamed the part already */
		return 0;
	}
	s->have = fresh || fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode) ? -1 : state_read(s, (int64_t)st.st_size);
	if (s->have > 0 && ftruncate(s->fd, (off_t)s->have) == 0 && lseek(s->fd, (off_t)s->have, SEEK_SET) >= 0)
		return 0;
	sink_reset(s);
	return 0;
}

int sink_open(sink *s, const char *path, const char *source, bool fresh, error *err)
{
	char name[NAME_CHARS + 1], hex[DIGEST_HEX_SIZE];
	digest d;
	const char *slash = strrchr(path, '/');
	*s = (sink){.fd = -1, .size = -1};
	s->path = mem_strdup(path);
	s->folder = file_parent(path);
	digest_name(slash != NULL ? slash + 1 : path, NAME_CHARS, name);
	s->part = mem_printf("%s/.ilmare-part-%s", s->folder, name);
	s->state = mem_printf("%s.json", s->part);
	s->next = mem_printf("%s.new", s->state);
	digest_of(source, strlen(source), &d);
	digest_hex(&d, hex);
	s->source = mem_strdup(hex);
	return find_part(s, fresh, err);
}

static int open_unnamed(sink *s, error *err)
{
	s->fd = open(s->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (s->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return sink_errno(err, errno, s->folder);
	/* A file system that has no files without a name: one that takes the place of the part, but is not kept. */
	return part_open(s, O_CREAT | O_TRUNC, err);
}

int sink_begin(sink *s, const char *etag, int64_t size, error *err)
{
	sink_reset(s);
	s->size = size;
	(void)snprintf(s->etag, sizeof s->etag, "%s", reply_etag_strong(etag) ? etag : "");
	if (size < SINK_PART_FROM || s->etag[0] == '\0')
		return open_unnamed(s, err);
	int code = part_open(s, O_CREAT | O_TRUNC, err);
	if (code == 0)
		code = state_write(s, err);
	s->kept = code == 0;
	return code;
}

static int keep_synced(sink *s, error *err)
{
	if (!s->kept || s->have - s->synced < SYNC_EVERY)
		return 0;
	if (fdatasync(s->fd) != 0)
		return sink_errno(err, errno, s->part);
	s->synced = s->have;
	return state_write(s, err);
}

int sink_write(sink *s, const char *data, size_t len, error *err)
{
	if (s->size >= 0 && (int64_t)len > s->size - s->have)
		return error_set(err, ERROR_CORRUPT, "%s: the server sends more than the %" PRId64 " bytes that it announced", s->path, s->size);
	while (len > 0) {
		ssize_t n = write(s->fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sink_errno(err, errno, s->path);
		data += n;
		len -= (size_t)n;
		s->have += n;
	}
	return keep_synced(s, err);
}

void sink_reset(sink *s)
{
	if (s->fd >= 0) {
		if (s->named)
			part_remove(s);
		close(s->fd);
	}
	s->fd = -1;
	s->named = s->kept = false;
	s->have = s->synced = 0;
	s->size = -1;
	s->etag[0] = '\0';
}

/* A file without a name gets that of the target; where something is there already, by way of another name. */
static int link_unnamed(sink *s, error *err)
{
	char proc[64];
	(void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", s->fd);
	if (linkat(AT_FDCWD, proc, AT_FDCWD, s->path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != EEXIST)
		return sink_errno(err, errno, s->path);
	(void)unlink(s->part);
	if (linkat(AT_FDCWD, proc, AT_FDCWD, s->part, AT_SYMLINK_FOLLOW) != 0)
		return sink_errno(err, errno, s->part);
	if (rename(s->part, s->path) == 0)
		return 0;
	int errnum = errno;
	(void)unlink(s->part);
	return sink_errno(err, errnum, s->path);
}

int sink_commit(sink *s, bool durable, error *err)
{
	int code = 0;
	if (durable && fsync(s->fd) != 0)
		return sink_errno(err, errno, s->path);
	if (!s->named)
		code = link_unnamed(s, err);
	else if (rename(s->part, s->path) != 0)
		code = sink_errno(err, errno, s->path);
	if (code != 0)
		return code;
	if (s->named)
		state_remove(s);
	close(s->fd);
	s->fd = -1;
	s->named = false;
	return durable ? file_sync_dir(s->folder, err) : 0;
}

void sink_close(sink *s)
{
	if (s->fd >= 0 && s->named && (s->have == 0 || !s->kept))
		part_remove(s);
	if (s->fd >= 0)
		close(s->fd);
	free(s->path);
	free(s->folder);
	free(s->part);
	free(s->state);
	free(s->next);
	free(s->source);
	*s = (sink){.fd = -1};
}
