/* Who this agent is and whether it is there: the birth, the will, the farewell. All carry the same session, so that an old will that comes
 * late cannot be taken for the end of a newer life. */
#include <string.h>

#include "edge-agent/core/agent_internal.h"

char *presence__topic(const edge_agent *a)
{
	topic t = {.kind = TOPIC_PRESENCE};

	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

char *presence__payload(const edge_agent *a, bool online, const char *ts)
{
	presence p = {
		.ts = ts,
		.node = a->node,
		.online = online,
		.version = a->version,
		.session = a->session,
		.capabilities = (const char **)a->capabilities,
		.n_capabilities = a->config.n_capabilities,
	};

	return presence_encode(&p);
}

/* A will has no time: it is written long before it is sent. */
void edge_agent_will(const edge_agent *a, char **topic_out, char **payload)
{
	*topic_out = presence__topic(a);
	*payload = presence__payload(a, false, NULL);
}

void edge_agent_farewell(const edge_agent *a, char **topic_out, char **payload)
{
	edge_agent_will(a, topic_out, payload);
}
