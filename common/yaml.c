/* YAML by libyaml's events: see yaml.h for the contract. Anchors, aliases and merge keys are in yaml_alias.c, what scalars mean in
 * yaml_scalar.c.
 *
 * The events of a document are read by recursion, bounded by YAML_MAX_DEPTH. Each function that reads a node is given its first event
 * and takes it; the first refusal sets the error and ends the parse. All nodes and texts live in the caller's arena.
 */
#include <stdlib.h>
#include <string.h>

#include "common/yaml_internal.h"

/* Of a node beside its text. */
enum { NODE_WEIGHT = 16 };

int yaml__refuse(parse *p, int code, yaml_mark_t mark, const char *what)
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
	static const char *const known[] = {"str", "int", "float", "bool", "null", "map", "seq", "merge"};
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
	return yaml__refuse(p, ERROR_UNSUPPORTED, event->start_mark, "tags other than those of plain YAML are not taken");
}

static yaml_node *node_new(parse *p, enum yaml_kind kind, const yaml_event_t *event)
{
	yaml_node *node = arena_alloc(p->mem, sizeof *node);
	node->kind = kind;
	node->line = (int)event->start_mark.line + 1;
	node->column = (int)event->start_mark.column + 1;
	p->weight += NODE_WEIGHT;
	return node;
}

static int read_scalar(parse *p, const yaml_event_t *event, yaml_node **out)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	bool text;
	int code = tag_check(p, event, event->data.scalar.tag, &text);
	if (code != 0)
		return code;
	if (memchr(value, '\0', len) != NULL)
		return yaml__refuse(p, ERROR_INVALID, event->start_mark, "a NUL character in a text");
	yaml_node *node = node_new(p, YAML_SCALAR, event);
	node->text = arena_strndup(p->mem, value, len);
	p->weight += len;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !text;
	*out = node;
	return 0;
}

static int read_node(parse *p, yaml_event_t *event, int depth, yaml_node **out);

/* The key that the event begins; takes the event. */
static int read_key(parse *p, yaml_event_t *event, int depth, const yaml_node **key)
{
	static const char wrong[] = "a key must be a plain text";
	yaml_mark_t mark = event->start_mark;
	yaml_node *node = NULL;
	if (event->type != YAML_SCALAR_EVENT && event->type != YAML_ALIAS_EVENT) {
		yaml_event_delete(event);
		return yaml__refuse(p, ERROR_UNSUPPORTED, mark, wrong);
	}
	int code = read_node(p, event, depth, &node);
	if (code == 0 && node->kind != YAML_SCALAR)
		code = yaml__refuse(p, ERROR_UNSUPPORTED, mark, wrong);
	*key = node;
	return code;
}

/* An entry of a map; takes the event, which begins its key. */
static int read_entry(parse *p, yaml_event_t *event, int depth, yaml_node *map, yaml_node ***tail)
{
	yaml_mark_t mark = event->start_mark;
	const yaml_node *key = NULL;
	yaml_node *value = NULL;
	int code = read_key(p, event, depth, &key);
	if (code == 0)
		code = next_event(p, event);
	if (code == 0)
		code = read_node(p, event, depth, &value);
	if (code != 0)
		return code;
	if (key->plain && strcmp(key->text, "<<") == 0)
		return yaml__merge(p, mark, value, map, tail);
	/* An entry of a map is where its key is: that is where a person looks for it. */
	value->key = key->text;
	value->line = (int)mark.line + 1;
	value->column = (int)mark.column + 1;
	map->count++;
	**tail = value;
	*tail = &value->next;
	return 0;
}

/* The entries up to the end event, which is taken too. */
static int read_entries(parse *p, yaml_node *parent, int depth)
{
	yaml_node **tail = &parent->child;
	yaml_event_t event;
	for (;;) {
		int code = next_event(p, &event);
		if (code != 0)
			return code;
		if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		if (parent->kind == YAML_MAP) {
			code = read_entry(p, &event, depth, parent, &tail);
		} else {
			code = read_node(p, &event, depth, tail);
			if (code == 0)
				tail = &(*tail)->next;
			parent->count++;
		}
		if (code != 0)
			return code;
	}
}

static int read_collection(parse *p, const yaml_event_t *event, int depth, yaml_node **out)
{
	bool map = event->type == YAML_MAPPING_START_EVENT, text;
	int code = tag_check(p, event, map ? event->data.mapping_start.tag : event->data.sequence_start.tag, &text);
	if (code != 0)
		return code;
	if (depth == YAML_MAX_DEPTH)
		return yaml__refuse(p, ERROR_LIMIT, event->start_mark, "nested too deep");
	if (p->deepest < depth + 1)
		p->deepest = depth + 1;
	yaml_node *node = node_new(p, map ? YAML_MAP : YAML_SEQ, event);
	code = read_entries(p, node, depth + 1);
	if (code == 0 && map && node->count > 1)
		code = yaml__keys_settle(p, node);
	*out = node;
	return code;
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return event->data.scalar.anchor;
	case YAML_MAPPING_START_EVENT:
		return event->data.mapping_start.anchor;
	case YAML_SEQUENCE_START_EVENT:
		return event->data.sequence_start.anchor;
	default:
		return NULL;
	}
}

/* The node that the event begins; takes the event. `depth` collections are open around it. */
static int read_node(parse *p, yaml_event_t *event, int depth, yaml_node **out)
{
	const yaml_char_t *anchor = anchor_of(event);
	anchor_open opened = {0};
	int code = anchor != NULL ? yaml__anchor_begin(p, event->start_mark, anchor, depth, &opened) : 0;
	if (code == 0) {
		if (event->type == YAML_SCALAR_EVENT)
			code = read_scalar(p, event, out);
		else if (event->type == YAML_ALIAS_EVENT)
			code = yaml__alias(p, event, depth, out);
		else
			code = read_collection(p, event, depth, out);
	}
	if (code == 0 && anchor != NULL)
		yaml__anchor_end(p, &opened, *out);
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
		p->n_anchors = 0;
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
	free(p.anchors);
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
