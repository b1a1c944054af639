/* Loading a configuration: file, variables and flags, which wins, rules between settings, and that help, man page and example agree. */
#include "tests/unit/config_kit.h"

#include "common/version.h"

/* config_load in a process of its own. */
typedef struct load {
	const char *default_file;
	const char *args[12];
	const char *env[8][2];
} load;

static void run_load(void *arg)
{
	const load *l = arg;
	settings s = {0};
	int argc = 1, status;
	char *argv[16] = {(char[]){"ilmare-test"}};
	for (; l->args[argc - 1] != NULL; argc++)
		argv[argc] = mem_strdup(l->args[argc - 1]);
	for (size_t i = 0; l->env[i][0] != NULL; i++)
		setenv(l->env[i][0], l->env[i][1], 1);
	config_spec here = spec;
	here.default_file = l->default_file;
	enum config_result result = config_load(&here, argc, argv, &s, &status);
	if (result == CONFIG_RUN) {
		dprintf(1, "host=%s port=%d clean=%d keep=%d payload=%d level=%s topics=%s nodes=%s node=%s password=%s\n", s.host, (int)s.port,
			s.clean, (int)s.keep_alive, (int)s.payload, s.level, s.topics, s.nodes != NULL ? s.nodes : "-", s.node != NULL ? s.node : "-",
			s.password != NULL ? s.password : "-");
		status = 50;
	}
	config_free(&spec, &s);
	for (int i = 1; i < argc; i++)
		free(argv[i]);
	fflush(NULL);
	exit(status); /* not _exit: the leak checker looks at this process too */
}

/* Standard output of the load, or standard error; the exit status is 50 for CONFIG_RUN. */
static int loaded(int descriptor, load l, buf *out)
{
	buf_clear(out);
	return unit_run(descriptor, run_load, &l, out);
}

static void assert_has(const buf *out, const char *part)
{
	if (strstr(buf_text(out), part) == NULL)
		fail_msg("\"%s\" has no \"%s\"", buf_text(out), part);
}

static char *folder;
static char *file;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder();
	file = mem_printf("%s/e.yaml", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(file);
	unit_folder_remove(folder);
	return 0;
}

static void put_file(const char *text)
{
	assert_int_equal(file_write(file, text, strlen(text), 0600, NULL), 0);
}

static void defaults_alone(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(loaded(1, (load){.default_file = "/nonexistent/e.yaml"}, &out), 50);
	assert_string_equal(buf_text(&out),
		"host=localhost port=1883 clean=1 keep=60000 payload=256000 level=info topics=a\nb nodes=- node=- password=-\n");
	assert_int_equal(loaded(1, (load){.default_file = NULL}, &out), 50);
	buf_fini(&out);
}

static void precedence(void **state)
{
	(void)state;
	buf out = {0};
	load l = {.default_file = file, .env = {{"TEST_OTHER_PORT", "2"}}};
	put_file("mqtt:\n  host: from-file\n");
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, "host=from-file port=2 ");
	l.env[1][0] = "TEST_PORT";
	l.env[1][1] = "3";
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, " port=3 ");
	put_file("mqtt:\n  host: from-file\n  port: 4\n");
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, " port=4 ");
	l.env[2][0] = "ILMARE_MQTT_PORT";
	l.env[2][1] = "5";
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, " port=5 ");
	l.args[0] = "--mqtt-port";
	l.args[1] = "6";
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, " port=6 ");
	l.args[2] = "--mqtt-port=7"; /* the last one counts */
	assert_int_equal(loaded(1, l, &out), 50);
	assert_has(&out, " port=7 ");
	/* An empty variable of somebody else's is none. */
	load e = {.env = {{"TEST_PORT", ""}, {"TEST_NODENAME", "n"}}};
	assert_int_equal(loaded(1, e, &out), 50);
	assert_has(&out, " port=1883 ");
	assert_has(&out, " node=n ");
	buf_fini(&out);
}

static void the_file_is_named(void **state)
{
	(void)state;
	buf out = {0};
	put_file("node: here\n");
	assert_int_equal(loaded(1, (load){.args = {"--config", file}}, &out), 50);
	assert_has(&out, "node=here");
	assert_int_equal(loaded(1, (load){.env = {{"ILMARE_CONFIG", file}}}, &out), 50);
	assert_has(&out, "node=here");
	assert_int_equal(loaded(2, (load){.args = {"--config=/nonexistent/x"}, .env = {{"ILMARE_CONFIG", file}}}, &out), 2);
	assert_has(&out, "cannot open /nonexistent/x");
	assert_int_equal(loaded(2, (load){.default_file = folder}, &out), 2);
	assert_has(&out, "cannot read");
	buf_fini(&out);
}

