/* A fixed registry of counters and gauges: see metrics.h for the contract.
 *
 * Metrics are only ever added; `count` is raised after an entry is whole, so readers need no lock. The lock keeps two that add apart.
 * What concerns the process (memory, files, processor time) is read from /proc when asked for, under the names that Prometheus' own
 * client libraries use.
 */
#include "common/metrics.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"

struct metric {
	enum metric_type type;
	const char *name, *labels, *help;
	_Atomic int64_t value;
};

/* Nothing counts that far down. */
static const int64_t NO_VALUE = INT64_MIN;

static metric registry[METRICS_MAX];
static atomic_size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int same_text(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

metric *metric_new(enum metric_type type, const char *name, const char *labels, const char *help)
{
	pthread_mutex_lock(&lock);
	size_t n = atomic_load(&count);
	metric *m = NULL;
	for (size_t i = 0; i < n && m == NULL; i++) {
		if (same_text(registry[i].name, name) && same_text(registry[i].labels, labels))
			m = &registry[i];
	}
	if (m == NULL) {
		if (n == METRICS_MAX) {
			fputs("more metrics than METRICS_MAX: this is a mistake in the program\n", stderr);
			abort();
		}
		m = &registry[n];
		m->type = type;
		m->name = name;
		m->labels = labels;
		m->help = help;
		atomic_store(&count, n + 1);
	}
	pthread_mutex_unlock(&lock);
	return m;
}

void metric_set(metric *m, int64_t value)
{
	atomic_store_explicit(&m->value, value, memory_order_relaxed);
}

void metric_unset(metric *m)
{
	metric_set(m, NO_VALUE);
}

int64_t metric_value(const metric *m)
{
	return atomic_load_explicit(&m->value, memory_order_relaxed);
}

static void family_head(buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s ", name);
	for (const char *p = help != NULL ? help : ""; *p != '\0'; p++) {
		if (*p == '\\')
			buf_puts(out, "\\\\");
		else if (*p == '\n')
			buf_puts(out, "\\n");
		else
			buf_putc(out, *p);
	}
	buf_printf(out, "\n# TYPE %s %s\n", name, type);
}

/* A field of /proc/self/status in bytes, or -1. */
static int64_t status_bytes(const char *text, const char *field)
{
	const char *p = strstr(text, field);
	return p != NULL ? strtoll(p + strlen(field), NULL, 10) * 1024 : -1;
}

static size_t read_proc(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = f != NULL ? fread(text, 1, size - 1, f) : 0;
	if (f != NULL)
		fclose(f);
	text[n] = '\0';
	return n;
}

static int64_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	if (dir == NULL)
		return -1;
	int64_t n = 0;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 3; /* ".", ".." and the folder itself */
}

/* Seconds since this process began, by the clock that counts since the machine began; -1 if unknown. */
static double uptime(void)
{
	enum { FIELDS_BEFORE_START = 20 };
	char text[1024];
	struct timespec now;
	read_proc("/proc/self/stat", text, sizeof text);
	/* The program's name in parentheses may hold anything, also spaces. */
	const char *p = strrchr(text, ')');
	for (int i = 0; p != NULL && i < FIELDS_BEFORE_START; i++) {
		p = strchr(p, ' ');
		p = p != NULL ? p + 1 : NULL;
	}
	if (p == NULL || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		return -1;
	double started = strtod(p, NULL) / (double)sysconf(_SC_CLK_TCK);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - started;
}

static void gauge(buf *out, const char *name, const char *help, int64_t value)
{
	if (value < 0)
		return;
	family_head(out, name, "gauge", help);
	buf_printf(out, "%s %lld\n", name, (long long)value);
}

static void process_print(buf *out)
{
	char text[4096];
	struct timespec now, cpu;
	read_proc("/proc/self/status", text, sizeof text);
	gauge(out, "process_resident_memory_bytes", "Resident memory.", status_bytes(text, "VmRSS:"));
	gauge(out, "process_private_memory_bytes", "Resident memory that no other process shares (RssAnon).", status_bytes(text, "RssAnon:"));
	gauge(out, "process_open_fds", "Open file descriptors.", open_files());
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
		family_head(out, "process_cpu_seconds_total", "counter", "Processor time used.");
		buf_printf(out, "process_cpu_seconds_total %.3f\n", (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	}
	family_head(out, "ilmare_log_lines_lost_total", "counter", "Log lines that could not be written: a full disk, say.");
	buf_printf(out, "ilmare_log_lines_lost_total %lld\n", log_lost());
	double up = uptime();
	if (up >= 0 && clock_gettime(CLOCK_REALTIME, &now) == 0) {
		gauge(out, "process_start_time_seconds", "Start of the process, in seconds since 1970.", (int64_t)((double)now.tv_sec - up));
		gauge(out, "process_uptime_seconds", "Seconds since the process began.", (int64_t)up);
	}
}

/* The first one of its name that has a value. */
static int begins_family(size_t i)
{
	if (metric_value(&registry[i]) == NO_VALUE)
		return 0;
	for (size_t k = 0; k < i; k++) {
		if (strcmp(registry[k].name, registry[i].name) == 0 && metric_value(&registry[k]) != NO_VALUE)
			return 0;
	}
	return 1;
}

static void series(buf *out, const metric *m)
{
	int64_t value = metric_value(m);

	if (value == NO_VALUE)
		return;
	if (m->labels != NULL && m->labels[0] != '\0')
		buf_printf(out, "%s{%s} %lld\n", m->name, m->labels, (long long)value);
	else
		buf_printf(out, "%s %lld\n", m->name, (long long)value);
}

void metrics_print(buf *out)
{
	size_t n = atomic_load(&count);
	for (size_t i = 0; i < n; i++) {
		if (!begins_family(i))
			continue;
		const char *name = registry[i].name;
		family_head(out, name, registry[i].type == METRIC_COUNTER ? "counter" : "gauge", registry[i].help);
		/* All series of a name must stand together. */
		for (size_t k = i; k < n; k++) {
			if (strcmp(registry[k].name, name) == 0)
				series(out, &registry[k]);
		}
	}
	process_print(out);
}

void metrics_set_rows(metric_row *rows, size_t n, const void *counters)
{
	for (size_t i = 0; i < n; i++) {
		int64_t value;

		if (!rows[i].metric)
			rows[i].metric = metric_new(rows[i].type, rows[i].name, NULL, rows[i].help);
		memcpy(&value, (const char *)counters + rows[i].offset, sizeof value);
		metric_set(rows[i].metric, value);
	}
}
