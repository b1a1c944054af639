/* What a url says by itself, to both agents alike. Pure; any thread. */
#ifndef PROTO_URL_H
#define PROTO_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* True if the url names something that is not a path of a machine. A path is one whatever is in it: /data/a://b. NULL is none. */
bool url_is_remote(const char *url);
/* What stands behind the "://" of a remote url; of a path, all. */
const char *url_after_scheme(const char *url);

/* Its bytes up to the query, which may hold a signature: to be logged, and to find its folder. Of an s3 url or a path, in which '?' means nothing: all. */
size_t url_length(const char *url);

/* The name that a file from this url or path has in a folder of this machine: its last part, without slashes at the end. To be freed. INVALID: no file
 * can have that name; *name is NULL then. */
int url_file_name(const char *url, char **name, error *err);

#endif
