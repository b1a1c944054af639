/* Tells when a file may have changed: libuv's file events (inotify) on its folder, so that a file that does not exist yet, is renamed over
 * or is made again is noticed too. It says "look", never what happened.
 *
 * The first event calls back at once; while events go on, there is one call back per interval, and one after the last event. No timer runs
 * and nothing wakes up while nothing happens. If the path is a symbolic link, the folder of the file that it leads to is watched.
 *
 * A folder that is missing, or was itself replaced, cannot be watched: callers look at the file slowly all the same, and call watch_rearm
 * then. Loop thread only.
 */
#ifndef EDGE_DATASET_WATCH_H
#define EDGE_DATASET_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct watch watch;
typedef void (*watch_fn)(void *arg);

/* Never fails: what cannot be watched yet is not armed. interval_ms > 0. root: see storage/rooted.h. */
watch *watch_new(uv_loop_t *loop, const char *root, const char *path, uint64_t interval_ms, watch_fn fn, void *arg);
/* No call back after this; the memory goes once the loop has closed the handles. NULL is fine. */
void watch_free(watch *w);
/* Watch the folder that the path names now. Cheap if it is watched already. Returns whether it is watched. Something may have been missed if
 * it was not before: look at the file then. */
bool watch_rearm(watch *w);
bool watch_armed(const watch *w);

#endif
