/* Logging: one line an event, to stderr: `2026-11-30T04:00:00.123Z warn  store: cannot write job=default/helmet round=3 error="..."`.
 *
 * The message is constant text; what varies follows as key=value (values with spaces or quotes are quoted and escaped, so one event is
 * always one line). Never log a secret or a whole payload. Any thread.
 * What says the same (level, module, message and all texts) more than a few times a minute is held back and counted, so a full disk or a
 * flood cannot fill a log (log_limit.h has the bounds); the counts are said after that minute. Debug lines are not counted.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);
int log_level_parse(const char *name, enum log_level *out); /* error, warn, info, debug; 0 or ERROR_INVALID */
int log_enabled(enum log_level level);

/* For who has a timer (daemon.h): milliseconds until a count is to be said, -1 while nothing is held back; and say what is due. The first
 * line of any kind after that says it otherwise. */
int log_wait_ms(void);
void log_say_held(void);
/* Say now what was held back, and begin to count anew: before a program ends. */
void log_flush(void);

/* Lines that could not be written so far: the disk of the log is full, say. The first that can be written again says so. */
long long log_lost(void);

/* `module` and `message` are string literals; module NULL stands for the program. A string value that is NULL is left out with its key.
 * Then triples made by the L_ macros below, ended by NULL:
 *   log_line(LOG_INFO, "outbox", "report published", L_STR("job", name), L_INT("round", round), NULL);
 */
void log_line(enum log_level level, const char *module, const char *message, ...);

#define L_STR(key, value) (key), 's', (const char *)(value)
#define L_INT(key, value) (key), 'd', (long long)(value)

#define log_error(module, ...) log_line(LOG_ERROR, module, __VA_ARGS__, NULL)
#define log_warn(module, ...) log_line(LOG_WARN, module, __VA_ARGS__, NULL)
#define log_info(module, ...) log_line(LOG_INFO, module, __VA_ARGS__, NULL)
#define log_debug(module, ...) log_line(LOG_DEBUG, module, __VA_ARGS__, NULL)

#endif
