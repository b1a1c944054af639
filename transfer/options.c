/* Arguments: see options.h. One table of commands and one of flags drive the parser, --help and the man page (options_print.c). */
#include "transfer/options.h"

#include <string.h>

#include "common/config.h"
#include "common/digest.h"
#include "common/version.h"
#include "transfer/options_internal.h"

#define BIT(c) (1U << (c))
#define ALL ((1U << COMMANDS) - 1)
#define FOLDERS (BIT(COMMAND_COPY_FOLDER) | BIT(COMMAND_MOVE_FOLDER))
#define GETS (BIT(COMMAND_FETCH) | BIT(COMMAND_GET) | BIT(COMMAND_GET_FOLDER))

const options_command options__commands[COMMANDS] = {
	[COMMAND_FETCH] = {NULL, "SOURCE FOLDER [SOURCE FOLDER]...", 2, -1,
		"For the init container of a worker: fetch each SOURCE into the FOLDER behind it. A SOURCE is s3://BUCKET/KEY (an object, else all "
		"objects "
		"below it, kept under its last name), s3://BUCKET/PREFIX/ (all objects below it), http://… or https://…, or @s3://BUCKET/KEY, an "
		"index: "
		"it and the files that it names are fetched. A source that ends in .tar, .tar.gz or .zip is unpacked and removed."},
	[COMMAND_GET] = {"get", "URL FILE", 2, 2,
		"Fetch one object or page into FILE, which is what it was until all of it is there. What a stopped or killed process had fetched "
		"of the same "
		"version is not fetched again."},
	[COMMAND_HEAD] = {"head", "URL", 1, 1, "Size, ETag and Last-Modified of an object or page, as JSON."},
	[COMMAND_PUT] = {"put", "FILE s3://BUCKET/KEY", 2, 2, "Send a file. Above 16 MiB in parts, of which nothing stays if it fails."},
	[COMMAND_GET_FOLDER] = {"get-folder", "s3://BUCKET/PREFIX FOLDER", 2, 2,
		"Fetch all objects below a prefix into FOLDER, several at a time."},
	[COMMAND_PUT_FOLDER] = {"put-folder", "FOLDER s3://BUCKET/PREFIX", 2, 2,
		"Send all files below FOLDER, one after the other in the order of the bytes of their paths."},
	[COMMAND_LIST] = {"list", "s3://BUCKET/PREFIX/", 1, 1, "What is directly below a prefix: a line of JSON for each object and folder."},
	[COMMAND_DELETE] = {"delete", "s3://BUCKET/KEY", 1, 1, "Remove an object. One that is not there is no error."},
	[COMMAND_DELETE_FOLDER] = {"delete-folder", "s3://BUCKET/PREFIX/", 1, 1,
		"Remove all objects below a prefix, which is taken with a '/' at its end. The whole bucket is refused."},
	[COMMAND_COPY] = {"copy", "s3://BUCKET/KEY s3://BUCKET/KEY2", 2, 2, "Let the store copy an object, of at most 5 GiB."},
	[COMMAND_COPY_FOLDER] = {"copy-folder", "s3://BUCKET/FROM/ s3://BUCKET/TO/", 2, 2, "Let the store copy all objects below a prefix."},
	[COMMAND_MOVE_FOLDER] = {"move-folder", "s3://BUCKET/FROM/ s3://BUCKET/TO/", 2, 2,
		"Let the store copy all objects below FROM, and remove each of FROM that is at TO. Killed at any moment, FROM or TO is whole; "
		"doing it again "
		"does the rest."},
};

enum flag_id {
	FLAG_FRESH,
	FLAG_RANGE,
	FLAG_SAME,
	FLAG_IF_MATCH,
	FLAG_IF_NONE_MATCH,
	FLAG_SHA256,
	FLAG_MAX,
	FLAG_NO_MD5,
	FLAG_NEW,
	FLAG_ONLY,
	FLAG_FIRST,
	FLAG_LAST,
	FLAG_JOBS,
	FLAG_ATTEMPTS,
	FLAG_CONNECT,
	FLAG_STALL,
	FLAG_WAIT,
	FLAG_STDIN,
	FLAG_LOG_LEVEL,
	FLAGS
};

