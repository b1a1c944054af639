/* The configuration file: a YAML map whose nested keys, joined by points, are the rows' keys.
 *
 * All that is wrong is collected, so that a user corrects a file once and not line by line. A key without a value ("mqtt:" with its
 * entries commented out) counts as not there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/config_internal.h"

typedef struct reading {
	const config_spec *spec;
	const char *name;
	void *target;
	config_place *places;
	config_problems *problems;
} reading;

static bool is_section(const config_spec *spec, const char *path)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < spec->n; i++) {
		if (strncmp(spec->rows[i].key, path, len) == 0 && spec->rows[i].key[len] == '.')
			return true;
	}
	return false;
}

static const config_row *row_of(const config_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n; i++) {
		if (strcmp(spec->rows[i].key, path) == 0)
			return &spec->rows[i];
	}
	return NULL;
}

static void read_row(const reading *r, const config_row *row, const yaml_node *node)
{
	error err = {0};
	int code = config__set_node(row, r->target, node, &err);
	config_place *place = r->places != NULL ? &r->places[row - r->spec->rows] : NULL;
	if (code != 0) {
		config__problem(r->problems, code, "%s:%d:%d: %s: %s", r->name, node->line, node->column, row->key, err.text);
		if (place != NULL)
			place->refused = true;
	} else if (place != NULL) {
		free(place->source);
		place->source = mem_printf("%s:%d", r->name, node->line);
	}
}

/* Sections nest as deep as the rows' keys do, which ends the recursion. */
static void read_section(const reading *r, const char *prefix, const yaml_node *map)
{
	for (const yaml_node *c = map->child; c != NULL; c = c->next) {
		char path[CONFIG_NAME_MAX];
		int n = snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", c->key);
		bool known = n > 0 && (size_t)n < sizeof path && strchr(c->key, '.') == NULL;
		const config_row *row = known ? row_of(r->spec, path) : NULL;
		if (row == NULL && (!known || !is_section(r->spec, path)))
			config__problem(r->problems, ERROR_INVALID, "%s:%d:%d: %.100s: there is no such setting", r->name, c->line, c->column, path);
		else if (yaml_is_null(c))
			continue;
		else if (row != NULL)
			read_row(r, row, c);
		else if (c->kind != YAML_MAP)
			config__problem(r->problems, ERROR_INVALID, "%s:%d:%d: %s: must be a map of settings", r->name, c->line, c->column, path);
		else
			read_section(r, path, c);
	}
}

void config__file(const config_spec *spec, const char *name, const char *data, size_t len, void *target, config_place *places,
	config_problems *problems)
{
	reading r = {.spec = spec, .name = name, .target = target, .places = places, .problems = problems};
	arena *mem = arena_new();
	yaml_node **docs;
	size_t n;
	error err = {0};
	int code = yaml_parse(mem, name, data, len, CONFIG_FILE_MAX, &docs, &n, &err);
	if (code != 0)
		config__problem(problems, code, "%s", err.text);
	else if (n > 1)
		config__problem(problems, ERROR_INVALID, "%s:%d: only one document can be in this file", name, docs[1]->line);
	else if (n == 1 && docs[0]->kind != YAML_MAP)
		config__problem(problems, ERROR_INVALID, "%s:%d: must be a map of settings", name, docs[0]->line);
	else if (n == 1)
		read_section(&r, "", docs[0]);
	arena_free(mem);
}

int config_parse_file(const config_spec *spec, const char *name, const char *data, size_t len, void *target, error *err)
{
	config_problems problems = {0};
	config__file(spec, name, data, len, target, NULL, &problems);
	int code = problems.first.code;
	if (err != NULL && code != 0)
		*err = problems.first;
	config__problems_fini(&problems);
	return code;
}
