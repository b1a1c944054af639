/* The text of a configuration file: every type, ranges, unknown keys with their place. */
#include "tests/unit/config_kit.h"

static void file_sets_every_type(void **state)
{
	(void)state;
	settings s = {0};
	error err = {0};
	const char *text = "mqtt:\n  host: \"broker: one\"\n  port: 8883\n  cleanStart: no\n  keepAlive: 5m\n  password: 0123\n"
					   "limits: {payload: 1MiB}\nlog:\n  level: debug\ntopics: [x, 'y z', 5]\n"
					   "nodes:\n  edge-1:\n    lcServer: http://x:1\n  plain: 02:00\nnode: edge-7\noffset: -5\n";
	if (parse(text, &s, &err) != 0)
		fail_msg("%s", err.text);
	assert_string_equal(s.host, "broker: one");
	assert_int_equal(s.port, 8883);
	assert_false(s.clean);
	assert_int_equal(s.keep_alive, 300000);
	assert_string_equal(s.password, "0123");
	assert_int_equal(s.payload, 1048576);
	assert_string_equal(s.level, "debug");
	assert_string_equal(s.topics, "x\ny z\n5");
	assert_string_equal(s.nodes, "{\"edge-1\":{\"lcServer\":\"http://x:1\"},\"plain\":\"02:00\"}");
	assert_string_equal(s.node, "edge-7");
	assert_int_equal(s.offset, -5);
	config_free(&spec, &s);
	assert_null(s.host);
}

static void nothing_is_nothing(void **state)
{
	(void)state;
	const char *const texts[] = {"", "# only\n", "---\n", "mqtt:\n", "mqtt:\n  host:\n  port: ~\ntopics:\nnodes: null\n"};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		settings s = {.port = 7};
		assert_int_equal(parse(texts[i], &s, NULL), 0);
		assert_null(s.host);
		assert_int_equal(s.port, 7);
		config_free(&spec, &s);
	}
	settings s = {0};
	assert_int_equal(parse("topics: []\nnodes: {}\nnode: ''\n", &s, NULL), 0);
	assert_string_equal(s.topics, "");
	assert_string_equal(s.nodes, "{}");
	assert_string_equal(s.node, "");
	config_free(&spec, &s);
}

static const char *const refused[][2] = {
	{"mqtt:\n  host: x\n  hots: y\n", "e.yaml:3:3: mqtt.hots: there is no such setting"},
	{"mqtt.host: x\n", "e.yaml:1:1: mqtt.host: there is no such setting"},
	{"mqtt:\n  Host: x\n", "e.yaml:2:3: mqtt.Host: there is no such setting"},
	{"node:\n  x: 1\n", "e.yaml:1:1: node: must be a text"},
	{"mqtt: 5\n", "e.yaml:1:1: mqtt: must be a map of settings"},
	{"mqtt: [host]\n", "e.yaml:1:1: mqtt: must be a map of settings"},
	{"- mqtt\n", "e.yaml:1: must be a map of settings"},
	{"just text\n", "e.yaml:1: must be a map of settings"},
	{"node: a\n---\nnode: b\n", "e.yaml:3: only one document"},
	{"node: *x\n", "e.yaml:1:7: an alias (*) of an anchor (&) that is not there"},
	{"node: a\nnode: b\n", "e.yaml:2:1: the key \"node\" is there twice"},
	{"mqtt:\n  port: 0\n", "e.yaml:2:3: mqtt.port: must be a whole number from 1 to 65535, not \"0\""},
	{"mqtt:\n  port: 65536\n", "e.yaml:2:3: mqtt.port: must be a whole number from 1 to 65535"},
	{"mqtt:\n  port: 18x\n", "e.yaml:2:3: mqtt.port: must be a whole number"},
	{"mqtt:\n  port: 99999999999999999999\n", "e.yaml:2:3: mqtt.port: must be a whole number"},
	{"mqtt:\n  port: '1883'\n", "e.yaml:2:3: mqtt.port: must be a whole number from 1 to 65535, not \"1883\" in quotes"},
	{"mqtt:\n  port: [1]\n", "e.yaml:2:3: mqtt.port: must be a whole number"},
	{"mqtt:\n  cleanStart: maybe\n", "e.yaml:2:3: mqtt.cleanStart: must be true or false, not \"maybe\""},
	{"mqtt:\n  keepAlive: 5 minutes\n", "e.yaml:2:3: mqtt.keepAlive: must be a duration"},
	{"mqtt:\n  keepAlive: 999ms\n", "e.yaml:2:3: mqtt.keepAlive: must be a duration such as 250ms, 10s, 5m, 24h, 7d from 1s to 1h"},
	{"mqtt:\n  keepAlive: -5s\n", "e.yaml:2:3: mqtt.keepAlive: must be a duration"},
	{"limits: {payload: 0}\n", "e.yaml:1:10: limits.payload: must be a size such as 4096, 256kB, 1MiB of at least 1, not \"0\""},
	{"limits: {payload: 1.5MB}\n", "e.yaml:1:10: limits.payload: must be a size"},
	{"limits: {payload: 9999999TiB}\n", "e.yaml:1:10: limits.payload: must be a size"},
	{"log: {level: loud}\n", "e.yaml:1:7: log.level: must be one of error, warn, info, debug, not \"loud\""},
	{"log: {level: error|warn}\n", "e.yaml:1:7: log.level: must be one of"},
	{"log: {level: ''}\n", "e.yaml:1:7: log.level: must be one of"},
	{"topics: {a: b}\n", "e.yaml:1:1: topics: must be a list of texts"},
	{"topics: [a, [b]]\n", "e.yaml:1:1: topics: must be a list of texts"},
	{"topics: [a, \"b\\nc\"]\n", "e.yaml:1:1: topics: must be a list of texts"},
	{"topics: [a, '']\n", "e.yaml:1:1: topics: must be a list of texts"},
	{"nodes: x\n", "e.yaml:1:1: nodes: must be a map"},
	{"nodes: {a: {b: {c: d}}}\n", "e.yaml:1:1: nodes: must be a map"},
	{"nodes: {a: [b]}\n", "e.yaml:1:1: nodes: must be a map"},
	{"mqtt:\n  password: [hunter2]\n", "e.yaml:2:3: mqtt.password: must be a text"},
};

