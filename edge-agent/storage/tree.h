/* A folder walked in a fixed order: the entries of each folder sorted by their bytes, a folder before what is in it. Internal to storage.
 *
 * The walk goes from open folder to open folder without following links, so nothing outside the root is ever reached. It is bounded in depth
 * and number. Links are shown only if they stay inside (relative, `..` only at the beginning and not above the root); other links, and
 * what is neither file, folder nor link, end the walk with INVALID. Any thread.
 */
#ifndef EDGE_STORAGE_TREE_H
#define EDGE_STORAGE_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/error.h"

enum { TREE_DEPTH_MAX = 32, TREE_ENTRIES_MAX = 20000 };

typedef struct tree_entry {
	int folder;       /* descriptor of the folder that holds it */
	const char *name; /* there */
	const char *path; /* below the root */
	struct stat st;
	const char *link; /* of a link: where it leads; else NULL */
	bool leaving;     /* a folder is shown again, with this, after what is in it */
} tree_entry;

/* 0 goes on, anything else ends the walk and is what tree_walk returns. */
typedef int (*tree_fn)(void *arg, const tree_entry *entry, error *err);

int tree_walk(const char *root, tree_fn fn, void *arg, error *err);

#endif
