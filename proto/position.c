/* Names and order of positions. Both tables come from the X-macros of position.h, so a stage or phase cannot have a value without a name. */
#include "proto/position.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *word;
} stages[] = {
#define X(id, name, word) [STAGE_##id] = {name, word},
	STAGE_MAP(X)
#undef X
};

static const struct {
	const char *name;
	int rank;
} phases[] = {
#define X(id, name, rank) [PHASE_##id] = {name, rank},
	PHASE_MAP(X)
#undef X
};

enum { N_STAGES = sizeof(stages) / sizeof(stages[0]), N_PHASES = sizeof(phases) / sizeof(phases[0]) };

const char *stage_name(enum stage s)
{
	return (unsigned)s < N_STAGES ? stages[s].name : "?";
}

const char *stage_word(enum stage s)
{
	return (unsigned)s < N_STAGES ? stages[s].word : "?";
}

const char *phase_name(enum phase p)
{
	return (unsigned)p < N_PHASES ? phases[p].name : "?";
}

bool stage_parse(const char *name, enum stage *out)
{
	for (unsigned i = 0; i < N_STAGES; i++) {
		if (strcmp(name, stages[i].name) == 0) {
			*out = (enum stage)i;
			return true;
		}
	}
	return false;
}

bool stage_parse_word(const char *word, enum stage *out)
{
	for (unsigned i = 0; i < N_STAGES; i++) {
		if (strcmp(word, stages[i].word) == 0) {
			*out = (enum stage)i;
			return true;
		}
	}
	return false;
}

bool phase_parse(const char *name, enum phase *out)
{
	for (unsigned i = 0; i < N_PHASES; i++) {
		if (strcmp(name, phases[i].name) == 0) {
			*out = (enum phase)i;
			return true;
		}
	}
	return false;
}

int phase_rank(enum phase p)
{
	return (unsigned)p < N_PHASES ? phases[p].rank : -1;
}

bool phase_ended(enum phase p)
{
	return p == PHASE_COMPLETED || p == PHASE_FAILED;
}

int position_compare(position a, position b)
{
	if (a.round != b.round)
		return a.round < b.round ? -1 : 1;
	if (a.stage != b.stage)
		return a.stage < b.stage ? -1 : 1;
	return phase_rank(a.phase) - phase_rank(b.phase);
}

bool position_over(position present, int64_t round, enum stage stage)
{
	/* The end has the highest rank of its stage, so "at the end or past it" is one comparison. */
	position end = {round, stage, PHASE_COMPLETED};

	return position_compare(present, end) >= 0;
}

void position_format(position p, char out[48])
{
	(void)snprintf(out, 48, "%" PRId64 "/%s/%s", p.round, stage_name(p.stage), phase_name(p.phase));
}