static void flags_of_every_type(void **state)
{
	(void)state;
	buf out = {0};
	load l = {.args = {"--mqtt-host=", "--no-mqtt-clean-start", "--mqtt-keep-alive=2m", "--limits-payload", "1MiB", "--log-level=warn",
				  "--topics", "x , y,,z", "--nodes={\"a\":{\"b\":\"c\"}}", "--mqtt-password=p"}};
	assert_int_equal(loaded(1, l, &out), 50);
	assert_string_equal(buf_text(&out),
		"host= port=1883 clean=0 keep=120000 payload=1048576 level=warn topics=x\ny\nz "
		"nodes={\"a\":{\"b\":\"c\"}} node=- password=p\n");
	assert_int_equal(loaded(1, (load){.args = {"--mqtt-clean-start=off"}}, &out), 50);
	assert_has(&out, "clean=0");
	assert_int_equal(loaded(1, (load){.args = {"--mqtt-clean-start"}, .env = {{"ILMARE_MQTT_CLEAN_START", "0"}}}, &out), 50);
	assert_has(&out, "clean=1");
	buf_fini(&out);
}

static void wrong_flags_and_variables_are_named(void **state)
{
	(void)state;
	static const struct {
		load load;
		const char *says;
	} table[] = {
		{{.args = {"--mqtt-prot=1"}}, "--mqtt-prot: there is no such flag"},
		{{.args = {"--mqtt-port"}}, "--mqtt-port: a value must follow"},
		{{.args = {"--mqtt-port=x"}}, "--mqtt-port: must be a whole number from 1 to 65535, not \"x\""},
		{{.args = {"--no-mqtt-port=1"}}, "--no-mqtt-port: there is no such flag"},
		{{.args = {"--no-mqtt-clean-start=1"}}, "--no-mqtt-clean-start: takes no value"},
		{{.args = {"stray"}}, "\"stray\": only flags are taken"},
		{{.args = {"-x"}}, "\"-x\": only flags are taken"},
		{{.args = {"--"}}, "\"--\": only flags are taken"},
		{{.args = {"--nodes={"}}, "--nodes: must be a map"},
		{{.args = {"--nodes={\"a\":1}"}}, "--nodes: must be a map"},
		{{.args = {"--nodes=[]"}}, "--nodes: must be a map"},
		{{.args = {"--topics=a\nb"}}, "--topics: must be a list"},
		{{.env = {{"ILMARE_MQTT_KEEP_ALIVE", "soon"}}}, "ILMARE_MQTT_KEEP_ALIVE: must be a duration"},
		{{.env = {{"TEST_PORT", "http"}}}, "TEST_PORT: must be a whole number"},
		{{.args = {"--offset=13"}}, "offset: 13 is unlucky"},
	};
	buf out = {0};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		assert_int_equal(loaded(2, table[i].load, &out), 2);
		assert_has(&out, table[i].says);
	}
	buf_fini(&out);
}

static void rules_name_the_place_of_the_setting(void **state)
{
	(void)state;
	buf out = {0};
	put_file("node: x\noffset: 13\n");
	assert_int_equal(loaded(2, (load){.default_file = file}, &out), 2);
	assert_has(&out, "e.yaml:2: offset: 13 is unlucky");
	assert_int_equal(loaded(2, (load){.args = {"--offset=13"}, .default_file = file}, &out), 2);
	assert_has(&out, "--offset: offset: 13 is unlucky");
	/* One that is not set is missing in the file; without a file there is no place to name. */
	put_file("# nothing\ntopics: lonely\n");
	assert_int_equal(loaded(2, (load){.default_file = file}, &out), 2);
	assert_has(&out, "e.yaml: mqtt.password: is not set");
	assert_int_equal(loaded(2, (load){.args = {"--topics=lonely"}}, &out), 2);
	assert_has(&out, "\nmqtt.password: is not set");
	buf_fini(&out);
}

static void rules_between_settings_name_the_one_that_was_set(void **state)
{
	(void)state;
	buf out = {0};
	put_file("limits:\n  payload: 5\nmqtt:\n  port: 6\n");
	assert_int_equal(loaded(2, (load){.default_file = file}, &out), 2);
	assert_has(&out, "e.yaml:2: limits.payload: is below mqtt.port\n");
	put_file("limits:\n  payload: 5\n");
	assert_int_equal(loaded(2, (load){.default_file = file}, &out), 2);
	assert_has(&out, "e.yaml:2: limits.payload: ");
	put_file("node: x\n");
	assert_int_equal(loaded(2, (load){.default_file = file, .args = {"--limits-payload=5"}}, &out), 2);
	assert_has(&out, "--limits-payload: limits.payload: ");
	buf_fini(&out);
}