const options_flag options__flags[] = {
	[FLAG_FRESH] = {"--fresh", NULL, GETS, "Fetch everything anew, whatever part of it is there."},
	[FLAG_RANGE] = {"--range", "FROM", BIT(COMMAND_GET),
		"Append to FILE, which must have exactly FROM bytes, what the object has behind them."},
	[FLAG_SAME] = {"--same", "BYTES", BIT(COMMAND_GET),
		"With --range: only if the object has at least FROM bytes, and up to this number of them before FROM are those that FILE ends "
		"with; "
		"else FILE stays what it was. 1 to 1048576."},
	[FLAG_IF_MATCH] = {"--if-match", "ETAG", BIT(COMMAND_GET), "With --range: only of this version."},
	[FLAG_IF_NONE_MATCH] = {"--if-none-match", "ETAG", BIT(COMMAND_HEAD), "Only if it is another version than this one."},
	[FLAG_SHA256] = {"--sha256", "HEX", BIT(COMMAND_GET), "What the SHA-256 of the file must be."},
	[FLAG_MAX] = {"--max-size", "BYTES", BIT(COMMAND_GET), "Fetch nothing that is longer."},
	[FLAG_NO_MD5] = {"--etag-is-no-md5", NULL, GETS | BIT(COMMAND_MOVE_FOLDER),
		"Of a store whose ETags look like MD5 digests and are none."},
	[FLAG_NEW] = {"--new", NULL, BIT(COMMAND_PUT) | BIT(COMMAND_PUT_FOLDER),
		"Only if there is no such object yet; with put-folder, that of --last."},
	[FLAG_ONLY] = {"--only", NULL, BIT(COMMAND_PUT_FOLDER),
		"Remove, after all is sent, whatever else is below the prefix, which must not be the whole bucket."},
	[FLAG_FIRST] = {"--first", "NAME", BIT(COMMAND_DELETE_FOLDER), "Remove this object of the folder before all others."},
	[FLAG_LAST] = {"--last", "NAME", BIT(COMMAND_PUT_FOLDER) | FOLDERS,
		"Send, or copy, this file of the folder after all others. move-folder removes it first."},
	[FLAG_JOBS] = {"--jobs", "NUMBER", BIT(COMMAND_FETCH) | BIT(COMMAND_GET_FOLDER) | FOLDERS,
		"Objects fetched or copied at a time, 1 to 64. Default: 8."},
	[FLAG_ATTEMPTS] = {"--attempts", "NUMBER", ALL,
		"Failures in a row, without progress between them, before it gives up, 1 to 100. Default: 8."},
	[FLAG_CONNECT] = {"--connect-time", "DURATION", ALL, "Time that a connection may take. Default: 10s."},
	[FLAG_STALL] = {"--stall-time", "DURATION", ALL, "Time in which at least one byte must move. Default: 60s."},
	[FLAG_WAIT] = {"--retry-wait", "DURATION", ALL, "First wait after a failure; it doubles, up to sixty times as long. Default: 500ms."},
	[FLAG_STDIN] = {"--until-stdin-ends", NULL, ALL,
		"End as if by SIGTERM when standard input ends: a pipe whose other end only the parent has, so that this program does not outlive "
		"one "
		"that was killed. What comes from it is not looked at."},
	[FLAG_LOG_LEVEL] = {"--log-level", "LEVEL", ALL, "error, warn, info or debug. Default: info."},
};
const size_t options__n_flags = FLAGS;

static int number(const char *name, const char *text, int64_t min, int64_t max, int64_t *out, error *err)
{
	int64_t n = 0;
	size_t len = strspn(text, "0123456789");
	bool good = len > 0 && len < 18 && text[len] == '\0';
	for (size_t i = 0; good && i < len; i++)
		n = n * 10 + (text[i] - '0');
	if (!good || n < min || n > max)
		return error_set(err, ERROR_INVALID, "%s must be a whole number from %lld to %lld", name, (long long)min, (long long)max);
	*out = n;
	return 0;
}

static int duration(const char *name, const char *text, int64_t *out, error *err)
{
	if (config_parse_duration(text, out) != 0 || *out < 10 || *out > 3600000)
		return error_set(err, ERROR_INVALID, "%s must be a duration from 10ms to 1h, such as 30s", name);
	return 0;
}

static int header_text(const char *name, const char *text, const char **out, error *err)
{
	for (const char *p = text; *p != '\0'; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7F)
			return error_set(err, ERROR_INVALID, "%s has a control character in it", name);
	}
	if (text[0] == '\0' || strlen(text) > 255)
		return error_set(err, ERROR_INVALID, "%s is empty or longer than 255 bytes", name);
	*out = text;
	return 0;
}

