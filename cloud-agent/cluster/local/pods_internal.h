/* Shared by pods.c, pods_adopt.c, pods_logs.c and pods_say.c alone. */
#ifndef LOCAL_PODS_INTERNAL_H
#define LOCAL_PODS_INTERNAL_H

#include "cloud-agent/cluster/local/pods.h"
#include "cloud-agent/cluster/local/worker.h"

/* A pod whose worker is alive, or of which something is still to be stored. */
typedef struct tracked tracked;
struct tracked {
	pods *owner;
	tracked *next;
	char *ns, *name, *uid, *container;
	worker *worker;     /* NULL: not alive */
	int64_t said_again; /* the start that was announced last: 1 is the first restart, -1 that of a fetcher */
	bool deleting;
	bool dirty;       /* something could not be read or stored; tried again */
	bool unstarted;   /* dirty: its worker could not be started; started again */
	int64_t restarts; /* unstarted: so many are behind it */
};

struct pods {
	pods_host host;
	cJSON *env, *transfer_env; /* of workers; of what fetches for them */
	char *folder, *logs;       /* {state}/pods, {state}/logs */
	tracked *first;
	uv_timer_t retry;
	int64_t retry_ms;
	char *told_jobs[16]; /* whose ignored fields were named lately */
	size_t told_next;
	unsigned stored;  /* counts changed statuses */
	size_t logs_room; /* so many pods can be made before there may be too many logs */
	int workers;      /* not closed yet, given back ones included */
	bool timer_open, stopping, ending;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

char *pods__folder(const pods *p, const char *uid);
/* Start the pod's worker, with so many restarts behind it; later, if the machine does not let it now. Its status says why, if it cannot be. */
void pods__launch(pods *p, const cJSON *pod, int64_t restarts);
/* Watch a worker that is alive. NOT_FOUND if it is not. */
int pods__watch(pods *p, const cJSON *pod, error *err);
/* Store what became of a pod, and say it. */
int pods__set_status(pods *p, const char *ns, const char *name, const char *uid, cJSON *status, error *err);
int pods__finish(pods *p, const char *ns, const char *name, const char *uid, error *err);
tracked *pods__find(pods *p, const char *uid);

/* In the agent's log; `written` is what the supervisor wrote. The worker has ended and will start again, said once for each time. */
void pods__say_again(tracked *t, const cJSON *written);
/* It has ended, and its pod is to go. */
void pods__say_ended(const tracked *t, const cJSON *written);
/* Its pod has another phase. */
void pods__say_phase(const char *name, const cJSON *status);

char *pods__log(const pods *p, const char *ns, const char *name);
/* Remove the oldest logs of pods that are gone, beyond the limit. */
void pods__logs_trim(pods *p);

#endif
