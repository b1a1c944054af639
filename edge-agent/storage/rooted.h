/* From the url of a document to the path that is opened on this machine.
 *
 * What comes here is an absolute path on the node; urls of stores and servers are the business of edge-agent/remote. Where the node's file system is mounted below a folder (rootDir), its
 * symbolic links mean what they mean there: an absolute one begins at that folder again, and `..` does not lead out of it. Left to the
 * kernel, they would lead into the file system of the container that the agent runs in.
 */
#ifndef EDGE_STORAGE_ROOTED_H
#define EDGE_STORAGE_ROOTED_H

#include "common/error.h"

/* *out, to be freed: the path, below `root` ("" or NULL: the url as it is). With a root no link is left in it, so what is missing in the end
 * can be made there; a '/' at the end stays. UNSUPPORTED: a url with a scheme. INVALID: a relative one; too many links. */
int rooted_path(const char *root, const char *url, char **out, error *err);

#endif
