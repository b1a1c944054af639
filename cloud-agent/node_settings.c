/* Settings of single nodes (`nodes:` in the configuration): see node_settings.h for the contract.
 *
 * They arrive as JSON text and stay a cJSON tree; there are few of them, and they are looked up when a pod is built. All is checked once, at
 * the start, with the path of what is wrong.
 */
#include "cloud-agent/node_settings.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "proto/topic.h"

enum { TEXT_MAX = 256 * 1024 };

struct node_settings {
	cJSON *nodes;
};

static int check_node(const cJSON *node, error *err)
{
	const cJSON *member;

	if (!name_valid_node(node->string))
		return error_set(err, ERROR_INVALID, "nodes: \"%.100s\" is not a node's name", node->string);
	if (!cJSON_IsObject(node))
		return error_set(err, ERROR_INVALID, "nodes.%.100s: a map is needed, for example {lcServer: http://localhost:9100}", node->string);
	cJSON_ArrayForEach(member, node) {
		if (strcmp(member->string, "lcServer") != 0)
			return error_set(err, ERROR_INVALID, "nodes.%.100s.%.100s: unknown; there is lcServer", node->string, member->string);
		if (!cJSON_IsString(member) || strncmp(member->valuestring, "http", 4) != 0)
			return error_set(err, ERROR_INVALID, "nodes.%.100s.lcServer: a url is needed, http://host:port", node->string);
	}
	return 0;
}

int node_settings_new(const char *text, node_settings **out, error *err)
{
	node_settings *n = mem_alloc(sizeof *n);
	const cJSON *node;
	int code = text ? json_parse(text, strlen(text), TEXT_MAX, &n->nodes, err) : 0;

	if (code == 0 && n->nodes)
		cJSON_ArrayForEach(node, n->nodes)
			if (code == 0)
				code = check_node(node, err);
	if (code != 0) {
		node_settings_free(n);
		return code;
	}
	*out = n;
	return 0;
}

void node_settings_free(node_settings *n)
{
	if (!n)
		return;
	cJSON_Delete(n->nodes);
	free(n);
}

const char *node_settings_lc_server(const node_settings *n, const char *node)
{
	return cJSON_GetStringValue(json_member(json_member(n->nodes, node), "lcServer"));
}
