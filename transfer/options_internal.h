/* The tables that options.c and options_print.c share. */
#ifndef TRANSFER_OPTIONS_INTERNAL_H
#define TRANSFER_OPTIONS_INTERNAL_H

#include <stddef.h>

#include "transfer/options.h"

typedef struct options_command {
	const char *name; /* NULL: no word, as for an init container */
	const char *words;
	int min, max; /* words; -1: any */
	const char *help;
} options_command;

typedef struct options_flag {
	const char *name, *value; /* value NULL: takes none */
	unsigned commands;        /* bits: where it may stand */
	const char *help;
} options_flag;

extern const options_command options__commands[COMMANDS];
extern const options_flag options__flags[];
extern const size_t options__n_flags;

#endif
