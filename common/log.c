/* Logging: see log.h for the contract.
 *
 * A line is put together in memory and written by one write(2), so lines of several threads do not mix. What was said in the running
 * minute is counted in a small table by (module, message); beyond a few of the same, lines are only counted, and the count is said with
 * the first line of any kind after the minute, or by log_flush. When the table is full, lines that are new to it are written uncounted:
 * the messages are literals, so this takes more different ones in a minute than the programs have.
 */
#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/json_scan.h"

enum { SAME_LIMIT = 10, TABLE_SIZE = 128, VALUE_LIMIT = 1024, WINDOW_SECONDS = 60 };

typedef struct seen {
	const char *module, *message; /* message NULL: the slot is free */
	enum log_level level;
	time_t since; /* monotonic */
	unsigned n, held;
} seen;

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static atomic_int level_now = LOG_INFO;
static _Atomic(const char *) program_name = "ilmare";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static seen table[TABLE_SIZE]; /* under the lock */

void log_init(const char *program, enum log_level level)
{
	atomic_store(&program_name, program);
	log_set_level(level);
}

void log_set_level(enum log_level level)
{
	atomic_store(&level_now, (int)level);
}

int log_level_parse(const char *name, enum log_level *out)
{
	for (int i = LOG_ERROR; i <= LOG_DEBUG; i++) {
		if (name != NULL && strcmp(name, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return ERROR_INVALID;
}

int log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

static time_t monotonic_seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static void line_begin(buf *line, enum log_level level, const char *module, const char *message)
{
	struct timespec ts;
	struct tm tm;
	char stamp[32];
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	if (module == NULL || module[0] == '\0')
		module = atomic_load(&program_name);
	buf_printf(line, "%s.%03dZ %-5s %s: %s", stamp, (int)(ts.tv_nsec / 1000000), level_names[level], module, message);
}

static void line_write(buf *line)
{
	buf_putc(line, '\n');
	const char *p = line->data;
	size_t left = line->len;
	while (left > 0) {
		ssize_t n = write(STDERR_FILENO, p, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return; /* a log that cannot be written has nowhere to say so */
		p += n;
		left -= (size_t)n;
	}
}

static int value_is_plain(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)value[i];
		if (c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\')
			return 0;
	}
	return len > 0;
}

static void value_add(buf *line, const char *value)
{
	size_t len = strnlen(value, VALUE_LIMIT + 1);
	int cut = len > VALUE_LIMIT;
	if (cut)
		len = VALUE_LIMIT;
	if (!cut && value_is_plain(value, len)) {
		buf_add(line, value, len);
		return;
	}
	buf_putc(line, '"');
	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)value[i];
		size_t n = json_utf8_length(value + i, len - i);
		if (c == '"' || c == '\\')
			buf_printf(line, "\\%c", c);
		else if (c == '\n')
			buf_puts(line, "\\n");
		else if (c == '\t')
			buf_puts(line, "\\t");
		else if (c < ' ' || c == 0x7F || n == 0)
			buf_printf(line, "\\x%02x", c);
		else
			buf_add(line, value + i, n);
		i += n > 0 ? n : 1;
	}
	buf_puts(line, cut ? "...\"" : "\"");
}

static void values_add(buf *line, va_list args)
{
	for (const char *key = va_arg(args, const char *); key != NULL; key = va_arg(args, const char *)) {
		int type = va_arg(args, int);
		if (type == 's') {
			const char *value = va_arg(args, const char *);
			if (value != NULL) {
				buf_printf(line, " %s=", key);
				value_add(line, value);
			}
		} else if (type == 'd') {
			buf_printf(line, " %s=%lld", key, va_arg(args, long long));
		} else {
			buf_printf(line, " %s=%.9g", key, va_arg(args, double));
		}
	}
}

/* Says how many were held back, and frees the slot. */
static void slot_end(seen *s)
{
	if (s->held > 0) {
		buf line = {0};
		line_begin(&line, s->level, s->module, s->message);
		buf_printf(&line, " held_back=%u", s->held);
		line_write(&line);
		buf_fini(&line);
	}
	s->message = NULL;
}

/* 1 if the line is to be written. The same literal may have two addresses in two files, so texts are compared. */
static int slot_count(enum log_level level, const char *module, const char *message)
{
	time_t now = monotonic_seconds();
	seen *mine = NULL, *unused = NULL;
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		seen *s = &table[i];
		if (s->message != NULL && now - s->since >= WINDOW_SECONDS)
			slot_end(s);
		if (s->message == NULL)
			unused = s;
		else if (strcmp(s->message, message) == 0 && strcmp(s->module, module) == 0)
			mine = s;
	}
	if (mine == NULL && unused != NULL) {
		mine = unused;
		*mine = (seen){.module = module, .message = message, .level = level, .since = now};
	}
	if (mine == NULL || mine->n < SAME_LIMIT) {
		if (mine != NULL)
			mine->n++;
		return 1;
	}
	mine->held++;
	return 0;
}

void log_line(enum log_level level, const char *module, const char *message, ...)
{
	if (!log_enabled(level))
		return;
	pthread_mutex_lock(&lock);
	/* Who asks for debug lines wants all of them. */
	if (level == LOG_DEBUG || slot_count(level, module != NULL ? module : "", message)) {
		buf line = {0};
		va_list args;
		line_begin(&line, level, module, message);
		va_start(args, message);
		values_add(&line, args);
		va_end(args);
		line_write(&line);
		buf_fini(&line);
	}
	pthread_mutex_unlock(&lock);
}

void log_flush(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		if (table[i].message != NULL)
			slot_end(&table[i]);
	}
	pthread_mutex_unlock(&lock);
}
