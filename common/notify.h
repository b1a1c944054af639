/* What an agent tells the service manager that started it: systemd's protocol of datagrams (sd_notify(3)), without its library.
 *
 * A service is ready when its start is complete, says in words what it is doing, and, where the manager watches it, gives a sign of life from
 * a timer of its own loop: a loop that hangs gives none, and the manager ends the process. Where no manager asks (NOTIFY_SOCKET is not
 * set) nothing is sent and there is no timer.
 *
 * Nothing here fails: who does not get through is not heard, and the manager draws its conclusions. Loop thread.
 */
#ifndef COMMON_NOTIFY_H
#define COMMON_NOTIFY_H

#include <uv.h>

typedef struct notify notify;

/* Reads NOTIFY_SOCKET (a path, or an abstract name behind '@'), WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment: they
 * are not for children. So call it before other threads are there. Never NULL. */
notify *notify_new(uv_loop_t *loop);
/* The start is complete. From now on a sign of life at half of the time that the manager allows. Once. */
void notify_ready(notify *n);
/* What it is doing, for people: one line, cut if it has more than about 600 bytes. Sent if it is another text than the last. */
void notify_status(notify *n, const char *text);
/* It has begun to stop. Signs of life go on until the end. */
void notify_stopping(notify *n);
/* Lets go of the loop, which has to run once more. NULL is fine. */
void notify_free(notify *n);

#endif
