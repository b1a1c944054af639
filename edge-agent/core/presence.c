/* Who this agent is and whether it is there: the birth, the will, the farewell. All carry the same session, so that an old will that comes
 * late cannot be taken for the end of a newer life.
 *
 * A birth also tells the highest epoch that this node has seen. Normally the leader finds it on its own retained topics; when the broker lost
 * them, the Lease is lost and the clock is behind, only the devices still know it, and they would ignore a lower one for ever (rule 16). */
#include <string.h>

#include "edge-agent/core/agent_internal.h"

char *presence__topic(const edge_agent *a)
{
	topic t = {.kind = TOPIC_PRESENCE};

	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

static void raise_to(int64_t *epoch, stamp s)
{
	if (s.epoch > *epoch)
		*epoch = s.epoch;
}

static int64_t highest_epoch(const edge_agent *a)
{
	int64_t epoch = a->meta_next.inventory.epoch;

	for (size_t i = 0; i < a->n_jobs; i++)
		raise_to(&epoch, messages__job_stamp(a->jobs[i]));
	for (size_t i = 0; i < a->n_datasets; i++)
		raise_to(&epoch, messages__dataset_stamp(a->datasets[i]));
	return epoch;
}

char *presence__payload(const edge_agent *a, bool online, const char *ts)
{
	presence p = {
		.ts = ts,
		.node = a->node,
		.online = online,
		.version = a->version,
		.session = a->session,
		.epoch = online ? highest_epoch(a) : 0,
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