static int set_flag(options *o, enum flag_id id, const char *value, error *err)
{
	const char *name = options__flags[id].name;
	digest ignored;
	switch (id) {
	case FLAG_FRESH:
		o->fresh = true;
		return 0;
	case FLAG_NEW:
		o->only_new = true;
		return 0;
	case FLAG_ONLY:
		o->only = true;
		return 0;
	case FLAG_NO_MD5:
		o->etag_is_no_md5 = true;
		return 0;
	case FLAG_RANGE:
		o->has_range = true;
		return number(name, value, 0, INT64_C(1) << 50, &o->range, err);
	case FLAG_MAX:
		return number(name, value, 1, INT64_C(1) << 50, &o->max_size, err);
	case FLAG_STDIN:
		o->until_stdin_ends = true;
		return 0;
	case FLAG_SAME:
		return number(name, value, 1, OPTIONS_SAME_MAX, &o->same, err);
	case FLAG_JOBS:
		return number(name, value, 1, 64, &o->jobs, err);
	case FLAG_ATTEMPTS:
		return number(name, value, 1, 100, &o->attempts, err);
	case FLAG_CONNECT:
		return duration(name, value, &o->connect_ms, err);
	case FLAG_STALL:
		return duration(name, value, &o->stall_ms, err);
	case FLAG_WAIT:
		return duration(name, value, &o->retry_wait_ms, err);
	case FLAG_IF_MATCH:
		return header_text(name, value, &o->if_match, err);
	case FLAG_IF_NONE_MATCH:
		return header_text(name, value, &o->if_none_match, err);
	case FLAG_FIRST:
		o->first = value;
		return 0;
	case FLAG_LAST:
		o->last = value;
		return 0;
	case FLAG_SHA256:
		o->sha256 = value;
		return digest_parse(value, &ignored) == 0 && strpbrk(value, "ABCDEF") == NULL ?
			0 :
			error_set(err, ERROR_INVALID, "%s must be 64 lower-case hex digits", name);
	case FLAG_LOG_LEVEL:
		return log_level_parse(value, &o->level) == 0 ? 0 : error_set(err, ERROR_INVALID, "%s must be error, warn, info or debug", name);
	default:
		return error_set(err, ERROR_INTERNAL, "the flag %s means nothing", name);
	}
}

static int take_flag(options *o, int argc, char **argv, int *i, error *err)
{
	const char *word = argv[*i], *equals = strchr(word, '=');
	size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
	for (size_t f = 0; f < options__n_flags; f++) {
		const options_flag *flag = &options__flags[f];
		if (strlen(flag->name) != len || memcmp(flag->name, word, len) != 0)
			continue;
		if ((flag->commands & BIT(o->command)) == 0)
			return error_set(err, ERROR_INVALID, "%s is not for this command; see --help", flag->name);
		if (flag->value == NULL)
			return equals == NULL ? set_flag(o, (enum flag_id)f, "", err) : error_set(err, ERROR_INVALID, "%s takes no value", flag->name);
		if (equals == NULL && ++*i == argc)
			return error_set(err, ERROR_INVALID, "%s needs a value: %s", flag->name, flag->value);
		return set_flag(o, (enum flag_id)f, equals != NULL ? equals + 1 : argv[*i], err);
	}
	return error_set(err, ERROR_INVALID, "there is no flag %.*s; see --help", (int)(len < 60 ? len : 60), word);
}

static int check(const options *o, error *err)
{
	const options_command *c = &options__commands[o->command];
	if (o->n_words < c->min || (c->max >= 0 && o->n_words > c->max) || (o->command == COMMAND_FETCH && o->n_words % 2 != 0))
		return error_set(err, ERROR_INVALID, "usage: ilmare-transfer %s%s[FLAG...] %s", c->name != NULL ? c->name : "",
			c->name != NULL ? " " : "", c->words);
	if (o->if_match != NULL && !o->has_range)
		return error_set(err, ERROR_INVALID, "--if-match is for --range; without it the version that is there is fetched");
	if (o->same > 0 && !o->has_range)
		return error_set(err, ERROR_INVALID, "--same is for --range");
	if (o->has_range && (o->fresh || o->sha256 != NULL || o->max_size > 0))
		return error_set(err, ERROR_INVALID, "--range cannot be combined with --fresh, --sha256 or --max-size");
	if (o->command == COMMAND_PUT_FOLDER && o->only_new && o->last == NULL)
		return error_set(err, ERROR_INVALID, "--new with put-folder needs --last: that file decides");
	return 0;
}

int options_parse(int argc, char **argv, options *out, enum options_result *result, error *err)
{
	int first = 1, code = 0;
	bool flags = true;
	*out = (options){.command = COMMAND_FETCH,
		.range = -1,
		.same = -1,
		.max_size = -1,
		.jobs = -1,
		.attempts = -1,
		.connect_ms = -1,
		.stall_ms = -1,
		.retry_wait_ms = -1,
		.level = LOG_INFO};
	*result = OPTIONS_RUN;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		bool help = strcmp(argv[i], "--help") == 0, version = strcmp(argv[i], "--version") == 0;
		if (!help && !version && strcmp(argv[i], "--print-man") != 0)
			continue;
		if (help)
			options_print_help(stdout);
		else if (version)
			printf("ilmare-transfer %s\n", ILMARE_VERSION);
		else
			options_print_man(stdout);
		*result = OPTIONS_EXIT;
		return 0;
	}
	for (int c = 0; argc > 1 && c < COMMANDS; c++) {
		if (options__commands[c].name != NULL && strcmp(argv[1], options__commands[c].name) == 0) {
			out->command = (enum command)c;
			first = 2;
		}
	}
	out->words = argv;
	for (int i = first; i < argc && code == 0; i++) {
		if (flags && strcmp(argv[i], "--") == 0)
			flags = false;
		else if (flags && argv[i][0] == '-' && argv[i][1] != '\0')
			code = take_flag(out, argc, argv, &i, err);
		else
			argv[out->n_words++] = argv[i];
	}
	return code == 0 ? check(out, err) : code;
}
