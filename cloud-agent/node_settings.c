/* Settings of single nodes (`nodes:` in the configuration): see node_settings.h for the contract.
 *
 * They arrive as JSON text and stay a cJSON tree; there are few of them, and they are looked up when a pod is built. All is checked once, at
 * the start, with the path of what is wrong.
 */
#include "cloud-agent/node_settings.h"

#include <stdlib.h>
#include <string.h>

#include "common/http/endpoint.h"
#include "common/json.h"
#include "common/mem.h"
#include "proto/topic.h"

enum { TEXT_MAX = 4 * 1024 * 1024 };

struct node_settings {
	cJSON *nodes;
};

static void check_node(const cJSON *node, config_rules *rules)
{
	const cJSON *member;

	if (!name_valid_node(node->string))
		config_broken(rules, "nodes", NULL, "\"%.100s\" is not a node's name", node->string);
	if (!cJSON_IsObject(node)) {
		config_broken(rules, "nodes", NULL, "%.100s: a map is needed, for example {lcServer: http://localhost:9100}", node->string);
		return;
	}
	cJSON_ArrayForEach(member, node) {
		const char *url = cJSON_GetStringValue(member);

		if (strcmp(member->string, "lcServer") != 0)
			config_broken(rules, "nodes", NULL, "%.100s.%.100s: there is no such setting; there is lcServer", node->string, member->string);
		else if (!endpoint_url_valid(url))
			config_broken(rules, "nodes", NULL, "%.100s.lcServer: " NODE_URL_RULE, node->string, url ? url : "");
	}
}

void node_settings_check(const char *text, config_rules *rules)
{
	node_settings *n = node_settings_new(text);
	const cJSON *node;

	cJSON_ArrayForEach(node, n->nodes)
		check_node(node, rules);
	node_settings_free(n);
}

node_settings *node_settings_new(const char *text)
{
	node_settings *n = mem_alloc(sizeof *n);

	/* The option's type is a map, so it is JSON. */
	if (text)
		json_parse(text, strlen(text), TEXT_MAX, &n->nodes, NULL);
	return n;
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
