/* What the configuration says about single nodes (option `nodes`). Loop thread. */
#ifndef CLOUD_NODE_SETTINGS_H
#define CLOUD_NODE_SETTINGS_H

#include "common/error.h"

typedef struct node_settings node_settings;

/* `text`: the option as config.h gives it, JSON {"node":{"lcServer":"url"}}; NULL: no node has any. INVALID for unknown members. */
int node_settings_new(const char *text, node_settings **out, error *err);
void node_settings_free(node_settings *n);
/* NULL: as for all nodes. Valid until node_settings_free. */
const char *node_settings_lc_server(const node_settings *n, const char *node);

#endif
