/* What the agent and the supervisor of a worker agree on. One folder a worker, `{state}/pods/{uid}/`, mode 0700:
 *
 *   spec.json  what to run (mode 0600: it may hold credentials); written by the agent before each start of a supervisor
 *   lock       flocked for as long as the supervisor lives. The agent takes the lock and hands the open file on, so there is no moment
 *              between "started" and "locked".
 *   wake       FIFO: the supervisor writes a byte whenever `status` changed; the end of file says that it is gone
 *   control    FIFO: the agent writes CONTROL_END to have the worker ended; SIGTERM to the supervisor does the same
 *   pid        the supervisor's, for people
 *   downloads/ what its fetchers fetch (for a pod that reads remote urls)
 *   fetched    an empty file: all of that is there, durably, and is not fetched again
 *   status     JSON, replaced durably: see below. It is written before the worker is started for the first time, so a worker without a
 *              status has never run, and one with it is never started anew (but for restart policy Always).
 *
 * spec.json: {"v":1,"command":[…],"env":{…},"folder":…,"log":…,"restartPolicy":"Always|OnFailure|Never","restarts":0,
 *             "logMax":bytes,"graceMs":…,"backoffMinMs":…,"backoffMaxMs":…,"backoffResetMs":…,"pod":{metadata},
 *             "fetch":[{"name":…,"command":[…],"env":{…}}]}
 *   fetch may be missing: what is run before the worker, one after the other, each until it has ended well; once in all, not before each of
 *   the worker's runs.
 * status:    {"v":1,"state":"running|waiting|ended","restarts":N,"startedAt":…,"stopped":bool,"backoffMs":N,
 *             "last":{"exitCode":N,"signal":N,"reason":…,"message":…,"startedAt":…,"finishedAt":…},"fetch":name}
 *   startedAt with "running" alone; last: the latest end, if there was one; stopped: it was ended on request. With fetch all of
 *   this is about the fetcher of that name; the worker has not run yet.
 */
#ifndef LOCAL_SUPERVISOR_CONTRACT_H
#define LOCAL_SUPERVISOR_CONTRACT_H

#define WORKER_SPEC "spec.json"
#define WORKER_LOCK "lock"
#define WORKER_WAKE "wake"
#define WORKER_CONTROL "control"
#define WORKER_PID "pid"
#define WORKER_STATUS "status"
#define WORKER_DOWNLOADS "downloads"
#define WORKER_FETCHED "fetched"

/* The supervisor's open files when it is started, beside the usual three. Both FIFOs are open for reading and writing. */
enum { WORKER_FD_LOCK = 3, WORKER_FD_WAKE = 4, WORKER_FD_CONTROL = 5, WORKER_FDS = 6 };

enum { CONTROL_END = 'e', WORKER_SPEC_MAX = 4 * 1024 * 1024, WORKER_STATUS_MAX = 64 * 1024, WORKER_MESSAGE_MAX = 1024 };

#define WORKER_RUNNING "running"
#define WORKER_WAITING "waiting"
#define WORKER_ENDED "ended"

#endif
