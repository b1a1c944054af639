/* The MQTT 5 client that both agents use: Eclipse Paho's asynchronous client behind a libuv loop.
 *
 * One client is one session at the broker. It connects, subscribes and, whatever ends a connection, connects again, for ever, with
 * exponential back-off and full jitter; no network at start is normal. Every attempt takes the next broker of the list and resolves its
 * name anew. Nothing is kept over a lost connection: what was not acknowledged by then is void, and the caller, whose outbox is durable,
 * publishes again after `on_up`. Messages go out with QoS 1 (unless they say otherwise), marked as UTF-8 JSON.
 *
 * Messages that the loop does not take wait in the queue, and when that is full at the broker. What comes while the loop is away for longer
 * than `patience_ms` is lost, visibly; then the client subscribes again, which brings all retained messages once more, also those that
 * did get through. What is not retained is for its sender to repeat.
 *
 * The loop thread owns a client: it makes all calls and gets all callbacks. No call waits for the network, a name server or Paho's
 * global lock: a thread of the client's own makes every call of the library (see link.h). Callbacks may publish and stop; they may not free.
 *
 * A dead connection (nothing answers any more) is found within 1.5 keep-alives when idle, sooner with something unacknowledged, by an own
 * probe; what is in flight is given the time that it takes at 4 kB/s.
 *
 * Text reaching the log or the callbacks never holds the password or a payload.
 */
#ifndef COMMON_MQTT_MQTT_H
#define COMMON_MQTT_MQTT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/error.h"

typedef struct mqtt_client mqtt_client;

/* When the broker sends the retained messages that match a filter. */
enum mqtt_retain_handling { MQTT_RETAINED_ALWAYS = 0, MQTT_RETAINED_IF_NEW = 1, MQTT_RETAINED_NEVER = 2 };

struct mqtt_subscription {
	const char *filter;
	int qos;                  /* 0 or 1 */
	bool no_local;            /* not what this client published itself */
	bool retain_as_published; /* keep the retained flag of live messages */
	enum mqtt_retain_handling retain_handling;
};

struct mqtt_message {
	const char *topic;
	const void *payload; /* NULL and 0: an empty message (clears a retained one) */
	size_t len;
	bool retained;
	const char *response_topic; /* request and response of MQTT 5; NULL, NULL, 0 if unused */
	const void *correlation;
	size_t correlation_len;
	bool at_most_once; /* out: QoS 0. A broker that has nobody to give it to forgets it. on_published says that it was sent, no more */
	bool secret;       /* overwritten wherever it is freed here; in: true of every message with correlation data */
	uint32_t expiry_s; /* out: a broker that has not delivered it by then drops it; 0: never */
};

struct mqtt_will {
	const char *topic; /* NULL: no will */
	const void *payload;
	size_t len;
	bool retained;
	uint32_t delay_s;
};

/* What was refused, for on_refused. */
enum mqtt_refusal { MQTT_REFUSED_CONNECT, MQTT_REFUSED_SUBSCRIBE };

struct mqtt_callbacks {
	void *ctx; /* first argument of each; any callback may be NULL */
	/* Connected, and the subscriptions are on their way ahead of anything published from now on. `session_present`: the broker kept the
	 * session (and queued for it, within its limits). Messages come after this, never before. */
	void (*on_up)(void *ctx, bool session_present);
	/* The connection is lost: every token is void, no on_published follows for it. Not called for attempts that fail. */
	void (*on_down)(void *ctx, const char *reason);
	/* An attempt failed, or a connection is lost (then after on_down): mqtt_client_problem is new. For who shows it. */
	void (*on_problem)(void *ctx);
	/* The strings and bytes are the client's, until the callback returns. Payloads over max_payload never get here. */
	void (*on_message)(void *ctx, const struct mqtt_message *m);
	/* After the last message of what came at once: the place to commit or to write down what the messages changed. */
	void (*on_batch)(void *ctx);
	/* The broker answered. code 0: it has the message (which is not: a subscriber has it). ERROR_DENIED (its access rules), ERROR_LIMIT
	 * (quota, packet size) or ERROR_INVALID: it refused it, with MQTT's `reason` and a text that says what to do. */
	void (*on_published)(void *ctx, int64_t token, int code, int reason, const char *text);
	/* There is room again after a publish got ERROR_LIMIT, or mqtt_client_has_room was false. */
	void (*on_room)(void *ctx);
	/* The broker refused the connection (name, password, banned, …) or a subscription (`topic`, else NULL). The client goes on by itself:
	 * a refused connection is tried again with back-off, a refused subscription at the next connect. */
	void (*on_refused)(void *ctx, enum mqtt_refusal what, const char *topic, int reason, const char *text);
};

