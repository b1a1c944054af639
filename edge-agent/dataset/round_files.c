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
enum { ASIDE_MAX = 1000, WINDOW_READS_MAX = 256 };

char *round_path(const char *output_dir, const char *kind, int64_t round, const char *file)
{
	if (file == NULL)
		return mem_printf("%s/data/%s/%lld", output_dir, kind, (long long)round);
	return mem_printf("%s/data/%s/%lld/%s", output_dir, kind, (long long)round, file);
}

int round_files_move_aside(const char *train_dir, int64_t round, const char *uid, error *err)
{
	char short_uid[9] = "", *from = mem_printf("%s/%lld", train_dir, (long long)round);
	int code = ERROR_EXISTS;
	for (size_t i = 0; i < 8 && uid[i] != '\0'; i++) {
		bool plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-", uid[i]) != NULL;
		short_uid[i] = plain ? uid[i] : '_';
	}
	for (int n = 1; n <= ASIDE_MAX && code == ERROR_EXISTS; n++) {
		char *to = mem_printf("%s.aside-%s-%d", from, short_uid, n);
		code = file_rename_new(from, to, err);
		free(to);
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

/* The round as the window sees it. NOT_FOUND: the folder holds no whole round of that job. */
static int window_read(const char *output_dir, const char *uid, int64_t round, window_round *out, error *err)
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

int round_window(const char *output_dir, const char *uid, int64_t round, int64_t out[WINDOW_MAX], size_t *n_out, error *err)
{
	window_round one = {0};
	window w;
	int64_t *all = NULL;
	size_t n = 0;
	*n_out = 0;
	int code = window_read(output_dir, uid, round, &one, err);
	if (code == 0)
		code = round_numbers(output_dir, &all, &n, err);
	bool more = one.from > 0;
	int reads = 0;
	window_start(&w, &one);
	for (size_t i = 0; i < n && more && code == 0 && reads < WINDOW_READS_MAX; i++) {
		if (all[i] >= round)
			continue;
		reads++;
		int read = window_read(output_dir, uid, all[i], &one, err);
		if (read == 0)
			more = window_offer(&w, &one);
		else if (read != ERROR_NOT_FOUND)
			code = read;
	}
	free(all);
	for (size_t i = 0; i < w.n && code == 0; i++)
		out[i] = w.rounds[w.n - 1 - i];
	*n_out = code == 0 ? w.n : 0;
	return code;
}
