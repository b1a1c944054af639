/* Log lines: their form, that one event is one line whatever the values hold, and that floods are held back and counted. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <regex.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"

/* The clock of the log, moved on by the tests. */
static long seconds_on;
int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int code = __real_clock_gettime(id, ts);
	if (id == CLOCK_MONOTONIC)
		ts->tv_sec += seconds_on;
	return code;
}

static void assert_matches(const char *text, const char *pattern)
{
	regex_t r;
	assert_int_equal(regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&r, text, 0, NULL, 0) != 0)
		fail_msg("\"%s\" does not match %s", text, pattern);
	regfree(&r);
}

static size_t lines(const char *text)
{
	size_t n = 0;
	for (; *text != '\0'; text++)
		n += *text == '\n';
	return n;
}

static void say_plain(void *arg)
{
	(void)arg;
	log_warn("store", "cannot write", L_STR("job", "default/helmet"), L_INT("round", 3), L_STR("error", "disk full"));
}

static void line_has_its_form(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, say_plain, NULL, &out), 0);
	assert_matches(buf_text(&out),
		"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z warn  store: cannot write "
		"job=default/helmet round=3 error=\"disk full\"\n$");
	buf_fini(&out);
}

static void say_hostile(void *arg)
{
	(void)arg;
	log_error("m", "x", L_STR("a", "one\ntwo\t\"q\" \\ \x01"), L_STR("b", ""), L_STR("c", "k=v"), L_STR("d", "\xC3\xA9\xff"),
		L_STR("gone", NULL), L_INT("e", INT64_MIN));
}

static void values_cannot_break_the_line(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, say_hostile, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 1);
	assert_non_null(strstr(buf_text(&out),
		"m: x a=\"one\\ntwo\\t\\\"q\\\" \\\\ \\x01\" b=\"\" c=\"k=v\" d=\"\xC3\xA9\\xff\" "
		"e=-9223372036854775808\n"));
	buf_fini(&out);
}

static void say_long(void *arg)
{
	char *value = mem_alloc(100001);
	(void)arg;
	memset(value, 'v', 100000);
	log_info("m", "x", L_STR("a", value));
	free(value);
}

static void values_are_bounded(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, say_long, NULL, &out), 0);
	assert_true(out.len < 1200);
	assert_matches(buf_text(&out), "vvv\\.\\.\\.\"\n$");
	buf_fini(&out);
}

static void say_each_level(void *arg)
{
	log_init("prog", *(enum log_level *)arg);
	log_error(NULL, "e", NULL);
	log_warn("", "w", NULL);
	log_info("m", "i", NULL);
	log_debug("m", "d", NULL);
}

static void levels_hold_back(void **state)
{
	(void)state;
	for (enum log_level level = LOG_ERROR; level <= LOG_DEBUG; level++) {
		buf out = {0};
		assert_int_equal(unit_run(2, say_each_level, &level, &out), 0);
		assert_int_equal(lines(buf_text(&out)), (size_t)level + 1);
		assert_non_null(strstr(buf_text(&out), "error prog: e\n"));
		buf_fini(&out);
	}
	log_set_level(LOG_WARN);
	assert_true(log_enabled(LOG_WARN));
	assert_false(log_enabled(LOG_INFO));
}

static void level_names(void **state)
{
	(void)state;
	enum log_level level = LOG_ERROR;
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_DEBUG);
	assert_int_equal(log_level_parse("warn", &level), 0);
	assert_int_equal(level, LOG_WARN);
	assert_int_equal(log_level_parse("WARN", &level), ERROR_INVALID);
	assert_int_equal(log_level_parse("", &level), ERROR_INVALID);
	assert_int_equal(log_level_parse(NULL, &level), ERROR_INVALID);
}

