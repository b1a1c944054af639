/* Reading the configuration in order of precedence: see config.h for the contract.
 *
 * Sources are applied from the weakest to the strongest, each over the one before: defaults, the rows' further variables, the file,
 * ILMARE_ variables, flags. Beside each row stands where its value came from. All that is wrong is collected and said together.
 */
#include "common/config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/config_internal.h"
#include "common/file.h"
#include "common/log.h"
#include "common/version.h"

enum { EXIT_USAGE = 2 };
enum question { ASK_NOTHING, ASK_HELP, ASK_VERSION, ASK_CHECK, ASK_MAN, ASK_EXAMPLE };

typedef struct loading {
	const config_spec *spec;
	void *target;
	config_place *places; /* one a row */
	const char **flags;   /* one a row: the text given, or NULL */
	const char *file;     /* --config, later the file that was read, or NULL */
	enum question question;
	config_problems problems;
} loading;

void config__problem(config_problems *p, int code, const char *fmt, ...)
{
	char text[sizeof p->first.text];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (p->n++ == 0)
		error_set(&p->first, code, "%s", text);
	buf_printf(&p->text, "%s\n", text);
}

void config__problems_fini(config_problems *p)
{
	buf_fini(&p->text);
}

void config__flag_name(const char *key, char out[CONFIG_NAME_MAX])
{
	size_t n = 0;
	for (size_t i = 0; key[i] != '\0' && n < CONFIG_NAME_MAX - 2; i++) {
		if (isupper((unsigned char)key[i]) && i > 0 && (islower((unsigned char)key[i - 1]) || isdigit((unsigned char)key[i - 1])))
			out[n++] = '-';
		out[n++] = key[i] == '.' ? '-' : (char)tolower((unsigned char)key[i]);
	}
	out[n] = '\0';
}

void config__env_name(const char *key, char out[CONFIG_NAME_MAX])
{
	char flag[CONFIG_NAME_MAX];
	config__flag_name(key, flag);
	size_t n = (size_t)snprintf(out, CONFIG_NAME_MAX, "ILMARE_");
	for (size_t i = 0; flag[i] != '\0' && n < CONFIG_NAME_MAX - 1; i++)
		out[n++] = flag[i] == '-' ? '_' : (char)toupper((unsigned char)flag[i]);
	out[n] = '\0';
}

/* Set row i from text that came from `source`. */
static void apply(loading *l, size_t i, const char *text, const char *source)
{
	error err = {0};
	int code = config__set(&l->spec->rows[i], l->target, text, &err);
	if (code != 0) {
		config__problem(&l->problems, code, "%s: %s", source, err.text);
		l->places[i].refused = true;
		return;
	}
	free(l->places[i].source);
	l->places[i].source = mem_strdup(source);
}

static void apply_defaults(loading *l)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		if (l->spec->rows[i].fallback != NULL)
			apply(l, i, l->spec->rows[i].fallback, "default");
	}
}

/* The first of the row's further variables that is set and not empty. */
static void apply_fallback_variables(loading *l)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		const char *names = l->spec->rows[i].env;
		while (names != NULL && *names != '\0') {
			size_t n = strcspn(names, ",");
			char *name = mem_strndup(names, n);
			const char *value = getenv(name);
			bool found = value != NULL && value[0] != '\0';
			if (found)
				apply(l, i, value, name);
			free(name);
			if (found)
				break;
			names += n + (names[n] == ',');
		}
	}
}

static void apply_variables(loading *l)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		char name[CONFIG_NAME_MAX];
		config__env_name(l->spec->rows[i].key, name);
		const char *value = getenv(name);
		if (value != NULL)
			apply(l, i, value, name);
	}
}

static void apply_flags(loading *l)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		char name[CONFIG_NAME_MAX], source[CONFIG_NAME_MAX + 2];
		if (l->flags[i] == NULL)
			continue;
		config__flag_name(l->spec->rows[i].key, name);
		snprintf(source, sizeof source, "--%s", name);
		apply(l, i, l->flags[i], source);
	}
}

