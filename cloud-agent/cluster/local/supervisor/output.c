/* A worker's output: see output.h for the contract. */
#include "cloud-agent/cluster/local/supervisor/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json_scan.h"
#include "common/mem.h"

enum { TAKE_STEP = 16 * 1024 };

static void log_open(output *o)
{
	struct stat st;
	o->fd = open(o->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	o->size = o->fd >= 0 && fstat(o->fd, &st) == 0 ? (int64_t)st.st_size : 0;
}

void output_init(output *o, const char *path, int64_t max)
{
	*o = (output){.path = mem_strdup(path), .max = max, .pipe = -1};
	log_open(o);
}

void output_fini(output *o)
{
	if (o->fd >= 0)
		close(o->fd);
	if (o->pipe >= 0)
		close(o->pipe);
	free(o->path);
}

static void log_rotate(output *o)
{
	char *older = mem_printf("%s.1", o->path);
	if (rename(o->path, older) == 0) {
		close(o->fd);
		log_open(o);
	} else if (ftruncate(o->fd, 0) == 0) {
		o->size = 0;
	}
	free(older);
}

static void log_write(output *o, const char *data, size_t len)
{
	if (o->fd < 0)
		log_open(o);
	while (len > 0 && o->fd >= 0) {
		if (o->size >= o->max)
			log_rotate(o);
		size_t room = o->max > o->size ? (size_t)(o->max - o->size) : 1;
		ssize_t n = write(o->fd, data, len < room ? len : room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		o->size += n;
		data += n;
		len -= (size_t)n;
	}
}

static void tail_add(output *o, const char *data, size_t len)
{
	if (len > sizeof o->tail) {
		data += len - sizeof o->tail;
		len = sizeof o->tail;
	}
	size_t keep = o->tail_len + len > sizeof o->tail ? sizeof o->tail - len : o->tail_len;
	memmove(o->tail, o->tail + (o->tail_len - keep), keep);
	memcpy(o->tail + keep, data, len);
	o->tail_len = keep + len;
}

int output_begin(output *o)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	o->pipe = fds[0];
	o->tail_len = 0;
	return fds[1];
}

int output_take(output *o)
{
	char data[TAKE_STEP];
	ssize_t n = read(o->pipe, data, sizeof data);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : 0;
	if (n == 0)
		return 0;
	log_write(o, data, (size_t)n);
	tail_add(o, data, (size_t)n);
	return 1;
}

void output_end(output *o)
{
	char data[TAKE_STEP];
	ssize_t n = 0;
	while (o->pipe >= 0 && ((n = read(o->pipe, data, sizeof data)) > 0 || (n < 0 && errno == EINTR))) {
		if (n > 0) {
			log_write(o, data, (size_t)n);
			tail_add(o, data, (size_t)n);
		}
	}
	if (o->pipe >= 0)
		close(o->pipe);
	o->pipe = -1;
}

void output_note(output *o, const char *text)
{
	char *line = mem_printf("ilmare-worker: %s\n", text);
	log_write(o, line, strlen(line));
	free(line);
}

void output_last(const output *o, buf *out)
{
	const char *p = o->tail, *end = o->tail + o->tail_len;
	/* A full tail most likely begins inside a line. */
	const char *newline = o->tail_len == sizeof o->tail ? memchr(p, '\n', o->tail_len) : NULL;
	if (newline != NULL && newline + 1 < end)
		p = newline + 1;
	while (p < end) {
		size_t n = json_utf8_length(p, (size_t)(end - p));
		if (n == 0 || *p == '\0' || ((unsigned char)*p < ' ' && *p != '\n' && *p != '\t'))
			buf_putc(out, '?');
		else
			buf_add(out, p, n);
		p += n > 0 ? n : 1;
	}
	while (out->len > 0 && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
}
