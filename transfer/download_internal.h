/* What download.c and append.c share. */
#ifndef TRANSFER_DOWNLOAD_INTERNAL_H
#define TRANSFER_DOWNLOAD_INTERNAL_H

#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

/* Is it what was asked for, and will its end be seen? */
int download__check_head(const location *of, const reply *r, error *err);
/* How long it is, where an answer says only that there is nothing behind what was asked for. -1: that cannot be found out. */
int64_t download__size_now(client *c, const location *of, const reply *r);

#endif
