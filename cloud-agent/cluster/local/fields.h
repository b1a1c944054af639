/* A manifest's fields from a table: names, types, which are needed, which values are allowed.
 *
 * A scalar has the type of its field, quoted or not: `02:00` is a time where a time is wanted, and `threshold: "0.3"` is a number. Every
 * mistake is told, not only the first, each with the line and the whole path ("spec.trainSpec.trigger.condition.operator"); fields that the
 * table does not name are told as warnings and left out. A part with FIELD_WHOLE (a pod template) is passed on as it stands. Pure.
 */
#ifndef LOCAL_FIELDS_H
#define LOCAL_FIELDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/yaml.h"

enum field_type {
	FIELD_STRING,
	FIELD_INT,
	FIELD_NUMBER,
	FIELD_BOOL,
	FIELD_ENUM,    /* a string, one of `choices` */
	FIELD_TIME,    /* "HH:MM", 00:00 to 24:00 */
	FIELD_OBJECT,  /* a map with the fields of `inner` */
	FIELD_LIST,    /* a sequence of maps with the fields of `inner` */
	FIELD_STRINGS, /* a sequence of strings */
	FIELD_MAP,     /* a map of strings with any keys */
	FIELD_WHOLE,   /* a map, as JSON */
	FIELD_IGNORED  /* known, of no use here: neither taken nor warned about */
};

typedef struct field field;
struct field {
	const char *name;
	enum field_type type;
	bool required;
	const char *choices; /* FIELD_ENUM: words separated by ' ' */
	double min, max;     /* FIELD_INT, FIELD_NUMBER; both 0: any */
	const field *inner;  /* FIELD_OBJECT, FIELD_LIST; ended by a row without a name */
};

/* Is told each mistake: `text` is "path: what is wrong". */
typedef struct fields_report {
	void *ctx;
	void (*problem)(void *ctx, bool warning, int line, const char *text);
} fields_report;

/* The object that `map` describes, to be freed; what is wrong is reported and left out. `path` is that of `map`, "" for the top. A map that
 * is missing or null counts as empty, at `line`. */
cJSON *fields_read(const field *table, const yaml_node *map, const char *path, int line, const fields_report *report);

#endif
