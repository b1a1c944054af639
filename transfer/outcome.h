/* What the program says at its end: one table for the exit status, the word in the last line of output, --help and the man page. */
#ifndef TRANSFER_OUTCOME_H
#define TRANSFER_OUTCOME_H

/* Code of this program or of common/error.h, exit status, word, meaning. */
#define OUTCOME_MAP(X)                                                                                                                     \
	X(ERROR_OK, 0, "ok", "Done.")                                                                                                          \
	X(ERROR_INTERNAL, 1, "internal", "A fault of this program.")                                                                           \
	X(ERROR_INVALID, 2, "usage", "An argument, a variable of the environment or an index is wrong. Nothing gets better by trying again.")  \
	X(ERROR_NOT_FOUND, 3, "not-found", "There is no such object, bucket, page or file.")                                                   \
	X(ERROR_DENIED, 4, "denied", "The store refuses the key, or the system the file.")                                                     \
	X(ERROR_NO_SPACE, 5, "no-space", "The disk is full, its quota is used up, or it is read-only.")                                        \
	X(ERROR_OFFLINE, 6, "network", "The server could not be reached, kept failing or stalled, for as many attempts as are allowed.")       \
	X(ERROR_CORRUPT, 7, "damaged", "What arrived is not what it should be: length, digest, archive, or no answer of a store.")             \
	X(ERROR_CLOCK, 8, "clock", "The store says that the clock is wrong, also after correcting it by its own date.")                        \
	X(ERROR_CANCELLED, 9, "cancelled", "Told to stop by SIGTERM or SIGINT, or the reader of the output is gone.")                          \
	X(ERROR_CHANGED, 10, "changed", "The object or the file is not, or is no longer, the one that was asked for.")                         \
	X(ERROR_IO, 11, "io", "A local file or folder cannot be read or written.")                                                             \
	X(ERROR_UNSUPPORTED, 12, "refused",                                                                                                    \
		"The server answers with something that this program does not follow: another status, a redirect.")                                \
	X(ERROR_LIMIT, 13, "limit", "A bound was reached: of an archive, a list or an answer.")                                                \
	X(ERROR_EXISTS, 14, "exists", "It is there already (--new), or another process is fetching the same file.")                            \
	X(ERROR_CONFLICT, 15, "conflict", "Somebody else changes the same object.")

/* Exit status and word of a code; any other code is a fault of ours. */
int outcome_status(int code);
const char *outcome_word(int code);

#endif
