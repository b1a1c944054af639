/* The cloud agent put together: the core, and around it a cluster and the link, on one loop. Loop thread only. */
#ifndef CLOUD_APP_H
#define CLOUD_APP_H

#include <uv.h>

#include "cloud-agent/options.h"
#include "common/error.h"

typedef struct app app;

/* `options` must outlive it. On error *out is to be freed all the same, after the loop has run out. */
int app_start(uv_loop_t *loop, const cloud_options *options, app **out, error *err);
/* Whoever wants it to stop is heard by now: say that it is there. After a start that failed: no effect. */
void app_ready(app *a);
/* Begin to stop: within 5 s nothing of it is left on the loop. Again: no effect. */
void app_stop(app *a);
/* After the loop has run out. NULL is fine. */
void app_free(app *a);

#endif
