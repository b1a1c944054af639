/* The body of a watch: JSON events, one a line, in pieces of any size. Pure; one owner.
 */
#ifndef CLUSTER_KUBE_WATCH_LINES_H
#define CLUSTER_KUBE_WATCH_LINES_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/error.h"

enum watch_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

typedef struct watch_lines {
	buf rest; /* the beginning of a line */
	size_t max;
} watch_lines;

/* An object of an event; taken. */
typedef void (*watch_event)(void *ctx, enum watch_type type, cJSON *object);

void watch_lines_init(watch_lines *w, size_t max); /* bytes of one event */
void watch_lines_fini(watch_lines *w);
/* Give each event that is complete, in order. An event that is no event, or too long, ends the stream: INVALID or LIMIT, and what came before it
 * has been given. */
int watch_lines_add(watch_lines *w, const char *data, size_t len, watch_event event, void *ctx, error *err);

#endif
