/* Child processes and temporary folders of tests. A child dies with the test, whatever ends it. A failure fails the test. */
#ifndef TESTS_INTEGRATION_CHILD_H
#define TESTS_INTEGRATION_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* argv[0] is looked up in PATH; `log` gets stdout and stderr (NULL: they are the test's). */
pid_t child_start(const char *const *argv, const char *log);
/* The same for a function of the test; its return value is the exit status. */
pid_t child_fork(int (*run)(void *arg), void *arg);
/* Signal it (0: none) and wait for its end; the status of waitpid. */
int child_end(pid_t pid, int signal);

/* A loopback TCP port that no other test of this machine is given as long as this one runs (agents.py does the same). */
uint16_t port_free(void);
/* Wait until somebody there hangs up on who talks nonsense, or the child (0: none) has ended; 0, or -1 if that did not come in time. */
int port_wait(uint16_t port, pid_t child);

/* A new folder below TMPDIR; free() the path. */
char *folder_new(void);
void folder_remove(const char *path); /* with all that is in it */
/* {folder}/{name} with this text; free() the path. */
char *folder_file(const char *folder, const char *name, const char *text);

#endif
