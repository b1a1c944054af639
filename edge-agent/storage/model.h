/* Models on disk: a model is a file or a folder.
 *
 * Digest: of a file, SHA-256 of its bytes. Of a folder, SHA-256 over its entries in tree order (tree.h): for a folder "d", path, NUL; for a
 * file "f", path, NUL, size in decimal, NUL, the SHA-256 of its bytes; for a link "l", path, NUL, target, NUL. Modes, owners and times do
 * not count.
 *
 * A copy replaces its target at once: whoever opens the target finds the old model or the new one, whole. Done as: a temporary one beside the
 * target, synced, read back and compared with the source's digest, renamed over the target (two folders, or a file and a folder: exchanged),
 * the folder synced. What a killed run left beside the target is removed by the next copy to it.
 *
 * Paths are real ones. Blocking; any thread; one copy at a time to one target.
 */
#ifndef EDGE_STORAGE_MODEL_H
#define EDGE_STORAGE_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

typedef struct model_info {
	bool folder;
	int64_t bytes;   /* of all files */
	int64_t entries; /* files, folders and links in a folder; 1 for a file */
	digest sha256;
} model_info;

/* NOT_FOUND: there is nothing. INVALID: neither file nor folder, or a folder with a link that leads out of it. LIMIT: too deep, too many
 * files. `stop`: NULL, or set by another thread to give up (TIMEOUT); also below. */
int model_digest(const char *path, const atomic_bool *stop, model_info *out, error *err);

/* Make `to` a copy of `from`, both a file or a folder. Missing folders above `to` are made.
 * - A target that exists gives its mode, and its owner if this process may, to the copy if it is of the same kind; else the source does.
 * - If `to` is a link, what it leads to is replaced and the link stays. A link `from` is followed.
 * - The same file, or a target that already holds the same, is success without a write.
 * - One inside the other is refused, as is a file for a `to` that ends in '/' (INVALID).
 * `known`: what `from` was a moment ago, so that it is not read for that once more; NULL: look.
 * *out describes what was copied. After an error the target is as it was and nothing is left beside it (CHANGED: the source changed). */
int model_copy(const char *from, const char *to, const atomic_bool *stop, const model_info *known, model_info *out, error *err);

#endif
