/* Where the remote urls that a worker reads land without containers: what is /downloads/… in a cluster's pod is a folder of this machine. Pure. */
#ifndef LOCAL_DOWNLOADS_H
#define LOCAL_DOWNLOADS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* What the arguments of this pod's fetchers (pairs: source, destination folder) fetch: path in a container -> path on this machine. To be freed. */
cJSON *downloads_places(const cJSON *pod_spec, const char *folder);
/* The destination of a pair, on this machine. NULL: it would be elsewhere. To be freed. */
char *downloads_destination(const char *destination, const char *folder);
/* A variable's value: one of those paths, or a list of paths joined by ';' with such among them, with the ones of this machine in their place.
 * NULL: there is none in it. To be freed. */
char *downloads_value(const char *value, const cJSON *places);

#endif
