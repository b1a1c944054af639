/* Which log lines are held back: see log_limit.h.
 *
 * Two tables, one of messages and one of messages with their texts. When one is full, lines that are new to it are not counted there: the
 * messages are literals, so it takes more of them in a minute than the programs have; texts may be any number, and the message's own bound
 * holds for them.
 */
#include "common/log_limit.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGES = 128, LINES = 256 };

typedef struct slot {
	log_key key; /* message NULL: the slot is free */
	int64_t since;
	unsigned n, held;
} slot;

typedef struct text_slot {
	slot s;
	char what[LOG_LIMIT_WHAT];
} text_slot;

static slot messages[MESSAGES];
static text_slot lines[LINES];

/* The same literal may have two addresses in two files, so texts are compared. */
static bool is_same(const slot *s, const log_key *key)
{
	return s->key.message != NULL && s->key.level == key->level && s->key.texts == key->texts &&
		strcmp(s->key.message, key->message) == 0 && strcmp(s->key.module, key->module) == 0;
}

static slot *message_slot(const log_key *key, int64_t now)
{
	log_key any = *key;
	slot *unused = NULL;
	any.texts = 0;
	for (size_t i = 0; i < MESSAGES; i++) {
		if (is_same(&messages[i], &any))
			return &messages[i];
		if (messages[i].key.message == NULL)
			unused = &messages[i];
	}
	if (unused != NULL)
		*unused = (slot){.key = any, .since = now};
	return unused;
}

static slot *line_slot(const log_key *key, const char *what, int64_t now)
{
	text_slot *unused = NULL;
	for (size_t i = 0; i < LINES; i++) {
		if (is_same(&lines[i].s, key))
			return &lines[i].s;
		if (lines[i].s.key.message == NULL)
			unused = &lines[i];
	}
	if (unused == NULL)
		return NULL;
	unused->s = (slot){.key = *key, .since = now};
	snprintf(unused->what, sizeof unused->what, "%s", what);
	return &unused->s;
}

bool log_limit_take(const log_key *key, const char *what, int64_t now_ms)
{
	slot *message = message_slot(key, now_ms);
	if (message != NULL && message->n >= LOG_LIMIT_MESSAGE) {
		message->held++;
		return false;
	}
	slot *line = line_slot(key, what, now_ms);
	if (line != NULL && line->n >= LOG_LIMIT_SAME) {
		line->held++;
		return false;
	}
	if (message != NULL)
		message->n++;
	if (line != NULL)
		line->n++;
	return true;
}

static void slot_end(slot *s, const char *what, int64_t now_ms, bool all, log_held_fn *say)
{
	if (s->key.message == NULL || (!all && now_ms - s->since < LOG_LIMIT_MS))
		return;
	if (s->held > 0)
		say(s->key.level, s->key.module, s->key.message, what, s->held);
	s->key.message = NULL;
}

void log_limit_end(int64_t now_ms, bool all, log_held_fn *say)
{
	for (size_t i = 0; i < LINES; i++)
		slot_end(&lines[i].s, lines[i].what, now_ms, all, say);
	for (size_t i = 0; i < MESSAGES; i++)
		slot_end(&messages[i], NULL, now_ms, all, say);
}

static void wait_for(const slot *s, int64_t now_ms, int64_t *wait)
{
	if (s->key.message == NULL || s->held == 0)
		return;
	int64_t left = s->since + LOG_LIMIT_MS - now_ms;
	if (left < 0)
		left = 0;
	if (*wait < 0 || left < *wait)
		*wait = left;
}

int64_t log_limit_wait(int64_t now_ms)
{
	int64_t wait = -1;
	for (size_t i = 0; i < LINES; i++)
		wait_for(&lines[i].s, now_ms, &wait);
	for (size_t i = 0; i < MESSAGES; i++)
		wait_for(&messages[i], now_ms, &wait);
	return wait;
}
