/* Telling a program what is directly below a prefix. */
#ifndef TRANSFER_LIST_H
#define TRANSFER_LIST_H

#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

/* One line on standard output for each object and folder directly below the key of `of`, which is empty or ends in '/', in the order of the bytes of
 * their names. Their number is *entries. CANCELLED if nobody reads any more. */
int list_folder(client *c, const location *of, int64_t *entries, error *err);

#endif
