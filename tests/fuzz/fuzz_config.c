/* A configuration file with a setting of every type: every refusal says something, ranges hold, nothing leaks. */
#include <stdlib.h>
#include <string.h>

#include "common/config.h"
#include "common/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

typedef struct settings {
	char *text, *word, *list, *map, *secret;
	int64_t number, time, size;
	bool flag;
} settings;

static const config_row rows[] = {
	{.key = "a.text", .type = CONFIG_STRING, .offset = offsetof(settings, text), .help = "t"},
	{.key = "a.number", .type = CONFIG_INT, .offset = offsetof(settings, number), .min = -5, .max = 5, .help = "t"},
	{.key = "a.time", .type = CONFIG_DURATION, .offset = offsetof(settings, time), .min = 1, .max = INT64_MAX, .help = "t"},
	{.key = "a.size", .type = CONFIG_SIZE, .offset = offsetof(settings, size), .help = "t"},
	{.key = "flag", .type = CONFIG_BOOL, .offset = offsetof(settings, flag), .help = "t"},
	{.key = "word", .type = CONFIG_ENUM, .offset = offsetof(settings, word), .choices = "one|two", .help = "t"},
	{.key = "list", .type = CONFIG_LIST, .offset = offsetof(settings, list), .help = "t"},
	{.key = "map", .type = CONFIG_MAP, .offset = offsetof(settings, map), .help = "t"},
	{.key = "secret", .type = CONFIG_STRING, .offset = offsetof(settings, secret), .secret = true, .help = "t"},
};

static const config_spec spec = {.program = "p", .summary = "s", .about = "a", .rows = rows, .n = sizeof rows / sizeof rows[0]};

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	settings s = {.time = 1};
	error err = {0};
	cJSON *map;
	if (config_parse_file(&spec, "f", (const char *)data, size, &s, &err) != 0 && err.text[0] == '\0')
		abort();
	if (s.number < -5 || s.number > 5 || s.time < 1 || s.size < 0)
		abort();
	if (s.word != NULL && strcmp(s.word, "one") != 0 && strcmp(s.word, "two") != 0)
		abort();
	if (s.map != NULL) {
		if (json_parse(s.map, strlen(s.map), SIZE_MAX, &map, NULL) != 0 || !cJSON_IsObject(map))
			abort();
		cJSON_Delete(map);
	}
	config_free(&spec, &s);
	return 0;
}
