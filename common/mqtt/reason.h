/* MQTT 5 reason codes in words: what happened and what somebody can do about it. Pure. */
#ifndef COMMON_MQTT_REASON_H
#define COMMON_MQTT_REASON_H

enum {
	REASON_FAILURE = 0x80, /* this and above are refusals */
	REASON_NOT_AUTHORIZED = 0x87,
	REASON_SERVER_SHUTTING_DOWN = 0x8b,
	REASON_SESSION_TAKEN_OVER = 0x8e
};

/* One line, never NULL: "not authorized (0x87): …". `doing` says what was refused: "the connection", "the publish", …
 * Written to `out`, which is returned. */
const char *reason_text(int reason, const char *doing, char *out, unsigned size);
/* The nearest enum error_code of a refusal. */
int reason_error(int reason);

#endif
