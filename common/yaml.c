/* YAML by libyaml's events: see yaml.h for the contract. What scalars mean is in yaml_scalar.c.
 *
 * The events of a document are read by recursion, bounded by YAML_MAX_DEPTH. Each function that reads a node is given its first event
 * and takes it; the first refusal sets the error and ends the parse. All nodes and texts live in the caller's arena.
 */
#include "common/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct parse {
	yaml_parser_t parser;
	arena *mem;
	const char *name;
	const char *data;
	size_t len;
	error *err;
} parse;

static int refuse(parse *p, int code, yaml_mark_t mark, const char *what)
{
	return error_set(p->err, code, "%s:%zu:%zu: %s", p->name, mark.line + 1, mark.column + 1, what);
}

static int refuse_text(parse *p)
{
	const yaml_parser_t *y = &p->parser;
	if (y->error == YAML_READER_ERROR) {
		/* Bytes that are no characters: libyaml knows the offset alone. */
		size_t line = 1;
		for (size_t i = 0; i < y->problem_offset && i < p->len; i++)
			line += p->data[i] == '\n';
		return error_set(p->err, ERROR_INVALID, "%s:%zu: %s", p->name, line, y->problem);
	}
	return error_set(p->err, ERROR_INVALID, "%s:%zu:%zu: %s%s%s%s", p->name, y->problem_mark.line + 1, y->problem_mark.column + 1,
		y->problem != NULL ? y->problem : "not YAML", y->context != NULL ? " (" : "", y->context != NULL ? y->context : "",
		y->context != NULL ? ")" : "");
}

static int next_event(parse *p, yaml_event_t *event)
{
	return yaml_parser_parse(&p->parser, event) ? 0 : refuse_text(p);
}

/* Tags that say what is so anyway, or that a scalar is text, are fine; those that ask for other types are not. */
static int tag_check(parse *p, const yaml_event_t *event, const yaml_char_t *tag, bool *text)
{
	static const char core[] = "tag:yaml.org,2002:";
	static const char *const known[] = {"str", "int", "float", "bool", "null", "map", "seq"};
	*text = false;
	if (tag == NULL)
		return 0;
	const char *t = (const char *)tag;
	if (strcmp(t, "!") == 0) {
		*text = true;
		return 0;
	}
	for (size_t i = 0; strncmp(t, core, sizeof core - 1) == 0 && i < sizeof known / sizeof known[0]; i++) {
		if (strcmp(t + sizeof core - 1, known[i]) == 0) {
			*text = i == 0;
			return 0;
		}
	}
	return refuse(p, ERROR_UNSUPPORTED, event->start_mark, "tags other than those of plain YAML are not taken");
}

static int anchor_check(parse *p, const yaml_event_t *event, const yaml_char_t *anchor)
{
	return anchor == NULL ? 0 : refuse(p, ERROR_UNSUPPORTED, event->start_mark, "anchors (&) are not taken: write the value out");
}

static yaml_node *node_new(parse *p, enum yaml_kind kind, const yaml_event_t *event)
{
	yaml_node *node = arena_alloc(p->mem, sizeof *node);
	node->kind = kind;
	node->line = (int)event->start_mark.line + 1;
	node->column = (int)event->start_mark.column + 1;
	return node;
}

static int read_scalar(parse *p, const yaml_event_t *event, yaml_node **out)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	bool text;
	int code = anchor_check(p, event, event->data.scalar.anchor);
	if (code == 0)
		code = tag_check(p, event, event->data.scalar.tag, &text);
	if (code != 0)
		return code;
	if (memchr(value, '\0', len) != NULL)
		return refuse(p, ERROR_INVALID, event->start_mark, "a NUL character in a text");
	yaml_node *node = node_new(p, YAML_SCALAR, event);
	node->text = arena_strndup(p->mem, value, len);
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !text;
	*out = node;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const yaml_node *const *x = a, *const *y = b;
	int order = strcmp((*x)->key, (*y)->key);
	if (order != 0)
		return order;
	return (*x)->line != (*y)->line ? (*x)->line - (*y)->line : (*x)->column - (*y)->column;
}

/* Sorted, so that a map of many keys costs n log n. */
static int keys_check(parse *p, const yaml_node *map)
{
	const yaml_node **list = mem_resize_array(NULL, map->count, sizeof(const yaml_node *));
	size_t n = 0;
	int code = 0;
	for (const yaml_node *c = map->child; c != NULL; c = c->next)
		list[n++] = c;
	qsort(list, n, sizeof(const yaml_node *), by_key);
	for (size_t i = 1; i < n && code == 0; i++) {
		if (strcmp(list[i - 1]->key, list[i]->key) == 0)
			code = error_set(p->err, ERROR_INVALID, "%s:%d:%d: the key \"%.60s\" is there twice", p->name, list[i]->line, list[i]->column,
				list[i]->key);
	}
	free(list);
	return code;
}

static int read_node(parse *p, yaml_event_t *event, int depth, yaml_node **out);

