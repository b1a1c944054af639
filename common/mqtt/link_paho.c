/* The calls of Paho, and its callbacks. The only file that knows the library.
 *
 * What Paho 1.3.12 does, and what follows from it:
 * - MQTTAsync_connect only queues; its send thread resolves the name under the global lock. So the name is resolved here first: for the
 *   error's own text, and so that a dead name server blocks nobody else. Without TLS Paho gets the address, with TLS the name (it checks
 *   the certificate against it).
 * - With a list of servers it goes through the list again by itself after a lost connection. So it gets one.
 * - A DISCONNECT from the broker comes to `disconnected` alone, a lost connection to `connectionLost` alone, a refused CONNECT to
 *   onFailure5 with the reason in `code`. Each command's onSuccess5 or onFailure5 is called once, by destroy at the latest.
 * - Callbacks run under the lock, on its threads (or, in destroy, on this one). They copy, queue and return.
 * - A QoS 0 message has its onSuccess5 when it has been written, which says nothing about the broker.
 * - QoS 1 messages are acknowledged to the broker whatever messageArrived returns. So it always returns 1, and waits inside if it must.
 * - Every trace line is formatted even if nobody reads it, unless the level says otherwise.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/mqtt/diagnosis.h"
#include "common/mqtt/link_internal.h"
#include "common/mqtt/nodelay.h"
#include "common/mqtt/properties.h"
#include "common/mqtt/reason.h"

/* A filter that nobody subscribes: taking it back is the smallest thing that a broker has to answer. */
#define PROBE_FILTER "-"

enum { CERTIFICATE_DAYS = 30, LIBRARY_ENDS_MAX = 1000, ANSWERS_NS = 100 * 1000 * 1000, DRAIN_NS = 250 * 1000 * 1000 };

static struct operation *operation_begin(struct link *l, enum job_kind kind, int64_t token)
{
	struct operation *op = NULL;

	uv_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->n_operations && !op; i++)
		if (!l->operations[i].busy)
			op = &l->operations[i];
	if (op)
		*op = (struct operation){.link = l, .kind = kind, .token = token, .busy = true};
	uv_mutex_unlock(&l->lock);
	return op;
}

static struct operation operation_end(struct operation *op)
{
	struct link *l = op->link;
	struct operation copy;

	uv_mutex_lock(&l->lock);
	copy = *op;
	op->busy = false;
	uv_cond_signal(&l->wake); /* for await_answers */
	uv_mutex_unlock(&l->lock);
	return copy;
}

static void tell_answer(struct operation *op, int reason)
{
	static const enum event_kind kinds[] = {
		[JOB_SUBSCRIBE] = EVENT_SUBSCRIBED, [JOB_PUBLISH] = EVENT_PUBLISHED, [JOB_PROBE] = EVENT_PROBED};
	struct operation done = operation_end(op);

	link__tell(done.link, kinds[done.kind], done.token, reason, NULL);
}

static void on_answer(void *context, MQTTAsync_successData5 *response)
{
	/* One subscription per packet, so the packet's reason is its reason; a PUBACK's good reasons say nothing of use. */
	(void)response;
	tell_answer(context, 0);
}

static void on_no_answer(void *context, MQTTAsync_failureData5 *response)
{
	/* Without a reason of the broker's it is the connection that failed, and that is told by itself. */
	if (response && (int)response->reasonCode >= REASON_FAILURE)
		tell_answer(context, (int)response->reasonCode);
	else
		operation_end(context);
}

/* ERR_print_errors_cb's line is "thread:error:code:library:function:reason:file:line:data": keep the reason and the data of the first,
 * which is the cause of the others. */
static int on_tls_error(const char *line, size_t len, void *context)
{
	struct link *l = context;
	char copy[256], *fields[9] = {0}, *rest = copy;

	if (*l->tls_text)
		return 1;
	snprintf(copy, sizeof copy, "%.*s", (int)len, line);
	for (size_t i = 0; i < 8 && rest; i++)
		fields[i] = strsep(&rest, ":");
	fields[8] = rest;
	if (fields[8])
		fields[8][strcspn(fields[8], "\n")] = '\0';
	if (fields[5])
		snprintf(l->tls_text, sizeof l->tls_text, "%s%s%s", fields[5], fields[8] && *fields[8] ? ": " : "", fields[8] ? fields[8] : "");
	return 1;
}

