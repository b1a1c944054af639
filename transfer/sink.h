/* A file that is being fetched. What is there under its name is what was there before, or all of the new one.
 *
 * A small file, or one whose source cannot be asked for its rest, is written without a name: killed, it is gone. A larger one is written beside
 * its target as ".ilmare-part-X", with ".ilmare-part-X.json" saying of which source and version it is a part (X is made of the target's name);
 * killed, both stay, and whoever fetches the same source again goes on behind what is there. Within one boot of the machine that is all that was
 * written; after another boot, what was synced, which happens every 64 MiB. A part that another process works on is not touched.
 *
 * One thread.
 */
#ifndef TRANSFER_SINK_H
#define TRANSFER_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum { SINK_PART_FROM = 8 * 1024 * 1024 }; /* bytes of a file that gets a name for its part */

typedef struct sink {
	char *path, *folder, *part, *state, *next, *source; /* next: what is about to be `state` */
	int fd;                                             /* -1: nothing begun */
	bool kept;                                          /* its state is written down: another process can go on */
	bool named;                                         /* fd is that of `part` */
	int64_t have;                                       /* bytes written */
	int64_t synced;
	int64_t size;   /* of the whole, -1: not known */
	char etag[256]; /* of the version that is being written; "" if it is not known or not strong */
} sink;

/* `source`: the url, which is not written down but by its digest. With `fresh` a part that is there is removed first. Finds such a part
 * otherwise: then have, size and etag are set. EXISTS: another process works on it. */
int sink_open(sink *s, const char *path, const char *source, bool fresh, error *err);
/* From the beginning: the version and the size (-1) are known now. */
int sink_begin(sink *s, const char *etag, int64_t size, error *err);
int sink_write(sink *s, const char *data, size_t len, error *err);
/* Nothing is kept of it; sink_begin comes next. */
void sink_reset(sink *s);
/* It is whole: put it in its place. `durable`: synced, with its folder. */
int sink_commit(sink *s, bool durable, error *err);
/* A part with a name stays, if there is anything in it. */
void sink_close(sink *s);

/* For errors of writing: NO_SPACE is found out here also where a quota or a limit of file sizes is meant. */
int sink_errno(error *err, int errnum, const char *path);

#endif