/* The key that the event begins; takes the event. */
static int read_key(parse *p, yaml_event_t *event, const char **key)
{
	int code;
	yaml_node *node = NULL;
	if (event->type == YAML_ALIAS_EVENT)
		code = refuse(p, ERROR_UNSUPPORTED, event->start_mark, "aliases (*) are not taken: write the value out");
	else if (event->type != YAML_SCALAR_EVENT)
		code = refuse(p, ERROR_UNSUPPORTED, event->start_mark, "a key must be a plain text");
	else
		code = read_scalar(p, event, &node);
	if (node != NULL && node->plain && strcmp(node->text, "<<") == 0)
		code = refuse(p, ERROR_UNSUPPORTED, event->start_mark, "merge keys (<<) are not taken: write the values out");
	yaml_event_delete(event);
	*key = node != NULL ? node->text : NULL;
	return code;
}

/* The entries up to the end event, which is taken too. */
static int read_entries(parse *p, yaml_node *parent, int depth)
{
	yaml_node **tail = &parent->child;
	yaml_event_t event;
	for (;;) {
		const char *key = NULL;
		int code = next_event(p, &event);
		if (code != 0)
			return code;
		if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		yaml_mark_t mark = event.start_mark;
		if (parent->kind == YAML_MAP) {
			code = read_key(p, &event, &key);
			if (code == 0)
				code = next_event(p, &event);
			if (code != 0)
				return code;
		}
		code = read_node(p, &event, depth, tail);
		if (code != 0)
			return code;
		if (key != NULL) {
			/* An entry of a map is where its key is: that is where a person looks for it. */
			(*tail)->key = key;
			(*tail)->line = (int)mark.line + 1;
			(*tail)->column = (int)mark.column + 1;
		}
		parent->count++;
		tail = &(*tail)->next;
	}
}

static int read_collection(parse *p, const yaml_event_t *event, int depth, yaml_node **out)
{
	bool map = event->type == YAML_MAPPING_START_EVENT, text;
	int code = anchor_check(p, event, map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor);
	if (code == 0)
		code = tag_check(p, event, map ? event->data.mapping_start.tag : event->data.sequence_start.tag, &text);
	if (code != 0)
		return code;
	if (depth == YAML_MAX_DEPTH)
		return refuse(p, ERROR_LIMIT, event->start_mark, "nested too deep");
	yaml_node *node = node_new(p, map ? YAML_MAP : YAML_SEQ, event);
	code = read_entries(p, node, depth + 1);
	if (code == 0 && map && node->count > 1)
		code = keys_check(p, node);
	*out = node;
	return code;
}

/* The node that the event begins; takes the event. `depth` collections are open around it. */
static int read_node(parse *p, yaml_event_t *event, int depth, yaml_node **out)
{
	int code;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		code = read_scalar(p, event, out);
		break;
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		code = read_collection(p, event, depth, out);
		break;
	default:
		code = refuse(p, ERROR_UNSUPPORTED, event->start_mark, "aliases (*) are not taken: write the value out");
		break;
	}
	yaml_event_delete(event);
	return code;
}

/* Documents until the stream ends; *list is to be freed. */
static int read_stream(parse *p, yaml_node ***list, size_t *n)
{
	size_t cap = 0;
	for (;;) {
		yaml_event_t event;
		int code = next_event(p, &event);
		if (code != 0)
			return code;
		yaml_event_type_t type = event.type;
		yaml_event_delete(&event);
		if (type == YAML_STREAM_END_EVENT)
			return 0;
		if (type != YAML_DOCUMENT_START_EVENT)
			continue;
		yaml_node *root = NULL;
		code = next_event(p, &event);
		if (code == 0)
			code = read_node(p, &event, 0, &root);
		if (code != 0)
			return code;
		if (yaml_is_null(root))
			continue;
		if (*n == cap) {
			cap = cap > 0 ? cap * 2 : 8;
			*list = mem_resize_array(*list, cap, sizeof(yaml_node *));
		}
		(*list)[(*n)++] = root;
	}
}

int yaml_parse(arena *mem, const char *name, const char *data, size_t len, size_t max, yaml_node ***docs, size_t *n, error *err)
{
	parse p = {.mem = mem, .name = name, .data = data, .len = len, .err = err};
	yaml_node **list = NULL;
	*docs = NULL;
	*n = 0;
	if (len > max)
		return error_set(err, ERROR_LIMIT, "%s: %zu bytes; at most %zu are taken", name, len, max);
	if (!yaml_parser_initialize(&p.parser))
		return error_set(err, ERROR_INTERNAL, "%s: out of memory", name);
	yaml_parser_set_input_string(&p.parser, (const unsigned char *)data, len);
	int code = read_stream(&p, &list, n);
	yaml_parser_delete(&p.parser);
	if (code == 0 && *n > 0) {
		*docs = arena_alloc(mem, *n * sizeof(yaml_node *));
		memcpy(*docs, list, *n * sizeof(yaml_node *));
	} else {
		*n = 0;
	}
	free(list);
	return code;
}

const yaml_node *yaml_member(const yaml_node *map, const char *key)
{
	if (map == NULL || map->kind != YAML_MAP)
		return NULL;
	for (const yaml_node *c = map->child; c != NULL; c = c->next) {
		if (strcmp(c->key, key) == 0)
			return c;
	}
	return NULL;
}