/* Expiry is judged by this machine's clock: say what it shows, since a wrong clock and a wrong certificate look the same. */
static char *describe_tls(const struct link *l)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[32] = "?";

	if (!strstr(l->tls_text, "verify failed") && !strstr(l->tls_text, "expired"))
		return mem_printf("TLS with %s: %s", l->host, l->tls_text);
	if (gmtime_r(&now, &tm))
		strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
	return mem_printf(
		"TLS with %s: %s (a certificate is out of date by this machine's clock, %s, or has another name or an unknown issuer)", l->host,
		l->tls_text, date);
}

static char *describe_reason(int reason, const char *doing)
{
	char text[256];

	return mem_strdup(reason_text(reason, doing, text, sizeof text));
}

static void on_connect_failure(void *context, MQTTAsync_failureData5 *response)
{
	struct link *l = context;
	int reason = response && response->code >= REASON_FAILURE ? response->code : 0;
	char *text;

	if (reason)
		text = describe_reason(reason, "the connection");
	else if (l->tls && l->diagnosis)
		text = mem_strdup(l->diagnosis);
	else if (*l->tls_text)
		text = describe_tls(l);
	else if (l->tls) /* the library says no more than that; the next attempt looks into it */
		text = mem_printf(
			"no connection to %s: refused, unreachable, no TLS there, its certificate is for another name, or it does not accept this "
			"client's certificate",
			l->host);
	else
		text = mem_printf("no connection to %s: refused, unreachable, or not an MQTT broker without TLS", l->host);
	l->unexplained = !reason && l->tls;
	link__tell(l, EVENT_OPEN_ERROR, 0, reason, text);
}

