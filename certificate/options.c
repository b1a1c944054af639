/* Arguments: see options.h. One table of flags drives the parser, --help and the man page. */
#include "certificate/options.h"

#include <stddef.h>
#include <string.h>

#include "common/config.h"
#include "common/http/endpoint.h"
#include "common/manual.h"
#include "common/version.h"
#include "proto/topic.h"

#define SUMMARY "gets a device's certificate from the cloud agent of Ilmare, and renews it"
#define MAN_SUMMARY "gets a device\\(aqs certificate from the cloud agent of Ilmare, and renews it"

static const char about[] = "Makes a key, asks the enrolment endpoint of the cloud agent for a certificate, and puts both into "
							"DIR/node.pem, by rename, so that whoever reads "
							"that file finds a certificate and its own key. The key never leaves this machine. Until there is an answer it "
							"is kept in DIR/node.key.new, so "
							"that an answer that was lost can be had once more. ilmare-edge runs this program by itself; by hand it is of "
							"use to see what is wrong. What is "
							"wrong is said in one line.";

enum flag_id { FLAG_URL, FLAG_NODE, FLAG_CA, FLAG_TOKEN, FLAG_DIR, FLAG_RENEW, FLAG_CONNECT, FLAG_TOTAL, FLAG_STDIN, FLAGS };

static const struct {
	const char *name, *value, *help;
} flags[] = {
	[FLAG_URL] = {"--url", "URL", "The endpoint, https://HOST:PORT. Needed."},
	[FLAG_NODE] = {"--node", "NAME", "The node's name, which becomes the certificate's. Needed."},
	[FLAG_CA] = {"--ca", "FILE", "PEM file of the authorities that may have signed the endpoint's certificate. Default: the system's."},
	[FLAG_TOKEN] = {"--token-file", "FILE", "File whose first line is the token that proves which node this is. Needed without --renew."},
	[FLAG_DIR] = {"--dir", "DIR", "Folder of key and certificate, made if it is missing. Needed."},
	[FLAG_RENEW] = {"--renew", NULL, "Prove it with the certificate that is in DIR, and no token. A new key is made."},
	[FLAG_CONNECT] = {"--connect-time", "DURATION", "Time that a connection may take. Default: 10s."},
	[FLAG_TOTAL] = {"--total-time", "DURATION", "Time that all of it may take. Default: 60s."},
	[FLAG_STDIN] = {"--until-stdin-ends", NULL,
		"Give up when standard input ends: a pipe whose other end only the parent has, so that this program does not outlive one that was "
		"killed."},
};

static const struct {
	const char *status, *text;
} outcomes[] = {
	{"0", "The certificate is in place."},
	{"1", "It could not be had this time: the network, the endpoint, the disk or the clock. Try again."},
	{"2", "The arguments are wrong."},
	{"3", "It was refused. To try again soon makes no sense: the token, the certificate or the name has to be another one."},
};

enum { N_OUTCOMES = sizeof outcomes / sizeof outcomes[0] };

static void print_help(FILE *out)
{
	fputs("ilmare-certificate: " SUMMARY "\n\n  ilmare-certificate --url URL --node NAME [--ca FILE] --token-file FILE --dir DIR\n"
		  "  ilmare-certificate --url URL --node NAME [--ca FILE] --renew --dir DIR\n\n",
		out);
	manual_wrapped(out, "", about);
	fputs("\nFlags:\n\n", out);
	for (size_t i = 0; i < FLAGS; i++) {
		fprintf(out, "  %s%s%s\n", flags[i].name, flags[i].value ? " " : "", flags[i].value ? flags[i].value : "");
		manual_wrapped(out, "      ", flags[i].help);
	}
	fputs("  --help, --version, --print-man\n      Print this, the version, or the man page (roff), and end.\n\nExit status:\n\n", out);
	for (size_t i = 0; i < N_OUTCOMES; i++)
		fprintf(out, "  %s  %s\n", outcomes[i].status, outcomes[i].text);
}

static void man_entry(FILE *out, const char *term, const char *value, const char *text)
{
	fputs(".TP\n.B ", out);
	manual_roff(out, term);
	if (value) {
		fputc(' ', out);
		manual_roff(out, value);
	}
	fputc('\n', out);
	manual_roff(out, text);
	fputc('\n', out);
}

