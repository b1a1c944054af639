/* The init container of a worker's pod: sources into the folders where the worker's variables say they are. */
#ifndef TRANSFER_FETCH_H
#define TRANSFER_FETCH_H

#include <stdbool.h>

#include "common/error.h"
#include "transfer/client.h"

/* One pair. `source` may begin with '@'. Only one thread may do this at a time. */
int fetch_pair(client *c, const char *source, const char *destination, bool fresh, error *err);
/* Objects below an s3 url (which is taken for a prefix, with a '/' at its end) into a folder. NOT_FOUND if there are none. */
int fetch_folder(client *c, const location *of, const char *folder, bool fresh, error *err);
/* A folder with those above it. */
int fetch_make_folder(const char *path, error *err);

#endif