static void all_broken_rules_are_said(void **state)
{
	(void)state;
	buf out = {0};
	put_file("mqtt:\n  hots: x\noffset: 13\ntopics: lonely\nlimits:\n  payload: 5\n");
	for (int asked = 0; asked <= 1; asked++) {
		assert_int_equal(loaded(2, (load){.default_file = file, .args = {asked ? "--check-config" : NULL}}, &out), 2);
		assert_has(&out, "e.yaml:2:3: mqtt.hots: there is no such setting");
		assert_has(&out, "e.yaml:3: offset: 13 is unlucky");
		assert_has(&out, "e.yaml: mqtt.password: is not set");
		assert_has(&out, "e.yaml:6: limits.payload: is below mqtt.port");
	}
	/* What stands in the place of a value that was refused is not complained about. */
	put_file("mqtt:\n  port: x\nlimits:\n  payload: 5\n");
	assert_int_equal(loaded(2, (load){.default_file = file}, &out), 2);
	assert_has(&out, "e.yaml:2:3: mqtt.port: ");
	assert_null(strstr(buf_text(&out), "is below"));
	buf_fini(&out);
}

static void variables_that_are_no_settings_are_warned_of(void **state)
{
	(void)state;
	buf out = {0};
	load l = {.env = {{"ILMARE_MQTT_PROT", "1"}, {"ILMARE_KEEP_ALIVE", "1"}, {"ILMARE_SOMETHING_ELSE", "1"}, {"ILMARE_OTHER", "1"},
				  {"ILMARE_CLOUD_NAME", "1"}, {"ILMARE_BROKER_SERVICE_HOST", "10.0.0.1"}, {"ILMARE_MQTX_PORT", "tcp://10.0.0.1:1"}}};
	for (int asked = 0; asked <= 1; asked++) {
		l.args[0] = asked ? "--check-config" : NULL;
		assert_int_equal(loaded(asked ? 1 : 2, l, &out), asked ? 0 : 50);
		assert_has(&out, "ILMARE_MQTT_PROT");
		assert_has(&out, asked ? "did you mean ILMARE_MQTT_PORT?" : "did_you_mean=ILMARE_MQTT_PORT\n");
		assert_has(&out, asked ? "did you mean ILMARE_MQTT_KEEP_ALIVE?" : "did_you_mean=ILMARE_MQTT_KEEP_ALIVE\n");
		assert_has(&out, asked ? "ILMARE_SOMETHING_ELSE: there is no such setting; see" : "ILMARE_SOMETHING_ELSE\n");
		for (size_t i = 3; i < 7; i++)
			assert_null(strstr(buf_text(&out), l.env[i][0]));
	}
	/* Each may be there 63 characters long or 10,000: only what can be a name is looked at. */
	char name[10000];
	memset(name, 'X', sizeof name);
	memcpy(name, "ILMARE_", 7);
	name[sizeof name - 1] = '\0';
	assert_int_equal(loaded(2, (load){.env = {{name, "1"}}}, &out), 50);
	buf_fini(&out);
}

static void every_error_is_said(void **state)
{
	(void)state;
	buf out = {0};
	put_file("mqtt:\n  port: 0\n  hots: x\n");
	load l = {.args = {"--check-config", "--log-level=x", "--config", file}, .env = {{"ILMARE_LIMITS_PAYLOAD", "y"}}};
	assert_int_equal(loaded(2, l, &out), 2);
	assert_has(&out, "e.yaml:2:3: mqtt.port: ");
	assert_has(&out, "e.yaml:3:3: mqtt.hots: ");
	assert_has(&out, "--log-level: ");
	assert_has(&out, "ILMARE_LIMITS_PAYLOAD: ");
	buf_fini(&out);
}

static void check_shows_values_and_sources_but_no_secret(void **state)
{
	(void)state;
	buf out = {0};
	put_file("mqtt:\n  password: hunter2\ntopics: [x, y]\n");
	load l = {.args = {"--check-config", "--mqtt-keep-alive=120"},
		.default_file = file,
		.env = {{"ILMARE_MQTT_PORT", "5"}, {"ILMARE_UNKNOWN_THING", "secret-value"}, {"TEST_NODENAME", "n1"}}};
	assert_int_equal(loaded(1, l, &out), 0);
	assert_has(&out, "mqtt.host: localhost  # default\n");
	assert_has(&out, "mqtt.port: 5  # ILMARE_MQTT_PORT\n");
	assert_has(&out, "mqtt.keepAlive: 2m  # --mqtt-keep-alive\n");
	assert_has(&out, "mqtt.password: ***  # ");
	assert_has(&out, "e.yaml:2\n");
	assert_has(&out, "topics: [x, y]  # ");
	assert_has(&out, "limits.payload: 256kB  # default\n");
	assert_has(&out, "nodes:   # not set\n");
	assert_has(&out, "node: n1  # TEST_NODENAME\n");
	assert_has(&out, "# warning: ILMARE_UNKNOWN_THING: there is no such setting");
	assert_null(strstr(buf_text(&out), "hunter2"));
	assert_null(strstr(buf_text(&out), "secret-value"));
	buf_fini(&out);
}

