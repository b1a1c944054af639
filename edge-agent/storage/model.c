/* See model.h. */
#include "edge-agent/storage/model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/mem.h"
#include "edge-agent/storage/place.h"
#include "edge-agent/storage/tree.h"

enum { PIECE = 256 * 1024 };

static int check_stop(const atomic_bool *stop, error *err)
{
	return stop != NULL && atomic_load(stop) ? error_set(err, ERROR_TIMEOUT, "stopped on request") : 0;
}

/* ---- reading and writing one file ---- */

/* Every piece of an open file goes to `take`. */
typedef int (*piece_fn)(void *arg, const char *data, size_t len, error *err);

static int read_pieces(int fd, const char *path, const atomic_bool *stop, piece_fn take, void *arg, int64_t *bytes, error *err)
{
	struct stat st;
	/* A small file needs no large buffer, which would have to be cleared; one byte more shows its end. */
	size_t room = fstat(fd, &st) == 0 && st.st_size < PIECE ? (size_t)st.st_size + 1 : PIECE;
	char *data = mem_alloc(room);
	int code = 0;
	while (code == 0) {
		ssize_t n = read(fd, data, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			code = error_errno(err, errno, "reading %s", path);
		if (n <= 0)
			break;
		*bytes += n;
		code = take(arg, data, (size_t)n, err);
		if (code == 0)
			code = check_stop(stop, err);
	}
	free(data);
	return code;
}

static int take_digest(void *arg, const char *data, size_t len, error *err)
{
	(void)err;
	sha256_add(arg, data, len);
	return 0;
}

static int take_copy(void *arg, const char *data, size_t len, error *err)
{
	const int *fd = arg;
	while (len > 0) {
		ssize_t n = write(*fd, data, len);
		if (n < 0 && errno != EINTR)
			return error_errno(err, errno, "writing the copy");
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int digest_fd(int fd, const char *path, const atomic_bool *stop, digest *out, int64_t *bytes, error *err)
{
	sha256 *h = sha256_new();
	int code = read_pieces(fd, path, stop, take_digest, h, bytes, err);
	sha256_end(h, out);
	sha256_free(h);
	return code;
}

/* ---- digest ---- */

typedef struct digest_walk {
	const atomic_bool *stop;
	sha256 *all;
	model_info *info;
} digest_walk;

static int digest_file(digest_walk *d, const tree_entry *e, error *err)
{
	char size[24];
	digest content;
	int64_t bytes = 0;
	int fd = openat(e->folder, e->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "opening %s", e->path);
	int code = digest_fd(fd, e->path, d->stop, &content, &bytes, err);
	close(fd);
	snprintf(size, sizeof size, "%" PRId64, bytes);
	sha256_add(d->all, size, strlen(size) + 1);
	sha256_add(d->all, content.b, sizeof content.b);
	d->info->bytes += bytes;
	return code;
}

static int digest_entry(void *arg, const tree_entry *e, error *err)
{
	digest_walk *d = arg;
	if (e->leaving)
		return 0;
	d->info->entries++;
	sha256_add(d->all, S_ISDIR(e->st.st_mode) ? "d" : e->link != NULL ? "l" : "f", 1);
	sha256_add(d->all, e->path, strlen(e->path) + 1);
	if (e->link != NULL)
		sha256_add(d->all, e->link, strlen(e->link) + 1);
	return S_ISREG(e->st.st_mode) ? digest_file(d, e, err) : check_stop(d->stop, err);
}

int model_digest(const char *path, const atomic_bool *stop, model_info *out, error *err)
{
	struct stat st;
	*out = (model_info){0};
	/* Not waiting for a writer, should it be a pipe. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), code;
	if (fd < 0)
		return error_errno(err, errno, "model %s", path);
	if (fstat(fd, &st) != 0) {
		code = error_errno(err, errno, "model %s", path);
	} else if (S_ISREG(st.st_mode)) {
		out->entries = 1;
		code = digest_fd(fd, path, stop, &out->sha256, &out->bytes, err);
	} else if (S_ISDIR(st.st_mode)) {
		digest_walk d = {.stop = stop, .all = sha256_new(), .info = out};
		out->folder = true;
		code = tree_walk(path, digest_entry, &d, err);
		sha256_end(d.all, &out->sha256);
		sha256_free(d.all);
	} else {
		code = error_set(err, ERROR_INVALID, "model %s is neither a file nor a folder", path);
	}
	close(fd);
	return code;
}

/* ---- copy ---- */

/* Copy the open file `in` into the new open file `out`, and sync it. */
static int copy_fd(int in, int out, const struct stat *like, const char *path, const atomic_bool *stop, error *err)
{
	int64_t bytes = 0;
	int code = read_pieces(in, path, stop, take_copy, &out, &bytes, err);
	if (code == 0)
		code = place_dress(out, like, path, err);
	if (code == 0 && fsync(out) != 0)
		code = error_errno(err, errno, "syncing the copy of %s", path);
	return code;
}

typedef struct copy_walk {
	const atomic_bool *stop;
	int root; /* of the copy */
} copy_walk;

static int copy_file(const copy_walk *c, const tree_entry *e, error *err)
{
	int in = openat(e->folder, e->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -1, code;
	if (in < 0)
		return error_errno(err, errno, "opening %s", e->path);
	out = openat(c->root, e->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		code = error_errno(err, errno, "creating the copy of %s", e->path);
	else
		code = copy_fd(in, out, &e->st, e->path, c->stop, err);
	if (out >= 0)
		close(out);
	close(in);
	return code;
}

/* A folder gets its mode once all is in it: it may be one that nothing can be put into. */
static int finish_folder(int root, const char *path, const struct stat *like, error *err)
{
	int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "opening the copy of %s", path);
	int code = place_dress(fd, like, path, err);
	if (code == 0 && fsync(fd) != 0)
		code = error_errno(err, errno, "syncing the copy of %s", path);
	close(fd);
	return code;
}

static int copy_entry(void *arg, const tree_entry *e, error *err)
{
	const copy_walk *c = arg;
	if (e->leaving)
		return finish_folder(c->root, e->path, &e->st, err);
	if (S_ISREG(e->st.st_mode))
		return copy_file(c, e, err);
	int r = e->link != NULL ? symlinkat(e->link, c->root, e->path) : mkdirat(c->root, e->path, 0700);
	return r != 0 ? error_errno(err, errno, "creating the copy of %s", e->path) : 0;
}

static int make_folder_copy(const char *from, char *temp, const struct stat *like, const atomic_bool *stop, error *err)
{
	if (mkdtemp(temp) == NULL)
		return error_errno(err, errno, "creating %s", temp);
	copy_walk c = {.stop = stop, .root = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	if (c.root < 0)
		return error_errno(err, errno, "opening %s", temp);
	int code = tree_walk(from, copy_entry, &c, err);
	if (code == 0)
		code = finish_folder(c.root, ".", like, err);
	close(c.root);
	return code;
}

static int make_file_copy(const char *from, char *temp, const struct stat *like, const atomic_bool *stop, error *err)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, code;
	if (in < 0)
		return error_errno(err, errno, "model %s", from);
	out = mkostemp(temp, O_CLOEXEC);
	if (out < 0)
		code = error_errno(err, errno, "creating %s", temp);
	else
		code = copy_fd(in, out, like, from, stop, err);
	if (out >= 0)
		close(out);
	close(in);
	return code;
}

static bool begins_with(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || (len > 0 && folder[len - 1] == '/'));
}

/* Neither may hold the other: replacing one would destroy the other, or copy for ever. */
static int check_apart(const char *from, const place *p, bool *same, error *err)
{
	char *real_folder = realpath(p->folder, NULL), *real_from = realpath(from, NULL);
	int code = 0;
	*same = false;
	if (real_folder == NULL || real_from == NULL) {
		code = error_errno(err, errno, "%s", real_from == NULL ? from : p->folder);
	} else {
		char *real_to = mem_printf("%s/%s", strcmp(real_folder, "/") == 0 ? "" : real_folder, p->name);
		*same = strcmp(real_from, real_to) == 0;
		if (begins_with(real_from, real_to) || begins_with(real_to, real_from))
			code = error_set(err, ERROR_INVALID, "%s and %s lie one in the other", from, p->path);
		free(real_to);
	}
	free(real_from);
	free(real_folder);
	return code;
}

/* False as soon as a byte differs, so that of two models of the same size, as those of one network are, not all has to be read. */
static bool have_same_bytes(const char *a, const char *b, int64_t size, const atomic_bool *stop)
{
	FILE *one = fopen(a, "re"), *two = fopen(b, "re");
	size_t room = size < PIECE ? (size_t)size + 1 : PIECE;
	char *pieces = mem_alloc(2 * room);
	bool same = one != NULL && two != NULL;
	size_t n = same ? 1 : 0;
	while (same && n > 0) {
		n = fread(pieces, 1, room, one);
		same = fread(pieces + room, 1, room, two) == n && memcmp(pieces, pieces + room, n) == 0 && check_stop(stop, NULL) == 0;
	}
	free(pieces);
	if (one != NULL)
		fclose(one);
	if (two != NULL)
		fclose(two);
	return same;
}

/* True if the target holds the same already: then its flash is spared. */
static bool holds_same(const place *p, const char *from, const struct stat *from_st, const model_info *info, const atomic_bool *stop)
{
	model_info there;
	if (!p->exists || S_ISDIR(p->st.st_mode) != info->folder || S_ISLNK(p->st.st_mode))
		return false;
	bool one = p->st.st_dev == from_st->st_dev && p->st.st_ino == from_st->st_ino;
	if (!one && !info->folder && (p->st.st_size != info->bytes || !have_same_bytes(from, p->path, info->bytes, stop)))
		return false;
	return model_digest(p->path, stop, &there, NULL) == 0 && digest_equal(&there.sha256, &info->sha256);
}

static int copy_to(const char *from, const struct stat *from_st, const place *p, const atomic_bool *stop, const model_info *info,
	error *err)
{
	bool keeps = p->exists && S_ISDIR(p->st.st_mode) == info->folder;
	const struct stat *like = keeps ? &p->st : from_st;
	model_info made;
	char *temp = place_temp(p);
	int code = info->folder ? make_folder_copy(from, temp, like, stop, err) : make_file_copy(from, temp, like, stop, err);
	if (code == 0)
		code = model_digest(temp, stop, &made, err);
	if (code == 0 && !digest_equal(&made.sha256, &info->sha256))
		code = error_set(err, ERROR_CHANGED, "model %s changed while it was copied", from);
	if (code == 0)
		code = place_put(p, temp, err);
	else
		(void)file_remove_tree(temp, NULL);
	free(temp);
	if (code != 0)
		(void)error_prefix(err, "copying %s to %s", from, p->path);
	return code;
}

int model_copy(const char *from, const char *to, const atomic_bool *stop, const model_info *known, model_info *out, error *err)
{
	place p = {0};
	struct stat st;
	bool same = false;
	int code = 0;
	if (known != NULL)
		*out = *known;
	else
		code = model_digest(from, stop, out, err);
	if (code != 0)
		return code;
	if (stat(from, &st) != 0)
		return error_errno(err, errno, "model %s", from);
	code = place_open(&p, to, err);
	if (code == 0)
		code = check_apart(from, &p, &same, err);
	if (code == 0 && !same && p.wants_folder && !out->folder)
		code = error_set(err, ERROR_INVALID, "%s names a folder, but the model %s is a file", to, from);
	if (code == 0 && !same) {
		if (holds_same(&p, from, &st, out, stop))
			code = file_sync_dir(p.folder, err); /* a run before may have been killed just before that */
		else
			code = copy_to(from, &st, &p, stop, out, err);
	}
	if (code == 0 && same && known != NULL)
		code = model_digest(from, stop, out, err); /* there is no copy that would show that it has changed */
	place_close(&p);
	return code;
}