static void on_connected(void *context, MQTTAsync_successData5 *response)
{
	struct link *l = context;
	struct event *e = event_new(EVENT_UP, l->attempt);
	MQTTProperties *props = &response->properties;

	e->flag = response->alt.connect.sessionPresent != 0;
	e->limits.receive_maximum = properties_number(props, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, 0);
	e->limits.packet_size = properties_number(props, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, 0);
	e->limits.keep_alive_s = properties_number(props, MQTTPROPERTY_CODE_SERVER_KEEP_ALIVE, 0);
	e->limits.no_retain = properties_number(props, MQTTPROPERTY_CODE_RETAIN_AVAILABLE, 1) == 0;
	e->limits.no_qos1 = properties_number(props, MQTTPROPERTY_CODE_MAXIMUM_QOS, 2) == 0;
	e->text = mem_strdup(l->host);
	nodelay_set(l->addresses);
	inbox_put(l->inbox, e);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is the library's */
static void on_connection_lost(void *context, char *cause)
{
	struct link *l = context;

	link__tell(l, EVENT_DOWN, 0, 0, mem_printf("the connection to %s was lost%s%s", l->host, cause ? ": " : "", cause ? cause : ""));
}

static void on_disconnected(void *context, MQTTProperties *properties, enum MQTTReasonCodes reason)
{
	struct link *l = context;

	(void)properties;
	link__tell(l, EVENT_DOWN, 0, (int)reason,
		(int)reason >= REASON_FAILURE ? describe_reason((int)reason, "to go on") : mem_printf("%s ended the connection", l->host));
}

/* The response topic of a request, for free(); NULL if there is none. */
static char *response_topic(MQTTProperties *props)
{
	MQTTProperty *p = MQTTProperties_getProperty(props, MQTTPROPERTY_CODE_RESPONSE_TOPIC);

	return p ? mem_strndup(p->value.data.data, (size_t)p->value.data.len) : NULL;
}

static int on_message(void *context, char *topic, int topic_len, MQTTAsync_message *message)
{
	struct link *l = context;
	MQTTProperty *correlation = MQTTProperties_getProperty(&message->properties, MQTTPROPERTY_CODE_CORRELATION_DATA);
	char *response = response_topic(&message->properties);
	struct mqtt_message m = {
		.topic = topic,
		.payload = message->payload,
		.len = message->payloadlen > 0 ? (size_t)message->payloadlen : 0,
		.retained = message->retained != 0,
		.response_topic = response,
		.correlation = correlation ? correlation->value.data.data : NULL,
		.correlation_len = correlation ? (size_t)correlation->value.data.len : 0,
		.secret = correlation != NULL,
	};

	if (topic_len > 0 && strlen(topic) != (size_t)topic_len) {
		log_warn("mqtt", "message with a NUL in its topic ignored", L_STR("topic", topic));
	} else if (m.len > l->settings->c.max_payload) {
		log_warn("mqtt", "message over the payload limit ignored", L_STR("topic", topic), L_INT("bytes", m.len));
	} else {
		struct event *e = event_new(EVENT_MESSAGE, l->attempt);

		e->message = message_copy(&m);
		e->flag = message->qos > 0;
		inbox_put(l->inbox, e);
	}
	free(response);
	if (m.secret && m.len > 0)
		explicit_bzero(message->payload, m.len);
	MQTTAsync_freeMessage(&message);
	MQTTAsync_free(topic);
	return 1;
}

/* Into l->addresses; to `out` the numeric form of the `index`-th of them, modulo their number. 0 or a negative error code. */
static int resolve(struct link *l, const struct broker_url *broker, uint32_t index, char *out, socklen_t size)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV}, *at;
	uint32_t n = 0;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%u", broker->port);
	atomic_store(&l->resolving, true);
	rc = getaddrinfo(broker->host, port, &hints, &l->addresses);
	if (rc == EAI_NONAME || rc == EAI_ADDRFAMILY) { /* a machine with nothing but its loopback has no "configured" family */
		hints.ai_flags = AI_NUMERICSERV;
		rc = getaddrinfo(broker->host, port, &hints, &l->addresses);
	}
	atomic_store(&l->resolving, false);
	if (rc == 0 && l->addresses) {
		for (at = l->addresses; at; at = at->ai_next)
			n++;
		for (at = l->addresses, index %= n > 0 ? n : 1; index > 0; index--)
			at = at->ai_next;
		rc = getnameinfo(at->ai_addr, at->ai_addrlen, out, size, NULL, 0, NI_NUMERICHOST);
	}
	if (rc == 0)
		return 0;
	link__tell(l, EVENT_OPEN_ERROR, 0, 0, mem_printf("cannot resolve the broker's name %s: %s", broker->host, gai_strerror(rc)));
	return ERROR_NOT_FOUND;
}

static int create(struct link *l, const struct broker_url *broker, const char *address)
{
	MQTTAsync_createOptions options = MQTTAsync_createOptions_initializer5;
	const char *host = broker->tls ? broker->host : address;
	char *uri = mem_printf("%s://%s%s%s:%u", broker->tls ? "ssl" : "tcp", strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "",
		broker->port);
	int rc;

	options.sendWhileDisconnected = 0;
	options.restoreMessages = 0;
	options.maxBufferedMessages = (int)l->settings->c.max_inflight + 1;
	rc = MQTTAsync_createWithOptions(&l->paho, uri, l->settings->c.client_id, MQTTCLIENT_PERSISTENCE_NONE, NULL, &options);
	if (rc != MQTTASYNC_SUCCESS)
		l->paho = NULL;
	free(uri);
	if (!rc)
		rc = MQTTAsync_setCallbacks(l->paho, l, on_connection_lost, on_message, NULL);
	if (!rc)
		rc = MQTTAsync_setDisconnected(l->paho, l, on_disconnected);
	return rc;
}

static void fill_properties(const struct mqtt_config *c, MQTTProperties *connect, MQTTProperties *will)
{
	size_t packet = c->max_payload + UINT16_MAX + 1024; /* room for the longest topic and some properties */

	properties_add_number(connect, MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL, c->session_expiry_s);
	properties_add_number(connect, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, (uint32_t)packet);
	if (!c->will.topic)
		return;
	properties_add_number(will, MQTTPROPERTY_CODE_WILL_DELAY_INTERVAL, c->will.delay_s);
	properties_add_content(will);
}

