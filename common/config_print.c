/* What is made from the table for people: --help, the man page, an example file. They cannot say other things than the parser does. */
#include <string.h>

#include "common/config_internal.h"
#include "common/manual.h"
#include "common/version.h"

static const char *const type_words[] = {
	[CONFIG_STRING] = "TEXT",
	[CONFIG_INT] = "NUMBER",
	[CONFIG_BOOL] = "",
	[CONFIG_DURATION] = "DURATION",
	[CONFIG_SIZE] = "SIZE",
	[CONFIG_ENUM] = "WORD",
	[CONFIG_LIST] = "TEXT,TEXT",
	[CONFIG_MAP] = "JSON",
};

static const char *const common_flags[][2] = {
	{"--check-config", "Read everything, print the values in effect and where each came from, name every mistake, and end: 0 or 2."},
	{"--print-example", "Print an example file with every setting, and end."},
	{"--print-man", "Print the man page (roff), and end."},
	{"--help", "Print this, and end."},
	{"--version", "Print the version, and end."},
};

static void row_details(const config_row *row, buf *out)
{
	char env[CONFIG_NAME_MAX];
	config__env_name(row->key, env);
	buf_puts(out, "Must be ");
	config__expected(row, out);
	if (row->fallback == NULL)
		buf_puts(out, ". Not set by default");
	else
		buf_printf(out, ". Default: %s", row->fallback[0] != '\0' ? row->fallback : "empty");
	buf_printf(out, ". Variable: %s", env);
	if (row->env != NULL)
		buf_printf(out, ", else %s", row->env);
	buf_puts(out, ".");
}

/* Which file is read, for --help and OPTIONS. */
static void config_flag(const config_spec *spec, buf *out)
{
	buf_puts(out, "Read this YAML file. Without it the file that ILMARE_CONFIG names");
	if (spec->default_file != NULL)
		buf_printf(out, ", else %s if it exists", spec->default_file);
	buf_puts(out, ".");
}

static const char config_flag_term[] = "--config FILE";

void config_print_help(const config_spec *spec, FILE *out)
{
	fprintf(out, "%s: %s\n\nUsage: %s [FLAG...]\n\n", spec->program, spec->summary, spec->program);
	manual_wrapped(out, "", spec->about);
	buf which = {0};
	config_flag(spec, &which);
	fprintf(out, "\nFlags of every program:\n\n  %s\n", config_flag_term);
	manual_wrapped(out, "      ", buf_text(&which));
	buf_fini(&which);
	for (size_t i = 0; i < sizeof common_flags / sizeof common_flags[0]; i++) {
		fprintf(out, "  %s\n", common_flags[i][0]);
		manual_wrapped(out, "      ", common_flags[i][1]);
	}
	for (size_t i = 0; i < spec->n_tasks; i++) {
		fprintf(out, "  %s\n", spec->tasks[i][0]);
		manual_wrapped(out, "      ", spec->tasks[i][1]);
	}
	fputs("\nSettings, as flags; in the file under the key in parentheses:\n\n", out);
	for (size_t i = 0; i < spec->n; i++) {
		const config_row *row = &spec->rows[i];
		char flag[CONFIG_NAME_MAX];
		buf details = {0};
		config__flag_name(row->key, flag);
		row_details(row, &details);
		const char *word = type_words[row->type];
		fprintf(out, "  --%s%s%s  (%s)\n", flag, word[0] != '\0' ? " " : "", word, row->key);
		manual_wrapped(out, "      ", row->help);
		manual_wrapped(out, "      ", buf_text(&details));
		buf_fini(&details);
	}
}

static void man_entry(FILE *out, const char *term, const char *text)
{
	fputs(".TP\n.B ", out);
	manual_roff(out, term);
	fputc('\n', out);
	manual_roff(out, text);
	fputc('\n', out);
}

void config_print_man(const config_spec *spec, FILE *out)
{
	buf title = {0};
	for (const char *p = spec->program; *p != '\0'; p++)
		buf_putc(&title, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
	fprintf(out, ".TH %s 8 \"\" \"ilmare %s\" \"Ilmare\"\n.SH NAME\n", buf_text(&title), ILMARE_VERSION);
	buf_fini(&title);
	manual_roff(out, spec->program);
	fputs(" \\- ", out);
	manual_roff(out, spec->summary);
	fputs("\n.SH SYNOPSIS\n.B ", out);
	manual_roff(out, spec->program);
	fputs("\n[\\fIFLAG\\fR...]\n.SH DESCRIPTION\n", out);
	manual_roff(out, spec->about);
	fputs("\n.SH OPTIONS\n", out);
	buf which = {0};
	config_flag(spec, &which);
	man_entry(out, config_flag_term, buf_text(&which));
	buf_fini(&which);
	for (size_t i = 0; i < sizeof common_flags / sizeof common_flags[0]; i++)
		man_entry(out, common_flags[i][0], common_flags[i][1]);
	for (size_t i = 0; i < spec->n_tasks; i++)
		man_entry(out, spec->tasks[i][0], spec->tasks[i][1]);
	fputs(".SH SETTINGS\nEach can stand in the YAML file, nested at the points of its name, in the environment, or as a flag. "
		  "A flag goes before the environment, the environment before the file.\n",
		out);
	for (size_t i = 0; i < spec->n; i++) {
		const config_row *row = &spec->rows[i];
		char flag[CONFIG_NAME_MAX];
		buf text = {0};
		config__flag_name(row->key, flag);
		buf_printf(&text, "%s\n", row->help);
		row_details(row, &text);
		buf_printf(&text, " Flag: --%s.", flag);
		man_entry(out, row->key, buf_text(&text));
		buf_fini(&text);
	}
	if (spec->default_file != NULL) {
		fputs(".SH FILES\n", out);
		man_entry(out, spec->default_file, "The settings, if neither --config nor ILMARE_CONFIG names another file. It need not exist.");
	}
	fputs(".SH EXIT STATUS\n0 after a stop that was asked for, 1 when it cannot go on, 2 when the configuration cannot be used.\n", out);
}

/* Opens the sections of `key` that were not open for the key before; returns where its last part begins. They are no comments, so that a
 * setting can be taken out of its comment alone. */
static const char *example_sections(FILE *out, const char *key, const char *before, int *depth)
{
	const char *part = key;
	*depth = 0;
	for (const char *point = strchr(part, '.'); point != NULL; point = strchr(part, '.')) {
		size_t len = (size_t)(point - key) + 1;
		if (strncmp(key, before, len) != 0)
			fprintf(out, "%*s%.*s:\n", 2 * *depth, "", (int)(point - part), part);
		part = point + 1;
		++*depth;
	}
	return part;
}

void config_print_example(const config_spec *spec, FILE *out)
{
	fprintf(out, "# Settings of %s, with their defaults.\n", spec->program);
	const char *before = "";
	for (size_t i = 0; i < spec->n; i++) {
		const config_row *row = &spec->rows[i];
		buf details = {0};
		int depth;
		row_details(row, &details);
		fputc('\n', out);
		manual_wrapped(out, "# ", row->help);
		manual_wrapped(out, "# ", buf_text(&details));
		const char *last = example_sections(out, row->key, before, &depth);
		const char *value = row->fallback != NULL ? row->fallback : "";
		bool list = row->type == CONFIG_LIST;
		fprintf(out, "#%*s%s: %s%s%s\n", 2 * depth, "", last, list ? "[" : "", value, list ? "]" : "");
		buf_fini(&details);
		before = row->key;
	}
}
