/* One run of a command, the worker's or that of a fetcher, as a process of its own session, and the end of all that it started. */
#ifndef SUPERVISOR_PROCESS_H
#define SUPERVISOR_PROCESS_H

#include <sys/types.h>

#include "cloud-agent/cluster/local/supervisor/job.h"

/* Start it in this folder, printing into `out_fd`. 0 and *pid; or an errno value, with *step what could not be done. Returns once the command runs. */
int process_start(const command *c, const char *folder, int out_fd, pid_t *pid, const char **step);
typedef struct ending {
	int code, signal; /* signal 0: it exited with code */
} ending;
/* 1 if the worker has ended. It is not awaited yet, so that its number stays its own until process_clean. */
int process_ended(pid_t pid, ending *out);
/* To the worker and all of its process group. */
void process_signal(pid_t pid, int signal);
/* Kill what the worker left behind and await it: its group, and everything that was ever started below it, which is ours by now, since the
 * supervisor is a subreaper. The worker itself is awaited here too. */
void process_clean(pid_t pid);

#endif
