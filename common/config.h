/* Configuration from one table of typed rows, which drives the parsing of file, environment and flags, --check-config, --help and the man
 * page, so they cannot drift apart.
 *
 * Precedence: flag, `ILMARE_*` environment variable, file, the row's fallback variables (NODENAME, ...), default. A key `mqtt.keepAlive`
 * is nested in the YAML file, is `--mqtt-keep-alive` as a flag and `ILMARE_MQTT_KEEP_ALIVE` in the environment. Unknown keys, wrong types,
 * values out of range and rules that do not hold are errors that name the file and line (or the flag, or the variable). An ILMARE_ variable
 * that is no setting is warned of, since other programs may have it. Main thread, at start.
 */
#ifndef COMMON_CONFIG_H
#define COMMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

enum config_type {
	CONFIG_STRING,   /* char *; owned by the configuration */
	CONFIG_INT,      /* int64_t */
	CONFIG_BOOL,     /* bool; as a flag: --x, --x=false, --no-x */
	CONFIG_DURATION, /* int64_t milliseconds: "250ms", "10s", "5m", "24h", "7d"; a bare number is seconds */
	CONFIG_SIZE,     /* int64_t bytes: "64", "256kB" (1000), "1MiB" (1024), ... */
	CONFIG_ENUM,     /* char *; one of the words in `choices` */
	CONFIG_LIST,     /* char *; several strings, stored joined by newline; in the environment, as a flag and as a default by comma */
	CONFIG_MAP /* char *; a map of string to string below the key (or string to map, one level), stored as JSON text; in the environment,
	                  * as a flag and as a default it is JSON */
};

typedef struct config_row {
	const char *key;
	enum config_type type;
	size_t offset;        /* of the field in the target struct */
	const char *fallback; /* default, as text as it would stand in the file; NULL: unset (strings: NULL) */
	int64_t min, max;     /* INT, DURATION, SIZE; both 0: no range; max INT64_MAX: "at least min" */
	const char *choices;  /* ENUM: words separated by '|' */
	const char *env;      /* further environment variables, separated by ',', looked at last; or NULL */
	bool secret;          /* never printed */
	const char *help;     /* one or two sentences */
} config_row;

typedef struct config_rules config_rules;

typedef struct config_spec {
	const char *program;      /* "ilmare-edge" */
	const char *summary;      /* one line */
	const char *about;        /* a paragraph for --help and the man page */
	const char *default_file; /* read if it exists and no other is named; or NULL */
	const config_row *rows;
	size_t n;
	/* Optional: what the program does instead of running, if it is the first argument; the program looks for these itself. Term and text. */
	const char *const (*tasks)[2];
	size_t n_tasks;
	/* Optional: what the rows cannot say. Calls config_broken for each rule that does not hold. */
	void (*check)(const void *target, config_rules *rules);
	/* Or NULL: variables of other programs that may be in the same environment, without ILMARE_, separated by ','; a '*' at the end of
	 * one stands for anything. */
	const char *foreign;
} config_spec;

/* The setting `key` breaks a rule; the text goes on from "key: ". `with`: other keys, separated by ',', whose values have a part in it, or
 * NULL. The place named is that of the first of all these which is not a default. Nothing is said of a setting whose value was refused. */
void config_broken(config_rules *rules, const char *key, const char *with, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

enum config_result {
	CONFIG_RUN,
	CONFIG_EXIT /* --help, --version, --check-config, --print-man or --print-example was answered, or an error said: exit with *status */
};

/* Read everything into `target` (zeroed by the caller). `--config FILE`, else ILMARE_CONFIG, names the file; without them the spec's
 * default file is read if it exists.
 * On error prints every one to stderr and returns CONFIG_EXIT with *status = 2. --check-config reads and checks the same, prints the
 * effective values (secrets as "***") with where each came from, and exits 0 or 2. */
enum config_result config_load(const config_spec *spec, int argc, char **argv, void *target, int *status);
void config_free(const config_spec *spec, void *target);

/* The pieces, for tests, the fuzz target and the tools. config_parse_file sets what the file sets, no defaults, and returns the first
 * error; what was right before and after it is set nevertheless. Free the target with config_free. */
int config_parse_file(const config_spec *spec, const char *name, const char *data, size_t len, void *target, error *err);
void config_print_help(const config_spec *spec, FILE *out);
void config_print_man(const config_spec *spec, FILE *out);     /* a roff man page, section 8 */
void config_print_example(const config_spec *spec, FILE *out); /* a YAML file with every key, its default and help, commented out */
int config_parse_duration(const char *text, int64_t *ms);
int config_parse_size(const char *text, int64_t *bytes);

#endif
