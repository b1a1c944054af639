/* --help and the man page, from the tables of options.c and outcome.h. */
#include <string.h>

#include "common/manual.h"
#include "common/version.h"
#include "transfer/options_internal.h"
#include "transfer/outcome.h"

static const char about[] = "Fetches from and sends to stores for S3 (signature version 4) and reads from http and https servers. It runs "
							"as the init container of a worker's "
							"pod and as a child of the edge agent. A transfer that broke off goes on where it ended, one that stalls is "
							"tried again, and a file is what it was "
							"before until all of the new one is there.";

static const char *const variables[][2] = {
	{"S3_ENDPOINT_URL",
		"Address of the store: HOST, HOST:PORT, http://HOST:PORT or https://HOST:PORT; https unless it says http. Default: Amazon's."},
	{"ACCESS_KEY_ID, SECRET_ACCESS_KEY", "The key. Without both, requests are not signed."},
	{"AWS_REGION", "What requests are signed for. Default: that of Amazon's host name, else us-east-1."},
	{"SSL_CERT_FILE", "Certificates of authorities, in place of the system's: these alone are believed."},
	{"https_proxy, http_proxy, no_proxy", "Proxies."},
};

static const struct {
	int status;
	const char *word, *text;
} outcomes[] = {
#define X(id, status, word, text) {status, word, text},
	OUTCOME_MAP(X)
#undef X
};

void options_print_help(FILE *out)
{
	fputs("ilmare-transfer: fetches and sends files, to and from stores for S3, from http and https\n\n", out);
	for (int i = 0; i < COMMANDS; i++) {
		const options_command *c = &options__commands[i];
		fprintf(out, "  ilmare-transfer %s%s[FLAG...] %s\n", c->name != NULL ? c->name : "", c->name != NULL ? " " : "", c->words);
		manual_wrapped(out, "      ", c->help);
	}
	fputc('\n', out);
	manual_wrapped(out, "", about);
	fputs("\nFlags:\n\n", out);
	for (size_t i = 0; i < options__n_flags; i++) {
		const options_flag *f = &options__flags[i];
		fprintf(out, "  %s%s%s\n", f->name, f->value != NULL ? " " : "", f->value != NULL ? f->value : "");
		manual_wrapped(out, "      ", f->help);
	}
	fputs("  --help, --version, --print-man\n      Print this, the version, or the man page (roff), and end.\n\nVariables:\n\n", out);
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
		fprintf(out, "  %s\n", variables[i][0]);
		manual_wrapped(out, "      ", variables[i][1]);
	}
	fputs("\nExit status:\n\n", out);
	for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
		fprintf(out, "  %-3d %-10s %s\n", outcomes[i].status, outcomes[i].word, outcomes[i].text);
}

static void man_entry(FILE *out, const char *term, const char *value, const char *text)
{
	fputs(".TP\n.B ", out);
	manual_roff(out, term);
	if (value != NULL) {
		fputc(' ', out);
		manual_roff(out, value);
	}
	fputc('\n', out);
	manual_roff(out, text);
	fputc('\n', out);
}

void options_print_man(FILE *out)
{
	fprintf(out, ".TH ILMARE-TRANSFER 8 \"\" \"ilmare %s\" \"Ilmare\"\n.SH NAME\n", ILMARE_VERSION);
	fputs("ilmare\\-transfer \\- fetches and sends files, to and from stores for S3, from http and https\n.SH SYNOPSIS\n", out);
	for (int i = 0; i < COMMANDS; i++) {
		const options_command *c = &options__commands[i];
		fputs(i > 0 ? ".br\n.B ilmare\\-transfer\n" : ".B ilmare\\-transfer\n", out);
		if (c->name != NULL) {
			fputs(".B ", out);
			manual_roff(out, c->name);
			fputc('\n', out);
		}
		fputs("[\\fIFLAG\\fR...] ", out);
		manual_roff(out, c->words);
		fputc('\n', out);
	}
	fputs(".SH DESCRIPTION\n", out);
	manual_roff(out, about);
	fputs("\n.SH COMMANDS\n", out);
	for (int i = 0; i < COMMANDS; i++) {
		const options_command *c = &options__commands[i];
		man_entry(out, c->name != NULL ? c->name : c->words, c->name != NULL ? c->words : NULL, c->help);
	}
	fputs(".SH OPTIONS\n", out);
	for (size_t i = 0; i < options__n_flags; i++)
		man_entry(out, options__flags[i].name, options__flags[i].value, options__flags[i].help);
	fputs(".SH ENVIRONMENT\n", out);
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		man_entry(out, variables[i][0], NULL, variables[i][1]);
	fputs(".SH EXIT STATUS\n", out);
	for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
		char term[32];
		(void)snprintf(term, sizeof term, "%d", outcomes[i].status);
		man_entry(out, term, outcomes[i].word, outcomes[i].text);
	}
	fputs(".SH SEE ALSO\nilmare\\-edge(8), ilmare\\-cloud(8)\n", out);
}
