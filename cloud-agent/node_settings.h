/* What the configuration says about single nodes (option `nodes`). Loop thread. */
#ifndef CLOUD_NODE_SETTINGS_H
#define CLOUD_NODE_SETTINGS_H

#include "common/config.h"

typedef struct node_settings node_settings;

/* What a broken rule says of a url that workers report to; takes the text that was given. */
#define NODE_URL_RULE "\"%.100s\" is not a url such as http://localhost:9100"

/* `text`: the option as config.h gives it, JSON {"node":{"lcServer":"url"}}; NULL: no node has any. */
void node_settings_check(const char *text, config_rules *rules);
/* Of a text that has been checked. */
node_settings *node_settings_new(const char *text);
void node_settings_free(node_settings *n);
/* NULL: as for all nodes. Valid until node_settings_free. */
const char *node_settings_lc_server(const node_settings *n, const char *node);

#endif
