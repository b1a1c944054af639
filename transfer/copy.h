/* Copying an object within a store: its bytes do not come here. One thread a client. */
#ifndef TRANSFER_COPY_H
#define TRANSFER_COPY_H

#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

#define COPY_MAX (INT64_C(5) * 1024 * 1024 * 1024) /* bytes that a store copies in one piece */

/* An object of `size` bytes with all that is stored with it. `to` is what it was, or all of the copy. LIMIT: it is too large. `etag`: the copy's; "" if
 * the store does not tell. */
int copy_object(client *c, const location *from, const location *to, int64_t size, char etag[256], error *err);

#endif