static void flood(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		log_error("store", "cannot write", L_INT("i", i));
	log_error("store", "other", NULL);
	log_error("link", "cannot write", NULL);
	seconds_on = 59;
	log_error("store", "cannot write", NULL);
	seconds_on = 61;
	log_error("link", "next", NULL);
	log_error("store", "cannot write", L_INT("i", 7000));
	for (int i = 0; i < 20; i++)
		log_error("store", "last", NULL);
	log_flush();
	log_flush();
}

static void floods_are_counted(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, flood, NULL, &out), 0);
	const char *text = buf_text(&out);
	assert_non_null(strstr(text, "store: cannot write i=9\n"));
	assert_null(strstr(text, "store: cannot write i=10\n"));
	assert_non_null(strstr(text, "store: other\n"));
	assert_non_null(strstr(text, "link: cannot write\n"));
	const char *count = strstr(text, "store: cannot write held_back=991\n");
	assert_non_null(count);
	assert_non_null(strstr(count, "link: next\n"));
	assert_non_null(strstr(count, "store: cannot write i=7000\n"));
	assert_non_null(strstr(count, "store: last held_back=10\n"));
	/* 10 + other + link + count + next + again + 10 + count */
	assert_int_equal(lines(text), 26);
	buf_fini(&out);
}

static void debug_flood(void *arg)
{
	(void)arg;
	log_set_level(LOG_DEBUG);
	for (int i = 0; i < 50; i++)
		log_debug("m", "x", NULL);
}

static void debug_lines_are_all_there(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, debug_flood, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 50);
	buf_fini(&out);
}

static void fast_rounds(void *arg)
{
	static const char *const reasons[] = {"TrainReady", "TrainRunning", "TrainCompleted", "EvalReady", "EvalCompleted", "DeployCompleted"};
	(void)arg;
	log_set_level(LOG_INFO);
	for (int round = 1; round <= 8; round++) {
		for (size_t i = 0; i < 6; i++)
			log_info("job", "event", L_STR("job", "default/one"), L_STR("reason", reasons[i]), L_INT("round", round));
		log_info("job", "event", L_STR("job", "default/two"), L_STR("reason", "DeployCompleted"), L_INT("round", round));
	}
}

static void other_values_are_not_the_same(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, fast_rounds, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 8 * 7);
	buf_fini(&out);
}

static void levels_share_a_message(void *arg)
{
	(void)arg;
	log_set_level(LOG_INFO);
	for (int i = 0; i < 20; i++)
		log_info("m", "x", L_STR("a", "b"));
	log_warn("m", "x", L_STR("a", "b"));
	log_error("m", "x", L_STR("a", "b"));
}

static void information_does_not_hold_back_warnings(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, levels_share_a_message, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 12);
	assert_non_null(strstr(buf_text(&out), "warn  m: x a=b\n"));
	assert_non_null(strstr(buf_text(&out), "error m: x a=b\n"));
	buf_fini(&out);
}

/* 400 texts, more than there is room for, each twenty times; then the others' turn. */
static void different_texts(void *arg)
{
	(void)arg;
	for (int i = 0; i < 400 * 20; i++) {
		char text[16];
		snprintf(text, sizeof text, "file-%d", i / 20);
		log_error("local", "bad", L_STR("file", text));
	}
	log_error("local", "other", L_STR("file", "f"));
	log_flush();
}

static void a_flood_of_different_texts_ends(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, different_texts, NULL, &out), 0);
	const char *text = buf_text(&out);
	/* Ten of each of the first ten; the counts of these, and of all the rest. */
	assert_int_equal(lines(text), 100 + 1 + 10);
	assert_non_null(strstr(text, "local: bad file=file-9\n"));
	assert_null(strstr(text, "file-10\n"));
	assert_non_null(strstr(text, "local: other file=f\n"));
	assert_non_null(strstr(text, "local: bad file=file-0 held_back=10\n"));
	assert_non_null(strstr(text, "local: bad held_back=7810\n"));
	buf_fini(&out);
}

