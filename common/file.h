/* Files: read whole (bounded), written whole and durably, paths that stay where they belong.
 *
 * A durable write is: temporary file beside the target, write, fsync, rename, fsync the folder. Any thread that may block.
 */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"

/* Append a file's bytes to `out`; LIMIT if it holds more than max. */
int file_read(const char *path, size_t max, buf *out, error *err);
/* First line of a small file: a password, say. No other copy of it is left in memory. To be freed with file_secret_free. */
int file_read_secret(const char *path, char **out, error *err);
void file_secret_free(char *secret); /* NULL is fine */
int file_write(const char *path, const void *data, size_t len, mode_t mode, error *err);
/* The same by way of `temp`, a name in the same folder that is the caller's alone: what a crash left there is replaced. */
int file_write_by(const char *temp, const char *path, const void *data, size_t len, mode_t mode, error *err);
/* mkdir -p; existing folders are fine. New ones get `mode`. Durable. */
int file_make_dirs(const char *path, mode_t mode, error *err);
int file_sync_dir(const char *path, error *err);
/* rm -r, not following links, never failing on what is not there. Bounded depth (64). */
int file_remove_tree(const char *path, error *err);
/* Rename that never replaces: EXISTS if `to` is there (renameat2 RENAME_NOREPLACE; with a link+unlink or checked fallback where the file
 * system has none). */
int file_rename_new(const char *from, const char *to, error *err);
/* The folder of a path as this project defines it (compatibility.md): the part before the last '/'; of "a/b/" it is "a/b"; of "x" it is "."
 * To be freed. */
char *file_parent(const char *path);

#endif
