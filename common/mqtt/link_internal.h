/* What link.c (thread and jobs) and link_paho.c (the library) share. */
#ifndef COMMON_MQTT_LINK_INTERNAL_H
#define COMMON_MQTT_LINK_INTERNAL_H

#include <MQTTAsync.h>
#include <netdb.h>
#include <stdatomic.h>

#include "common/mqtt/link.h"

enum job_kind { JOB_OPEN, JOB_SUBSCRIBE, JOB_PUBLISH, JOB_PROBE, JOB_CLOSE, JOB_QUIT };

/* Something that Paho will answer: the context of its callbacks. */
struct operation {
	struct link *link;
	enum job_kind kind;
	int64_t token;
	bool busy; /* under link->lock */
};

struct link {
	struct settings *settings;
	struct inbox *inbox;
	uv_thread_t thread;
	bool started; /* loop thread */

	uv_mutex_t lock;
	uv_cond_t wake;
	struct job *first, **last;
	bool closing;   /* link_close was called for the attempt that the thread is at, or will be */
	bool abandoned; /* the thread owns the link now */
	bool drained;   /* the library has taken all commands of this attempt out of its queue, in one way or another */
	atomic_bool resolving;

	/* The thread's, and that of Paho's callbacks, which only run between create and destroy. */
	uint32_t attempt;
	MQTTAsync paho;             /* NULL: no attempt is open */
	struct addrinfo *addresses; /* of the broker, as resolved for this attempt */
	struct operation *operations;
	size_t n_operations;
	char host[300]; /* host:port, for texts */
	bool tls;
	char tls_text[160]; /* OpenSSL's first complaint in this attempt */
	bool unexplained;   /* the last attempt's TLS failed, and the library said little or nothing about why */
	char *diagnosis;    /* what we found out ourselves since then; NULL: nothing */
	bool other_name;    /* our certificate is another's, and that was said */
};

/* On the link's thread. */
void link__paho_open(struct link *l, const struct broker_url *broker, uint32_t address);
void link__paho_subscribe(struct link *l, size_t index, bool again);
void link__paho_publish(struct link *l, const struct message *m);
void link__paho_probe(struct link *l);
void link__paho_close(struct link *l); /* returns when no callback can come any more */
bool link__is_closing(struct link *l);
/* Takes the text (NULL: none). */
void link__tell(struct link *l, enum event_kind kind, int64_t token, int reason, char *text);

#endif
