/* What the program does, by its first word. */
#ifndef TRANSFER_COMMANDS_H
#define TRANSFER_COMMANDS_H

#include <cjson/cJSON.h>

#include "common/error.h"
#include "transfer/client.h"
#include "transfer/options.h"

typedef struct run {
	options o;
	session s;
	client *c;
	cJSON *said; /* the last line, for a program */
} run;

/* Adds to `said` what came of it. */
int commands_run(run *r, error *err);

#endif
