/* The embedded cluster: objects from a folder of YAML manifests, their state in SQLite, pods as supervised processes of this machine.
 *
 * It needs nothing but a folder. All that must survive is in the state folder:
 *
 *   {state}/lock           held by the agent, so that there is one
 *   {state}/cluster.db     objects, pods, epoch (objects.h)
 *   {state}/pods/{uid}/    one worker (supervisor/contract.h)
 *   {state}/logs/          what workers print: {namespace}_{pod}.log, and .log.1 before it
 *
 * Workers outlive the agent. An agent that starts finds those that run, starts those whose start it had only decided on, and says "Lost" of
 * those that went with the machine; an inference worker (restart policy Always) is then started again. Loop thread.
 */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "cloud-agent/cluster/cluster.h"

/* Numbers that are 0 stand for their defaults. */
typedef struct cluster_local_config {
	const char *manifests;  /* folder; workers run in it unless their pod says otherwise */
	const char *state;      /* folder; made if it is missing */
	const char *supervisor; /* program; NULL: beside this program, or {prefix}/libexec/ilmare/ilmare-worker */
	const char *transfer;   /* what fetches remote urls; NULL: beside this program, else ilmare-transfer in a worker's PATH */
	int64_t worker_log_max; /* bytes of a worker's log, 10 MiB; one older part of that size is kept */
	int64_t logs_max;       /* log files of workers that are gone: 100 */
	bool stop_workers;      /* end the workers when the cluster is stopped */
	int64_t settle_ms;      /* a change of the folder is looked at this long after it: 100 */
	int64_t remove_ms;      /* what is no longer there must be missing this long to be removed: 1 s */
	int64_t rescan_ms;      /* and the folder is looked at this often in any case: 60 s */
	int64_t restart_min_ms, restart_max_ms; /* back-off before a worker is run again: 10 s doubling to 5 min */
	int64_t restart_reset_ms;               /* a run that lasted this long begins it anew: 10 min */
	int64_t retry_ms;                       /* a folder or store that failed is tried again after this, doubling to 60 s: 1 s */
} cluster_local_config;

/* Copies the configuration; nothing happens before ops->start. NULL, with *err, if a folder is not named or the supervisor is not found.
 * start fails with EXISTS if another agent has the state folder. After a start that failed, and after `stopped`, ops->free; in between there
 * has to be ops->stop. */
cluster *cluster_local_new(uv_loop_t *loop, const cluster_local_config *config, const cluster_events *events, cluster_done done,
	void *done_ctx, error *err);

#endif
