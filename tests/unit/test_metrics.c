/* Metrics: the registry, the text format. */
#include "tests/unit/unit.h"

#include "common/metrics.h"

static void same_name_and_labels_are_the_same(void **state)
{
	(void)state;
	metric *a = metric_new(METRIC_COUNTER, "t_total", "stage=\"train\"", "Help.");
	metric *b = metric_new(METRIC_COUNTER, "t_total", "stage=\"eval\"", "Help.");
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(metric_new(METRIC_COUNTER, "t_total", "stage=\"train\"", "Help."), a);
	metric_set(a, 2);
	metric_set(a, 5);
	metric_set(b, 7);
	assert_int_equal(metric_value(a), 5);
	assert_int_equal(metric_value(b), 7);
}

static void text_is_in_families(void **state)
{
	(void)state;
	buf out = {0};
	metric_set(metric_new(METRIC_GAUGE, "t_gauge", NULL, "Back\\slash\nand line."), -3);
	metric_set(metric_new(METRIC_COUNTER, "t_total", "stage=\"deploy\"", "Help."), 1);
	metrics_print(&out);
	const char *text = buf_text(&out);
	assert_non_null(strstr(text,
		"# HELP t_total Help.\n# TYPE t_total counter\nt_total{stage=\"train\"} 5\nt_total{stage=\"eval\"} 7\n"
		"t_total{stage=\"deploy\"} 1\n"));
	assert_non_null(strstr(text, "# HELP t_gauge Back\\\\slash\\nand line.\n# TYPE t_gauge gauge\nt_gauge -3\n"));
	assert_null(strstr(strstr(text, "TYPE t_total") + 1, "TYPE t_total"));
	buf_fini(&out);
}

static void what_has_no_value_is_not_printed(void **state)
{
	(void)state;
	buf out = {0};
	metric *a = metric_new(METRIC_GAUGE, "t_ends", "which=\"a\"", "Help."), *b = metric_new(METRIC_GAUGE, "t_ends", "which=\"b\"", "Help.");
	metric_unset(a);
	metric_unset(b);
	metrics_print(&out);
	assert_null(strstr(buf_text(&out), "t_ends"));
	metric_set(b, 4);
	buf_clear(&out);
	metrics_print(&out);
	assert_non_null(strstr(buf_text(&out), "# HELP t_ends Help.\n# TYPE t_ends gauge\nt_ends{which=\"b\"} 4\n"));
	metric_set(a, 3);
	buf_clear(&out);
	metrics_print(&out);
	assert_non_null(strstr(buf_text(&out), "# TYPE t_ends gauge\nt_ends{which=\"a\"} 3\nt_ends{which=\"b\"} 4\n"));
	buf_fini(&out);
}

static long long number_after(const char *text, const char *name)
{
	const char *p = strstr(text, name);
	if (p == NULL)
		fail_msg("no %s", name);
	return strtoll(p + strlen(name), NULL, 10);
}

static void process_is_described(void **state)
{
	(void)state;
	buf out = {0};
	metrics_print(&out);
	const char *text = buf_text(&out);
	assert_in_range(number_after(text, "\nprocess_resident_memory_bytes "), 100000, 1LL << 40);
	assert_in_range(number_after(text, "\nprocess_private_memory_bytes "), 1000, 1LL << 40);
	assert_in_range(number_after(text, "\nprocess_open_fds "), 1, 10000);
	assert_in_range(number_after(text, "\nprocess_uptime_seconds "), 0, 600);
	assert_in_range(number_after(text, "\nprocess_start_time_seconds "), 1600000000, 1LL << 40);
	number_after(text, "\nprocess_cpu_seconds_total ");
	buf_fini(&out);
}

static void too_many(void *arg)
{
	static char names[METRICS_MAX + 1][16];
	(void)arg;
	for (size_t i = 0; i <= METRICS_MAX; i++) {
		snprintf(names[i], sizeof names[i], "t_many_%zu", i);
		metric_new(METRIC_GAUGE, names[i], NULL, "Help.");
	}
}

static void the_registry_is_bounded(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(unit_run(2, too_many, NULL, &out), 128 + 6 /* SIGABRT */);
	assert_non_null(strstr(buf_text(&out), "METRICS_MAX"));
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_name_and_labels_are_the_same),
		cmocka_unit_test(text_is_in_families),
		cmocka_unit_test(what_has_no_value_is_not_printed),
		cmocka_unit_test(process_is_described),
		cmocka_unit_test(the_registry_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
