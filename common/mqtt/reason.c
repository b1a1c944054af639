/* MQTT 5 reason codes in words: see reason.h. */
#include "common/mqtt/reason.h"

#include <stdio.h>

#include "common/error.h"

static const struct reason {
	int code, error;
	const char *name, *advice;
} reasons[] = {
	{0x80, ERROR_IO, "unspecified error", "the broker's log may say more"},
	{0x81, ERROR_INVALID, "malformed packet", "broker and agent disagree about MQTT; please report it"},
	{0x82, ERROR_INVALID, "protocol error", "broker and agent disagree about MQTT; please report it"},
	{0x83, ERROR_IO, "implementation specific error", "the broker's log may say more"},
	{0x84, ERROR_UNSUPPORTED, "protocol version not supported", "the broker must speak MQTT 5"},
	{0x85, ERROR_INVALID, "client identifier not valid", "the node's name is the client identifier: the broker must accept it"},
	{0x86, ERROR_DENIED, "bad user name or password", "check user name and password here and in the broker's password file"},
	{REASON_NOT_AUTHORIZED, ERROR_DENIED, "not authorized",
		"check user name, password and certificate, and the broker's access rules (ACL)"},
	{0x88, ERROR_IO, "server unavailable", "the broker is starting or ending; it is tried again"},
	{0x89, ERROR_IO, "server busy", "the broker has too much to do; it is tried again"},
	{0x8a, ERROR_DENIED, "banned", "the broker's administrator has banned this client"},
	{REASON_SERVER_SHUTTING_DOWN, ERROR_IO, "server shutting down", "it is tried again"},
	{0x8c, ERROR_UNSUPPORTED, "bad authentication method", "the broker asks for a method that is not supported here"},
	{0x8d, ERROR_IO, "keep-alive timeout", "the broker heard nothing from here for too long"},
	{REASON_SESSION_TAKEN_OVER, ERROR_CONFLICT, "session taken over",
		"another client with the same name is connected to this broker: give every agent a name of its own, and run each once"},
	{0x8f, ERROR_INVALID, "topic filter invalid", "check the topic prefix"},
	{0x90, ERROR_INVALID, "topic name invalid", "check the topic prefix"},
	{0x93, ERROR_LIMIT, "receive maximum exceeded", "broker and agent disagree about MQTT; please report it"},
	{0x95, ERROR_LIMIT, "packet too large", "raise the broker's max_packet_size"},
	{0x96, ERROR_LIMIT, "message rate too high", "raise the broker's limit; it is tried again"},
	{0x97, ERROR_LIMIT, "quota exceeded", "raise the broker's limits (connections, queued messages, memory)"},
	{0x98, ERROR_DENIED, "administrative action", "the broker's administrator ended this"},
	{0x99, ERROR_INVALID, "payload format invalid", "the payload is not UTF-8; please report it"},
	{0x9a, ERROR_UNSUPPORTED, "retained messages not supported", "this needs a broker that keeps retained messages (retain_available)"},
	{0x9b, ERROR_UNSUPPORTED, "QoS not supported", "this needs a broker that does QoS 1 (max_qos)"},
	{0x9c, ERROR_IO, "use another server", "put the other broker into the list"},
	{0x9d, ERROR_IO, "server moved", "put the new broker into the list"},
	{0x9e, ERROR_UNSUPPORTED, "shared subscriptions not supported", "use a broker that has them"},
	{0x9f, ERROR_LIMIT, "connection rate exceeded", "it is tried again"},
	{0xa0, ERROR_LIMIT, "maximum connect time", "it is tried again"},
	{0xa2, ERROR_UNSUPPORTED, "wildcard subscriptions not supported", "use a broker that has them"},
};

static const struct reason *find(int code)
{
	static const struct reason unknown = {0, ERROR_IO, "a reason that is unknown here", "the broker's log may say more"};

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (reasons[i].code == code)
			return &reasons[i];
	return &unknown;
}

const char *reason_text(int reason, const char *doing, char *out, unsigned size)
{
	const struct reason *r = find(reason);

	snprintf(out, size, "the broker refused %s: %s (0x%02x); %s", doing, r->name, (unsigned)reason, r->advice);
	return out;
}

int reason_error(int reason)
{
	return reason < REASON_FAILURE ? 0 : find(reason)->error;
}