struct mqtt_config {
	const char *const *brokers;       /* tcp:// mqtt:// ssl:// mqtts://host[:port], IPv6 as [::1]; ports 1883 and 8883 by default */
	size_t n_brokers;                 /* at most MQTT_BROKERS_MAX */
	const char *client_id;            /* the node's name: two clients with one id throw each other out */
	const char *username, *password;  /* NULL: none */
	const char *ca_file;              /* PEM; NULL: the system's. TLS always verifies chain and name. Files are read at each attempt. */
	const char *cert_file, *key_file; /* PEM, of this client; NULL: none; key_file NULL: the key is in cert_file */
	const char *certificate_name;     /* said in the log if the certificate is for another name; NULL: any name is fine */
	bool other_name_refused;          /* …and it is not connected with such a one: a right one is on its way */
	bool insecure;                    /* allow a broker without TLS that is not on this machine's loopback; said at every start */
	uint32_t keep_alive_s;            /* 1 … 65535; the broker may lower it */
	uint32_t session_expiry_s;        /* how long the broker keeps the session after a connection ends */
	uint32_t connect_timeout_s;       /* for one attempt, name resolution included */
	uint32_t backoff_min_ms, backoff_max_ms; /* the n-th wait is random, between 0 and min(max, min * 2^n) */
	uint32_t stop_timeout_ms;                /* mqtt_client_stop takes no longer */
	uint32_t max_inflight;                   /* unacknowledged publishes; the broker may lower it */
	size_t max_payload;                      /* of one message, in and out */
	size_t queue_bytes;                      /* bound of what waits, in each direction (one message always fits) */
	uint32_t patience_ms;                    /* how long a message waits for room in the queue, before it is lost */
	uint32_t resubscribe_ms;                 /* after such a loss: at most one new subscription in this time */
	struct mqtt_will will;
	const struct mqtt_subscription *subscriptions;
	size_t n_subscriptions; /* at most MQTT_SUBSCRIPTIONS_MAX */
};

enum { MQTT_BROKERS_MAX = 8, MQTT_SUBSCRIPTIONS_MAX = 16 };

struct mqtt_counters {
	uint64_t attempts, connects, refused_connects, takeovers, dead_links; /* dead_links: found by the probe */
	uint64_t messages_in, bytes_in, messages_out, bytes_out;              /* bytes of topics and payloads */
	uint64_t published, refused_publishes, refused_subscriptions;         /* acknowledged / refused by the broker */
	uint64_t limited;                                                     /* publishes answered with ERROR_LIMIT */
	uint64_t dropped_in, resubscribes;                                    /* messages lost; new subscriptions because of that */
};

enum mqtt_state { MQTT_STOPPED, MQTT_WAITING, MQTT_CONNECTING, MQTT_CLOSING, MQTT_UP, MQTT_STOPPING };

/* Everything at its default: keep-alive 60 s, session expiry 7 days, connect timeout 30 s, back-off 1 s … 2 min, stop 4 s, 16 in flight,
 * payload 256 kB, queues 1 MiB, patience 5 s, resubscribe 10 s; no broker, no will, nothing subscribed. */
void mqtt_config_init(struct mqtt_config *config);
/* 0, or ERROR_INVALID / ERROR_LIMIT, or ERROR_DENIED for a broker without TLS off this machine and no `insecure`; the text names the value. */
int mqtt_config_check(const struct mqtt_config *config, error *err);

/* Config and callbacks are copied. NULL if mqtt_config_check says so. Call it early in main, before other threads look at the environment:
 * `http_proxy` and `https_proxy` are taken out of it (Paho would send MQTT through them, `no_proxy` or not) and kept as `HTTP_PROXY` and
 * `HTTPS_PROXY`, unless those are set. */
mqtt_client *mqtt_client_new(uv_loop_t *loop, const struct mqtt_config *config, const struct mqtt_callbacks *callbacks, error *err);
/* The first attempt begins in the next turn of the loop. Once. */
void mqtt_client_start(mqtt_client *client);
/* A token above 0, or ERROR_OFFLINE (not up: publish again after on_up), ERROR_LIMIT (over max_payload or what this broker takes: never
 * again; or the queue is full: after on_room), ERROR_INVALID (topic). All is copied. Messages keep their order. */
int64_t mqtt_client_publish(mqtt_client *client, const struct mqtt_message *m, error *err);
/* The queue has room for a message of any size. False: on_room follows, or on_down. True while it is not up. */
bool mqtt_client_has_room(mqtt_client *client);
/* Publish `last` if up (NULL: nothing), give its acknowledgement a moment, disconnect without the will, release everything and call `done`
 * (may be NULL), in any state, within stop_timeout_ms. What waits in the queue ahead of `last` goes first if there is time. Once. */
void mqtt_client_stop(mqtt_client *client, const struct mqtt_message *last, void (*done)(void *ctx), void *ctx);
/* After `done` (it may be called from there), or if it was never started (then the loop has to run once more to close its handles). */
void mqtt_client_free(mqtt_client *client); /* NULL is fine */

/* Another client uses this client_id (the caller saw its birth): leave, and come back after a long back-off. `why` goes to the log, to on_down
 * and to mqtt_client_problem. The client does this by itself when the broker says so (0x8e), but some, like Mosquitto 2.0.11, just close
 * the connection. Nothing happens unless it is up. */
void mqtt_client_yield(mqtt_client *client, const char *why);

/* What kept it from connecting may be gone, as it may be with a new certificate: if it is not connected, the next attempt is made as soon as the
 * present one is over, and the wait after a failure starts small again. */
void mqtt_client_retry(mqtt_client *client);
enum mqtt_state mqtt_client_state(const mqtt_client *client);
const char *mqtt_state_name(enum mqtt_state state);
/* Up, by TLS (which always verifies the broker's certificate and name). */
bool mqtt_client_is_secure(const mqtt_client *client);
/* Why the last attempt or connection failed, "" if none did; the client's, until the next call of the loop. */
const char *mqtt_client_problem(const mqtt_client *client);
/* Address of the present attempt or connection, as configured; of the first one before there was any. */
const char *mqtt_client_broker(const mqtt_client *client);
/* Since when it is not up: the end of the last connection, else the client's start; wall clock, for people. */
int64_t mqtt_client_down_since(const mqtt_client *client);
const struct mqtt_counters *mqtt_client_counters(const mqtt_client *client);

#endif
