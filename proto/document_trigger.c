/* Triggers: the same shape in a job's spec, written by a person, and in a desired document, written by us.
 *
 * Invariants of a decoded trigger: a timer has both ends and a condition all three parts. A trigger that is half understood would fire
 * always or never, and nobody would see why; so every doubt is an error that names the member and its value.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/document_internal.h"

enum { MINUTES_OF_DAY = 24 * 60, CHECK_PERIOD_DEFAULT_S = 60, NUMBER_MAX = 64 };

static const struct {
	const char *symbol, *word, *other; /* other: a further spelling or NULL */
} ops[] = {
	[OP_GT] = {">", "gt", NULL},
	[OP_GE] = {">=", "ge", NULL},
	[OP_EQ] = {"==", "eq", "="},
	[OP_NE] = {"!=", "ne", NULL},
	[OP_LE] = {"<=", "le", NULL},
	[OP_LT] = {"<", "lt", NULL},
};

bool trigger_op_parse(const char *text, enum trigger_op *out)
{
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(text, ops[i].symbol) == 0 || strcmp(text, ops[i].word) == 0 ||
			(ops[i].other != NULL && strcmp(text, ops[i].other) == 0)) {
			*out = (enum trigger_op)i;
			return true;
		}
	}
	return false;
}

const char *trigger_op_text(enum trigger_op op)
{
	return (unsigned)op < sizeof(ops) / sizeof(ops[0]) ? ops[op].symbol : "?";
}

/* "HH:MM" or "H:MM", up to "24:00". */
static bool parse_time_of_day(const char *text, int *minutes)
{
	size_t hour_digits = strspn(text, "0123456789");
	const char *m = text + hour_digits;
	int value;

	if (hour_digits < 1 || hour_digits > 2 || *m != ':' || strspn(m + 1, "0123456789") != 2 || m[3] != '\0' || m[1] > '5')
		return false;
	value = (hour_digits == 2 ? (text[0] - '0') * 10 : 0) + (m[-1] - '0');
	value = value * 60 + (m[1] - '0') * 10 + (m[2] - '0');
	if (value > MINUTES_OF_DAY)
		return false;
	*minutes = value;
	return true;
}

static void read_time_of_day(reading *r, const cJSON *timer, const char *where, const char *name, int *out)
{
	const char *text = read__text(r, timer, where, name, NEEDED, DOCUMENT_MAX);

	if (text != NULL && !parse_time_of_day(text, out))
		read__fail(r, where, name, "'%.80s' is not a time from 0:00 to 24:00, like \"8:30\" or \"22:00\"", text);
}

/* Plain decimal: what strtod takes beyond that (hex, "inf", "nan", leading spaces) nobody means by a threshold. */
static bool parse_number(const char *text, double *out)
{
	char *end = NULL;

	if (*text == '\0' || strnlen(text, NUMBER_MAX + 1) > NUMBER_MAX || strspn(text, "0123456789+-.eE") != strlen(text))
		return false;
	*out = strtod(text, &end);
	return end != text && *end == '\0' && isfinite(*out);
}

static void read_threshold(reading *r, const cJSON *condition, const char *where, double *out)
{
	const cJSON *value = json_member(condition, "threshold");

	if (r->code != 0)
		return;
	if (!cJSON_IsString(value))
		read__double(r, condition, where, "threshold", NEEDED, out);
	else if (!parse_number(value->valuestring, out))
		read__fail(r, where, "threshold", "'%.80s' is not a number", value->valuestring);
}

static void read_condition(reading *r, const cJSON *condition, const char *where, trigger *out)
{
	const char *op = read__text(r, condition, where, "operator", NEEDED, DOCUMENT_MAX);

	if (op != NULL && !trigger_op_parse(op, &out->op))
		read__fail(r, where, "operator", "'%.80s' is not known; allowed are gt or >, ge or >=, eq or = or ==, ne or !=, le or <=, lt or <",
			op);
	read_threshold(r, condition, where, &out->threshold);
	out->metric = read__word(r, condition, where, "metric", NEEDED, TEXT_MAX_METRIC);
}

static void read_parts(reading *r, const cJSON *o, const char *where, trigger *out)
{
	const cJSON *timer = read__object(r, o, where, "timer", OPTIONAL);
	const cJSON *condition = read__object(r, o, where, "condition", OPTIONAL);

	*out = (trigger){.check_period_s = CHECK_PERIOD_DEFAULT_S, .has_timer = timer != NULL, .has_condition = condition != NULL};
	read__int(r, o, where, "checkPeriodSeconds", OPTIONAL, 1, TRIGGER_MAX_PERIOD_S, &out->check_period_s);
	if (timer != NULL) {
		const char *path = path__member(r, where, "timer");

		read_time_of_day(r, timer, path, "start", &out->start);
		read_time_of_day(r, timer, path, "end", &out->end);
	}
	if (condition != NULL)
		read_condition(r, condition, path__member(r, where, "condition"), out);
}

void read__trigger(reading *r, const cJSON *obj, const char *where, const char *name, trigger *out)
{
	const cJSON *o = read__object(r, obj, where, name, NEEDED);

	if (o != NULL)
		read_parts(r, o, path__member(r, where, name), out);
}

int trigger_decode(arena *mem, const cJSON *obj, const char *where, trigger *out, error *err)
{
	reading r = {.mem = mem, .err = err};

	if (!cJSON_IsObject(obj))
		return error_set(err, ERROR_INVALID, "%s: this is not an object with timer and condition", where);
	read_parts(&r, obj, where, out);
	/* The spec's tree does not live as long as what is made from it. */
	out->metric = arena_strdup(mem, out->metric);
	return r.code;
}

static void put_time_of_day(cJSON *o, const char *name, int minutes)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%02d:%02d", minutes / 60, minutes % 60);
	json_put_string(o, name, text);
}

cJSON *trigger_encode(const trigger *t)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "checkPeriodSeconds", t->check_period_s);
	if (t->has_timer) {
		cJSON *timer = cJSON_CreateObject();

		put_time_of_day(timer, "start", t->start);
		put_time_of_day(timer, "end", t->end);
		json_put(o, "timer", timer);
	}
	if (t->has_condition) {
		cJSON *condition = cJSON_CreateObject();

		json_put_string(condition, "operator", trigger_op_text(t->op));
		json_put_double(condition, "threshold", t->threshold);
		json_put_string(condition, "metric", t->metric);
		json_put(o, "condition", condition);
	}
	return o;
}
