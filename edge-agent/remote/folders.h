/* Folders of this device that stand for something remote: a dataset's copy, what goes to an output folder at an object store, what a deployment
 * fetched. Their names are made of the url, so they are found again after a restart. All of it can be fetched or made again.
 * Any thread that may block.
 */
#ifndef EDGE_REMOTE_FOLDERS_H
#define EDGE_REMOTE_FOLDERS_H

#include <stdbool.h>

/* `{dir}/{name}`: another one for another url, or another `kind` of it. To be freed. */
char *remote_folder(const char *dir, const char *url, const char *kind);

/* Remove all of these folders in `dir` but those that is_wanted says yes to (it gets the path). What cannot be removed stays. */
void remote_folders_prune(const char *dir, bool (*is_wanted)(void *ctx, const char *path), void *ctx);

#endif
