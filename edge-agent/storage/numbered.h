/* Folders whose entries are numbers: the rounds below `data/train`, the versions below `deployed`. Any thread. */
#ifndef EDGE_STORAGE_NUMBERED_H
#define EDGE_STORAGE_NUMBERED_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The number >= 0 that the text is, written as we write it (no sign, no leading zero, at most 16 digits); -1 if it is none. */
int64_t numbered_parse(const char *text, size_t len);
/* All entries of the folder whose names are numbers, highest first; *n is how many. To be freed; NULL if there are none (or no folder). After
 * an error, too. */
int numbered_list(const char *folder, int64_t **all, size_t *n, error *err);
/* Remove what killed runs left in it: entries named `.{number}.tmp` and `.{number}.old`. What cannot be removed stays. */
void numbered_clean(const char *folder);
/* Remove `{folder}/{number}`, which is renamed to `.{number}.old` first: it is never half there under its number. One that is not there is none to
 * remove. */
int numbered_remove(const char *folder, int64_t number, error *err);
/* Put `{folder}/.{number}.tmp`, which is complete and synced, in the place of `{folder}/{number}`; an old one goes. Durable. */
int numbered_replace(const char *folder, int64_t number, error *err);

#endif
