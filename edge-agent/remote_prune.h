/* What stands on this device for remote things that nothing names any more goes. Loop thread. */
#ifndef EDGE_REMOTE_PRUNE_H
#define EDGE_REMOTE_PRUNE_H

#include "edge-agent/core/agent.h"

/* Copies of datasets are wanted if is_copy says so of their folder; the rest by the output folders of the core's jobs. */
void remote_prune(const char *remote_dir, const edge_agent *agent, bool (*is_copy)(void *ctx, const char *folder), void *ctx);

#endif
