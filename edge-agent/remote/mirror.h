/* The copy of a remote dataset on this device: one file, which a scanner reads like a local one.
 *
 * A look asks the server whether the object is another than at the last look (If-None-Match; without an ETag, by Last-Modified and length). One
 * that only grew is read from where the copy ends, after the 4 KiB before that were compared; anything else is fetched anew and renamed over the
 * copy, so that a scanner sees another inode. A byte that changed long before the end of an object that also grew is not seen, as with local files.
 * What is known of the object is kept beside the copy, in `{path}.json`: losing it costs one question.
 *
 * The copy takes as much room as the dataset, in the agent's own folder. Blocking; any thread that may; one call at a time for one mirror.
 */
#ifndef EDGE_REMOTE_MIRROR_H
#define EDGE_REMOTE_MIRROR_H

#include "common/error.h"
#include "edge-agent/remote/transfer.h"

/* Bring the copy up to date. NOT_FOUND: there is no such object now; the copy stays what it was. INVALID: the url names a folder. The other errors of
 * transfer_run; after each the copy is a beginning of some version of the object, as before or longer. */
int mirror_update(const transfer *t, const char *url, const char *path, error *err);

#endif