static void questions_are_answered(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(loaded(1, (load){.args = {"--version"}}, &out), 0);
	assert_string_equal(buf_text(&out), "ilmare-test " ILMARE_VERSION "\n");
	assert_int_equal(loaded(1, (load){.args = {"--help"}, .default_file = "/proc/self/mem"}, &out), 0);
	assert_has(&out, "--mqtt-keep-alive DURATION  (mqtt.keepAlive)\n");
	for (size_t i = 0; i < spec.n; i++)
		assert_has(&out, rows[i].key);
	assert_int_equal(loaded(2, (load){.args = {"--help", "--what"}}, &out), 2);
	buf_fini(&out);
}

static void man_page_has_all_and_no_stray_requests(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(loaded(1, (load){.args = {"--print-man"}}, &out), 0);
	assert_has(&out, ".TH ILMARE-TEST 8");
	assert_has(&out, "\\&.Lines with points are \\e not requests.");
	assert_null(strstr(buf_text(&out), ".SH FILES"));
	assert_int_equal(loaded(1, (load){.args = {"--print-man"}, .default_file = "/etc/x.yaml"}, &out), 0);
	assert_has(&out, ".SH FILES\n.TP\n.B /etc/x.yaml\n");
	assert_has(&out, "ILMARE_CONFIG names, else /etc/x.yaml if it exists.");
	assert_int_equal(loaded(1, (load){.args = {"--help"}, .default_file = "/etc/x.yaml"}, &out), 0);
	assert_has(&out, "else /etc/x.yaml if it");
	for (size_t i = 0; i < spec.n; i++)
		assert_has(&out, rows[i].key);
	buf_fini(&out);
}

static void the_example_is_a_file_that_is_read(void **state)
{
	(void)state;
	buf out = {0};
	assert_int_equal(loaded(1, (load){.args = {"--print-example"}}, &out), 0);
	/* As it is, it sets nothing; with its settings taken out of comments, it sets the defaults. */
	settings s = {0};
	error err = {0};
	assert_int_equal(parse(buf_text(&out), &s, &err), 0);
	assert_null(s.host);
	/* One line alone is taken out of its comment. */
	char *keep = strstr(out.data, "#  keepAlive: ");
	assert_non_null(keep);
	*keep = ' ';
	memmove(keep, keep + 1, strlen(keep));
	out.len--;
	assert_int_equal(parse(buf_text(&out), &s, &err), 0);
	assert_int_equal(s.keep_alive, 60000);
	assert_null(s.host);
	s.keep_alive = 0;
	buf uncommented = {0};
	for (const char *p = buf_text(&out); *p != '\0';) {
		size_t n = strcspn(p, "\n") + 1;
		/* "# " begins words, "#" alone a setting; nested ones begin with two spaces. */
		bool words = p[0] == '#' && p[1] == ' ' && p[2] != ' ';
		if (!words)
			buf_add(&uncommented, p + (p[0] == '#'), n - (p[0] == '#'));
		p += n;
	}
	if (parse(buf_text(&uncommented), &s, &err) != 0)
		fail_msg("%s in:\n%s", err.text, buf_text(&uncommented));
	assert_string_equal(s.host, "localhost");
	assert_int_equal(s.port, 1883);
	assert_true(s.clean);
	assert_int_equal(s.keep_alive, 60000);
	assert_int_equal(s.payload, 256000);
	assert_string_equal(s.topics, "a\nb");
	config_free(&spec, &s);
	buf_fini(&uncommented);
	buf_fini(&out);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_alone),
		WITH_FILE(precedence),
		WITH_FILE(the_file_is_named),
		cmocka_unit_test(flags_of_every_type),
		cmocka_unit_test(wrong_flags_and_variables_are_named),
		WITH_FILE(rules_name_the_place_of_the_setting),
		WITH_FILE(rules_between_settings_name_the_one_that_was_set),
		WITH_FILE(all_broken_rules_are_said),
		cmocka_unit_test(variables_that_are_no_settings_are_warned_of),
		WITH_FILE(every_error_is_said),
		WITH_FILE(check_shows_values_and_sources_but_no_secret),
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(man_page_has_all_and_no_stray_requests),
		cmocka_unit_test(the_example_is_a_file_that_is_read),
	};
	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