static void file_errors_name_the_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		settings s = {0};
		error err = {0};
		int code = parse(refused[i][0], &s, &err);
		if (code == 0 || strncmp(err.text, refused[i][1], strlen(refused[i][1])) != 0)
			fail_msg("%s: %d \"%s\", expected \"%s\"", refused[i][0], code, err.text, refused[i][1]);
		assert_null(strstr(err.text, "hunter2"));
		assert_int_equal(code, err.code);
		config_free(&spec, &s);
	}
}

static void a_key_of_any_length_is_refused(void **state)
{
	(void)state;
	settings s = {0};
	error err = {0};
	char key[1000];
	memset(key, 'k', sizeof key);
	key[sizeof key - 1] = '\0';
	char *text = mem_printf("%s: 1\n", key);
	assert_int_equal(parse(text, &s, &err), ERROR_INVALID);
	assert_non_null(strstr(err.text, "no such setting"));
	free(text);
	/* A name cut to the buffer's size must not become another key. */
	text = mem_printf("mqtt:\n  %s:\n    host: x\n", key);
	assert_int_equal(parse(text, &s, &err), ERROR_INVALID);
	free(text);
	config_free(&spec, &s);
}

static void durations_and_sizes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ms, bytes; /* -1: refused */
	} table[] = {{"0", 0, 0}, {"5", 5000, 5}, {"250ms", 250, -1}, {"10s", 10000, -1}, {"5m", 300000, -1}, {"24h", 86400000, -1},
		{"7d", 604800000, -1}, {"64B", -1, 64}, {"256kB", -1, 256000}, {"1MiB", -1, 1048576}, {"2GB", -1, 2000000000},
		{"3TiB", -1, 3298534883328}, {"", -1, -1}, {"s", -1, -1}, {"5x", -1, -1}, {"5 s", -1, -1}, {" 5", -1, -1}, {"5s ", -1, -1},
		{"+5", -1, -1}, {"-5", -1, -1}, {"1.5s", -1, -1}, {"05s", -1, -1}, {"1h30m", -1, -1}, {"5S", -1, -1},
		{"9223372036854775807", -1, INT64_MAX}, {"9223372036854775808", -1, -1}, {"9223372036854775807d", -1, -1}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		int64_t v = -1;
		assert_int_equal(config_parse_duration(table[i].text, &v), table[i].ms < 0 ? ERROR_INVALID : 0);
		assert_int_equal(v, table[i].ms);
		v = -1;
		assert_int_equal(config_parse_size(table[i].text, &v), table[i].bytes < 0 ? ERROR_INVALID : 0);
		assert_int_equal(v, table[i].bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_sets_every_type),
		cmocka_unit_test(nothing_is_nothing),
		cmocka_unit_test(file_errors_name_the_place),
		cmocka_unit_test(a_key_of_any_length_is_refused),
		cmocka_unit_test(durations_and_sizes),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
