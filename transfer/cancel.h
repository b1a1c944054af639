/* SIGTERM, SIGINT, a reader or a parent that has gone: one flag and one descriptor for all threads that wait. */
#ifndef TRANSFER_CANCEL_H
#define TRANSFER_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before any thread. SIGPIPE is ignored from then on. `until_end`: a descriptor that a thread reads from now on; its end, or an error, counts
 * as SIGTERM, and so does one that is not open; -1: none. Exits if the system has no descriptors or threads left. */
void cancel_install(int until_end);
/* As if SIGTERM had come. Any thread; also from a signal handler. */
void cancel_now(void);
bool cancelled(void);
/* Readable once cancelled, and for ever. */
int cancel_fd(void);
/* Waits; false as soon as cancelled. */
bool cancel_sleep(int64_t ms);

#endif
