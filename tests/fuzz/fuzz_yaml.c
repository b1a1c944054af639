/* YAML text: whatever is taken becomes JSON that is JSON, and every scalar can be asked what it is. Aliases do not make a small text a large
 * tree, or a deep one. */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/yaml.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { NODES_MAX = 64 * 1024 + YAML_MAX_ALIASED / 16 };

static size_t asked;

static void ask(const yaml_node *node, int depth)
{
	int64_t i;
	double d;
	bool b;
	size_t n = 0;
	if (node->line < 1 || node->column < 1 || ++asked > NODES_MAX)
		abort();
	if (node->kind == YAML_SCALAR) {
		yaml_get_int(node, &i);
		yaml_get_double(node, &d);
		yaml_get_bool(node, &b);
		return;
	}
	if (depth == YAML_MAX_DEPTH)
		abort();
	for (const yaml_node *c = node->child; c != NULL; c = c->next, n++) {
		if ((node->kind == YAML_MAP) != (c->key != NULL))
			abort();
		ask(c, depth + 1);
	}
	if (n != node->count)
		abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	arena *mem = arena_new();
	yaml_node **docs;
	size_t n;
	error err = {0};
	asked = 0;
	if (yaml_parse(mem, "f", (const char *)data, size, 64 * 1024, &docs, &n, &err) != 0 && (err.text[0] == '\0' || n != 0))
		abort();
	for (size_t i = 0; i < n; i++) {
		ask(docs[i], 0);
		cJSON *json = yaml_to_json(docs[i]), *again;
		char *text = json_print(json);
		if (text == NULL || json_parse(text, strlen(text), SIZE_MAX, &again, NULL) != 0)
			abort();
		cJSON_Delete(again);
		cJSON_Delete(json);
		free(text);
	}
	arena_free(mem);
	return 0;
}
