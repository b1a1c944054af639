/* One node's backlog does not delay the others: of the writes that belong to one node, only so many are under way at a time, so that those of
 * another one find at most as many before them, however many wait. As many as keep an API server busy: a node that is alone loses nothing.
 *
 * A job belongs to the node of its dataset. What belongs to no node shares a lane. There is an entry only for a node that has a write under way.
 */
#include <stdlib.h>

#include "cloud-agent/core/core.h"

enum { LANE_MAX = 16 };

struct lane {
	int under_way;
};

bool lane_open(const controller *c, const char *node_name)
{
	const struct lane *l = table_get(&c->lanes, node_name);
	return l == NULL || l->under_way < LANE_MAX;
}

void lane_enter(controller *c, const char *node_name)
{
	struct lane *l = table_get(&c->lanes, node_name);
	if (l == NULL) {
		l = mem_alloc(sizeof *l);
		table_put(&c->lanes, node_name, l);
	}
	l->under_way++;
}

void lane_leave(controller *c, const char *node_name)
{
	struct lane *l = table_get(&c->lanes, node_name);
	if (--l->under_way == 0) {
		table_remove(&c->lanes, node_name);
		free(l);
	}
}
