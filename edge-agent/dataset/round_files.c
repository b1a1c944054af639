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
		bool right = stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == m->files[i].bytes;
		if (!right)
			error_set(err, ERROR_CORRUPT, "%s is missing or not of the size that its manifest says", path);
		free(path);
		if (!right)
			return ERROR_CORRUPT;
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
static int64_t *round_numbers(const char *output_dir, size_t *n)
{
	char *path = mem_printf("%s/data/train", output_dir);
	int64_t *all = numbered_list(path, n);
	free(path);
	return all;
}

/* The round as the window sees it; false if the folder is not that job's. */
static bool window_read(const char *output_dir, const char *uid, int64_t round, window_round *out)
{
	manifest *m = mem_alloc(sizeof *m);
	bool ours = round_read(output_dir, round, m, NULL) == 0 && strcmp(m->uid, uid) == 0 && m->round == round;
	*out = (window_round){.round = round, .from = m->from, .to = m->to};
	free(m);
	return ours;
}

size_t round_window(const char *output_dir, const char *uid, int64_t round, int64_t out[WINDOW_MAX])
{
	window_round one;
	window w;
	if (!window_read(output_dir, uid, round, &one))
		return 0;
	size_t n;
	int64_t *all = round_numbers(output_dir, &n);
	bool more = one.from > 0;
	int reads = 0;
	window_start(&w, &one);
	for (size_t i = 0; i < n && more && reads < WINDOW_READS_MAX; i++) {
		if (all[i] >= round)
			continue;
		reads++;
		if (window_read(output_dir, uid, all[i], &one))
			more = window_offer(&w, &one);
	}
	free(all);
	for (size_t i = 0; i < w.n; i++)
		out[i] = w.rounds[w.n - 1 - i];
	return w.n;
}