/* Paho copies all of it. */
static int start_connect(struct link *l, const struct broker_url *broker)
{
	const struct mqtt_config *c = &l->settings->c;
	MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer5;
	MQTTAsync_SSLOptions tls = MQTTAsync_SSLOptions_initializer;
	MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
	MQTTProperties connect_props = MQTTProperties_initializer, will_props = MQTTProperties_initializer;
	int rc;

	fill_properties(c, &connect_props, &will_props);
	options.connectProperties = &connect_props;
	options.cleanstart = 0;
	options.keepAliveInterval = (int)c->keep_alive_s;
	/* Its own clock is coarse; ours is the one that counts. */
	options.connectTimeout = (int)c->connect_timeout_s + 10;
	options.maxInflight = UINT16_MAX - 1; /* the window is kept in outgoing.c */
	options.automaticReconnect = 0;
	options.username = c->username;
	options.password = c->password;
	options.onSuccess5 = on_connected;
	options.onFailure5 = on_connect_failure;
	options.context = l;
	if (c->will.topic) {
		will.topicName = c->will.topic;
		will.payload.data = c->will.len > 0 ? c->will.payload : "";
		will.payload.len = (int)c->will.len;
		will.qos = 1;
		will.retained = c->will.retained;
		options.will = &will;
		options.willProperties = &will_props;
	}
	if (broker->tls) {
		tls.trustStore = c->ca_file;
		tls.keyStore = c->cert_file;
		tls.privateKey = c->key_file;
		tls.privateKeyPassword = ""; /* a key that has one is refused: without this OpenSSL would ask for it, on the terminal, and wait */
		tls.enableServerCertAuth = 1;
		tls.verify = 1;
		tls.sslVersion = MQTT_SSL_VERSION_TLS_1_2;
		tls.ssl_error_cb = on_tls_error;
		tls.ssl_error_context = l;
		options.ssl = &tls;
	}
	rc = MQTTAsync_connect(l->paho, &options);
	MQTTProperties_free(&connect_props);
	MQTTProperties_free(&will_props);
	return rc;
}

/* OpenSSL's own words leave out which file it is. Somebody may be replacing it right now: the next attempt looks again. */
static int check_files(struct link *l)
{
	const struct mqtt_config *c = &l->settings->c;
	const char *const files[] = {c->ca_file, c->cert_file, c->key_file};

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		if (!files[i] || access(files[i], R_OK) == 0)
			continue;
		link__tell(l, EVENT_OPEN_ERROR, 0, 0, mem_printf("cannot read %s for TLS with %s: %s", files[i], l->host, strerror(errno)));
		return ERROR_IO;
	}
	return 0;
}

/* Before an attempt: what went wrong in the one before, as far as the library did not say. It costs a connection. */
static void diagnose(struct link *l, const struct broker_url *broker)
{
	const struct mqtt_config *c = &l->settings->c;
	const struct diagnosis d = {.label = l->host,
		.host = broker->host,
		.address = l->addresses,
		.ca_file = c->ca_file,
		.cert_file = c->cert_file,
		.key_file = c->key_file};

	free(l->diagnosis);
	l->diagnosis = NULL;
	if (!l->unexplained)
		return;
	l->unexplained = false;
	atomic_store(&l->resolving, true); /* as unhurried as a name server: nobody waits for it */
	l->diagnosis = diagnosis_run(&d);
	atomic_store(&l->resolving, false);
}

/* What goes well today, and will not always: a certificate that was copied to the wrong machine works, up to the broker's access rules, and
 * one that ends works until then. Not 0: it is not used, and that was told. */
static int check_certificate(struct link *l)
{
	const struct mqtt_config *c = &l->settings->c;
	int days = INT_MAX;
	char *name = c->cert_file ? diagnosis_certificate(c->cert_file, &days) : NULL;
	bool other = name && c->certificate_name && strcmp(name, c->certificate_name) != 0;

	if (days < CERTIFICATE_DAYS)
		log_warn("mqtt", "this agent's certificate ends soon, or has ended", L_STR("file", c->cert_file), L_INT("days", days));
	if (other && c->other_name_refused)
		link__tell(l, EVENT_OPEN_ERROR, 0, 0,
			mem_printf("%s has the certificate of %s, and this is %s", c->cert_file, name, c->certificate_name));
	else if (other && !l->other_name)
		log_warn("mqtt", "the certificate is another's: a broker that goes by its name refuses what is said here",
			L_STR("file", c->cert_file), L_STR("certificate", name), L_STR("name", c->certificate_name));
	l->other_name = other;
	free(name);
	return other && c->other_name_refused ? ERROR_IO : 0;
}