static void print_man(FILE *out)
{
	fprintf(out, ".TH ILMARE-CERTIFICATE 8 \"\" \"ilmare %s\" \"Ilmare\"\n.SH NAME\n", ILMARE_VERSION);
	fputs("ilmare\\-certificate \\- " MAN_SUMMARY "\n.SH SYNOPSIS\n", out);
	fputs(".B ilmare\\-certificate\n\\-\\-url \\fIURL\\fR \\-\\-node \\fINAME\\fR [\\-\\-ca \\fIFILE\\fR] "
		  "{\\-\\-token\\-file \\fIFILE\\fR|\\-\\-renew} \\-\\-dir \\fIDIR\\fR\n.SH DESCRIPTION\n",
		out);
	manual_roff(out, about);
	fputs("\n.SH OPTIONS\n", out);
	for (size_t i = 0; i < FLAGS; i++)
		man_entry(out, flags[i].name, flags[i].value, flags[i].help);
	fputs(".SH EXIT STATUS\n", out);
	for (size_t i = 0; i < N_OUTCOMES; i++)
		man_entry(out, outcomes[i].status, NULL, outcomes[i].text);
	fputs(".SH SEE ALSO\nilmare\\-edge(8), ilmare\\-cloud(8)\n", out);
}

static int take_duration(const char *name, const char *text, int64_t *out, error *err)
{
	if (config_parse_duration(text, out) != 0 || *out < 10 || *out > 3600000)
		return error_set(err, ERROR_INVALID, "%s must be a duration from 10ms to 1h, such as 30s", name);
	return 0;
}

static int take(options *o, enum flag_id id, const char *value, error *err)
{
	switch (id) {
	case FLAG_URL:
		o->url = value;
		break;
	case FLAG_NODE:
		o->node = value;
		break;
	case FLAG_CA:
		o->ca_file = value;
		break;
	case FLAG_TOKEN:
		o->token_file = value;
		break;
	case FLAG_DIR:
		o->dir = value;
		break;
	case FLAG_RENEW:
		o->renew = true;
		break;
	case FLAG_CONNECT:
		return take_duration(flags[id].name, value, &o->connect_ms, err);
	case FLAG_TOTAL:
		return take_duration(flags[id].name, value, &o->total_ms, err);
	case FLAG_STDIN:
		o->until_stdin_ends = true;
		break;
	case FLAGS:
		break;
	}
	return 0;
}

static int take_word(options *o, int argc, char **argv, int *i, error *err)
{
	const char *word = argv[*i], *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : strlen(word);

	for (size_t f = 0; f < FLAGS; f++) {
		if (strlen(flags[f].name) != len || memcmp(flags[f].name, word, len) != 0)
			continue;
		if (!flags[f].value)
			return equals ? error_set(err, ERROR_INVALID, "%s takes no value", flags[f].name) : take(o, (enum flag_id)f, NULL, err);
		if (!equals && ++*i == argc)
			return error_set(err, ERROR_INVALID, "%s needs a value: %s", flags[f].name, flags[f].value);
		return take(o, (enum flag_id)f, equals ? equals + 1 : argv[*i], err);
	}
	return error_set(err, ERROR_INVALID, "there is no flag %.*s; see --help", (int)(len < 60 ? len : 60), word);
}

static int check(const options *o, error *err)
{
	if (!o->url || !o->node || !o->dir)
		return error_set(err, ERROR_INVALID, "--url, --node and --dir are needed; see --help");
	if (!endpoint_url_valid(o->url) || strncmp(o->url, "https://", 8) != 0)
		return error_set(err, ERROR_INVALID, "--url: \"%.100s\" is not a url such as https://host:8443", o->url);
	if (!name_valid_node(o->node))
		return error_set(err, ERROR_INVALID, "--node: \"%.100s\" is not a node's name", o->node);
	if (o->renew == (o->token_file != NULL))
		return error_set(err, ERROR_INVALID, "either --token-file or --renew is needed");
	return 0;
}

int options_parse(int argc, char **argv, options *out, enum options_result *result, error *err)
{
	int code = 0;

	*out = (options){.connect_ms = 10000, .total_ms = 60000};
	*result = OPTIONS_RUN;
	for (int i = 1; i < argc && code == 0; i++) {
		if (strcmp(argv[i], "--help") == 0)
			print_help(stdout);
		else if (strcmp(argv[i], "--print-man") == 0)
			print_man(stdout);
		else if (strcmp(argv[i], "--version") == 0)
			printf("ilmare-certificate %s\n", ILMARE_VERSION);
		else {
			code = take_word(out, argc, argv, &i, err);
			continue;
		}
		*result = OPTIONS_EXIT;
		return 0;
	}
	return code == 0 ? check(out, err) : code;
}
