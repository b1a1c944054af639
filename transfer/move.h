/* Copying and moving all objects below a prefix to another one, within a store. Both keys end in '/', and neither is below the other (checked here:
 * INVALID). What else is below the target stays. One that reads the target, and waits for `last`, never sees a mixture: it is removed there first, and
 * copied after all others. One thread; it starts others.
 */
#ifndef TRANSFER_MOVE_H
#define TRANSFER_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

typedef struct move {
	const location *from, *to;
	const char *last;    /* the object that says that the rest is there, without the prefix; or NULL */
	bool etag_is_no_md5; /* of a store whose ETags only look like digests */

	/* What came of it. */
	int64_t copied, removed; /* objects */
} move;

/* NOT_FOUND: there is nothing, or no `last`. CONFLICT: something was removed there meanwhile. */
int move_copy(client *c, move *m, error *err);
/* And then removes the source, `last` before all others, where every object was seen to be at the target. Killed at any moment, the source is whole, or
 * the target is; doing it again does the rest. Nothing left to do is no error. NOT_FOUND: as above, or the source has no `last` and is not what is
 * left of such a move. CONFLICT: something was changed, or has come, below the source meanwhile; nothing that is not at the target is removed. */
int move_folder(client *c, move *m, error *err);

#endif
