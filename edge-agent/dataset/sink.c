/* See sink.h. */
#include "edge-agent/dataset/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"

enum { SINK_BUFFER = 128 * 1024 };

struct sink {
	int fd;
	char *path;
	sha256 *sha256;
	int64_t bytes;
	size_t held;
	char buffer[SINK_BUFFER];
};

int sink_new(sink **out, const char *path, error *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	*out = NULL;
	if (fd < 0)
		return error_errno(err, errno, "creating %s", path);
	sink *s = mem_alloc(sizeof *s);
	s->fd = fd;
	s->path = mem_strdup(path);
	s->sha256 = sha256_new();
	*out = s;
	return 0;
}

static int write_all(sink *s, const char *data, size_t len, error *err)
{
	sha256_add(s->sha256, data, len);
	s->bytes += (int64_t)len;
	while (len > 0) {
		ssize_t n = write(s->fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "writing %s", s->path);
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int flush(sink *s, error *err)
{
	size_t len = s->held;
	s->held = 0;
	return write_all(s, s->buffer, len, err);
}

int sink_add(sink *s, const char *data, size_t len, error *err)
{
	if (len > SINK_BUFFER - s->held) {
		int code = flush(s, err);
		if (code != 0)
			return code;
	}
	if (len > SINK_BUFFER)
		return write_all(s, data, len, err);
	memcpy(s->buffer + s->held, data, len);
	s->held += len;
	return 0;
}

int sink_end(sink *s, manifest_file *out, error *err)
{
	int code = flush(s, err);
	if (code != 0)
		return code;
	if (fsync(s->fd) != 0)
		return error_errno(err, errno, "syncing %s", s->path);
	int fd = s->fd;
	s->fd = -1;
	if (close(fd) != 0)
		return error_errno(err, errno, "closing %s", s->path);
	out->bytes = s->bytes;
	sha256_end(s->sha256, &out->sha256);
	return 0;
}

void sink_free(sink *s)
{
	if (s == NULL)
		return;
	if (s->fd >= 0)
		close(s->fd);
	sha256_free(s->sha256);
	free(s->path);
	free(s);
}
