/* Arguments: a command, flags, and what it is about; and what is printed about them. */
#ifndef TRANSFER_OPTIONS_H
#define TRANSFER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "common/log.h"

enum command {
	COMMAND_FETCH,
	COMMAND_GET,
	COMMAND_HEAD,
	COMMAND_PUT,
	COMMAND_GET_FOLDER,
	COMMAND_PUT_FOLDER,
	COMMAND_LIST,
	COMMAND_DELETE,
	COMMAND_DELETE_FOLDER,
	COMMAND_COPY,
	COMMAND_COPY_FOLDER,
	COMMAND_MOVE_FOLDER,
	COMMANDS
};

enum { OPTIONS_SAME_MAX = 1024 * 1024 };

typedef struct options {
	enum command command;
	char **words; /* behind the command and the flags: argv's */
	int n_words;
	bool fresh, only_new, only, etag_is_no_md5, has_range, until_stdin_ends;
	int64_t range, same, max_size, jobs, attempts, connect_ms, stall_ms, retry_wait_ms; /* -1: not given */
	const char *if_match, *if_none_match, *sha256, *first, *last;
	enum log_level level;
} options;

enum options_result { OPTIONS_RUN, OPTIONS_EXIT /* --help, --version or --print-man was answered */ };

/* 0, or INVALID with what is wrong. argv's order is changed: words last. */
int options_parse(int argc, char **argv, options *out, enum options_result *result, error *err);
void options_print_help(FILE *out);
void options_print_man(FILE *out); /* a roff man page, section 8 */

#endif