void link__paho_open(struct link *l, const struct broker_url *broker, uint32_t address)
{
	char numeric[NI_MAXHOST] = "";
	int rc;

	snprintf(l->host, sizeof l->host, "%s:%u", broker->host, broker->port);
	l->tls = broker->tls;
	l->tls_text[0] = '\0';
	if ((broker->tls && check_files(l)) || resolve(l, broker, address, numeric, sizeof numeric) || link__is_closing(l))
		return;
	if (broker->tls) {
		if (check_certificate(l))
			return;
		diagnose(l, broker);
	}
	if (link__is_closing(l))
		return;
	if ((rc = create(l, broker, numeric)) == MQTTASYNC_SUCCESS)
		rc = start_connect(l, broker);
	if (rc != MQTTASYNC_SUCCESS)
		link__tell(l, EVENT_OPEN_ERROR, 0, 0, mem_printf("the MQTT library refused the connection's settings: %s", MQTTAsync_strerror(rc)));
}

/* A call for an answer has failed, so none will come. */
static void give_up(struct operation *op, int rc, int reason_if_invalid)
{
	struct link *l = op->link;

	if (rc == MQTTASYNC_BAD_UTF8_STRING) {
		tell_answer(op, reason_if_invalid);
		return;
	}
	operation_end(op);
	if (rc != MQTTASYNC_DISCONNECTED) /* that is on its way as EVENT_DOWN */
		link__tell(l, EVENT_DOWN, 0, 0, mem_printf("the MQTT library refused a command: %s", MQTTAsync_strerror(rc)));
}

/* NULL if there is nobody to ask any more. */
static struct operation *begin(struct link *l, enum job_kind kind, int64_t token, MQTTAsync_responseOptions *options)
{
	struct operation *op = l->paho ? operation_begin(l, kind, token) : NULL;

	*options = (MQTTAsync_responseOptions)MQTTAsync_responseOptions_initializer;
	options->onSuccess5 = on_answer;
	options->onFailure5 = on_no_answer;
	options->context = op;
	return op;
}

void link__paho_subscribe(struct link *l, size_t index, bool again)
{
	const struct mqtt_subscription *s = &l->settings->subscriptions[index];
	MQTTAsync_responseOptions options;
	struct operation *op = begin(l, JOB_SUBSCRIBE, (int64_t)index, &options);
	int rc;

	if (!op)
		return;
	options.subscribeOptions.noLocal = s->no_local;
	options.subscribeOptions.retainAsPublished = s->retain_as_published;
	options.subscribeOptions.retainHandling = (unsigned char)s->retain_handling;
	if (again && s->retain_handling == MQTT_RETAINED_IF_NEW)
		options.subscribeOptions.retainHandling = MQTT_RETAINED_ALWAYS;
	if ((rc = MQTTAsync_subscribe(l->paho, s->filter, s->qos, &options)) != MQTTASYNC_SUCCESS)
		give_up(op, rc, 0x8f);
}

void link__paho_publish(struct link *l, const struct message *m)
{
	MQTTAsync_responseOptions options;
	MQTTAsync_message out = MQTTAsync_message_initializer;
	struct operation *op = begin(l, JOB_PUBLISH, m->token, &options);
	int rc;

	if (!op)
		return;
	out.payload = (void *)m->m.payload;
	out.payloadlen = (int)m->m.len;
	out.qos = m->m.at_most_once ? 0 : 1;
	out.retained = m->m.retained;
	if (m->m.len > 0)
		properties_add_content(&out.properties);
	if (m->m.response_topic)
		properties_add_data(&out.properties, MQTTPROPERTY_CODE_RESPONSE_TOPIC, m->m.response_topic, strlen(m->m.response_topic));
	if (m->m.correlation)
		properties_add_data(&out.properties, MQTTPROPERTY_CODE_CORRELATION_DATA, m->m.correlation, m->m.correlation_len);
	if (m->m.expiry_s)
		properties_add_number(&out.properties, MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL, m->m.expiry_s);
	rc = MQTTAsync_sendMessage(l->paho, m->m.topic, &out, &options);
	MQTTProperties_free(&out.properties);
	if (rc != MQTTASYNC_SUCCESS)
		give_up(op, rc, 0x90);
}

