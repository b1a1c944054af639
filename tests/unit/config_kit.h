/* What the tests of the configuration share: settings of every type, and the text of a file read into them. */
#ifndef TESTS_UNIT_CONFIG_KIT_H
#define TESTS_UNIT_CONFIG_KIT_H

#include "tests/unit/unit.h"

#include "common/config.h"

typedef struct settings {
	char *host;
	int64_t port;
	bool clean;
	int64_t keep_alive;
	int64_t payload;
	char *level;
	char *topics;
	char *nodes;
	char *password;
	char *node;
	int64_t offset;
} settings;

static const config_row rows[] = {
	{.key = "mqtt.host", .type = CONFIG_STRING, .offset = offsetof(settings, host), .fallback = "localhost", .help = "The broker's name."},
	{.key = "mqtt.port",
		.type = CONFIG_INT,
		.offset = offsetof(settings, port),
		.fallback = "1883",
		.min = 1,
		.max = 65535,
		.env = "TEST_PORT,TEST_OTHER_PORT",
		.help = "The broker's port."},
	{.key = "mqtt.cleanStart",
		.type = CONFIG_BOOL,
		.offset = offsetof(settings, clean),
		.fallback = "true",
		.help = "Begin anew. 'Quoted'."},
	{.key = "mqtt.keepAlive",
		.type = CONFIG_DURATION,
		.offset = offsetof(settings, keep_alive),
		.fallback = "60s",
		.min = 1000,
		.max = 3600000,
		.help = "Time between pings."},
	{.key = "mqtt.password", .type = CONFIG_STRING, .offset = offsetof(settings, password), .secret = true, .help = "Secret."},
	{.key = "limits.payload",
		.type = CONFIG_SIZE,
		.offset = offsetof(settings, payload),
		.fallback = "256kB",
		.min = 1,
		.max = INT64_MAX,
		.help = "Largest message."},
	{.key = "log.level",
		.type = CONFIG_ENUM,
		.offset = offsetof(settings, level),
		.fallback = "info",
		.choices = "error|warn|info|debug",
		.help = "How much is said."},
	{.key = "topics", .type = CONFIG_LIST, .offset = offsetof(settings, topics), .fallback = "a,b", .help = "Some topics."},
	{.key = "nodes", .type = CONFIG_MAP, .offset = offsetof(settings, nodes), .help = "Settings by node."},
	{.key = "node", .type = CONFIG_STRING, .offset = offsetof(settings, node), .env = "TEST_NODENAME", .help = "Own name."},
	{.key = "offset", .type = CONFIG_INT, .offset = offsetof(settings, offset), .help = "Any number."},
};

static inline void check(const void *target, config_rules *rules)
{
	const settings *s = target;
	if (s->offset == 13)
		config_broken(rules, "offset", NULL, "%d is unlucky", 13);
	if (s->payload < s->port)
		config_broken(rules, "limits.payload", "mqtt.host,mqtt.port", "is below mqtt.port");
	if (s->topics != NULL && strcmp(s->topics, "lonely") == 0 && s->password == NULL)
		config_broken(rules, "mqtt.password", NULL, "is not set");
}

static const config_spec spec = {
	.program = "ilmare-test",
	.summary = "a test",
	.about = "Tests the configuration.\n.Lines with points are \\ not requests.",
	.rows = rows,
	.n = sizeof rows / sizeof rows[0],
	.check = check,
	.foreign = "OTHER,CLOUD_*",
};

static inline int parse(const char *text, settings *s, error *err)
{
	char *exact = mem_alloc(strlen(text));
	memcpy(exact, text, strlen(text));
	int code = config_parse_file(&spec, "e.yaml", exact, strlen(text), s, err);
	free(exact);
	return code;
}

#endif