static void apply_file(loading *l)
{
	const char *path = l->file != NULL ? l->file : getenv("ILMARE_CONFIG");
	bool wanted = path != NULL && path[0] != '\0';
	if (!wanted)
		path = l->spec->default_file;
	l->file = NULL;
	if (path == NULL)
		return;
	buf text = {0};
	error err = {0};
	int code = file_read(path, CONFIG_FILE_MAX, &text, &err);
	if (code == 0) {
		l->file = path;
		config__file(l->spec, path, buf_text(&text), text.len, l->target, l->places, &l->problems);
	} else if (wanted || code != ERROR_NOT_FOUND) {
		config__problem(&l->problems, code, "%s", err.text);
	}
	buf_fini(&text);
}

/* The row whose flag has this name; for a bool also "no-" before it, then *negated. */
static const config_row *row_of_flag(const config_spec *spec, const char *name, size_t len, bool *negated)
{
	*negated = false;
	for (size_t i = 0; i < spec->n; i++) {
		char flag[CONFIG_NAME_MAX];
		config__flag_name(spec->rows[i].key, flag);
		if (strlen(flag) == len && memcmp(flag, name, len) == 0)
			return &spec->rows[i];
		if (spec->rows[i].type == CONFIG_BOOL && len == strlen(flag) + 3 && memcmp(name, "no-", 3) == 0 &&
			memcmp(name + 3, flag, len - 3) == 0) {
			*negated = true;
			return &spec->rows[i];
		}
	}
	return NULL;
}

static bool parse_question(loading *l, const char *arg)
{
	static const struct {
		const char *flag;
		enum question question;
	} table[] = {{"--help", ASK_HELP}, {"-h", ASK_HELP}, {"--version", ASK_VERSION}, {"-V", ASK_VERSION}, {"--check-config", ASK_CHECK},
		{"--print-man", ASK_MAN}, {"--print-example", ASK_EXAMPLE}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (strcmp(arg, table[i].flag) == 0) {
			l->question = table[i].question;
			return true;
		}
	}
	return false;
}

/* argv[i] begins with "--"; returns how many arguments were taken. */
static int parse_flag(loading *l, int argc, char **argv, int i)
{
	const char *name = argv[i] + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;
	bool negated, is_file = len == strlen("config") && memcmp(name, "config", len) == 0;
	const config_row *row = is_file ? NULL : row_of_flag(l->spec, name, len, &negated);
	if (row == NULL && !is_file) {
		config__problem(&l->problems, ERROR_INVALID, "--%.*s: there is no such flag; see --help", (int)(len < 100 ? len : 100), name);
		return 1;
	}
	if (row != NULL && row->type == CONFIG_BOOL) {
		if (negated && value != NULL)
			config__problem(&l->problems, ERROR_INVALID, "--%.*s: takes no value", (int)len, name);
		l->flags[row - l->spec->rows] = negated ? "false" : value != NULL ? value : "true";
		return 1;
	}
	int taken = 1;
	if (value == NULL && i + 1 < argc) {
		value = argv[i + 1];
		taken = 2;
	}
	if (value == NULL)
		config__problem(&l->problems, ERROR_INVALID, "--%.*s: a value must follow", (int)len, name);
	else if (is_file)
		l->file = value;
	else
		l->flags[row - l->spec->rows] = value;
	return taken;
}

static void parse_arguments(loading *l, int argc, char **argv)
{
	for (int i = 1; i < argc;) {
		if (parse_question(l, argv[i])) {
			i++;
		} else if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0') {
			i += parse_flag(l, argc, argv, i);
		} else {
			config__problem(&l->problems, ERROR_INVALID, "\"%.100s\": only flags are taken; see --help", argv[i]);
			i++;
		}
	}
}

static void print_unknown_variable(const char *name, const char *meant)
{
	if (meant != NULL)
		printf("# warning: %s: there is no such setting; did you mean %s?\n", name, meant);
	else
		printf("# warning: %s: there is no such setting; see --help\n", name);
}

static void log_unknown_variable(const char *name, const char *meant)
{
	log_warn("config", "a variable is no setting", L_STR("variable", name), L_STR("did_you_mean", meant));
}

