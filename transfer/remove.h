/* Removing objects of a store. One that is not there is removed. One thread a client.
 *
 * Nothing but what is named, or is below a prefix that ends in '/', is ever touched: a key of a list that does not begin with the prefix ends it, and
 * so does one with a part "." or "..", which something on the way could take for another object.
 */
#ifndef TRANSFER_REMOVE_H
#define TRANSFER_REMOVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"
#include "transfer/store.h"

int remove_object(client *c, const location *of, error *err);
/* Objects of the bucket of `of`, which messages name; at most S3_PAGE_ITEMS. Some may be removed when it fails. */
int remove_objects(client *c, const location *of, const s3_object *objects, size_t n, error *err);
/* All objects whose keys begin with that of `of`, which ends in '/', page by page; *removed: how many. `next` gets the next page of a list, as
 * listing_page does, and may refuse what is in it. */
int remove_pages(client *c, const location *of, int (*next)(void *ctx, listing *l, error *err), void *ctx, int64_t *removed, error *err);
/* The same, but the object with `first` (or NULL) behind the key of `of` is removed before any other; it is not counted. */
int remove_folder(client *c, const location *of, const char *first, int64_t *removed, error *err);

/* UNSUPPORTED for a key that only an object with such parts can have. */
int remove_check_key(const char *key, error *err);

#endif
