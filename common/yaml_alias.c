/* Anchors, aliases and merge keys: see yaml.h for what is taken.
 *
 * An alias costs one node here, since the tree shares what it names; but whoever walks the tree meets the whole again, so what aliases repeat
 * is weighed as if it were written out, and bounded: a small file cannot become a large one. Depth is bounded likewise.
 *
 * Merge keys follow what Kubernetes' own tools make of them: entries count in the order of the text, so a merged one replaces what was
 * written before it, and is replaced by what comes after it; in a list of maps the earlier map wins.
 */
#include <stdlib.h>
#include <string.h>

#include "common/yaml_internal.h"

int yaml__anchor_begin(parse *p, yaml_mark_t mark, const yaml_char_t *name, int depth, anchor_open *opened)
{
	if (p->n_anchors == YAML_MAX_ANCHORS)
		return yaml__refuse(p, ERROR_LIMIT, mark, "too many anchors (&) in a document");
	if ((p->n_anchors & (p->n_anchors - 1)) == 0)
		p->anchors = mem_resize_array(p->anchors, p->n_anchors > 0 ? p->n_anchors * 2 : 1, sizeof *p->anchors);
	*opened = (anchor_open){.index = p->n_anchors, .weight = p->weight, .depth = depth, .deepest = p->deepest};
	p->anchors[p->n_anchors++] = (yaml_anchor){.name = arena_strdup(p->mem, (const char *)name)};
	p->deepest = depth;
	return 0;
}

void yaml__anchor_end(parse *p, const anchor_open *opened, const yaml_node *node)
{
	yaml_anchor *a = &p->anchors[opened->index];
	a->node = node;
	a->weight = p->weight - opened->weight;
	a->height = p->deepest - opened->depth;
	if (p->deepest < opened->deepest)
		p->deepest = opened->deepest;
}

int yaml__alias(parse *p, const yaml_event_t *event, int depth, yaml_node **out)
{
	const char *name = (const char *)event->data.alias.anchor;
	yaml_mark_t mark = event->start_mark;
	size_t i = p->n_anchors;
	/* A name may be used again; the latest one counts. */
	while (i > 0 && strcmp(p->anchors[i - 1].name, name) != 0)
		i--;
	if (i == 0)
		return yaml__refuse(p, ERROR_INVALID, mark, "an alias (*) of an anchor (&) that is not there before it");
	const yaml_anchor *a = &p->anchors[i - 1];
	if (a->node == NULL)
		return yaml__refuse(p, ERROR_INVALID, mark, "an alias (*) of what it is itself a part of");
	if (depth + a->height > YAML_MAX_DEPTH)
		return yaml__refuse(p, ERROR_LIMIT, mark, "nested too deep");
	p->aliased += a->weight;
	p->weight += a->weight;
	if (p->aliased > YAML_MAX_ALIASED)
		return yaml__refuse(p, ERROR_LIMIT, mark, "aliases (*) repeat too much");
	if (p->deepest < depth + a->height)
		p->deepest = depth + a->height;
	yaml_node *node = arena_alloc(p->mem, sizeof *node);
	*node = *a->node;
	node->key = NULL;
	node->next = NULL;
	node->line = (int)mark.line + 1;
	node->column = (int)mark.column + 1;
	*out = node;
	return 0;
}

static void merge_one(parse *p, const yaml_node *from, yaml_node *map, yaml_node ***tail)
{
	for (const yaml_node *c = from->child; c != NULL; c = c->next) {
		yaml_node *copy = arena_alloc(p->mem, sizeof *copy);
		*copy = *c;
		copy->merged = true;
		copy->next = NULL;
		**tail = copy;
		*tail = &copy->next;
		map->count++;
	}
}

int yaml__merge(parse *p, yaml_mark_t mark, const yaml_node *value, yaml_node *map, yaml_node ***tail)
{
	static const char wrong[] = "a merge key (<<) takes a map or a list of maps";
	if (value->kind == YAML_MAP) {
		merge_one(p, value, map, tail);
		return 0;
	}
	if (value->kind != YAML_SEQ)
		return yaml__refuse(p, ERROR_INVALID, mark, wrong);
	const yaml_node **list = mem_resize_array(NULL, value->count + 1, sizeof(const yaml_node *));
	size_t n = 0;
	int code = 0;
	for (const yaml_node *c = value->child; c != NULL && code == 0; c = c->next) {
		list[n++] = c;
		if (c->kind != YAML_MAP)
			code = yaml__refuse(p, ERROR_INVALID, mark, wrong);
	}
	while (code == 0 && n > 0)
		merge_one(p, list[--n], map, tail);
	free(list);
	return code;
}

typedef struct entry {
	yaml_node *node;
	size_t at;
} entry;

static int by_key(const void *a, const void *b)
{
	const entry *x = a, *y = b;
	int order = strcmp(x->node->key, y->node->key);
	return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* The entries of one key, in the order of the text. Those that are replaced lose their key. */
static int run_settle(parse *p, entry *run, size_t n)
{
	const yaml_node *written = NULL;
	for (size_t i = 0; i < n; i++) {
		const yaml_node *node = run[i].node;
		if (!node->merged && written != NULL)
			return error_set(p->err, ERROR_INVALID, "%s:%d:%d: the key \"%.60s\" is there twice", p->name, node->line, node->column,
				node->key);
		if (!node->merged)
			written = node;
	}
	for (size_t i = 0; i + 1 < n; i++)
		run[i].node->key = NULL;
	return 0;
}

/* Sorted, so that a map of many keys costs n log n. */
int yaml__keys_settle(parse *p, yaml_node *map)
{
	entry *list = mem_resize_array(NULL, map->count, sizeof *list);
	size_t n = 0;
	int code = 0;
	for (yaml_node *c = map->child; c != NULL; c = c->next, n++)
		list[n] = (entry){c, n};
	qsort(list, n, sizeof *list, by_key);
	for (size_t i = 0, end; i < n && code == 0; i = end) {
		for (end = i + 1; end < n && strcmp(list[end].node->key, list[i].node->key) == 0;)
			end++;
		code = run_settle(p, &list[i], end - i);
	}
	free(list);
	for (yaml_node **at = &map->child; *at != NULL;) {
		if ((*at)->key != NULL) {
			at = &(*at)->next;
		} else {
			*at = (*at)->next;
			map->count--;
		}
	}
	return code;
}