void link__paho_probe(struct link *l)
{
	MQTTAsync_responseOptions options;
	struct operation *op = begin(l, JOB_PROBE, 0, &options);
	int rc;

	if (op && (rc = MQTTAsync_unsubscribe(l->paho, PROBE_FILTER, &options)) != MQTTASYNC_SUCCESS)
		give_up(op, rc, 0x8f);
}

/* When its last client goes the library ends its threads, which is what we want (they wake ten times a second without a connection), and its
 * global state, and with each new beginning of that OpenSSL keeps about a hundred bytes for ever. So after a great many attempts (most of a
 * day without a broker) one idle client stays, and the threads with it: memory has a bound, and waiting costs a little more. */
static void keep_library(void)
{
	static atomic_uint ends;
	static MQTTAsync keeper;

	if (atomic_fetch_add(&ends, 1) + 1 == LIBRARY_ENDS_MAX)
		MQTTAsync_create(&keeper, "tcp://localhost", "keeper", MQTTCLIENT_PERSISTENCE_NONE, NULL);
}

static void drained(struct link *l)
{
	uv_mutex_lock(&l->lock);
	l->drained = true;
	uv_cond_signal(&l->wake);
	uv_mutex_unlock(&l->lock);
}

static void on_disconnect(void *context, MQTTAsync_successData5 *response)
{
	(void)response;
	drained(context);
}

static void on_no_disconnect(void *context, MQTTAsync_failureData5 *response)
{
	(void)response;
	drained(context);
}

static bool awaits_answer(const struct link *l)
{
	bool any = false;

	for (size_t i = 0; i < l->n_operations && !any; i++)
		any = l->operations[i].busy && l->operations[i].kind != JOB_PUBLISH;
	return any;
}

/* A SUBACK or UNSUBACK that comes in when its client is being taken down, so that nobody awaits it any more, is never freed. */
static void await_answers(struct link *l)
{
	uint64_t now = uv_hrtime(), deadline = now + ANSWERS_NS;

	uv_mutex_lock(&l->lock);
	for (; awaits_answer(l) && now < deadline; now = uv_hrtime())
		uv_cond_timedwait(&l->wake, &l->lock, deadline - now);
	uv_mutex_unlock(&l->lock);
}

/* Of a publish that is still in the library's queue when its client is destroyed, topic and payload are never freed. A DISCONNECT is queued
 * behind all of them. A connection that takes no more bytes is not worth more than a moment. */
static void drain(struct link *l)
{
	MQTTAsync_disconnectOptions options = MQTTAsync_disconnectOptions_initializer5;
	uint64_t now = uv_hrtime(), deadline = now + DRAIN_NS;

	options.onSuccess5 = on_disconnect;
	options.onFailure5 = on_no_disconnect;
	options.context = l;
	l->drained = false;
	if (MQTTAsync_disconnect(l->paho, &options) != MQTTASYNC_SUCCESS)
		return;
	uv_mutex_lock(&l->lock);
	for (; !l->drained && now < deadline; now = uv_hrtime())
		uv_cond_timedwait(&l->wake, &l->lock, deadline - now);
	uv_mutex_unlock(&l->lock);
}

void link__paho_close(struct link *l)
{
	if (l->paho) {
		await_answers(l);
		drain(l);
		keep_library();
		MQTTAsync_destroy(&l->paho);
	}
	l->paho = NULL;
	if (l->addresses)
		freeaddrinfo(l->addresses);
	l->addresses = NULL;
	for (size_t i = 0; i < l->n_operations; i++)
		l->operations[i].busy = false;
}
