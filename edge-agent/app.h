/* The edge agent put together: the core, and around it store, files, worker API and link, on one loop. Loop thread only. */
#ifndef EDGE_APP_H
#define EDGE_APP_H

#include <uv.h>

#include "common/error.h"
#include "edge-agent/options.h"

typedef struct app app;

/* Opens everything that must be there (store, listening socket) and starts the rest. `options` must outlive it. */
int app_start(uv_loop_t *loop, const edge_options *options, app **out, error *err);
/* Whoever wants it to stop is heard by now: say that it is there. After a start that failed: no effect. */
void app_ready(app *a);
/* Begin to stop: within 5 s nothing of it is left on the loop. Again: no effect. */
void app_stop(app *a);
/* After the loop has run out. NULL is fine. */
void app_free(app *a);

#endif
