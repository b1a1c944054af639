/* When to look at the folder of manifests: after a change was notified and has settled, when asked to, and slowly in any case (some file
 * systems notify nothing). The folder may be missing, appear, or be replaced: the watch follows its path. Loop thread.
 */
#ifndef LOCAL_WATCH_H
#define LOCAL_WATCH_H

#include <stdint.h>
#include <uv.h>

typedef struct watch watch;

/* `due` is called when it is time to look, at first soon after this. */
watch *watch_new(uv_loop_t *loop, const char *folder, int64_t settle_ms, int64_t rescan_ms, void (*due)(void *ctx), void *ctx);
/* Look in `ms` at the latest. */
void watch_soon(watch *w, int64_t ms);
/* Watch what is now at the folder's path; call before reading it, so that no change is missed in between. */
void watch_arm(watch *w);
/* `closed` is called from the loop when nothing is left there; the watch is freed by then. */
void watch_free(watch *w, void (*closed)(void *ctx), void *ctx);

#endif
