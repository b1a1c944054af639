/* Figures of the dataset code, one `name value unit` a line:
 *
 *   splitter_txt, splitter_csv, splitter_csv_quoted   bytes of short lines split a second, in memory
 *   scan_first        reading a file of ten million samples for the first time (or as many as the first argument says)
 *   scan_idle         a look at it when nothing changed
 *   scan_appended     1,000 samples appended: a look that sees and counts them, the range of a round of them, the cursor located
 *   scan_restart      the same look by a scanner made from the saved state
 *   scan_memory       growth of this process's private memory from before the first look to the end
 *
 * With a file and its format (txt, csv) as arguments: what the splitter alone, and a first look, take for it, as `name seconds s seconds-of-CPU s`.
 *
 * The file lies in ${TMPDIR:-/tmp} (about 24 bytes a sample) and is removed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "edge-agent/dataset/scanner.h"
#include "edge-agent/dataset/splitter.h"

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "bench_dataset: %s\n", what);
	exit(1);
}

static long private_kb(void)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "RssAnon: %ld", &kb) == 1)
			break;
	}
	if (f != NULL)
		fclose(f);
	return kb;
}

static void bench_splitter(const char *name, enum dataset_format format, const char *line)
{
	enum { BYTES = 64 * 1024 * 1024, PIECE = 256 * 1024 };
	char *data = mem_alloc(BYTES);
	size_t len = strlen(line), used;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = line[i % len];
	splitter s;
	splitter_start(&s, format, LINE_MAX_DEFAULT);
	double begin = now_s();
	for (size_t done = 0; done < BYTES;) {
		size_t end = done / PIECE * PIECE + PIECE;
		(void)splitter_next(&s, data + done, end - done, &used);
		done += used;
	}
	double took = now_s() - begin;
	if (s.samples + (format == FORMAT_CSV) != (int64_t)(BYTES / len))
		fail("the splitter miscounts");
	printf("%s %.0f MB/s\n", name, (double)BYTES / 1e6 / took);
	free(data);
}

static void append_samples(const char *path, int64_t from, int64_t n)
{
	FILE *f = fopen(path, "a");
	if (f == NULL)
		fail("cannot write the dataset");
	for (int64_t i = from; i < from + n; i++)
		fprintf(f, "images/%09lld.png %lld\n", (long long)i, (long long)(i % 10));
	if (fclose(f) != 0)
		fail("cannot write the dataset");
}

static scan_view look(scanner *s)
{
	scan_view v;
	do {
		if (scanner_look(s, 8 * 1024 * 1024) != 0)
			fail("cannot read the dataset");
		scanner_view(s, &v);
	} while (v.more);
	return v;
}

/* What a new batch costs: seen, counted, measured for a round, its cursor found again. */
static void account(scanner *s, const dataset_point *begin, int64_t expected)
{
	dataset_point end, at;
	enum locate_result result;
	scan_view v = look(s);
	if (v.end.samples != expected)
		fail("the scanner miscounts");
	if (scanner_locate(s, begin->size, &begin->digest, 1 << 20, &result, &at, NULL) != 0 || result != LOCATE_MATCHED)
		fail("the cursor was not found");
	if (scanner_range_end(s, at.size, at.samples, 1 << 30, NULL, &end, NULL) != 0 || end.samples != expected)
		fail("the range is wrong");
}

static void bench_scan(const char *path, int64_t n)
{
	buf saved = {0};
	append_samples(path, 0, n);
	scanner *s = scanner_new(path, FORMAT_TXT, LINE_MAX_DEFAULT);
	long before_kb = private_kb();
	dataset_point used;
	scan_view v;
	double begin = now_s();
	look(s);
	printf("scan_first %.3f s\n", now_s() - begin);
	begin = now_s();
	v = look(s);
	printf("scan_idle %.1f us\n", (now_s() - begin) * 1e6);
	/* All of them were taken by a round. */
	if (scanner_range_end(s, 0, 0, 0, NULL, &used, NULL) != 0 || used.samples != v.end.samples)
		fail("the range is wrong");
	scanner_save(s, &saved);
	append_samples(path, n, 1000);
	begin = now_s();
	account(s, &used, n + 1000);
	printf("scan_appended %.2f ms\n", (now_s() - begin) * 1e3);
	long after_kb = private_kb();
	scanner_free(s);
	begin = now_s();
	s = scanner_new(path, FORMAT_TXT, LINE_MAX_DEFAULT);
	if (scanner_restore(s, saved.data, saved.len, NULL) != 0)
		fail("the saved state is refused");
	account(s, &used, n + 1000);
	printf("scan_restart %.2f ms\n", (now_s() - begin) * 1e3);
	printf("scan_memory %ld kB\n", after_kb - before_kb);
	scanner_free(s);
	buf_fini(&saved);
}

static int64_t split_file(const char *path, enum dataset_format format)
{
	enum { PIECE = 256 * 1024 };
	char *data = mem_alloc(PIECE);
	splitter s;
	size_t n, used;
	FILE *f = fopen(path, "r");
	if (f == NULL)
		fail("cannot read the file");
	setbuf(f, NULL);
	splitter_start(&s, format, LINE_MAX_DEFAULT);
	while ((n = fread(data, 1, PIECE, f)) > 0)
		for (size_t done = 0; done < n; done += used)
			(void)splitter_next(&s, data + done, n - done, &used);
	fclose(f);
	free(data);
	return s.samples;
}

static void bench_file(const char *path, enum dataset_format format)
{
	double begin = now_s(), cpu = cpu_s();
	int64_t n = split_file(path, format);
	printf("splits %.3f s %.3f s\n", now_s() - begin, cpu_s() - cpu);
	begin = now_s();
	cpu = cpu_s();
	scanner *s = scanner_new(path, format, LINE_MAX_DEFAULT);
	if (look(s).end.samples != n)
		fail("the scanner and the splitter count differently");
	printf("reads %.3f s %.3f s\n", now_s() - begin, cpu_s() - cpu);
	scanner_free(s);
}

int main(int argc, char **argv)
{
	const char *base = getenv("TMPDIR");
	char *path = mem_printf("%s/ilmare-bench-XXXXXX", base != NULL && *base != '\0' ? base : "/tmp");
	mem_init();
	if (argc == 3) {
		bench_file(argv[1], strcmp(argv[2], "csv") == 0 ? FORMAT_CSV : FORMAT_TXT);
		free(path);
		return 0;
	}
	bench_splitter("splitter_txt", FORMAT_TXT, "images/0000001.png 7 label-of-it\n");
	bench_splitter("splitter_csv", FORMAT_CSV, "1,2.5,17,0.25,label,2026-11-30\n\n");
	bench_splitter("splitter_csv_quoted", FORMAT_CSV, "1,\"a, b\",17,\"he said \"\"hi\"\"\"\n\n\n");
	int fd = mkstemp(path);
	if (fd < 0)
		fail("cannot make a file");
	close(fd);
	bench_scan(path, argc > 1 ? strtoll(argv[1], NULL, 10) : 10000000);
	unlink(path);
	free(path);
	return 0;
}
