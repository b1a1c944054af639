/* The folder of manifests as it was last read: which files there are, what they hold, and which objects follow from that.
 *
 * A look lists the folder and reads again the files whose time, size or inode changed. What cannot be read or is malformed never counts as
 * removed: a file that is broken keeps the objects that it gave before. What is no file is passed over. An object that two documents describe is not taken from either;
 * both are named. Blocking, short; one owner. Knows nothing of a loop or a database.
 */
#ifndef LOCAL_CATALOG_H
#define LOCAL_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "cloud-agent/cluster/local/manifests.h"
#include "common/error.h"

enum { CATALOG_FILES_MAX = 1024, CATALOG_OBJECTS_MAX = 10000 };

typedef struct catalog catalog;
catalog *catalog_new(const char *folder);
void catalog_free(catalog *c); /* NULL is fine */

/* Look at the folder. *changed: what the files say may be different now. On an error (the folder is missing, or cannot be listed, or holds too
 * much) all is as it was. Problems of a file are logged when they are new. */
int catalog_look(catalog *c, bool *changed, error *err);
/* Files that are there but could not be read, and never were since the start: what they hold is unknown. Their names with the reasons, to be
 * freed, or NULL if there are none. What is no file (a folder, a FIFO) is not among them. */
char *catalog_unread(const catalog *c);
/* True if the last look could not read a file, read before or not: to be looked at again. */
bool catalog_failing(const catalog *c);

/* Is this the name of a file that is read? *.yaml and *.yml, not hidden. */
bool catalog_is_manifest(const char *name);

typedef struct catalog_entry {
	const manifest *manifest;
	const char *source; /* name of its file */
} catalog_entry;
/* What is to exist, ordered by kind, namespace and name; valid until the next look. */
size_t catalog_entries(const catalog *c, const catalog_entry **entries);
/* An object that came from this file, and is not among the entries, stays as it is. */
bool catalog_keeps(const catalog *c, enum object_kind kind, const char *ns, const char *name, const char *source);
/* A Secret's values, or NULL. */
const cJSON *catalog_secret(const catalog *c, const char *ns, const char *name);

#endif
