/* The file in which credentials outlive a restart, if they are to: `credentials.json` in the state folder, mode 0600, replaced as a whole and
 * durably. Loop thread; it is small.
 */
#ifndef EDGE_CREDENTIAL_FILE_H
#define EDGE_CREDENTIAL_FILE_H

#include <stddef.h>

#include "common/error.h"

/* What is there, to be freed with file_secret_free; *text NULL: nothing. One that others may read is not believed, and removed. */
int credential_file_read(const char *state_dir, char **text, error *err);
/* text NULL: nothing is left there. */
int credential_file_write(const char *state_dir, const char *text, error *err);

#endif