static void print_effective(const loading *l)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		buf value = {0};
		config__show(&l->spec->rows[i], l->target, &value);
		printf("%s: %s  # %s\n", l->spec->rows[i].key, buf_text(&value), l->places[i].source != NULL ? l->places[i].source : "not set");
		buf_fini(&value);
	}
	config__unknown_variables(l->spec, print_unknown_variable);
}

/* Questions that are answered without reading anything. */
static bool answer(const loading *l)
{
	switch (l->question) {
	case ASK_HELP:
		config_print_help(l->spec, stdout);
		return true;
	case ASK_VERSION:
		printf("%s %s\n", l->spec->program, ILMARE_VERSION);
		return true;
	case ASK_MAN:
		config_print_man(l->spec, stdout);
		return true;
	case ASK_EXAMPLE:
		config_print_example(l->spec, stdout);
		return true;
	default:
		return false;
	}
}

struct config_rules {
	loading *l;
};

static const config_place *place_of(const loading *l, const char *key, size_t len)
{
	for (size_t i = 0; i < l->spec->n; i++) {
		if (strlen(l->spec->rows[i].key) == len && memcmp(l->spec->rows[i].key, key, len) == 0)
			return &l->places[i];
	}
	return NULL;
}

/* The first of the keys that somebody set decides where; false if the value of one of them was refused. */
static bool place_find(const loading *l, const char *keys, const char **source)
{
	for (const char *key = keys; key != NULL && *key != '\0';) {
		size_t n = strcspn(key, ",");
		const config_place *place = place_of(l, key, n);
		if (place != NULL && place->refused)
			return false;
		if (*source == NULL && place != NULL && place->source != NULL && strcmp(place->source, "default") != 0)
			*source = place->source;
		key += n + (key[n] == ',');
	}
	return true;
}

void config_broken(config_rules *rules, const char *key, const char *with, const char *fmt, ...)
{
	loading *l = rules->l;
	const char *source = NULL;
	if (!place_find(l, key, &source) || !place_find(l, with, &source))
		return;
	if (source == NULL)
		source = l->file; /* nobody has set it: that is what this file lacks */
	char text[sizeof l->problems.first.text];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	config__problem(&l->problems, ERROR_INVALID, "%s%s%s: %s", source != NULL ? source : "", source != NULL ? ": " : "", key, text);
}

static void load(loading *l)
{
	apply_defaults(l);
	apply_fallback_variables(l);
	apply_file(l);
	apply_variables(l);
	apply_flags(l);
	config_rules rules = {l};
	if (l->spec->check != NULL)
		l->spec->check(l->target, &rules);
}

enum config_result config_load(const config_spec *spec, int argc, char **argv, void *target, int *status)
{
	loading l = {.spec = spec, .target = target};
	l.places = mem_alloc(spec->n * sizeof *l.places);
	l.flags = mem_alloc(spec->n * sizeof *l.flags);
	enum config_result result = CONFIG_EXIT;
	*status = 0;
	parse_arguments(&l, argc, argv);
	if (!answer(&l)) {
		load(&l);
		if (l.question == ASK_CHECK)
			print_effective(&l);
		else
			result = CONFIG_RUN;
	}
	if (l.problems.n > 0) {
		fflush(stdout);
		fprintf(stderr, "%s: the configuration cannot be used:\n%s", spec->program, buf_text(&l.problems.text));
		*status = EXIT_USAGE;
		result = CONFIG_EXIT;
	} else if (fflush(stdout) != 0) {
		*status = EXIT_FAILURE;
	}
	if (result == CONFIG_RUN)
		config__unknown_variables(spec, log_unknown_variable);
	for (size_t i = 0; i < spec->n; i++)
		free(l.places[i].source);
	free(l.places);
	free(l.flags);
	config__problems_fini(&l.problems);
	return result;
}

void config_free(const config_spec *spec, void *target)
{
	for (size_t i = 0; i < spec->n; i++)
		config__unset(&spec->rows[i], target);
}
