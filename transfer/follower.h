/* The digest of a file while it is being written: a thread reads behind the writer what is in memory still, so that the end of a large file need not
 * be waited for, nor all of it be read again from a slow disk. */
#ifndef TRANSFER_FOLLOWER_H
#define TRANSFER_FOLLOWER_H

#include <stdint.h>

#include "common/error.h"

enum { FOLLOWER_HEX = 129 };

typedef struct follower follower;

/* From the first byte of `fd`, which must stay open, and readable, until follower_free. `digest`: "MD5" or "SHA256". */
follower *follower_new(int fd, const char *digest);
/* So many bytes are written, and stay as they are. */
void follower_allow(follower *f, int64_t bytes);
/* The digest of `bytes` bytes, lower-case hex; `path` is for messages. Waits for it. CANCELLED if the program is told to stop meanwhile. */
int follower_end(follower *f, int64_t bytes, char hex[FOLLOWER_HEX], const char *path, error *err);
void follower_free(follower *f); /* NULL is fine; it stops at once */

#endif