static void held_and_quiet(void *arg)
{
	(void)arg;
	log_set_level(LOG_INFO);
	assert_int_equal(log_wait_ms(), -1);
	for (int i = 0; i < 11; i++)
		log_info("m", "x", L_STR("job", "a b"));
	int wait = log_wait_ms();
	assert_true(wait > 0 && wait <= 60000);
	log_say_held(); /* not due */
	seconds_on = 61;
	assert_int_equal(log_wait_ms(), 0);
	log_say_held();
	assert_int_equal(log_wait_ms(), -1);
}

static void counts_are_said_when_they_are_due(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, held_and_quiet, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 11);
	assert_non_null(strstr(buf_text(&out), "info  m: x job=\"a b\" held_back=1\n"));
	buf_fini(&out);
}

/* More different messages than the table has places. */
static void many_messages(void *arg)
{
	static char message[300][8];
	(void)arg;
	log_set_level(LOG_INFO);
	for (int i = 0; i < 300; i++) {
		snprintf(message[i], sizeof message[i], "m%d", i);
		log_info("m", message[i], NULL);
	}
}

static void a_full_table_loses_nothing(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, many_messages, NULL, &out), 0);
	assert_int_equal(lines(buf_text(&out)), 300);
	buf_fini(&out);
}

static void say_on_a_full_disk(void *arg)
{
	int before = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY);
	(void)arg;
	log_warn("m", "written");
	dup2(full, STDERR_FILENO);
	log_warn("m", "one");
	log_warn("m", "two");
	if (log_lost() != 2)
		_exit(1);
	dup2(before, STDERR_FILENO);
	log_warn("m", "three");
	log_warn("m", "four");
}

static void lost_lines_are_counted_and_said(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, say_on_a_full_disk, NULL, &out), 0);
	assert_matches(buf_text(&out),
		"^[^\n]* m: written\n[^\n]* warn  log: lines could not be written lost=2 error=\"No space left on device\"\n"
		"[^\n]* m: three\n[^\n]* m: four\n$");
	buf_fini(&out);
}

/* The reader of a pipe that is full for a while sees half a line, and then what follows as lines of their own. */
static void say_into_a_pipe(void *arg)
{
	int ends[2], before = dup(STDERR_FILENO);
	char taken[20000], value[1001];
	(void)arg;
	log_set_level(LOG_DEBUG);
	memset(value, 'v', 1000);
	value[1000] = '\0';
	if (pipe2(ends, O_NONBLOCK) != 0)
		_exit(1);
	int size = fcntl(ends[1], F_SETPIPE_SZ, 4096);
	dup2(ends[1], STDERR_FILENO);
	for (int said = 0; said <= size; said += 2000)
		log_debug("m", "long", L_STR("a", value), L_STR("b", value));
	ssize_t first = read(ends[0], taken, sizeof taken);
	log_warn("m", "after");
	ssize_t second = read(ends[0], taken + first, sizeof taken - (size_t)first);
	dup2(before, STDERR_FILENO);
	if (write(STDERR_FILENO, taken, (size_t)(first + second)) != first + second)
		_exit(1);
}

static void a_cut_line_ends(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, say_into_a_pipe, NULL, &out), 0);
	assert_matches(buf_text(&out), "v\n[^\n]* warn  log: lines could not be written lost=[0-9]+ error=[^\n]*\n[^\n]* warn  m: after\n$");
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_has_its_form),
		cmocka_unit_test(values_cannot_break_the_line),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(levels_hold_back),
		cmocka_unit_test(level_names),
		cmocka_unit_test(floods_are_counted),
		cmocka_unit_test(other_values_are_not_the_same),
		cmocka_unit_test(information_does_not_hold_back_warnings),
		cmocka_unit_test(a_flood_of_different_texts_ends),
		cmocka_unit_test(counts_are_said_when_they_are_due),
		cmocka_unit_test(debug_lines_are_all_there),
		cmocka_unit_test(a_full_table_loses_nothing),
		cmocka_unit_test(lost_lines_are_counted_and_said),
		cmocka_unit_test(a_cut_line_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
