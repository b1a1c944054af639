/* A path that is to be replaced as a whole: where it really is, temporary files beside it, the exchange. Internal to storage.
 *
 * If the path is a symbolic link, what it leads to is replaced, and the link stays. Temporary files are `.{name}.ilmare-tmp-XXXXXX` in the
 * same folder. On a file system that cannot exchange two names, an old folder is `.{name}.ilmare-old` for a moment; if a run ends in that
 * moment, the next place_open puts it back. Any thread; one at a time for one path.
 */
#ifndef EDGE_STORAGE_PLACE_H
#define EDGE_STORAGE_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "common/error.h"

typedef struct place {
	char *path;   /* without links; may not exist */
	char *folder; /* that holds it */
	char *name;
	bool wants_folder; /* the path was given with a '/' at its end */
	bool exists;
	struct stat st; /* if it exists */
} place;

/* Makes the folder if it is missing, removes temporary files of killed runs. */
int place_open(place *p, const char *path, error *err);
void place_close(place *p);
/* Template for mkstemp and mkdtemp; to be freed. */
char *place_temp(const place *p);
/* Put temp, complete and synced, into the place; what was there is gone, or, after an error, still there. Removes temp. Durable. */
int place_put(const place *p, const char *temp, error *err);
/* Give an open file or folder the mode, and if possible the owner, of `like`. */
int place_dress(int fd, const struct stat *like, const char *path, error *err);
/* A small file with this text. */
int place_put_text(const char *path, const char *text, error *err);

#endif
