/* YAML documents as a tree that remembers lines and quoting (libyaml's events; YAML 1.1).
 *
 * Types are left to the reader of a field: a plain scalar `02:00` is whatever the field wants. Anchors, aliases and merge keys are expanded, as
 * Kubernetes' tools do (yaml_alias.c). Refused with line and column: custom tags, repeated keys, keys that are not scalars, nesting above
 * YAML_MAX_DEPTH, aliases that repeat more than YAML_MAX_ALIASED, files above the given size. Pure once the bytes are there; one owner.
 */
#ifndef COMMON_YAML_H
#define COMMON_YAML_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/mem.h"

/* YAML_MAX_ALIASED: what aliases repeat in all, in bytes: 16 for a node, and its text. YAML_MAX_ANCHORS: in a document. */
enum { YAML_MAX_DEPTH = 32, YAML_MAX_ANCHORS = 1024, YAML_MAX_ALIASED = 1024 * 1024 };

enum yaml_kind { YAML_SCALAR, YAML_MAP, YAML_SEQ };

/* Entries may be shared by several nodes: read only. */
typedef struct yaml_node yaml_node;
struct yaml_node {
	enum yaml_kind kind;
	int line, column; /* from 1; of an alias, where that is; of what is inside it, where the anchor is */
	const char *key;  /* inside a map; else NULL */
	const char *text; /* scalar: never NULL */
	bool plain;       /* scalar: written without quotes */
	bool merged;      /* inside a map: came with a merge key */
	yaml_node *child; /* first entry of a map or sequence */
	yaml_node *next;  /* next entry of the parent */
	size_t count;     /* number of entries */
};

/* A stream of documents, in `mem`. `name` (a file's name) begins error texts: "jobs.yaml:12:3: ...". *docs is an array of *n roots;
 * empty documents are left out. */
int yaml_parse(arena *mem, const char *name, const char *data, size_t len, size_t max, yaml_node ***docs, size_t *n, error *err);

const yaml_node *yaml_member(const yaml_node *map, const char *key); /* NULL if absent or not a map */
bool yaml_is_null(const yaml_node *node);                            /* NULL, plain empty, ~, null */
int yaml_get_int(const yaml_node *node, int64_t *out);               /* plain decimal; 0 or ERROR_INVALID */
int yaml_get_double(const yaml_node *node, double *out);             /* finite; 0 or ERROR_INVALID */
int yaml_get_bool(const yaml_node *node, bool *out);                 /* true/false/yes/no/on/off; 0 or ERROR_INVALID */

/* As JSON, with the types that Kubernetes' tools give: plain null, true/false, integers and floats; all else strings. For a pod template
 * and other parts that are passed on whole. */
cJSON *yaml_to_json(const yaml_node *node);

#endif
