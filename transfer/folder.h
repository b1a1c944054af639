/* Sending a folder. */
#ifndef TRANSFER_FOLDER_H
#define TRANSFER_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "transfer/client.h"

/* Every file below `folder` becomes an object below `to` (which is taken for a prefix), one after the other in the order of the bytes of their paths;
 * the file `last` (a path below the folder, or NULL) after all others, and with `only_new` it must not be there yet (EXISTS). Symbolic links and whatever
 * else is neither file nor folder are refused before anything is sent; parts of downloads (".ilmare-part-…") are left out. Folders
 * without files leave nothing. */
typedef struct folder_sending {
	const char *folder;
	const location *to;
	const char *last;
	bool only_new;
	bool only;     /* in the end, whatever else is below `to` is removed; not if that is the whole bucket (INVALID) */
	int64_t files; /* how many were sent */
} folder_sending;
int folder_send(client *c, folder_sending *s, error *err);

#endif
