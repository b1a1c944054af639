/* See retention.h. The eval folder goes first: while the train folder is there, a removal that was interrupted is found again. */
#include "edge-agent/dataset/retention.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "edge-agent/dataset/round.h"
#include "edge-agent/storage/numbered.h"

static bool is_of(const char *output_dir, const char *uid, int64_t round, manifest *m)
{
	int code = round_read(output_dir, round, m, NULL);
	/* A file of it that somebody has taken away does not make it somebody else's. */
	return (code == 0 || code == ERROR_CORRUPT) && m->round == round && strcmp(m->uid, uid) == 0;
}

static void remove_round(const char *train, const char *eval, int64_t round)
{
	error err;
	int code = numbered_remove(eval, round, &err);
	if (code == 0)
		code = numbered_remove(train, round, &err);
	if (code != 0)
		log_warn("dataset", "an old round cannot be removed", L_INT("round", round), L_STR("error", err.text));
}

void rounds_remove_before(const char *output_dir, const char *uid, int64_t below)
{
	char *train = mem_printf("%s/data/train", output_dir), *eval = mem_printf("%s/data/eval", output_dir);
	manifest *m = mem_alloc(sizeof *m);
	int64_t *all = NULL;
	size_t n = 0;
	numbered_clean(train);
	numbered_clean(eval);
	if (numbered_list(train, &all, &n, NULL) != 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		memset(m, 0, sizeof *m);
		if (all[i] < below && is_of(output_dir, uid, all[i], m))
			remove_round(train, eval, all[i]);
	}
	free(all);
	free(m);
	free(eval);
	free(train);
}
