/* Messages in one block: see message.h. */
#include "common/mqtt/message.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Puts `len` bytes and a NUL at *at and moves it on. */
static char *append(char **at, const void *data, size_t len)
{
	char *start = *at;

	if (len > 0)
		memcpy(start, data, len);
	start[len] = '\0';
	*at = start + len + 1;
	return start;
}

struct message *message_copy(const struct mqtt_message *m)
{
	size_t topic_len = strlen(m->topic);
	size_t response_len = m->response_topic ? strlen(m->response_topic) : 0;
	struct message *copy = mem_alloc(sizeof *copy + topic_len + m->len + response_len + m->correlation_len + 4);
	char *at = (char *)(copy + 1);

	copy->m = *m;
	copy->m.topic = append(&at, m->topic, topic_len);
	copy->m.payload = append(&at, m->payload, m->len);
	if (m->response_topic)
		copy->m.response_topic = append(&at, m->response_topic, response_len);
	if (m->correlation)
		copy->m.correlation = append(&at, m->correlation, m->correlation_len);
	return copy;
}

void message_free(struct message *m)
{
	if (m && m->m.secret && m->m.len > 0)
		explicit_bzero((void *)m->m.payload, m->m.len);
	free(m);
}

size_t message_size(const struct mqtt_message *m)
{
	return strlen(m->topic) + m->len;
}

size_t message_overhead(const struct mqtt_message *m)
{
	/* Fixed header 5, topic's length 2, packet identifier 2, properties' length 3, format 2, content type 3 and its text. */
	size_t n = 5 + 2 + strlen(m->topic) + 2 + 3 + 2 + 3 + strlen(MESSAGE_CONTENT_TYPE);

	if (m->response_topic)
		n += 3 + strlen(m->response_topic);
	if (m->correlation)
		n += 3 + m->correlation_len;
	if (m->expiry_s)
		n += 5;
	return n;
}

int message_topic_check(const char *topic, error *err)
{
	size_t len = topic ? strlen(topic) : 0;

	if (len == 0)
		return error_set(err, ERROR_INVALID, "the topic is empty");
	if (len > UINT16_MAX)
		return error_set(err, ERROR_INVALID, "the topic is longer than %d bytes", UINT16_MAX);
	for (const unsigned char *p = (const unsigned char *)topic; *p; p++)
		if (*p == '+' || *p == '#' || *p < 0x20 || *p == 0x7f)
			return error_set(err, ERROR_INVALID, "the topic has a wildcard or a control character at byte %td",
				p - (const unsigned char *)topic);
	return 0;
}
