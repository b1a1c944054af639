/* Logging: see log.h for the contract.
 *
 * A line is put together in memory and written by one write(2), so lines of several threads do not mix. Its fields are put together first:
 * what they say decides in log_limit.c whether it is written.
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
#include "common/log_limit.h"

enum { VALUE_LIMIT = 1024 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static atomic_int level_now = LOG_INFO;
static _Atomic(const char *) program_name = "ilmare";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong lines_lost;
static atomic_bool is_holding; /* something may be held back: spares the lock of who asks */

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

static int64_t monotonic_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
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

/* 0, or errno; then *done says how much was written. */
static int write_all(const char *text, size_t len, size_t *done)
{
	*done = 0;
	while (*done < len) {
		ssize_t n = write(STDERR_FILENO, text + *done, len - *done);
		if (n < 0 && errno != EINTR)
			return errno;
		*done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A log that cannot be written has nowhere to say so: lines are counted until one can be written again, and that says it before itself. */
static void line_write(buf *line)
{
	static unsigned long long told;
	static bool is_cut; /* the log ends within a line */
	static int why;
	unsigned long long lost = atomic_load(&lines_lost);
	buf all = {0};
	size_t done;
	if (is_cut)
		buf_putc(&all, '\n');
	if (lost > told) {
		line_begin(&all, LOG_WARN, "log", "lines could not be written");
		buf_printf(&all, " lost=%llu error=", lost - told);
		value_add(&all, strerror(why));
		buf_putc(&all, '\n');
	}
	buf_add(&all, line->data, line->len);
	buf_putc(&all, '\n');
	int code = write_all(all.data, all.len, &done);
	if (done > 0)
		is_cut = done < all.len && all.data[done - 1] != '\n';
	if (code != 0) {
		why = code;
		atomic_store(&lines_lost, lost + 1);
	} else {
		told = lost;
	}
	buf_fini(&all);
}

long long log_lost(void)
{
	return (long long)atomic_load(&lines_lost);
}

/* FNV-1a, with the NUL, so that "ab" "c" is not "a" "bc". */
static uint64_t hash_add(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	while (*text++ != '\0');
	return hash;
}

/* Returns the hash of the texts, never 0; they alone go to `what`, too. */
static uint64_t fields_add(buf *fields, buf *what, va_list args)
{
	uint64_t hash = UINT64_C(14695981039346656037);
	for (const char *key = va_arg(args, const char *); key != NULL; key = va_arg(args, const char *)) {
		if (va_arg(args, int) == 'd') {
			buf_printf(fields, " %s=%lld", key, va_arg(args, long long));
			continue;
		}
		const char *value = va_arg(args, const char *);
		if (value == NULL)
			continue;
		size_t begin = fields->len;
		buf_printf(fields, " %s=", key);
		value_add(fields, value);
		if (what->len + (fields->len - begin) < LOG_LIMIT_WHAT)
			buf_add(what, fields->data + begin, fields->len - begin);
		hash = hash_add(hash, value);
	}
	return hash | 1;
}

static void line_say(enum log_level level, const char *module, const char *message, const buf *fields)
{
	buf line = {0};
	line_begin(&line, level, module, message);
	buf_add(&line, fields->data, fields->len);
	line_write(&line);
	buf_fini(&line);
}

static void say_held(enum log_level level, const char *module, const char *message, const char *what, unsigned held)
{
	buf fields = {0};
	buf_printf(&fields, "%s held_back=%u", what != NULL ? what : "", held);
	line_say(level, module, message, &fields);
	buf_fini(&fields);
}

void log_line(enum log_level level, const char *module, const char *message, ...)
{
	if (!log_enabled(level))
		return;
	buf fields = {0}, what = {0};
	log_key key = {.level = level, .module = module != NULL ? module : "", .message = message};
	va_list args;
	va_start(args, message);
	key.texts = fields_add(&fields, &what, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	int64_t now = monotonic_ms();
	log_limit_end(now, false, say_held);
	/* Who asks for debug lines wants all of them. */
	if (level == LOG_DEBUG || log_limit_take(&key, buf_text(&what), now))
		line_say(level, key.module, message, &fields);
	else
		atomic_store(&is_holding, true);
	pthread_mutex_unlock(&lock);
	buf_fini(&fields);
	buf_fini(&what);
}

int log_wait_ms(void)
{
	if (!atomic_load(&is_holding))
		return -1;
	pthread_mutex_lock(&lock);
	int64_t wait = log_limit_wait(monotonic_ms());
	if (wait < 0)
		atomic_store(&is_holding, false);
	pthread_mutex_unlock(&lock);
	return (int)wait;
}

static void say_now(bool all)
{
	pthread_mutex_lock(&lock);
	log_limit_end(monotonic_ms(), all, say_held);
	pthread_mutex_unlock(&lock);
}

void log_say_held(void)
{
	say_now(false);
}

void log_flush(void)
{
	say_now(true);
}
