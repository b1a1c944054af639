/* Shared by yaml.c and yaml_alias.c alone. */
#ifndef COMMON_YAML_INTERNAL_H
#define COMMON_YAML_INTERNAL_H

#include <yaml.h>

#include "common/yaml.h"

typedef struct yaml_anchor {
	const char *name;
	const yaml_node *node; /* NULL: it is being read */
	size_t weight;
	int height; /* collections inside each other; 0: a scalar */
} yaml_anchor;

typedef struct parse {
	yaml_parser_t parser;
	arena *mem;
	const char *name;
	const char *data;
	size_t len;
	error *err;
	yaml_anchor *anchors; /* of this document, in the order of the text */
	size_t n_anchors;
	size_t weight;  /* of all nodes so far, repeated ones included */
	size_t aliased; /* the part of it that aliases repeated */
	int deepest;    /* collections inside each other, since it was last set */
} parse;

int yaml__refuse(parse *p, int code, yaml_mark_t mark, const char *what);

/* Around the reading of a node that has an anchor. *opened is for the second call. */
typedef struct anchor_open {
	size_t index, weight;
	int depth, deepest;
} anchor_open;
int yaml__anchor_begin(parse *p, yaml_mark_t mark, const yaml_char_t *name, int depth, anchor_open *opened);
void yaml__anchor_end(parse *p, const anchor_open *opened, const yaml_node *node);
/* A node that is what the anchor's is; it shares the entries. */
int yaml__alias(parse *p, const yaml_event_t *event, int depth, yaml_node **out);

/* The entries that the value of a merge key brings; they replace what comes before them in the map and has their keys. Appended at **tail. */
int yaml__merge(parse *p, yaml_mark_t mark, const yaml_node *value, yaml_node *map, yaml_node ***tail);
/* Of entries with the same key the last one stays, if no two of them were written out. */
int yaml__keys_settle(parse *p, yaml_node *map);

#endif
