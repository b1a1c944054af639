/* See round.h and round_files.h. */
#include "edge-agent/dataset/round_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"
#include "edge-agent/storage/numbered.h"

/* WINDOW_READS_MAX: manifests read for one window; rounds that failed lie between those that completed. */
enum { WINDOW_READS_MAX = 256 };

char *round_path(const char *output_dir, const char *kind, int64_t round, const char *file)
{
	if (file == NULL)
		return mem_printf("%s/data/%s/%lld", output_dir, kind, (long long)round);
	return mem_printf("%s/data/%s/%lld/%s", output_dir, kind, (long long)round, file);
}

char *round_aside_name(int64_t round, const char *uid, int n)
{
	char short_uid[9] = "";
	for (size_t i = 0; i < 8 && uid[i] != '\0'; i++) {
		bool plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-", uid[i]) != NULL;
		short_uid[i] = plain ? uid[i] : '_';
	}
	return mem_printf("%lld.aside-%s-%d", (long long)round, short_uid, n);
}

int round_files_move_aside(const char *train_dir, int64_t round, const char *uid, error *err)
{
	char *from = mem_printf("%s/%lld", train_dir, (long long)round);
	int code = ERROR_EXISTS;
	for (int n = 1; n <= ROUND_ASIDE_MAX && code == ERROR_EXISTS; n++) {
		char *name = round_aside_name(round, uid, n), *to = mem_printf("%s/%s", train_dir, name);
		code = file_rename_new(from, to, err);
		free(to);
		free(name);
	}
	free(from);
	return code;
}

static int check_files(const manifest *m, const char *dir, error *err)
{
	for (size_t i = 0; i < m->n_files; i++) {
		struct stat st;
		char *path = mem_printf("%s/%s", dir, m->files[i].name);
		int errnum = stat(path, &st) == 0 ? 0 : errno, code = 0;
		if (errnum != 0 && errnum != ENOENT && errnum != ENOTDIR)
			code = error_errno(err, errnum, "cannot look at %s", path);
		else if (errnum != 0 || !S_ISREG(st.st_mode) || st.st_size != m->files[i].bytes)
			code = error_set(err, ERROR_CORRUPT, "%s is missing or not of the size that its manifest says", path);
		free(path);
		if (code != 0)
			return code;
	}
	return 0;
}

int round_read(const char *output_dir, int64_t round, manifest *out, error *err)
{
	char *dir = round_path(output_dir, "train", round, NULL), *path = mem_printf("%s/manifest.json", dir);
	struct stat st;
	buf data = {0};
	error why = {0};
	int code = 0;
	if (lstat(dir, &st) != 0) {
		code = error_errno(err, errno == ENOTDIR ? ENOENT : errno, "folder %s", dir);
		goto done;
	}
	if (!S_ISDIR(st.st_mode)) {
		code = error_set(err, ERROR_CORRUPT, "%s is not a folder", dir);
		goto done;
	}
	code = file_read(path, MANIFEST_BYTES_MAX, &data, &why);
	if (code == 0)
		code = manifest_decode(buf_text(&data), data.len, out, &why);
	if (code == ERROR_DENIED || code == ERROR_IO) {
		error_set(err, code, "%s", why.text);
	} else if (code != 0) {
		code = error_set(err, ERROR_CORRUPT, "%s: %s", path, why.text);
	} else {
		code = check_files(out, dir, err);
	}
done:
	buf_fini(&data);
	free(path);
	free(dir);
	return code;
}

/* The numbers of all round folders, highest first; to be freed. */
static int round_numbers(const char *output_dir, int64_t **all, size_t *n, error *err)
{
	char *path = mem_printf("%s/data/train", output_dir);
	int code = numbered_list(path, all, n, err);
	free(path);
	return code;
}

/* A round as the window sees it. NOT_FOUND: the folder holds no whole round of that job. */
int round_window_read(const char *output_dir, const char *uid, int64_t round, window_round *out, error *err)
{
	manifest *m = mem_alloc(sizeof *m);
	int code = round_read(output_dir, round, m, err);
	if (code == ERROR_CORRUPT || (code == 0 && (strcmp(m->uid, uid) != 0 || m->round != round)))
		code = error_set(err, ERROR_NOT_FOUND, "the folder of round %lld does not hold it", (long long)round);
	if (code == 0)
		*out = (window_round){.round = round, .from = m->from, .to = m->to};
	free(m);
	return code;
}

int round_window_of(int64_t round, const int64_t *all, size_t n, round_read_fn read, void *ctx, int64_t out[WINDOW_MAX], size_t *n_out,
	error *err)
{
	window_round one = {0};
	window w;
	*n_out = 0;
	int code = read(ctx, round, &one, err), reads = 0;
	bool more = one.from > 0;
	window_start(&w, &one);
	for (size_t i = 0; i < n && more && code == 0 && reads < WINDOW_READS_MAX; i++) {
		if (all[i] >= round)
			continue;
		reads++;
		int found = read(ctx, all[i], &one, err);
		if (found == 0)
			more = window_offer(&w, &one);
		else if (found != ERROR_NOT_FOUND)
			code = found;
	}
	for (size_t i = 0; i < w.n && code == 0; i++)
		out[i] = w.rounds[w.n - 1 - i];
	*n_out = code == 0 ? w.n : 0;
	return code;
}

typedef struct local_window {
	const char *output_dir, *uid;
} local_window;

static int read_local(void *ctx, int64_t round, window_round *out, error *err)
{
	const local_window *w = ctx;
	return round_window_read(w->output_dir, w->uid, round, out, err);
}

int round_window(const char *output_dir, const char *uid, int64_t round, int64_t out[WINDOW_MAX], size_t *n_out, error *err)
{
	local_window where = {.output_dir = output_dir, .uid = uid};
	int64_t *all = NULL;
	size_t n = 0;
	*n_out = 0;
	int code = round_numbers(output_dir, &all, &n, err);
	if (code == 0)
		code = round_window_of(round, all, n, read_local, &where, out, n_out, err);
	free(all);
	return code;
}
