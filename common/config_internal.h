/* What the parts of config share: names made from keys, values from text and back, and the list of what was wrong.
 *
 *   config.c        precedence: defaults, variables, file, flags; --check-config
 *   config_file.c   the YAML file
 *   config_value.c  one value: from text into the field, and back
 *   config_env.c    variables that look like settings and are none
 *   config_print.c  --help, man page, example file
 */
#ifndef COMMON_CONFIG_INTERNAL_H
#define COMMON_CONFIG_INTERNAL_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/config.h"
#include "common/yaml.h"

enum { CONFIG_FILE_MAX = 1024 * 1024, CONFIG_NAME_MAX = 128 };

/* All that is wrong, one line each. */
typedef struct config_problems {
	buf text;
	size_t n;
	error first;
} config_problems;

/* Where a row's value came from. */
typedef struct config_place {
	char *source; /* "default", "edge.yaml:3", "--node", a variable; NULL: not set */
	bool refused; /* a value was given that cannot be */
} config_place;

void config__problem(config_problems *p, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void config__problems_fini(config_problems *p);

/* `mqtt.keepAlive` -> "mqtt-keep-alive"; -> "ILMARE_MQTT_KEEP_ALIVE". */
void config__flag_name(const char *key, char out[CONFIG_NAME_MAX]);
void config__env_name(const char *key, char out[CONFIG_NAME_MAX]);

/* Set the row's field from text as a flag or variable has it. On error the field stays; the text says what it must be, never the value
 * of a secret. */
int config__set(const config_row *row, void *target, const char *text, error *err);
/* Likewise from a node of the file. */
int config__set_node(const config_row *row, void *target, const yaml_node *node, error *err);
void config__unset(const config_row *row, void *target);
/* The value as it would stand in the file; "***" for a secret that is set; "" for an unset string. */
void config__show(const config_row *row, const void *target, buf *out);
/* "a duration of at least 1s", "one of a, b": completes "must be ". */
void config__expected(const config_row *row, buf *out);
void config__show_number(enum config_type type, int64_t value, buf *out);

/* The file's rows into target. `places` may be NULL; else places[i].source becomes "name:line" (to be freed) for each row set. */
void config__file(const config_spec *spec, const char *name, const char *data, size_t len, void *target, config_place *places,
	config_problems *problems);

/* Calls `say` for each ILMARE_ variable that is no setting of this program, nor known to belong to another one; `meant` is the variable
 * that its name is closest to, or NULL. */
void config__unknown_variables(const config_spec *spec, void (*say)(const char *name, const char *meant));

#endif
