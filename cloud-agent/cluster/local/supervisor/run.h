/* A supervisor's life after its start: runs the worker, restarts it by its policy, ends it on request. */
#ifndef SUPERVISOR_RUN_H
#define SUPERVISOR_RUN_H

#include "cloud-agent/cluster/local/supervisor/job.h"

/* Returns when the worker is over and that is recorded. The working folder is the worker's, the files of contract.h are open. */
void run_job(const job *j);

#endif
