/* A real mosquitto of the test's own, on a free loopback port. A failure fails the test.
 *
 * The configuration is the test's text; {port} and {dir} in it stand for the port and the broker's own folder (where broker_file puts
 * files, and persistence may go). It keeps its port when it is started again.
 */
#ifndef TESTS_INTEGRATION_BROKER_H
#define TESTS_INTEGRATION_BROKER_H

#include <stdint.h>
#include <sys/types.h>

typedef struct broker broker;

#define BROKER_PLAIN "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
#define BROKER_PERSISTENT                                                                                                                  \
	"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {dir}/\nautosave_interval "                   \
	"1\nautosave_on_changes true\n"

broker *broker_new(const char *config); /* not started yet */
void broker_file(broker *b, const char *name, const char *text);
void broker_start(broker *b); /* returns when it accepts connections */
void broker_stop(broker *b);  /* SIGTERM: it writes what it has to keep */
void broker_kill(broker *b);  /* SIGKILL */
void broker_free(broker *b);  /* stops it and removes its folder; NULL is fine */

uint16_t broker_port(const broker *b);
const char *broker_url(const broker *b); /* tcp://127.0.0.1:port */
const char *broker_dir(const broker *b);
pid_t broker_pid(const broker *b); /* 0: not running */

#endif
