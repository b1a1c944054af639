/* Arguments, and what is printed about them. */
#ifndef CERTIFICATE_OPTIONS_H
#define CERTIFICATE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

typedef struct options {
	const char *url, *node, *dir; /* argv's, as all texts here */
	const char *ca_file;          /* NULL: the system's authorities */
	const char *token_file;       /* NULL with renew */
	bool renew, until_stdin_ends;
	int64_t connect_ms, total_ms;
} options;

enum options_result { OPTIONS_RUN, OPTIONS_EXIT /* --help, --version or --print-man was answered */ };

/* 0, or INVALID with what is wrong. */
int options_parse(int argc, char **argv, options *out, enum options_result *result, error *err);

#endif
