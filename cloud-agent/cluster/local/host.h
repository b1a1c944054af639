/* What the local backend needs of this machine at its start: whole paths, the supervisor's program, the lock on the state folder. */
#ifndef LOCAL_HOST_H
#define LOCAL_HOST_H

#include "cloud-agent/cluster/local/local.h"
#include "common/error.h"

/* A copy with defaults filled in and paths made absolute. INVALID if a folder is not named, NOT_FOUND if there is no supervisor. */
int host_config_init(const cluster_local_config *from, cluster_local_config *out, error *err);
void host_config_fini(cluster_local_config *c); /* also of one whose init failed */

/* Lock `{folder}/lock` for as long as *fd is open, and write our pid there. EXISTS, naming the other's pid, if it is taken. */
int host_lock(const char *folder, int *fd, error *err);

#endif
