/* Names that come from outside and become paths below a folder: keys of a store, lines of an index, entries of an archive. Pure. */
#ifndef TRANSFER_CORE_RELATIVE_H
#define TRANSFER_CORE_RELATIVE_H

#include <stdbool.h>

/* NULL if it may be joined to a folder, else why not, as the end of a sentence. Refused: nothing, an absolute path, a part "." or "..", a part of
 * more than 255 bytes, control characters, a scheme, more than 64 parts. Several '/' in a row are one, as they are for the system. */
const char *relative_wrong(const char *path);

/* May a symbolic link at `path` (which is not wrong) lead to `target`? Only where it stays below the folder whatever other such links are there:
 * relative, with ".." only at its beginning, and not more of them than the link is deep. */
bool relative_link_allowed(const char *path, const char *target);

enum archive_kind { ARCHIVE_NONE, ARCHIVE_TAR, ARCHIVE_TAR_GZ, ARCHIVE_ZIP };
/* By the end of the path of a url: .tar, .tar.gz, .zip. A query does not count in an http url. */
enum archive_kind archive_kind_of(const char *url, bool http);

#endif
